//! Collectives of a script: a slice, one request, and the time until all that the kind sends has arrived.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::operator::Operation;
use snin_protocol::operator::agent::{Send, SendAll};
use snin_protocol::operator::controller::{
    Collective, CreateSlice, DeleteSlice, GetSlices, SetCollective,
};

use super::UpError;
use super::children::Children;
use super::controllers::Controllers;
use super::drive::{ASK, LONGEST, Run, ask, sum};
use super::script::CollectiveLine;
use crate::failure::Failure;
use crate::output::Output;

/// The longest message.
const MESSAGE: u64 = 1 << 20;

/// As many sends fit one request to an agent.
const SENDS: usize = 256;

/// What came of one.
#[derive(Serialize)]
pub(super) struct CollectiveRun {
    /// What it was.
    kind: String,
    hosts: usize,
    /// Of its own that each host had.
    bytes: u64,
    /// That each host sent.
    sent: u64,
    phases: u32,
    slot_ms: Option<f64>,
    queue_pairs: u32,
    trees: usize,
    /// From the request until every host might send.
    granted_ms: f64,
    /// From when the hosts were told what to send until all had arrived.
    took_ms: f64,
    /// The same at the ports' rate, without a header or a guard.
    line_rate_ms: f64,
    /// How much longer it took, in hundredths.
    over_percent: f64,
    /// Whether all had arrived in time.
    pub(super) complete: bool,
}

impl CollectiveRun {
    pub(super) fn describe<W: Write>(&self, out: &mut Output<W>) -> Result<(), Failure> {
        let slots = self.slot_ms.map_or_else(String::new, |slot| format!(" of {slot:.0} ms"));
        let not = if self.complete { "" } else { ", and NOT all has arrived" };
        out.line(format_args!(
            "{} of {} hosts, {} bytes each: {} phases{slots} on {} trees, granted after {:.0} ms; took {:.0} ms, \
             {:.0} at line rate: {:.1} % more{not}",
            self.kind,
            self.hosts,
            self.bytes,
            self.phases,
            self.trees,
            self.granted_ms,
            self.took_ms,
            self.line_rate_ms,
            self.over_percent
        ))
    }
}

/// Asks for a slice and for the collective, has the hosts send, and gives both back.
pub(super) fn run(
    number: usize,
    line: &CollectiveLine,
    run: &Run<'_>,
    children: &mut Children,
    controllers: &Controllers,
) -> Result<CollectiveRun, UpError> {
    let CollectiveLine { kind, hosts, bytes } = *line;
    let owner = format!("collective/{number}");
    let begin = Instant::now();
    let count = Some(hosts);
    let slice = CreateSlice { owner: owner.clone(), count, ..CreateSlice::default() };
    let ports = ask_controller(children, controllers, &slice)?.slice.ports;
    wait_for_slice(&owner, children, controllers)?;
    let mut wanted =
        SetCollective { owner: owner.clone(), kind: Some(kind), ..SetCollective::default() };
    let explain = SetCollective { explain: true, ..wanted.clone() };
    let would_be = set(children, controllers, &explain)?;
    let sent = kind.bytes_sent(hosts, bytes);
    let of_phase = sent.div_ceil(would_be.phases.max(1).into());
    // Headers, and what does not fill a piece at the end of a slot, are a thirty-second.
    let wire = Time::carrying(of_phase + of_phase / 32, run.rate).nanos();
    wanted.slot_ns = would_be.guard_ns.map(|guard| guard.max(wire) + guard);
    let mut is = set(children, controllers, &wanted)?;
    while is.granted < is.members.len() {
        if begin.elapsed() > LONGEST {
            return Err(UpError::Script(format!("{owner}: {} of {hosts} granted", is.granted)));
        }
        children.look_for(ASK)?;
        is = set(children, controllers, &wanted)?;
    }
    let granted = begin.elapsed();
    let before = sum(run.folder, children)?;
    let begin = Instant::now();
    let sends = sends(kind, &ports, of_phase);
    let count = sends.len() as u64;
    send(run, children, &sends)?;
    let complete = loop {
        children.look_for(ASK)?;
        let now = sum(run.folder, children)?;
        if now.done >= before.done + count {
            break true;
        }
        if begin.elapsed() > LONGEST {
            break false;
        }
    };
    let took = begin.elapsed();
    ask_controller(children, controllers, &DeleteSlice { owner })?;
    let line_rate = Time::carrying(sent, run.rate).as_secs() * 1e3;
    let took_ms = took.as_secs_f64() * 1e3;
    let mut trees = is.trees.clone();
    trees.sort_unstable();
    trees.dedup();
    Ok(CollectiveRun {
        kind: is.kind,
        hosts: ports.len(),
        bytes,
        sent,
        phases: is.phases,
        slot_ms: is.slot_ns.map(|slot| slot as f64 / 1e6),
        queue_pairs: is.queue_pairs,
        trees: trees.len(),
        granted_ms: granted.as_secs_f64() * 1e3,
        took_ms,
        line_rate_ms: line_rate,
        over_percent: (took_ms / line_rate - 1.0) * 1e2,
        complete,
    })
}

