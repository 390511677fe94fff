//! The whole study: a time line of one change, and averages over sizes and seeds.

use std::collections::BTreeMap;

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{NodeIndex, Topology};
use snin_protocol::Time;

use super::plane::{Cause, Loads, saturation};
use super::run::{Outcome, Run, Scenario, StudyError, change, home_switch};
use super::scale::{Survival, scale};
use super::walk::carried;
use super::{Change, Costs, Factors, Mechanism, Phase, Step, clos, irregular, removable};

/// Traffic of the seed's time line, packets a second and host.
const SEED_RATE: u64 = 300_000;
/// Hosts of the seed's fabrics, by switches: of its time line, and of its delay against throughput.
const SEED_HOSTS: [(u32, usize); 2] = [(8, 7), (32, 21)];
/// Fabrics that are looked at to find one of so many.
const FABRICS: u64 = 1_000;
/// Of what a fabric carries, elsewhere: a quarter.
const SHARE: u64 = 4;
/// Points of delay against throughput.
const POINTS: u64 = 8;

/// The factors are measured on the largest fabrics with no more switches, on so many of them.
const LADDER_SIZE: u32 = 32;
/// See above.
const LADDER_SEEDS: u64 = 20;

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Switches of the irregular fabrics.
    pub sizes: Vec<u32>,
    /// Fabrics of each size: seeds 1 upwards.
    pub seeds: u64,
    /// Of those, the ones under traffic.
    pub packet_seeds: u64,
    /// Whether every removable switch of the seed's Clos comes and goes too.
    pub clos: bool,
    /// Larger fabrics in which cables and switches fail, as recipes.
    pub scale: Vec<Recipe>,
    /// The cost of each step.
    pub costs: Costs,
}

/// One change as it happens, with both mechanisms.
#[derive(Clone, Debug, Serialize)]
pub struct TimeLine {
    /// Switches of the fabric.
    pub switches: usize,
    /// Its hosts.
    pub hosts: usize,
    /// The switch that goes.
    pub switch: String,
    /// Packets a second and host.
    pub rate: u64,
    /// What the whole fabric carries, packets a second and host.
    pub saturation: u64,
    /// What each of its switches that can go carries before the change, by the baseline's tables.
    pub carried: Vec<Carried>,
    /// Baseline, ours.
    pub outcomes: Vec<Outcome>,
}

/// A switch's part in the traffic of all hosts but its own.
#[derive(Clone, Debug, Serialize)]
pub struct Carried {
    /// The switch.
    pub switch: String,
    /// Packets a second over it.
    pub over: u64,
    /// Packets a second altogether.
    pub all: u64,
}

/// Delay against throughput of a whole fabric.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: usize,
    /// The last is with every host always sending.
    pub loads: Loads,
}

/// Averages over the fabrics of a size, of one mechanism and change. Where nothing else is said they are sums over
/// all changes, to be divided by their number.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Who.
    pub mechanism: Mechanism,
    /// What.
    pub change: Change,
    /// How many changes.
    pub changes: u64,
    /// Time of every phase.
    pub phases: BTreeMap<Phase, Time>,
    /// From the change to the end.
    pub time: Time,
    /// The longest of those.
    pub longest: Time,
    /// SMPs by task.
    pub smps: BTreeMap<Phase, u64>,
    /// Operations of the computations.
    pub operations: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Entries that changed, of all.
    pub entries: (u64, u64),
    /// States of tables on the way in which a packet could go round.
    pub looping_states: u64,
    /// Changes after which the checkers objected.
    pub unsound: u64,
    /// Changes under traffic; packets sent in them, and lost by cause.
    pub under_traffic: u64,
    /// See above.
    pub sent: u64,
    /// See above.
    pub lost: BTreeMap<Cause, u64>,
    /// Packets that a controller held back.
    pub held: u64,
}

/// Fabrics of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Its name.
    pub name: String,
    /// Switches of each.
    pub switches: usize,
    /// Hosts of all together.
    pub hosts: u64,
    /// How many.
    pub fabrics: u64,
    /// Saturation of those under traffic, packets a second and host, summed.
    pub saturation: u64,
    /// By mechanism and change.
    pub cases: Vec<Case>,
}

