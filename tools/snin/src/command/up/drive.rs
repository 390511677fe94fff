//! Windows of traffic: in each a random permutation of the hosts, and what the script says.
//!
//! The next permutation begins when the one before is all sent, at the earliest a window after it: so one that
//! takes longer than a window is counted as windows missed, and nothing is left out.

use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde_json::json;
use snin_fabric::Guid;
use snin_protocol::operator::Operation;
use snin_protocol::operator::agent::{GetStatus, GetTransfers, Send, SendAll, Took, Transfers};
use snin_protocol::operator::manager::{
    ApplyConfiguration, GetPorts, LearnConfiguration, PhasePortIn, PhasePortOut, Port, PortState,
};

use super::UpError;
use super::children::Children;
use super::collective;
use super::controllers::{Controllers, Failover, Lost};
use super::folder::Folder;
use super::opensm::{self, Change, Changed};
use super::script::{Act, Script};
use crate::failure::Failure;
use crate::output::{Output, Progress};

/// How long a permutation may take, however many windows that is.
pub(super) const LONGEST: Duration = Duration::from_secs(60);
/// What a port that comes back has to pass.
const QUICK: &str = "[tests]\nquality_ms = 100\nquality_mads = 20\n\n";
/// How often agents are asked whether all is sent.
pub(super) const ASK: Duration = Duration::from_millis(5);

/// What came of it.
#[derive(Serialize, Default)]
pub(super) struct Driven {
    /// Permutations.
    pub(super) windows: u32,
    /// Connections that were asked for.
    pub(super) connections: u64,
    /// Of those, all sent.
    pub(super) done: u64,
    /// Refused by the controller.
    pub(super) refused: u64,
    /// Permutations that were not all sent in time.
    pub(super) incomplete: u32,
    /// Windows that passed beyond one a permutation.
    pub(super) missed: u64,
    /// Windows from the beginning of a permutation to its end.
    pub(super) windows_median: f64,
    pub(super) windows_most: f64,
    /// From a connection's being asked for until its last message had arrived.
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    /// What hosts did together, one after the other.
    pub(super) collectives: Vec<collective::CollectiveRun>,
    /// The events, a line each.
    pub(super) events: Vec<String>,
    pub(super) kills: u32,
    /// Other controllers that led, one after the other.
    pub(super) failovers: Vec<Failover>,
    /// Switches whose phase-out or phase-in did not come to its end.
    pub(super) unphased: u32,
    /// Beside a manager that stays: what it did about each fault.
    pub(super) changes: Vec<Changed>,
    #[serde(skip)]
    phases: Vec<Phase>,
}

/// A switch that is phased out, or in.
struct Phase {
    switch: String,
    out: bool,
    begin: Instant,
}

impl Phase {
    /// How each of its ports is when it is done.
    const fn done(&self) -> PortState {
        if self.out { PortState::PhasedOut } else { PortState::Passed }
    }
}

impl Driven {
    /// Everything that was asked for was granted and sent.
    pub(super) fn is_complete(&self) -> bool {
        let all = self.collectives.iter().all(|done| done.complete);
        let all = all && self.refused == 0 && self.done == self.connections;
        all && self.incomplete == 0 && self.unphased == 0
    }

    fn failed_over(&mut self, failover: Failover) {
        let Failover { window, from, to, term, led_ms, granted_ms } = &failover;
        self.events.push(format!(
            "window {window}: {to} leads in term {term}, {led_ms:.0} ms after the end of {from}; its first \
             grant was {granted_ms:.0} ms after that end"
        ));
        self.failovers.push(failover);
    }

    pub(super) fn describe<W: Write>(
        &self,
        window_ms: f64,
        out: &mut Output<W>,
    ) -> Result<(), Failure> {
        self.collectives.iter().try_for_each(|done| done.describe(out))?;
        if self.windows == 0 {
            return Ok(());
        }
        out.line(format_args!(
            "{} permutations, windows of {window_ms} ms: {} connections, {} granted and sent, \
             {} refused, {} not in time",
            self.windows,
            self.connections,
            self.done,
            self.refused,
            self.connections - self.done - self.refused
        ))?;
        out.line(format_args!(
            "a permutation took {:.1} windows (median), {:.1} at most; {} windows missed",
            self.windows_median, self.windows_most, self.missed
        ))?;
        out.line(format_args!(
            "a connection took {:.1} ms (median), {:.1} ms (p99), from being asked for to its last arrival",
            self.median_ms, self.p99_ms
        ))?;
        for event in &self.events {
            out.line(event)?;
        }
        Ok(())
    }
}

/// Sum of what all agents count.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    open: u64,
    pub(super) done: u64,
    refused: u64,
}

/// What a run has and wants, apart from its script.
pub(super) struct Run<'a> {
    pub(super) folder: &'a Folder,
    /// Of the hosts.
    pub(super) ports: &'a [Guid],
    pub(super) window: Duration,
    /// Of a connection, where the script does not say.
    pub(super) bytes: u64,
    /// What every port sends, in bit/s.
    pub(super) rate: u64,
}

