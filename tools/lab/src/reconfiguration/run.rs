//! One change, from before to after.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Serialize;
use snin_emulator::data::ConfigError;
use snin_emulator::{AttachError, Emulator, Fault, Write};
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::walk::walk;
use snin_fabric::{Addresses, NodeIndex, NodeKind, PortIndex, Topology};
use snin_mad::{Attribute, LinearForwarding, PortState, SwitchInfo};
use snin_protocol::Time;
use snin_sm_database::saved::Saved;
use snin_sweep::Sweep;

use super::manager::Manager;
use super::plane::{Bin, Lost, Plane};
use super::{Change, Costs, Factor, Factors, Mechanism, Phase, WINDOW};

/// How long a mechanism may take for anything.
const PATIENCE: Time = Time::secs(20);
/// How long nothing may happen for a fabric to be settled.
const QUIET: Time = Time::millis(20);
/// How far ahead something that will happen by itself is waited for: a trap that was lost comes again.
const FORESIGHT: Time = Time::secs(3);
/// The longest time after a change in which packets are simulated.
const PACKETS: Time = Time::secs(2);

/// Why there is nothing to measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StudyError {
    /// A manager needs a port.
    #[error("no adapter is cabled: the subnet manager has no place")]
    NoHome,
    /// The port is taken.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The manager's settings.
    #[error(transparent)]
    Manager(#[from] snin_sm_database::error::ConfigError),
    /// The data plane's.
    #[error(transparent)]
    Plane(#[from] ConfigError),
    /// The fabric.
    #[error("{0}")]
    Fabric(String),
    /// Too many switches.
    #[error(transparent)]
    Topology(#[from] snin_fabric::topology::TopologyError),
    /// A mechanism did not come to its end.
    #[error("the {} did not settle within {PATIENCE}", .0.name())]
    Unsettled(Mechanism),
}

/// What happens to which fabric.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    /// The whole fabric.
    pub topology: &'a Topology,
    /// What comes or goes.
    pub switch: NodeIndex,
    /// Which of the two.
    pub change: Change,
    /// The mechanism that assimilates it.
    pub mechanism: Mechanism,
    /// What the baseline is given of ours.
    pub factors: Factors,
    /// The cost of each step.
    pub costs: &'a Costs,
    /// How long after one of the baseline's sweeps, less than a period; ours does not sweep.
    pub after_sweep: Time,
    /// Packets a second and host; 0: only the management is simulated.
    pub rate: u64,
    /// Traffic before the change, and after it at least.
    pub around: (Time, Time),
    /// A slice of the time line.
    pub bin: Time,
    /// Of all that is left to chance.
    pub seed: u64,
}

/// What came of it. Times are from the change on.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Who.
    pub mechanism: Mechanism,
    /// What.
    pub change: Change,
    /// When each phase began; the last is [`Phase::Done`].
    pub marks: Vec<(Phase, Time)>,
    /// How long each took, altogether.
    pub phases: BTreeMap<Phase, Time>,
    /// From the change until all is as it should be: the last phase's end.
    pub time: Time,
    /// SMPs by task, those of sweeps that found nothing not counted.
    pub smps: BTreeMap<Phase, u64>,
    /// Elementary steps of the computations.
    pub operations: u64,
    /// Blocks of forwarding tables written.
    pub blocks: u64,
    /// From the change to the last of them being sent.
    pub last_block: Option<Time>,
    /// Entries of forwarding tables that are other than before, of all in use.
    pub entries: (u64, u64),
    /// States of the tables on the way in which a packet could go round for ever.
    pub looping_states: u64,
    /// Whether every address arrives in the end, and no credit loop closes.
    pub sound: bool,
    /// Packets that were to be sent after the change, and that arrived.
    pub sent: u64,
    /// See above.
    pub received: u64,
    /// Packets that the controller held back since they had no way.
    pub held: u64,
    /// Packets lost, by cause.
    pub lost: Lost,
    /// Where the time line begins, before the change; its slice.
    pub before: Time,
    /// See above.
    pub bin: Time,
    /// The time line.
    pub bins: Vec<Bin>,
}

