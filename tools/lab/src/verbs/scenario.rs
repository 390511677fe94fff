//! The story: every path is where it should be, no window has two flows on a link, what is moved is on its
//! new path, and what it costs to be without.

use snin_daemon::clock::Clock;
use snin_emulator::frames::{Config as LinkConfig, Flow, Frames};
use snin_fabric::traffic::Demand;
use snin_fabric::{NodeIndex, PortIndex, TreeId};
use snin_protocol::Time;
use snin_protocol::message::Terms;

use super::busy::Ticks;
use super::controller_server::ControllerServer;
use super::controllers::{Controller, Forced};
use super::document::{Busy, Crossings, Document, SCHEMA_VERSION};
use super::error::VerbsLabError;
use super::fabric::Fabric;
use super::hosts::{Hosts, sleep};
use super::interfaces::Interfaces;
use super::judge::{Astray, Judge, Shared, Trace};
use super::rates::Rates;
use super::wire::Wire;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The fabric as the user named it.
    pub name: String,
    /// Bit/s of every link.
    pub bandwidth: u64,
    /// Windows under SNIN, in all.
    pub windows: usize,
    /// The permutations that they carry in turn; not empty.
    pub patterns: Vec<Vec<Demand>>,
}

/// How long hosts have for what is to happen: first messages to arrive, all of them to come to rest.
pub(super) const PATIENCE: Time = Time::secs(20);
/// Applications look for what has come this often.
const TICK: Time = Time::millis(10);
/// The bytes of a first message.
const GREETING: u32 = 64;

/// Tells the story; `progress` is told what comes next.
///
/// # Errors
/// When the machine lacks something, or a part stops working. What is only not as it should be stands in the
/// document.
pub fn run(
    fabric: Fabric,
    settings: &Settings,
    progress: &dyn Fn(String),
) -> Result<Document, VerbsLabError> {
    // There is a time before the first moment.
    let clock = Clock::start_at(Time::secs(1));
    let rates = Rates::new(settings.bandwidth);
    let count = fabric.places().len();
    progress(format!("{count} interfaces with {} addresses each", fabric.trees()));
    let (_interfaces, taps) = Interfaces::make(fabric.places())?;
    let link = LinkConfig { bandwidth: rates.bandwidth, ..LinkConfig::default() };
    let mut frames = Frames::new(fabric.topology(), link);
    let (addresses, tables) = fabric.tables()?;
    frames.program(&addresses, &tables);
    let wire = Wire::start(taps, frames, clock)?;
    progress(format!("{count} agents"));
    let judge = Judge::new(&fabric);
    let config = rates.controller();
    let terms =
        Terms { window: config.window, guard: config.guard, clock_error: config.clock_error };
    let controller =
        ControllerServer::open(Controller::Forced(Forced::new(terms, fabric.dlids())), clock)?;
    let hosts = Hosts::start(&fabric, &rates, &controller.address)?;
    let mut lab = Lab { hosts, controller, wire, clock, fabric, judge, rates };
    let mut busy = Vec::new();
    let mut broken = Vec::new();

    progress("a message for every pair of hosts along every tree".to_owned());
    let crossings = lab.crossings()?;
    let uplink = measured("two flows on one uplink", &mut busy, || lab.uplink(progress))?;
    let (exclusive, rearrangement) =
        measured("permutations", &mut busy, || lab.permutations(settings, &mut broken, progress))?;
    // What arrived last was taken with that.
    lab.run_until(lab.clock.now() + TICK)?;
    let agents = lab.hosts.account()?;
    broken.append(&mut lab.hosts.broken);
    broken.append(&mut lab.controller.with(|controller, _| controller.notes()));
    let dropped = lab.wire.frames().dropped();
    if dropped.faults() > 0 {
        broken.push(format!("the fabric dropped frames: {dropped:?}"));
    }
    let document = Document {
        schema_version: SCHEMA_VERSION,
        fabric: settings.name.clone(),
        bandwidth: rates.bandwidth,
        hosts: lab.fabric.places().len(),
        trees: lab.fabric.trees(),
        smps: lab.fabric.smps(),
        agents,
        crossings,
        exclusive,
        rearrangement,
        uplink,
        busy,
        failures: Vec::new(),
    };
    Ok(document.judged(broken))
}

/// Does something, and notes how busy the machine was meanwhile.
fn measured<T>(
    during: &'static str,
    busy: &mut Vec<Busy>,
    what: impl FnOnce() -> Result<T, VerbsLabError>,
) -> Result<T, VerbsLabError> {
    let before = Ticks::now()?;
    let result = what()?;
    busy.push(Busy { during, share: Ticks::now()?.busy_since(before) });
    Ok(result)
}

