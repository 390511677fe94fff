//! Failures in Clos fabrics of hundreds and thousands of hosts: for how long a flow has no way.
//!
//! No packet is simulated here: flows are walked along the tables and port states that the fabric has at a time.
//! Ways to survive are compared: the baseline's; ours, where a flow waits for the ordered repair of tables;
//! ours with a controller that moves flows to another of their addresses a window after the manager has
//! published what is unusable, which is before any table is written; and ours with hosts that migrate by
//! themselves to the one alternative path that they were given (APM), once their retries are used up.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snin_emulator::{Fabric, Fault};
use snin_fabric::{Lid, NodeIndex, NodeKind, PortIndex, Topology};
use snin_protocol::Time;

use super::run::{Outcome, Run, Scenario, StudyError, home_switch};
use super::walk::{End, walk};
use super::{Change, Costs, Factors, Mechanism, WINDOW};

/// Flows that are walked, between hosts of different switches: at most, and for each host.
const FLOWS: usize = 4_000;
/// See above.
const FLOWS_OF_HOST: usize = 10;
/// Addresses of a host under ours: 2 to this. The baseline gives one.
const LMC: u8 = 2;
/// What a host waits before it migrates: 4.096 us times 2 to the timer, for the first try and each retry (IBA
/// 9.7.6.1.3). Usual are a timer of 14 and 7 retries.
const USUAL: Time = Time((4_096 << 14) * 8);
/// A timer of 8 and one retry: a path that is merely busy would be left as well.
const QUICK: Time = Time((4_096 << 8) * 2);
/// Nothing for so long after the end: it is the end.
const QUIET: Time = Time::millis(20);
/// How long an assimilation may take.
const PATIENCE: Time = Time::secs(30);

/// How flows survive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// The published mechanism.
    Baseline,
    /// Tables are repaired in order, no port is closed.
    Ordered,
    /// Besides, flows move to another address first.
    GrantsFirst,
    /// In place of that, hosts migrate, with usual timers.
    Migrated,
    /// The same with the shortest timers.
    MigratedSoon,
}

impl Way {
    /// Those of ours.
    const OURS: [Self; 4] = [Self::Ordered, Self::GrantsFirst, Self::Migrated, Self::MigratedSoon];

    /// As tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Ordered => "ordered",
            Self::GrantsFirst => "grants moved first",
            Self::Migrated => "hosts migrate after 537 ms",
            Self::MigratedSoon => "hosts migrate after 2.1 ms",
        }
    }
}

/// One failure, assimilated in one way.
#[derive(Clone, Debug, Serialize)]
pub struct Survival {
    /// The fabric.
    pub fabric: String,
    /// Its hosts.
    pub hosts: usize,
    /// From power on until all was as it should be, before anything failed.
    pub bring_up: Time,
    /// The SMPs of that.
    pub bring_up_smps: u64,
    /// What failed.
    pub failure: String,
    /// How flows survived.
    pub way: Way,
    /// From the failure to the last write.
    pub time: Time,
    /// SMPs.
    pub smps: u64,
    /// Blocks of tables written.
    pub blocks: u64,
    /// Flows walked, and how many of them were without a way for some time.
    pub flows: u64,
    /// See above.
    pub hit: u64,
    /// For how long, on average of those, and at most; as fine as a step.
    pub mean_outage: Time,
    /// See above.
    pub longest_outage: Time,
    /// Steps at which a flow went round.
    pub rounds: u64,
    /// How often flows were looked at.
    pub step: Time,
    /// Whether the checkers found the fabric sound afterwards.
    pub sound: bool,
}

/// A cable, a switch and a chassis of the top stage fail, each in a fabric of its own.
///
/// # Errors
/// See [`StudyError`].
pub(super) fn scale(
    name: &str,
    topology: &Topology,
    tell: &mut impl FnMut(String),
) -> Result<Vec<Survival>, StudyError> {
    // Links, agents and the manager are of today: 100 Gbit/s, and an operation as ours was measured to take.
    let costs = Costs {
        operation: Time(2),
        bits_per_second: 97_000_000_000,
        window: 128,
        ..Costs::default()
    };
    let mut all = Vec::new();
    for (failure, faults) in failures(topology)? {
        for mechanism in Mechanism::ALL {
            tell(format!("{name}: {failure}, {}", mechanism.name()));
            let survived = survive(topology, (&failure, &faults), mechanism, &costs)?;
            all.extend(survived.into_iter().map(|one| Survival { fabric: name.to_owned(), ..one }));
        }
    }
    Ok(all)
}

