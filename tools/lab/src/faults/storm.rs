//! Storms: faults of kinds that are drawn for each, then a calm in which all is repaired and has to be well.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::seq::IteratorRandom as _;
use snin_emulator::{Fault, Health, Noise};
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::walk::walk;
use snin_fabric::{NodeIndex, PortIndex, Topology};
use snin_mad::SmState;
use snin_protocol::Time;
use snin_sm_core::Manager;
use snin_sm_database::records::{KeptRecord, Nodes};

use super::CALM;
use super::net::{Process, Running};
use super::site::Site;

/// How often it is looked whether all is well.
const LOOK: Time = Time::millis(250);
/// Of a million MADs on a noisy fabric, those that get lost.
const LOST: u32 = 50_000;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FaultKind {
    /// A cable is cut.
    Cut,
    /// A switch loses power.
    Power,
    /// A switch's management agent is mute.
    Mute,
    /// Management datagrams get lost everywhere.
    Noise,
    /// A manager is killed.
    KillManager,
    /// A manager stands still, as by SIGSTOP.
    StopManager,
    /// A controller is killed.
    KillController,
    /// A controller stands still.
    StopController,
    /// An agent is killed.
    KillAgent,
    /// An agent stands still.
    StopAgent,
    /// Two processes cannot hear each other.
    Way,
    /// The store does not answer.
    Store,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Cut,
        Self::Power,
        Self::Mute,
        Self::Noise,
        Self::KillManager,
        Self::StopManager,
        Self::KillController,
        Self::StopController,
        Self::KillAgent,
        Self::StopAgent,
        Self::Way,
        Self::Store,
    ];

    /// In a few words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cable cut",
            Self::Power => "switch without power",
            Self::Mute => "switch mute",
            Self::Noise => "datagrams lost",
            Self::KillManager => "manager killed",
            Self::StopManager => "manager stopped",
            Self::KillController => "controller killed",
            Self::StopController => "controller stopped",
            Self::KillAgent => "agent killed",
            Self::StopAgent => "agent stopped",
            Self::Way => "session cut",
            Self::Store => "store away",
        }
    }
}

/// What is broken now, and what can break.
pub(super) struct Storms {
    cables: Vec<PortIndex>,
    switches: Vec<NodeIndex>,
    cut: BTreeSet<PortIndex>,
    dark: BTreeSet<NodeIndex>,
    mute: BTreeSet<NodeIndex>,
    ways: BTreeSet<(Process, Process)>,
    is_noisy: bool,
}

impl Storms {
    pub(super) fn new(topology: &Topology) -> Self {
        let end = |&port: &PortIndex| topology.peer(port).is_some_and(|peer| port < peer);
        Self {
            cables: topology.ports().filter(end).collect(),
            switches: topology.switches().collect(),
            cut: BTreeSet::new(),
            dark: BTreeSet::new(),
            mute: BTreeSet::new(),
            ways: BTreeSet::new(),
            is_noisy: false,
        }
    }
}

/// What managers keep of what hosts said, without what was removed.
fn kept(manager: &Manager) -> Vec<KeptRecord> {
    let all = manager.database().kept().into_iter();
    all.filter(|record| !record.is_removed()).collect()
}

impl Site {
    /// Faults, one after the other, and the calm after them.
    pub fn storm(&mut self) {
        self.summary.storms += 1;
        let some = self.rng.random_range(2..=FaultKind::ALL.len());
        let kinds = FaultKind::ALL.into_iter().sample(&mut self.rng, some);
        let faults = self.rng.random_range(4..=20);
        // A kind may have nothing left to break.
        for _ in 0..4 * faults {
            if self.faults() >= self.setup.faults || self.summary.violation.is_some() {
                break;
            }
            let Some(&kind) = kinds.iter().choose(&mut self.rng) else { break };
            self.strike(kind);
            // Some come together, some when others were noticed.
            let most = [10, 300, 3_000][self.rng.random_range(0..3)];
            let pause = Time::millis(self.rng.random_range(0..most));
            self.run_until(self.now() + pause);
        }
        self.calm();
    }