/// Fabric, manager and traffic in one time.
pub(super) struct Run {
    pub(super) emulator: Emulator,
    pub(super) manager: Manager,
    /// From power on until all was as it should be, and the SMPs of that.
    pub(super) bring_up: (Time, u64),
    /// Whether all states of the tables are walked.
    pub(super) is_judged: bool,
    /// Whether a controller stops flows without a way a window after it was told.
    is_told: bool,
    /// Whether no port is closed.
    stays_open: bool,
    plane: Option<Plane>,
    writes: Rc<RefCell<Vec<Write>>>,
    looping: Rc<RefCell<u64>>,
}

impl Run {
    pub(super) fn new(scenario: &Scenario<'_>, lmc: u8) -> Result<Self, StudyError> {
        let costs = scenario.costs;
        let config = snin_emulator::Config {
            seed: scenario.seed,
            link_latency: costs.link,
            bits_per_second: Some(costs.bits_per_second),
            agent_latency: costs.agent,
            agent_queue: 4_096,
            relay_latency: costs.relay,
            lenient_port_states: scenario.mechanism == Mechanism::Baseline,
            ..snin_emulator::Config::default()
        };
        let mut emulator = Emulator::new(scenario.topology, config);
        let home = home(scenario.topology).ok_or(StudyError::NoHome)?;
        let client = emulator.attach(home)?;
        let writes = Rc::new(RefCell::new(Vec::new()));
        let notes = writes.clone();
        emulator.watch(move |_, write| notes.borrow_mut().push(*write));
        if scenario.change == Change::Addition {
            emulator.inject(Fault::PowerOff(scenario.switch), Time::ZERO);
            emulator.advance(Time::ZERO);
        }
        let manager = match scenario.mechanism {
            Mechanism::Baseline => Manager::baseline(client, costs, scenario.factors),
            Mechanism::Ours => {
                // All but the number of addresses as it ships.
                let config = snin_sm_database::config::Config {
                    lmc: Some(lmc),
                    seed: scenario.seed,
                    ..snin_sm_database::config::Config::default()
                };
                Manager::ours(Sweep::new(config, Saved::default())?, client, costs)
            }
        };
        let looping = Rc::new(RefCell::new(0));
        let [is_told, stays_open] =
            [Factor::Told, Factor::Open].map(|factor| scenario.factors.has(factor));
        Ok(Self {
            emulator,
            manager,
            bring_up: (Time::ZERO, 0),
            is_judged: true,
            is_told,
            stays_open,
            plane: None,
            writes,
            looping,
        })
    }

    fn next_time(&self) -> Option<Time> {
        let told = self.told_at().filter(|&at| at > self.emulator.now());
        let times = [self.emulator.next_event_time(), self.manager.next_time(), told];
        times.into_iter().flatten().min()
    }

    pub(super) fn run_until(&mut self, until: Time) {
        while let Some(next) = self.next_time().filter(|&next| next <= until) {
            let now = self.emulator.now();
            self.advance(next.max(now));
        }
        self.advance(until);
    }

    fn advance(&mut self, to: Time) {
        let was_done = self.manager.is_done();
        self.emulator.advance(to);
        let is_written = self.follow();
        self.manager.work(&mut self.emulator);
        if !was_done
            && self.manager.is_done()
            && let Some(plane) = &mut self.plane
        {
            plane.refresh(self.emulator.fabric());
        }
        self.hold(was_done, is_written);
    }

    /// When what the controller was told counts: a window later.
    fn told_at(&self) -> Option<Time> {
        self.manager.viewed.filter(|_| self.is_told).map(|at| at + WINDOW)
    }

    /// The controller stops flows a window after it was told, and lets them go on when all is done.
    fn hold(&mut self, was_done: bool, is_written: bool) {
        let (now, is_done) = (self.emulator.now(), self.manager.is_done());
        let is_told = self.told_at().is_some_and(|at| now >= at);
        let Some(plane) = self.plane.as_mut().filter(|_| is_told) else { return };
        if is_done && !was_done {
            plane.release();
        } else if !is_done && (is_written || !plane.holds()) {
            plane.hold(self.emulator.fabric(), !self.stays_open);
        }
    }