/// The baseline with some of what ours does, on the fabrics of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Rung {
    /// What it has, as tables call it.
    pub name: String,
    /// Whether agents pass directed SMPs on in software.
    pub relayed: bool,
    /// By change; the mechanism is the baseline but in the last rung, which is ours.
    pub cases: Vec<Case>,
}

/// What came of it all.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// The cost of each step.
    pub costs: Costs,
    /// Of the smallest size, seed 1: a removal.
    pub time_line: Option<TimeLine>,
    /// Of the smallest size, of the fabrics that have every factor, and of the Clos.
    pub curves: Vec<Curve>,
    /// By size.
    pub sizes: Vec<Size>,
    /// Of the Clos, by switch.
    pub clos: Vec<Size>,
    /// Switches of the fabrics for [`factors`](Self::factors).
    pub factors_of: u32,
    /// The baseline, with one thing of ours, with more and more of them; last ours.
    pub factors: Vec<Rung>,
    /// Failures in larger fabrics.
    pub scale: Vec<Survival>,
}

/// Measures everything; `tell` hears what is being done.
///
/// # Errors
/// See [`StudyError`].
pub fn study(plan: &Plan, mut tell: impl FnMut(String)) -> Result<Study, StudyError> {
    let costs = &plan.costs;
    let smallest = plan.sizes.iter().min();
    let time_line = smallest.map(|&switches| {
        tell(format!("{switches} switches: the time line"));
        time_line(switches, costs)
    });
    let time_line = time_line.transpose()?;
    let mut sizes = Vec::new();
    for &switches in &plan.sizes {
        let mut size = Size::new(format!("{switches}"), switches as usize);
        for seed in 1..=plan.seeds {
            tell(format!("{switches} switches, seed {seed} of {}", plan.seeds));
            let Some((topology, switch, after)) = draw(switches, seed, costs)? else { continue };
            size.add(&topology, switch, costs, (after, seed), seed <= plan.packet_seeds)?;
        }
        sizes.push(size);
    }
    let factors_of = plan.sizes.iter().copied().filter(|&size| size <= LADDER_SIZE).max();
    let factors_of = factors_of.or_else(|| smallest.copied()).unwrap_or(0);
    let factors = match factors_of {
        0 => Vec::new(),
        size => ladder(plan, size, &mut tell)?,
    };
    let mut curves = Vec::new();
    let mut curve_sizes = vec![smallest.copied().unwrap_or(0), factors_of];
    curve_sizes.dedup();
    for switches in curve_sizes.into_iter().filter(|&switches| switches > 0) {
        let name = format!("{switches} switches");
        tell(format!("{name}: delay against throughput"));
        curves.push(Curve::of(name, &seeds_fabric(switches)?, costs)?);
    }
    let mut by_switch = Vec::new();
    if plan.clos {
        let topology = clos().map_err(|error| StudyError::Fabric(error.to_string()))?;
        tell("the Clos: delay against throughput".to_owned());
        curves.push(Curve::of("the Clos".to_owned(), &topology, costs)?);
        let home = home_switch(&topology).ok_or(StudyError::NoHome)?;
        for switch in removable(&topology, home) {
            let name = topology.node(switch).name.to_string();
            tell(format!("the Clos: {name}"));
            let mut size = Size::new(name, topology.switch_count());
            size.add(&topology, switch, costs, (Time::millis(20), 1), true)?;
            by_switch.push(size);
        }
    }
    let mut survivals = Vec::new();
    for recipe in &plan.scale {
        let topology = recipe.build().map_err(|error| StudyError::Fabric(error.to_string()))?;
        survivals.extend(scale(&recipe.to_string(), &topology, &mut tell)?);
    }
    let (costs, clos) = (costs.clone(), by_switch);
    Ok(Study { costs, time_line, curves, sizes, clos, factors_of, factors, scale: survivals })
}

/// What is taken from which fabric, and when after a sweep.
fn draw(
    switches: u32,
    seed: u64,
    costs: &Costs,
) -> Result<Option<(Topology, NodeIndex, Time)>, StudyError> {
    let topology = irregular(switches, seed)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let home = home_switch(&topology).ok_or(StudyError::NoHome)?;
    let Some(&switch) = removable(&topology, home).choose(&mut random) else { return Ok(None) };
    let after = Time(random.random_range(0..costs.sweep.nanos()));
    Ok(Some((topology, switch, after)))
}