    fn strike(&mut self, kind: FaultKind) {
        let now = self.now();
        self.judges.shake(now);
        if let Some(what) = self.break_or_mend(kind) {
            *self.summary.faults.entry(kind.name()).or_default() += 1;
            self.tell(format_args!("fault {}: {}: {what}", self.faults(), kind.name()));
        }
        self.work();
    }

    /// Breaks something, which is named, or mends what was broken.
    fn break_or_mend(&mut self, kind: FaultKind) -> Option<String> {
        match kind {
            FaultKind::Cut => {
                let cable = *self.storms.cables.iter().choose(&mut self.rng)?;
                if self.storms.cut.remove(&cable) {
                    self.inject(Fault::Restore(cable));
                    return None;
                }
                self.storms.cut.insert(cable);
                self.inject(Fault::Cut(cable));
                Some(self.topology.port_name(cable).to_string())
            }
            FaultKind::Power => {
                let switch = *self.storms.switches.iter().choose(&mut self.rng)?;
                if self.storms.dark.remove(&switch) {
                    self.inject(Fault::PowerOn(switch));
                    return None;
                }
                self.storms.dark.insert(switch);
                self.inject(Fault::PowerOff(switch));
                Some(self.topology.node(switch).name.to_string())
            }
            FaultKind::Mute => {
                let switch = *self.storms.switches.iter().choose(&mut self.rng)?;
                if self.storms.mute.remove(&switch) {
                    self.inject(Fault::Agent(switch, Health::Well));
                    return None;
                }
                self.storms.mute.insert(switch);
                self.inject(Fault::Agent(switch, Health::Dead));
                Some(self.topology.node(switch).name.to_string())
            }
            FaultKind::Noise => {
                self.storms.is_noisy = !self.storms.is_noisy;
                let drop = if self.storms.is_noisy { LOST } else { 0 };
                self.inject(Fault::Noise(Noise { drop, ..Noise::default() }));
                self.storms.is_noisy.then(|| "everywhere".to_owned())
            }
            FaultKind::KillManager | FaultKind::KillController | FaultKind::KillAgent => {
                let process = self.any(kind);
                if self.running(process) == Running::Dead {
                    self.start(process);
                    return None;
                }
                self.kill(process);
                Some(format!("{process:?}"))
            }
            FaultKind::StopManager | FaultKind::StopController | FaultKind::StopAgent => {
                let process = self.any(kind);
                match self.running(process) {
                    Running::Stopped => self.go_on(process),
                    Running::Runs => {
                        self.stop(process);
                        return Some(format!("{process:?}"));
                    }
                    Running::Dead => {}
                }
                None
            }
            FaultKind::Way => {
                let from =
                    [FaultKind::KillManager, FaultKind::KillController, FaultKind::KillAgent];
                let from = *from.iter().choose(&mut self.rng)?;
                let a = self.any(from);
                let b = match a {
                    Process::Manager(n) => Process::Manager((n + 1) % self.managers.len()),
                    Process::Controller(_) => self.any(FaultKind::KillManager),
                    Process::Agent(_) => self.any(FaultKind::KillController),
                };
                if a == b {
                    return None;
                }
                if self.storms.ways.remove(&(a, b)) {
                    self.set_way(a, b, true);
                    return None;
                }
                self.storms.ways.insert((a, b));
                self.set_way(a, b, false);
                Some(format!("{a:?} and {b:?}"))
            }
            FaultKind::Store => {
                self.store.is_away = !self.store.is_away;
                self.store.is_away.then(|| "all members".to_owned())
            }
        }
    }

    fn any(&mut self, kind: FaultKind) -> Process {
        let mut below = |count: usize| self.rng.random_range(0..count);
        match kind {
            FaultKind::KillManager | FaultKind::StopManager => {
                Process::Manager(below(self.managers.len()))
            }
            FaultKind::KillAgent | FaultKind::StopAgent => Process::Agent(below(self.agents.len())),
            _ => Process::Controller(below(self.controllers.len())),
        }
    }

    fn inject(&mut self, fault: Fault) {
        let now = self.now();
        self.emulator.inject(fault, now);
    }