/// Of the top stage, the switches that are no host's and next to no host's switch, or where there are none, no
/// host's: a cable of the last, the last, and the last third, at most 18.
fn failures(topology: &Topology) -> Result<Vec<(String, Vec<Fault>)>, StudyError> {
    let hosts = |&switch: &NodeIndex| {
        topology.cables(switch).any(|cable| !topology.is_switch(topology.port(cable.1).node))
    };
    let inner: Vec<NodeIndex> = topology.switches().filter(|switch| !hosts(switch)).collect();
    let above_leaf =
        |&switch: &NodeIndex| topology.switch_links(switch).any(|(_, peer)| hosts(&peer));
    let cores: Vec<NodeIndex> =
        inner.iter().copied().filter(|switch| !above_leaf(switch)).collect();
    let top = if cores.is_empty() { inner } else { cores };
    let last = *top.last().ok_or(StudyError::NoHome)?;
    let home = home_switch(topology).ok_or(StudyError::NoHome)?;
    let cable = topology.cables(last).filter(|cable| topology.port(cable.1).node != home).last();
    let cable = cable.ok_or(StudyError::NoHome)?.0;
    let chassis = (top.len() / 3).clamp(1, 18);
    let gone: Vec<Fault> =
        top[top.len() - chassis..].iter().map(|&switch| Fault::PowerOff(switch)).collect();
    Ok(vec![
        ("a cable".to_owned(), vec![Fault::Cut(cable)]),
        ("a switch".to_owned(), vec![Fault::PowerOff(last)]),
        (format!("a chassis of {chassis} switches"), gone),
    ])
}

fn survive(
    topology: &Topology,
    (failure, faults): (&str, &[Fault]),
    mechanism: Mechanism,
    costs: &Costs,
) -> Result<Vec<Survival>, StudyError> {
    let scenario = Scenario {
        topology,
        switch: NodeIndex(0),
        change: Change::Removal,
        mechanism,
        factors: Factors::NONE,
        costs,
        after_sweep: costs.sweep / 2,
        rate: 0,
        around: (Time::millis(1), Time::ZERO),
        bin: Time::millis(1),
        seed: 1,
    };
    let mut run = Run::new(&scenario, if mechanism == Mechanism::Ours { LMC } else { 0 })?;
    run.is_judged = false;
    let at = run.up_to_change(&scenario)?;
    run.run_until(at);
    let ways = match mechanism {
        Mechanism::Baseline => vec![Way::Baseline],
        Mechanism::Ours => Way::OURS.to_vec(),
    };
    let mut flows: Vec<Flows> =
        ways.iter().map(|&way| Flows::new(topology, way, run.emulator.fabric())).collect();
    run.manager.mark(at);
    for fault in faults {
        run.emulator.inject(fault.clone(), at);
    }
    let hosts = topology.node_count() - topology.switch_count();
    let step = if hosts > 2_000 { Time::millis(1) } else { Time::micros(50) };
    let mut done = at;
    while !run.manager.is_done() || run.emulator.now() < done + QUIET {
        let now = run.emulator.now();
        if now > at + PATIENCE {
            return Err(StudyError::Unsettled(mechanism));
        }
        if !run.manager.is_done() {
            done = now;
        }
        run.run_until(now + step);
        let (viewed, times) = (run.manager.viewed, (now, now + step));
        flows.iter_mut().for_each(|flows| flows.look(run.emulator.fabric(), times, viewed));
    }
    let outcome = Outcome::of(&scenario, &run, at, &[]);
    let (bring_up, bring_up_smps) = run.bring_up;
    let one = |flows: Flows| Survival {
        bring_up,
        bring_up_smps,
        ..flows.survival(failure, hosts, step, &outcome)
    };
    Ok(flows.into_iter().map(one).collect())
}