/// Grants of others on the slice's links run out first.
fn wait_for_slice(
    owner: &str,
    children: &mut Children,
    controllers: &Controllers,
) -> Result<(), UpError> {
    let begin = Instant::now();
    loop {
        let slices = ask_controller(children, controllers, &GetSlices {})?.slices;
        if slices.iter().any(|slice| slice.owner == owner && slice.ready) {
            return Ok(());
        }
        if begin.elapsed() > Duration::from_secs(10) {
            return Err(UpError::Script(format!("{owner}: its slice is not ready after 10 s")));
        }
        children.look_for(ASK)?;
    }
}

/// What each member sends to each of its peers: the bytes of a phase, and once more where a peer is that of two.
fn sends(kind: CollectiveKind, ports: &[Guid], of_phase: u64) -> Vec<Send> {
    let members = ports.len() as u32;
    let phases = kind.phases(members).unwrap_or(0);
    let of_member = |place: u32| {
        (0..phases).filter_map(move |phase| {
            let peer = kind.peer(members, place, phase)?;
            let messages = of_phase.div_ceil(MESSAGE).max(1);
            Some(Send {
                from: Some(ports[place as usize]),
                peer: ports[peer as usize],
                count: messages,
                size: of_phase.div_ceil(messages),
                rate: None,
                windows: None,
            })
        })
    };
    (0..members).flat_map(of_member).collect()
}

fn send(run: &Run<'_>, children: &mut Children, sends: &[Send]) -> Result<(), UpError> {
    for process in 0..run.folder.agents() {
        let is_its = |send: &Send| {
            let host = run.ports.iter().position(|&port| Some(port) == send.from);
            host.is_some_and(|host| run.folder.process_of(host) == process)
        };
        let its: Vec<Send> = sends.iter().filter(|send| is_its(send)).cloned().collect();
        for sends in its.chunks(SENDS) {
            ask(children, process, &SendAll { sends: sends.to_vec() })?;
        }
    }
    Ok(())
}

fn set(
    children: &mut Children,
    controllers: &Controllers,
    wanted: &SetCollective,
) -> Result<Collective, UpError> {
    let set = ask_controller(children, controllers, wanted)?;
    let none = || UpError::Script(format!("{}: no collective", wanted.owner));
    set.collective.ok_or_else(none)
}

fn ask_controller<O: Operation>(
    children: &mut Children,
    controllers: &Controllers,
    operation: &O,
) -> Result<O::Answer, UpError> {
    let socket = controllers.socket(children);
    let said = children.request(&socket, operation);
    said.map_err(|why| UpError::Script(format!("{}: {why}", O::COMMAND)))
}