    /// No more faults, and all that was broken is repaired; then all has to be well before long.
    pub(super) fn calm(&mut self) {
        if self.summary.violation.is_some() {
            return;
        }
        self.repair();
        let since = self.now();
        self.judges.shake(since);
        self.tell("calm");
        let mut told = String::new();
        while self.summary.violation.is_none() {
            self.run_until(self.now() + LOOK);
            let waited = self.now() - since;
            match self.unwell(since) {
                None => {
                    self.summary.longest_calm = self.summary.longest_calm.max(waited);
                    self.tell(format_args!("well after {waited}"));
                    return;
                }
                Some(why) if waited >= CALM => self.violated("not well in time", why),
                Some(why) if why != told => {
                    self.tell(format_args!("not well yet: {why}"));
                    told = why;
                }
                Some(_) => {}
            }
        }
    }

    fn repair(&mut self) {
        for cable in std::mem::take(&mut self.storms.cut) {
            self.inject(Fault::Restore(cable));
        }
        for switch in std::mem::take(&mut self.storms.dark) {
            self.inject(Fault::PowerOn(switch));
        }
        for switch in std::mem::take(&mut self.storms.mute) {
            self.inject(Fault::Agent(switch, Health::Well));
        }
        if std::mem::take(&mut self.storms.is_noisy) {
            self.inject(Fault::Noise(Noise::default()));
        }
        self.store.is_away = false;
        for (a, b) in std::mem::take(&mut self.storms.ways) {
            self.set_way(a, b, true);
        }
        let managers = (0..self.managers.len()).map(Process::Manager);
        let controllers = (0..self.controllers.len()).map(Process::Controller);
        let agents = (0..self.agents.len()).map(Process::Agent);
        let all: Vec<Process> = managers.chain(controllers).chain(agents).collect();
        for process in all {
            match self.running(process) {
                Running::Dead => self.start(process),
                Running::Stopped => self.go_on(process),
                Running::Runs => {}
            }
        }
    }

    /// What is not as it should be, since nothing is broken any more from `since` on.
    fn unwell(&self, since: Time) -> Option<String> {
        let masters: Vec<usize> =
            (0..self.managers.len()).filter(|&n| self.managers[n].is_master).collect();
        let [master] = masters[..] else { return Some(format!("masters: {masters:?}")) };
        let manager = &self.managers[master].manager;
        let others = (0..self.managers.len()).filter(|&n| n != master);
        for n in others {
            let other = &self.managers[n].manager;
            if other.state() != SmState::Standby {
                return Some(format!("manager{n} is {:?}", other.state()));
            }
            let nodes = |manager: &Manager| {
                let all = manager.database().all::<Nodes>();
                all.entries().map(|(key, value, _)| (*key, value.cloned())).collect::<Vec<_>>()
            };
            if kept(other) != kept(manager) || nodes(other) != nodes(manager) {
                return Some(format!("manager{n}'s copy is not what the master has"));
            }
        }
        if !manager.is_idle() {
            return Some(format!("manager{master} is at work"));
        }
        if let Some(missing) = manager.missing().first() {
            return Some(format!("manager{master} misses {missing}"));
        }
        let fabric = self.emulator.fabric();
        let addresses = match fabric.addresses() {
            Ok(addresses) => addresses,
            Err((port, error)) => {
                return Some(format!("{}: {error}", self.topology.port_name(port)));
            }
        };
        let (live, tables) = (fabric.live_topology(), fabric.tables());
        if live.port_count() != self.topology.port_count() {
            return Some("not all links are up".to_owned());
        }
        let walked = walk(&live, &addresses, &tables, 5);
        if !walked.is_ok() {
            return Some(walked.to_string());
        }
        let loops = credit(&live, &addresses, &tables, Traffic::All, |_, _| 0);
        if !loops.is_ok() {
            return Some(format!("credit loops: {loops}"));
        }
        let leaders: Vec<usize> =
            (0..self.controllers.len()).filter(|&n| self.controllers[n].leads()).collect();
        if leaders.len() != 1 {
            return Some(format!("leading controllers: {leaders:?}"));
        }
        let silent = (0..self.agents.len()).find(|&n| self.agents[n].sent_at <= since);
        silent.map(|n| format!("agent{n} has sent no message since"))
    }
}