/// A connection between two hosts.
struct Flow {
    from: PortIndex,
    to: PortIndex,
    base: Lid,
    /// Which of the receiver's addresses it uses.
    offset: u16,
    broken: Option<Time>,
    outage: Time,
}

struct Flows {
    way: Way,
    flows: Vec<Flow>,
    rounds: u64,
}

impl Flows {
    /// Random ones, the same for all ways.
    fn new(topology: &Topology, way: Way, fabric: &Fabric) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let adapters =
            topology.nodes().filter(|&node| topology.node(node).kind == NodeKind::Adapter);
        let cabled = adapters.flat_map(|node| topology.cables(node).collect::<Vec<_>>());
        let ports: Vec<(PortIndex, NodeIndex)> =
            cabled.map(|(port, peer)| (port, topology.port(peer).node)).collect();
        let addresses = match way {
            Way::Baseline => 1,
            _ => 1 << LMC,
        };
        let wanted = FLOWS.min(FLOWS_OF_HOST * ports.len());
        let mut flows = Vec::with_capacity(wanted);
        while flows.len() < wanted && ports.len() > 1 {
            let [from, to] = [(); 2].map(|()| ports[random.random_range(0..ports.len())]);
            let offset = random.random_range(0..1_u16 << LMC) % addresses;
            if from.1 != to.1 {
                let base = fabric.port_info(to.0).lid;
                let (from, to) = (from.0, to.0);
                flows.push(Flow { from, to, base, offset, broken: None, outage: Time::ZERO });
            }
        }
        Self { way, flows, rounds: 0 }
    }

    /// What changed since the last look counts from then on.
    fn look(&mut self, fabric: &Fabric, (last, now): (Time, Time), viewed: Option<Time>) {
        let moves = viewed.is_some_and(|at| now >= at + WINDOW);
        for flow in &mut self.flows {
            let end_of =
                |offset: u16| walk(fabric, (flow.from, flow.to), Lid(flow.base.0 + offset));
            let mut end = end_of(flow.offset);
            self.rounds += u64::from(end == End::Round);
            let waited = now - flow.broken.unwrap_or(now);
            let others = match self.way {
                Way::GrantsFirst if moves => 0..1 << LMC,
                Way::Migrated if waited >= USUAL => flow.offset ^ 1..(flow.offset ^ 1) + 1,
                Way::MigratedSoon if waited >= QUICK => flow.offset ^ 1..(flow.offset ^ 1) + 1,
                _ => 0..0,
            };
            if end != End::There
                && let Some(other) = { others }.find(|&other| end_of(other) == End::There)
            {
                (flow.offset, end) = (other, End::There);
            }
            match (end == End::There, flow.broken) {
                (false, None) => flow.broken = Some(last),
                (true, Some(since)) => {
                    flow.outage += now - since;
                    flow.broken = None;
                }
                _ => {}
            }
        }
    }

    fn survival(self, failure: &str, hosts: usize, step: Time, outcome: &Outcome) -> Survival {
        let outages: Vec<Time> =
            self.flows.iter().map(|flow| flow.outage).filter(|&o| o > Time::ZERO).collect();
        let sum: u64 = outages.iter().map(|outage| outage.nanos()).sum();
        Survival {
            fabric: String::new(),
            hosts,
            bring_up: Time::ZERO,
            bring_up_smps: 0,
            failure: failure.to_owned(),
            way: self.way,
            time: outcome.time,
            smps: outcome.smps.values().sum(),
            blocks: outcome.blocks,
            flows: self.flows.len() as u64,
            hit: outages.len() as u64,
            mean_outage: Time(sum / outages.len().max(1) as u64),
            longest_outage: outages.into_iter().max().unwrap_or(Time::ZERO),
            rounds: self.rounds,
            step,
            sound: outcome.sound && self.flows.iter().all(|flow| flow.broken.is_none()),
        }
    }
}