/// The same fabrics and changes with every set of factors.
fn ladder(
    plan: &Plan,
    switches: u32,
    tell: &mut impl FnMut(String),
) -> Result<Vec<Rung>, StudyError> {
    let costs = &plan.costs;
    let mut rungs = Vec::new();
    let steps = Factors::ladder().into_iter().map(|step| (step, Mechanism::Baseline));
    let ours = |name: &str, relayed| {
        let step = Step { name: name.to_owned(), factors: Factors::NONE, relayed };
        (step, Mechanism::Ours)
    };
    let ours = [ours("ours", false), ours("ours, passed on in software", true)];
    for (Step { name, factors, relayed }, mechanism) in steps.chain(ours) {
        tell(format!("{switches} switches: {name}"));
        let relay = if relayed { costs.agent } else { costs.relay };
        let costs = &Costs { relay, ..costs.clone() };
        let mut cases = Change::ALL.map(|change| Case::new(mechanism, change)).to_vec();
        for seed in 1..=plan.seeds.min(LADDER_SEEDS) {
            let Some((topology, switch, after_sweep)) = draw(switches, seed, costs)? else {
                continue;
            };
            // Management and data do not delay each other: packets say nothing of how SMPs are passed on.
            let traffic = seed <= plan.packet_seeds && !relayed;
            let rate = if traffic { quarter(&loads(&topology, costs, 1)?) } else { 0 };
            for case in &mut cases {
                let around = (Time::millis(5), Time::millis(5));
                let outcome = change(&Scenario {
                    topology: &topology,
                    switch,
                    change: case.change,
                    mechanism,
                    factors,
                    costs,
                    after_sweep,
                    rate,
                    around,
                    bin: around.0,
                    seed,
                })?;
                case.add(&outcome, traffic);
            }
        }
        rungs.push(Rung { name, relayed, cases });
    }
    Ok(rungs)
}

/// The first fabric of so many switches; where the seed names its hosts, the first with as many.
fn seeds_fabric(switches: u32) -> Result<Topology, StudyError> {
    let wanted = SEED_HOSTS.into_iter().find(|of| of.0 == switches).map(|of| of.1);
    let mut topology = irregular(switches, 1)?;
    let mut seed = 1;
    while wanted.is_some_and(|wanted| hosts(&topology) != wanted) && seed < FABRICS {
        seed += 1;
        topology = irregular(switches, seed)?;
    }
    Ok(topology)
}

fn hosts(topology: &Topology) -> usize {
    topology.node_count() - topology.switch_count()
}

/// The fabric as above; of the switches that can go the first of those with the most cables.
fn time_line(switches: u32, costs: &Costs) -> Result<TimeLine, StudyError> {
    let topology = seeds_fabric(switches)?;
    let home = home_switch(&topology).ok_or(StudyError::NoHome)?;
    let links = |switch: &NodeIndex| topology.switch_links(*switch).count();
    let candidates = removable(&topology, home);
    let switch = candidates.iter().copied().rev().max_by_key(links).ok_or(StudyError::NoHome)?;
    let loads = loads(&topology, costs, 1)?;
    let hosts = hosts(&topology);
    let rate = if switches == 8 { SEED_RATE } else { quarter(&loads) };
    let scenario = |mechanism| Scenario {
        topology: &topology,
        switch,
        change: Change::Removal,
        mechanism,
        factors: Factors::NONE,
        costs,
        // The seed's detection took 0.08 s.
        after_sweep: costs.sweep - Time::millis(80).min(costs.sweep),
        rate,
        around: (Time::millis(20), Time::millis(110)),
        bin: Time::millis(1),
        seed: 1,
    };
    let mut before = Run::new(&scenario(Mechanism::Baseline), 0)?;
    before.up_to_change(&scenario(Mechanism::Baseline))?;
    let name = |switch: NodeIndex| topology.node(switch).name.to_string();
    let carried = candidates.into_iter().map(|switch| {
        let (over, all) = carried(before.emulator.fabric(), switch);
        let of = |pairs: u64| rate * pairs / (hosts as u64 - 1).max(1);
        Carried { switch: name(switch), over: of(over), all: of(all) }
    });
    let carried = carried.collect();
    let outcomes = Mechanism::ALL.map(|mechanism| change(&scenario(mechanism)));
    let outcomes = outcomes.into_iter().collect::<Result<_, _>>()?;
    let switch = name(switch);
    let (switches, saturation) = (topology.switch_count(), most(&loads));
    Ok(TimeLine { switches, hosts, switch, rate, saturation, carried, outcomes })
}