    /// What was written to switches and ports takes effect for packets, and is judged. Whether anything was.
    fn follow(&mut self) -> bool {
        let writes = self.writes.take();
        let fabric = self.emulator.fabric();
        let table = |write: &&Write| {
            write.attribute == LinearForwarding::ID || write.attribute == SwitchInfo::ID
        };
        if let Some(plane) = &mut self.plane {
            plane.run_until(self.emulator.now());
            for write in writes.iter().filter(table) {
                plane.set_table(fabric, write.node);
            }
            plane.look(fabric);
        }
        if self.is_judged
            && writes.iter().any(|write| table(&write))
            && let Ok(addresses) = fabric.addresses()
        {
            let walked = walk(&fabric.live_topology(), &addresses, &fabric.tables(), 0);
            *self.looping.borrow_mut() += u64::from(walked.looped > 0);
        }
        !writes.is_empty()
    }

    /// Waits until the manager has nothing more to do.
    fn settle(&mut self, mechanism: Mechanism) -> Result<Time, StudyError> {
        let limit = self.emulator.now() + PATIENCE;
        let mut done_at = None;
        loop {
            let now = self.emulator.now();
            let coming = self.emulator.next_event_time();
            let coming = coming.filter(|&at| at < now + FORESIGHT && self.manager.is_done());
            if let Some(at) = coming {
                self.run_until(at.min(limit));
            }
            let is_quiet = coming.is_none() && self.emulator.under_way() == 0;
            if is_quiet && self.manager.is_done() {
                let since = *done_at.get_or_insert(now);
                if now >= since + QUIET {
                    return Ok(since);
                }
            } else {
                done_at = None;
            }
            if now >= limit {
                return Err(StudyError::Unsettled(mechanism));
            }
            self.run_until(now + Time::millis(1));
        }
    }
}

/// The first cabled port of an adapter.
fn home(topology: &Topology) -> Option<PortIndex> {
    let adapters = topology.nodes().filter(|&node| topology.node(node).kind == NodeKind::Adapter);
    adapters.flat_map(|node| topology.cables(node).map(|cable| cable.0).collect::<Vec<_>>()).next()
}

/// The switch that the manager's host is on.
pub(super) fn home_switch(topology: &Topology) -> Option<NodeIndex> {
    topology.peer_node(home(topology)?)
}

/// Brings the fabric up, lets the change happen under traffic, and waits until it is assimilated.
///
/// # Errors
/// See [`StudyError`].
pub fn change(scenario: &Scenario<'_>) -> Result<Outcome, StudyError> {
    // One address a port, as the baseline gives.
    let mut run = Run::new(scenario, 0)?;
    let at = run.up_to_change(scenario)?;
    let old = run.emulator.fabric().tables();
    run.strike(scenario, at);
    run.run_until(at + Time(1));
    run.settle(scenario.mechanism)?;
    let mut outcome = Outcome::of(scenario, &run, at, &old);
    if scenario.rate > 0 {
        // Packets change nothing of what the manager does: they are simulated as long as there is something to
        // see, in a run of their own.
        outcome.add_packets(scenario)?;
    }
    Ok(outcome)
}

impl Run {
    /// The fabric is up; when the change is to happen.
    pub(super) fn up_to_change(&mut self, scenario: &Scenario<'_>) -> Result<Time, StudyError> {
        self.manager.start(&mut self.emulator);
        self.bring_up.0 = self.settle(scenario.mechanism)?;
        self.bring_up.1 = self.manager.smps.values().sum();
        // The baseline sweeps a known time before the change.
        let soonest = self.emulator.now() + scenario.around.0;
        let at = match self.manager.next_sweep() {
            Some(sweep) => {
                let mut at = sweep + scenario.after_sweep;
                while at < soonest {
                    at += scenario.costs.sweep;
                }
                at
            }
            None => soonest,
        };
        self.run_until(at - scenario.around.0);
        Ok(at)
    }

    /// The change happens.
    fn strike(&mut self, scenario: &Scenario<'_>, at: Time) {
        self.run_until(at);
        self.manager.mark(at);
        self.looping.replace(0);
        let fault = match scenario.change {
            Change::Removal => {
                if let Some(plane) = &mut self.plane {
                    plane.lose(scenario.switch);
                }
                Fault::PowerOff(scenario.switch)
            }
            Change::Addition => Fault::PowerOn(scenario.switch),
        };
        self.emulator.inject(fault, at);
    }
}