/// All parts. Agents end before the controller does, and before their devices' TAPs are closed.
pub(super) struct Lab {
    pub(super) hosts: Hosts,
    pub(super) controller: ControllerServer,
    pub(super) wire: Wire,
    pub(super) clock: Clock,
    pub(super) fabric: Fabric,
    pub(super) judge: Judge,
    pub(super) rates: Rates,
}

impl Lab {
    /// A message from every host to every other along every tree, each tree in its turn.
    fn crossings(&mut self) -> Result<Crossings, VerbsLabError> {
        let mut expected = Vec::new();
        for tree in (0..self.fabric.trees()).map(TreeId) {
            self.controller.with(|controller, _| controller.force(tree));
            self.hosts.greet_all(GREETING)?;
            self.warm_up()?;
            self.hosts.end()?;
            self.rest()?;
            let addresses = (0..self.fabric.places().len())
                .filter_map(|host| self.fabric.address(host, tree))
                .collect::<Vec<_>>();
            for &source in &addresses {
                let others = addresses.iter().filter(|&&destination| destination != source);
                expected.extend(others.map(|&destination| Flow { source, destination }));
            }
        }
        let trace = self.trace();
        let astray = self.judge.astray(&trace);
        let carried: Vec<Flow> = trace.carried().collect();
        let is_right = |flow: &Flow| {
            carried.contains(flow) && !astray.iter().any(|astray| astray.flow == *flow)
        };
        let right = expected.iter().filter(|&flow| is_right(flow)).count();
        let wrong = astray.iter().map(|astray| describe_astray(&self.fabric, astray)).collect();
        Ok(Crossings { flows: expected.len(), right, wrong })
    }

    /// Lets everything work until then.
    pub(super) fn run_until(&mut self, until: Time) -> Result<(), VerbsLabError> {
        loop {
            self.wire.check()?;
            self.controller.check()?;
            let due = self.hosts.work()?;
            let now = self.clock.now();
            if now >= until {
                return Ok(());
            }
            sleep((until - now).min(due).min(TICK));
        }
    }

    /// Until all first messages have arrived.
    pub(super) fn warm_up(&mut self) -> Result<(), VerbsLabError> {
        self.until_none(|hosts| Ok(hosts.cold()))
    }

    /// Until no host has anything under way.
    pub(super) fn rest(&mut self) -> Result<(), VerbsLabError> {
        self.until_none(Hosts::unrest)
    }

    fn until_none(
        &mut self,
        left: impl Fn(&Hosts) -> Result<Option<String>, VerbsLabError>,
    ) -> Result<(), VerbsLabError> {
        let deadline = self.clock.now() + PATIENCE;
        while let Some(left) = left(&self.hosts)? {
            if self.clock.now() > deadline {
                return Err(VerbsLabError::Stopped(format!("after {PATIENCE} {left}")));
            }
            self.run_until(self.clock.now() + TICK)?;
        }
        Ok(())
    }

    /// What the links counted since the last time.
    pub(super) fn trace(&self) -> Trace {
        Trace::take(&mut self.wire.frames(), self.fabric.topology())
    }
}
/// A switch's name.
pub(super) fn describe_node(fabric: &Fabric, node: NodeIndex) -> String {
    fabric.topology().node(node).name.to_string()
}

pub(super) fn describe_link(fabric: &Fabric, port: PortIndex) -> String {
    fabric.topology().port_name(port)
}

/// A flow that crossed wrong spines, in words.
pub(super) fn describe_astray(fabric: &Fabric, astray: &Astray) -> String {
    let Flow { source, destination } = astray.flow;
    let names = |nodes: &[NodeIndex]| {
        let names: Vec<String> = nodes.iter().map(|&node| describe_node(fabric, node)).collect();
        if names.is_empty() { "no spine".to_owned() } else { names.join(", ") }
    };
    let expected: Vec<NodeIndex> = astray.expected.into_iter().collect();
    let (crossed, expected) = (names(&astray.crossed), names(&expected));
    format!("{source} to {destination} crossed {crossed}, not {expected}")
}

/// A link with several connections, in words.
pub(super) fn describe_shared(fabric: &Fabric, shared: &Shared) -> String {
    let pairs: Vec<String> =
        shared.connections.iter().map(|(a, b)| format!("{a} to {b}")).collect();
    format!("{}: hosts {}", describe_link(fabric, shared.port), pairs.join(", "))
}

/// The cable at a port, in words.
pub(super) fn describe_cable(fabric: &Fabric, port: PortIndex) -> String {
    let peer = fabric.topology().peer(port).map(|peer| describe_link(fabric, peer));
    format!("{} - {}", describe_link(fabric, port), peer.unwrap_or_default())
}