/// Follows the script.
pub(super) fn run(
    script: &Script,
    run: &Run<'_>,
    children: &mut Children,
    controllers: &mut Controllers,
) -> Result<Driven, UpError> {
    let Run { folder, ports, window, bytes, .. } = *run;
    let mut driven = Driven { windows: script.windows, ..Driven::default() };
    let mut random = ChaCha8Rng::seed_from_u64(script.seed);
    let mut took = Vec::with_capacity(script.windows as usize);
    let progress = Progress::new();
    for (number, together) in script.collectives.iter().enumerate() {
        progress.step(format!("{together}"));
        let done = collective::run(number, together, run, children, controllers)?;
        driven.collectives.push(done);
    }
    let first = sum(folder, children)?;
    let bytes = if script.bytes > 0 { script.bytes } else { bytes / u64::from(script.messages) };
    for number in 1..=script.windows {
        progress.step(format!("window {number} of {}", script.windows));
        let begin = Instant::now();
        let moves = permutation(ports, &mut random);
        let before = sum(folder, children)?;
        let acts = script.acts.iter().filter(|(window, _)| *window == number);
        let acts: Vec<&Act> = acts.map(|(_, act)| act).collect();
        // What happens happens in the midst of the asking: a controller that takes over has something to grant.
        let early = if acts.is_empty() { moves.len() } else { moves.len() / 2 };
        driven.connections += moves.len() as u64;
        let message = (script.messages, bytes);
        send(folder, children, &moves, 0..early, message)?;
        let mut lost = None;
        for act in acts {
            lost = strike(act, number, children, controllers, &mut driven)?.or(lost);
        }
        send(folder, children, &moves, early..moves.len(), message)?;
        if let Some(lost) = lost {
            driven.failed_over(controllers.follow(number, &lost, children)?);
        }
        // Until all of them are done.
        let end = loop {
            children.look_for(ASK)?;
            let now = sum(folder, children)?;
            if now.open == 0
                && now.done + now.refused >= before.done + before.refused + moves.len() as u64
            {
                break begin.elapsed();
            }
            if begin.elapsed() > LONGEST {
                driven.incomplete += 1;
                break begin.elapsed();
            }
        };
        let windows = end.as_secs_f64() / window.as_secs_f64();
        took.push(windows);
        look_at_phases(number, children, &mut driven)?;
        driven.missed += (windows.ceil() as u64).saturating_sub(1);
        let rest = window.saturating_sub(end);
        if !rest.is_zero() {
            children.look_for(rest)?;
        }
    }
    let begin = Instant::now();
    while !driven.phases.is_empty() && begin.elapsed() < LONGEST {
        children.look_for(ASK)?;
        look_at_phases(script.windows, children, &mut driven)?;
    }
    driven.unphased = driven.phases.len() as u32;
    let last = sum(folder, children)?;
    (driven.done, driven.refused) = (last.done - first.done, last.refused - first.refused);
    took.sort_by(f64::total_cmp);
    driven.windows_median = took.get(took.len() / 2).copied().unwrap_or(0.0);
    driven.windows_most = took.last().copied().unwrap_or(0.0);
    times(folder, children, &mut driven)?;
    Ok(driven)
}

/// Has the agents of these hosts send: so many messages, of so many bytes.
fn send(
    folder: &Folder,
    children: &mut Children,
    moves: &[(Guid, Guid)],
    hosts: Range<usize>,
    (messages, bytes): (u32, u64),
) -> Result<(), UpError> {
    for process in 0..folder.agents() {
        let its = hosts.clone().filter(|&host| folder.process_of(host) == process);
        let sends: Vec<Send> = its
            .map(|host| Send {
                from: Some(moves[host].0),
                peer: moves[host].1,
                count: messages.into(),
                size: bytes,
                rate: None,
                windows: None,
            })
            .collect();
        if !sends.is_empty() {
            ask(children, process, &SendAll { sends })?;
        }
    }
    Ok(())
}

/// Every port sends to another port, and every port is sent to.
fn permutation(ports: &[Guid], random: &mut ChaCha8Rng) -> Vec<(Guid, Guid)> {
    let mut order: Vec<usize> = (0..ports.len()).collect();
    order.shuffle(random);
    // Along one cycle no port sends to itself.
    let mut moves: Vec<(usize, usize)> = Vec::with_capacity(order.len());
    for (place, &from) in order.iter().enumerate() {
        moves.push((from, order[(place + 1) % order.len()]));
    }
    moves.sort_unstable();
    moves.into_iter().map(|(from, to)| (ports[from], ports[to])).collect()
}