impl Outcome {
    pub(super) fn of(
        scenario: &Scenario<'_>,
        run: &Run,
        at: Time,
        old: &[snin_fabric::ForwardingTable],
    ) -> Self {
        let manager = &run.manager;
        let mut marks: Vec<(Phase, Time)> =
            manager.marks.iter().map(|&(phase, when)| (phase, when - at)).collect();
        // Later on the manager may hear once more of what it has dealt with already: a trap that was lost.
        let end = |&(phase, when): &(Phase, Time)| {
            phase == Phase::Done && at + when >= manager.last_write
        };
        if let Some(end) = marks.iter().position(end) {
            marks.truncate(end + 1);
        }
        let mut phases = BTreeMap::new();
        for pair in marks.windows(2) {
            let spent = phases.entry(pair[0].0).or_insert(Time::ZERO);
            *spent += pair[1].1 - pair[0].1;
        }
        Self {
            mechanism: scenario.mechanism,
            change: scenario.change,
            time: marks.last().map_or(Time::ZERO, |mark| mark.1),
            marks,
            phases,
            smps: manager.smps.clone(),
            operations: manager.operations,
            blocks: manager.blocks,
            last_block: manager.last_block.map(|when| when - at),
            entries: entries(&run.emulator, old),
            looping_states: *run.looping.borrow(),
            sound: sound(&run.emulator),
            sent: 0,
            received: 0,
            held: 0,
            lost: Lost::new(),
            before: scenario.around.0,
            bin: scenario.bin,
            bins: Vec::new(),
        }
    }

    /// The same change once more, under traffic.
    fn add_packets(&mut self, scenario: &Scenario<'_>) -> Result<(), StudyError> {
        let (before, after) = scenario.around;
        let mut run = Run::new(scenario, 0)?;
        let at = run.up_to_change(scenario)?;
        let times = (at - before, scenario.bin);
        let traffic = (scenario.rate, scenario.seed);
        run.plane = Some(Plane::new(run.emulator.fabric(), scenario.costs, traffic, times)?);
        run.strike(scenario, at);
        let end = at + after.max(self.time.min(PACKETS) + Time::millis(2));
        run.run_until(end);
        let Run { manager, plane, .. } = run;
        self.bins = plane.map(|plane| plane.finish(&manager.sent, end)).unwrap_or_default();
        let first = (before.nanos() / scenario.bin.nanos().max(1)) as usize;
        for bin in self.bins.iter().skip(first) {
            self.sent += bin.sent;
            self.received += bin.received;
            self.held += bin.held;
            for (&cause, &count) in &bin.lost {
                *self.lost.entry(cause).or_insert(0) += count;
            }
        }
        Ok(())
    }
}

/// Entries for present addresses that differ from before, of switches that were there before and are now.
fn entries(emulator: &Emulator, old: &[snin_fabric::ForwardingTable]) -> (u64, u64) {
    let fabric = emulator.fabric();
    let Ok(addresses) = fabric.addresses() else { return (0, 0) };
    let (mut changed, mut all) = (0, 0);
    for (switch, old) in fabric.topology().switches().zip(old) {
        if old.is_empty() || !fabric.is_powered(switch) {
            continue;
        }
        let new = fabric.table(switch);
        for (_, lid, _) in addresses.iter() {
            all += 1;
            changed += u64::from(new.get(lid) != old.get(lid));
        }
    }
    (changed, all)
}

/// Every address arrives over the cables that are up, no credit loop closes, and every port that is up is Active.
fn sound(emulator: &Emulator) -> bool {
    let fabric = emulator.fabric();
    let live = fabric.live_topology();
    let Ok(addresses) = fabric.addresses() else { return false };
    let tables = fabric.tables();
    // A host whose switch is gone keeps its address, but no host can reach it.
    let mut present = Addresses::none(live.port_count());
    for (port, lid, lmc) in addresses.iter() {
        let node = live.port(port).node;
        let there = fabric.is_powered(node) && live.cables(node).next().is_some();
        if there && present.assign(port, lid, lmc).is_err() {
            return false;
        }
    }
    let up = live.ports().filter(|&port| live.peer(port).is_some());
    let active = up.into_iter().all(|port| fabric.port_state(port) == PortState::Active);
    let walked = walk(&live, &present, &tables, 0);
    active
        && walked.lost + walked.looped == 0
        && credit(&live, &present, &tables, Traffic::All, |_, _| 0).is_ok()
}

#[cfg(test)]
mod tests;