impl Curve {
    fn of(name: String, topology: &Topology, costs: &Costs) -> Result<Self, StudyError> {
        Ok(Self { name, hosts: hosts(topology), loads: loads(topology, costs, POINTS)? })
    }
}

/// Delay against throughput of a whole fabric, by our tables.
fn loads(topology: &Topology, costs: &Costs, points: u64) -> Result<Loads, StudyError> {
    let routing = Routing::compute(topology, Engine::Trees, snin_fabric::Lmc::new(0))
        .map_err(|error| StudyError::Fabric(error.to_string()))?;
    let addresses = routing.plan.addresses();
    Ok(saturation(topology, addresses, &routing.tables, costs, (points, 1))?)
}

fn most(loads: &Loads) -> u64 {
    loads.iter().map(|load| load.accepted).max().unwrap_or(0)
}

fn quarter(loads: &Loads) -> u64 {
    most(loads) / SHARE
}

impl Size {
    fn new(name: String, switches: usize) -> Self {
        let each = |mechanism| Change::ALL.map(|change| Case::new(mechanism, change));
        let cases = Mechanism::ALL.into_iter().flat_map(each).collect();
        Self { name, switches, hosts: 0, fabrics: 0, saturation: 0, cases }
    }

    fn add(
        &mut self,
        topology: &Topology,
        switch: NodeIndex,
        costs: &Costs,
        (after_sweep, seed): (Time, u64),
        traffic: bool,
    ) -> Result<(), StudyError> {
        self.fabrics += 1;
        self.hosts += hosts(topology) as u64;
        let rate = match traffic {
            true => quarter(&loads(topology, costs, 1)?),
            false => 0,
        };
        self.saturation += rate * SHARE;
        for case in &mut self.cases {
            let outcome = change(&Scenario {
                topology,
                switch,
                change: case.change,
                mechanism: case.mechanism,
                factors: Factors::NONE,
                costs,
                after_sweep,
                rate,
                around: (Time::millis(5), Time::millis(5)),
                bin: Time::millis(5),
                seed,
            })?;
            case.add(&outcome, traffic);
        }
        Ok(())
    }
}

impl Case {
    const fn new(mechanism: Mechanism, change: Change) -> Self {
        Self {
            mechanism,
            change,
            changes: 0,
            phases: BTreeMap::new(),
            time: Time::ZERO,
            longest: Time::ZERO,
            smps: BTreeMap::new(),
            operations: 0,
            blocks: 0,
            entries: (0, 0),
            looping_states: 0,
            unsound: 0,
            under_traffic: 0,
            sent: 0,
            lost: BTreeMap::new(),
            held: 0,
        }
    }

    fn add(&mut self, outcome: &Outcome, traffic: bool) {
        self.changes += 1;
        for (&phase, &time) in &outcome.phases {
            let sum = self.phases.entry(phase).or_insert(Time::ZERO);
            *sum += time;
        }
        self.time += outcome.time;
        self.longest = self.longest.max(outcome.time);
        for (&phase, &count) in &outcome.smps {
            *self.smps.entry(phase).or_insert(0) += count;
        }
        self.operations += outcome.operations;
        self.blocks += outcome.blocks;
        self.entries.0 += outcome.entries.0;
        self.entries.1 += outcome.entries.1;
        self.looping_states += outcome.looping_states;
        self.unsound += u64::from(!outcome.sound);
        self.under_traffic += u64::from(traffic);
        self.sent += outcome.sent;
        self.held += outcome.held;
        for (&cause, &count) in &outcome.lost {
            *self.lost.entry(cause).or_insert(0) += count;
        }
    }

    /// What is to be assimilated after it is detected.
    pub fn after_detection(&self) -> Time {
        self.time - self.phases.get(&Phase::Detection).copied().unwrap_or(Time::ZERO)
    }

    /// SMPs of all tasks.
    pub fn all_smps(&self) -> u64 {
        self.smps.values().sum()
    }

    /// Packets lost, of all causes.
    pub fn all_lost(&self) -> u64 {
        self.lost.values().sum()
    }
}