/// The controller that led, where it was killed or stopped and another one follows.
fn strike(
    act: &Act,
    window: u32,
    children: &mut Children,
    controllers: &mut Controllers,
    driven: &mut Driven,
) -> Result<Option<Lost>, UpError> {
    match act {
        Act::Kill => {
            let begin = Instant::now();
            let lost = controllers.kill(children)?;
            driven.kills += 1;
            let back = begin.elapsed().as_secs_f64() * 1e3;
            driven.events.push(match &lost {
                None => format!("window {window}: controller killed, back after {back:.0} ms"),
                Some(_) => format!("window {window}: controller killed"),
            });
            return Ok(lost);
        }
        Act::Stop => {
            driven.events.push(format!("window {window}: controller stopped"));
            return controllers.stop(children).map(Some);
        }
        Act::Continue => {
            let names = controllers.go_on(children)?.join(", ");
            driven.events.push(format!("window {window}: {names} continued, and stands by"));
        }
        Act::Fault(text) => {
            let kept = Change::before(children)?;
            let said = children.ask("emulator.sock", &json!({ "command": "fault", "fault": text }));
            said.map_err(|why| UpError::Script(format!("{text}: {why}")))?;
            driven.events.push(format!("window {window}: {text}"));
            if let Some(kept) = kept {
                driven.events.extend(kept.follow(children, &mut driven.changes)?);
            }
        }
        Act::Restart => {
            let kept = Change::before(children)?;
            opensm::restart(children)?;
            driven.events.push(format!("window {window}: OpenSM killed and started again"));
            if let Some(kept) = kept {
                driven.events.extend(kept.follow(children, &mut driven.changes)?);
            }
        }
        Act::PhaseOut(switch) => phase(switch, true, window, children, driven)?,
        Act::PhaseIn(switch) => phase(switch, false, window, children, driven)?,
    }
    Ok(None)
}

/// An operator has a switch phased out or in. The fabric, as it is at the first time, is what is expected.
fn phase(
    switch: &str,
    out: bool,
    window: u32,
    children: &mut Children,
    driven: &mut Driven,
) -> Result<(), UpError> {
    let file = children.path("expected.toml");
    if !file.exists() {
        let learnt = ask_manager(children, &LearnConfiguration::default())?;
        let failed = |error| UpError::Script(format!("{}: {error}", file.display()));
        std::fs::write(&file, format!("{QUICK}{}", learnt.text)).map_err(failed)?;
        let (file, by) = (file.display().to_string(), "snin up".to_owned());
        ask_manager(children, &ApplyConfiguration { file, by, force: false })?;
    }
    let port = switch.to_owned();
    let verb = if out {
        ask_manager(children, &PhasePortOut { port, why: String::new() })?;
        "phase-out"
    } else {
        ask_manager(children, &PhasePortIn { port })?;
        "phase-in"
    };
    driven.events.push(format!("window {window}: {verb} {switch}"));
    driven.phases.push(Phase { switch: switch.to_owned(), out, begin: Instant::now() });
    Ok(())
}

/// Which of them are done.
fn look_at_phases(
    window: u32,
    children: &mut Children,
    driven: &mut Driven,
) -> Result<(), UpError> {
    if driven.phases.is_empty() {
        return Ok(());
    }
    let ports = ask_manager(children, &GetPorts { all: true })?.ports;
    let events = &mut driven.events;
    driven.phases.retain(|phase| {
        let of_switch =
            |port: &&Port| port.at.rsplit_once('/').is_some_and(|(name, _)| name == phase.switch);
        let done = ports.iter().filter(of_switch).all(|port| port.state == phase.done());
        if done {
            let after = phase.begin.elapsed().as_secs_f64() * 1e3;
            let Phase { switch, .. } = phase;
            events.push(format!("window {window}: {switch} {}, after {after:.0} ms", phase.done()));
        }
        !done
    });
    Ok(())
}

fn ask_manager<O: Operation>(children: &mut Children, operation: &O) -> Result<O::Answer, UpError> {
    let said = children.request("sm.sock", operation);
    said.map_err(|why| UpError::Script(format!("{}: {why}", O::COMMAND)))
}

pub(super) fn ask<O: Operation>(
    children: &mut Children,
    process: usize,
    operation: &O,
) -> Result<O::Answer, UpError> {
    let name = format!("agents-{process}");
    children.request(&format!("{name}.sock"), operation).map_err(|why| {
        let log = children.path(&format!("{name}.log")).display().to_string();
        UpError::Late { name, why, log }
    })
}

pub(super) fn sum(folder: &Folder, children: &mut Children) -> Result<Sum, UpError> {
    let mut sum = Sum::default();
    for process in 0..folder.agents() {
        let Transfers { open, done, refused, .. } = ask(children, process, &GetTransfers {})?;
        sum.open += open as u64;
        sum.done += done;
        sum.refused += refused;
    }
    Ok(sum)
}

/// Of all agents the middle and the worst of what each process says.
fn times(folder: &Folder, children: &mut Children, driven: &mut Driven) -> Result<(), UpError> {
    let mut medians = Vec::new();
    for process in 0..folder.agents() {
        let took = ask(children, process, &GetStatus {})?.software.map(|it| it.took_ns);
        let Took { median, p99, .. } = took.unwrap_or_default();
        let millis = |nanos: Option<u64>| nanos.unwrap_or(0) as f64 / 1e6;
        medians.push(millis(median));
        driven.p99_ms = driven.p99_ms.max(millis(p99));
    }
    medians.sort_by(f64::total_cmp);
    driven.median_ms = medians.get(medians.len() / 2).copied().unwrap_or(0.0);
    Ok(())
}
