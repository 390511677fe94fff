//! `snin lab`: the same traffic with static routing, random paths, and strictly non-interfering.

mod beside;
mod estimate;
mod patterns;
mod ways;

use std::io::Write;
use std::path::Path;
use std::time::SystemTime;

use snin_emulator::data;
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Routing, RoutingOptions};
use snin_fabric::traffic::Demand;
use snin_fabric::{Lid, PortIndex, Topology, TreeId};
use snin_lab::carry::{Flow, loads};
use snin_lab::compare::{self, Comparison, Job, sampled};
use snin_lab::lanes::{self, Lane};
use snin_lab::subnet::{Cost, Subnet};
use snin_lab::traffic::{Served, Tally, degree};
use snin_lab::world::{Sending, Sent, Setup, Totals, World, WorldError};
use snin_protocol::Time;

use crate::failure::Failure;
use crate::output::{Output, OutputFile, Progress, Target, note};
use crate::{Verdict, cli, input};
use snin_report::{Document, Facts, Last, Made, OrdinaryTraffic, Report, Run, Unasked};
use ways::{Ways, drawn};

/// How much virtual time the manager has to bring the fabric up.
const PATIENCE: Time = Time::secs(60);
/// Bit/s of links where the user names none, as far as it matters how long a run will take.
const TYPICAL: f64 = 400e9;
/// Runs by place.
const STATIC: usize = 0;
const ECMP: usize = 1;
const SNIN: usize = 2;

/// Brings up, carries window after window, reports.
pub(crate) fn run<W: Write>(args: &cli::Lab, out: &mut Output<W>) -> Result<Verdict, Failure> {
    if args.list_patterns {
        patterns::list(&args.format, out)?;
        return Ok(Verdict::Well);
    }
    let json = Target::open(args.format.json.as_deref())?;
    let html = args.html.as_deref().map(OutputFile::open).transpose()?;
    let progress = Progress::new();
    let name = args.topology.as_deref().unwrap_or_default();
    progress.step("reading the topology");
    let topology = input::topology(name)?;
    for event in &args.event {
        event.act(&topology).map_err(|what| Failure::Event { what })?;
    }
    let lab = Lab::new(args, name, &topology)?;
    note(format_args!("about {} s", lab.estimate()?.seconds()));
    progress.step(format!("bringing up {} nodes", topology.node_count()));
    let fabric = lab.bring_up(name, Lane::Shared)?;
    let mut done = lab.carry(fabric, &progress)?;
    if let Some((beside, wrong)) = lab.beside(name, &progress)? {
        done.beside = Some(beside);
        done.wrong.extend(wrong);
    }
    let document = done.document(&lab);
    if let Some(file) = html {
        progress.step("drawing");
        let report = Report {
            command: snin_report::command(std::env::args()),
            made: Made {
                version: env!("CARGO_PKG_VERSION"),
                date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
                fabric: name.to_owned(),
                traffic: args.traffic.clone(),
                seed: args.seed,
            },
            topology: &topology,
            routing: &lab.routing,
            document: &document,
            facts: &done.facts,
            patterns: &done.patterns,
            smps: &done.smps,
            runs: &done.runs,
            last: &done.last,
        };
        file.write(snin_report::html(&report).as_bytes())?;
    }
    drop(progress);
    out.report(json, &document, |out| print(&lab, &document, &done, out))?;
    done.wrong.iter().for_each(note);
    Ok(if done.wrong.is_empty() { Verdict::Well } else { Verdict::Unwell })
}

/// What is to be done, with what and to what.
struct Lab<'a> {
    args: &'a cli::Lab,
    topology: &'a Topology,
    /// As a fresh fabric will be routed.
    routing: Routing,
    data: data::Config,
    windows: u32,
    /// Windows in which static and ecmp carry the same traffic.
    samples: u32,
    /// The first pattern's degree, and how many connections it has.
    degree: usize,
    demands: usize,
    /// Whether messages have sizes of their own.
    sized: bool,
    /// Packets of the first pattern's messages, on average.
    packets: f64,
}

/// A fabric that was brought up, and what that took.
struct Fabric {
    subnet: Subnet,
    cost: Cost,
    smps: Vec<(String, u64)>,
}

/// What came of it.
struct Done {
    runs: [Run; 3],
    last: Last,
    facts: Facts,
    cost: Cost,
    smps: Vec<(String, u64)>,
    unasked: Option<Unasked>,
    /// Beside floods, with one lane and with two.
    beside: Option<OrdinaryTraffic>,
    patterns: Vec<Served>,
    counts: (usize, Tally, Totals),
    /// What should not be, a line each.
    wrong: Vec<String>,
}

impl From<WorldError> for Failure {
    fn from(error: WorldError) -> Self {
        match error {
            WorldError::Event(what) => Self::Event { what },
            error => Self::content("lab", format_args!(" {error}")),
        }
    }
}

impl<'a> Lab<'a> {
    /// All checks of what the user gave are here.
    fn new(args: &'a cli::Lab, name: &str, topology: &'a Topology) -> Result<Self, Failure> {
        let options = RoutingOptions {
            lmc: args.lmc,
            unmanaged_trees: args.unmanaged_trees().into(),
            ..RoutingOptions::default()
        };
        let routing = Routing::with(topology, &options)
            .map_err(|error| Failure::Routing { name: name.to_owned(), error })?;
        if let Err(reason) = &routing.shape {
            return Err(Failure::content(
                name,
                format_args!(
                    " the lab needs routing trees, and this fabric is no Clos: {reason} (snin sm simulate \
                     brings it up, snin plan packs its routes)"
                ),
            ));
        }
        if args.unmanaged_share.0 > 500_000 {
            let what = " --unmanaged-share: what goes first leaves at most half of a link (50%)";
            return Err(Failure::content("lab", format_args!("{what}")));
        }
        let demands = input::traffic(&args.traffic, args.seed, topology, &routing)?;
        let degree = degree(&demands, routing.hosts.len()).max(1);
        let to_the_end = degree as u32 * args.hold;
        let is_file = Path::new(&args.traffic).exists();
        let windows = args.windows.unwrap_or(if is_file { to_the_end } else { cli::WINDOWS });
        for event in &args.event {
            event.within(windows, args.window).map_err(|what| Failure::Event { what })?;
        }
        let data =
            data::Config { bandwidth: args.bandwidth, mtu: args.mtu, ..data::Config::default() };
        let samples = args.samples.min(windows);
        let packet = f64::from(args.mtu) * 8.0 / args.bandwidth.map_or(TYPICAL, |rate| rate as f64);
        let of_slice = args.slice.as_secs() / packet;
        let of = |demand: &Demand| {
            demand.bytes.map_or(of_slice, |bytes| bytes.div_ceil(args.mtu.into()) as f64)
        };
        let packets = demands.iter().map(of).sum::<f64>() / demands.len().max(1) as f64;
        let sized = demands.iter().all(|demand| demand.bytes.is_some());
        let demands = demands.len();
        Ok(Self {
            args,
            topology,
            routing,
            data,
            windows,
            samples,
            degree,
            demands,
            sized,
            packets,
        })
    }

    fn bring_up(&self, name: &str, lane: Lane) -> Result<Fabric, Failure> {
        let failed = |what: &dyn std::fmt::Display| Failure::content(name, format_args!(" {what}"));
        let args = self.args;
        let hardware =
            snin_emulator::Config { seed: args.seed, ..snin_emulator::Config::default() };
        let hardware = lanes::ports(hardware, args.mtu);
        let manager = snin_sm_database::config::Config {
            lmc: args.lmc.map(snin_fabric::Lmc::bits),
            unmanaged_trees: args.unmanaged_trees(),
            // As long as grants may be in force of agents that the controller does not hear of any more.
            clear_wait_ms: 200,
            seed: args.seed,
            ..snin_sm_database::config::Config::default()
        };
        let manager = match lane {
            Lane::Own => lanes::program(manager, args.unmanaged_share.0),
            Lane::Shared => manager,
        };
        let mut subnet =
            Subnet::new(self.topology, hardware, manager).map_err(|error| failed(&error))?;
        let cost = subnet.bring_up(PATIENCE);
        if let Some(missing) = subnet.missing().first() {
            return Err(failed(&format_args!("the fabric did not come up: {missing}")));
        }
        // A fabric that was never managed gets the addresses that a plan gives it; who names trees by
        // offsets relies on it.
        if subnet.addresses().as_ref() != Some(self.routing.plan.addresses()) {
            return Err(failed(&"ports hold other addresses than a fresh fabric gets"));
        }
        let smps = subnet.metrics().by_name();
        Ok(Fabric { subnet, cost, smps })
    }

    fn setup(&self) -> Setup {
        let args = self.args;
        Setup {
            seed: args.seed,
            windows: self.windows,
            window: args.window,
            slice: args.slice,
            hold: args.hold,
            skew: args.skew,
            clocks: args.skew,
            control_latency: args.control_latency,
            control_loss: args.control_loss.0,
            queue_pairs: args.queue_pairs,
            unmanaged: args.unmanaged,
            ordinary: None,
            policy: args.policy.into(),
            bounds: args.bound.clone(),
            transport: args.transport.into(),
            data: self.data.clone(),
            events: args.event.clone(),
        }
    }

    /// All windows, strictly non-interfering, and some of them in the other ways too.
    fn carry(&self, fabric: Fabric, progress: &Progress) -> Result<Done, Failure> {
        let (args, windows) = (self.args, self.windows);
        let Fabric { subnet, cost, smps } = fabric;
        let mut world = World::new(self.setup(), self.topology, subnet)?;
        let mut runs = ["static", "ecmp", "snin"].map(Run::new);
        let (mut last, mut unasked) = (Last::default(), Unasked::default());
        let compared = sampled(windows as usize, self.samples as usize);
        let mut ways = Ways::of(self, &world);
        let mut wrong = Vec::new();
        let mut comparison = Comparison::new(&self.data, args.transport.into());
        progress.step(format!("window 1 of {windows}"));
        while let Some(sending) = world.begin_window(|number| self.pattern(number))? {
            let is_compared = compared.contains(&(sending.number as usize));
            if is_compared {
                ways.follow(self, &world);
                self.compare(&mut comparison, &sending, &ways, &world);
            }
            let window = world.end_window();
            progress.step(format!("window {} of {windows}", window.number + 2));
            runs[SNIN].count(window.number, window.granted.in_time, window.granted.possible);
            unasked.add(&window.unasked);
            if is_compared {
                // Again where a host began late, or where cables changed meanwhile.
                self.compare(&mut comparison, &window.sending(), &ways, &world);
                if window.granted.possible > 0 {
                    last.sampled = window.number;
                    let possible = |port| world.wire().packets_possible(port, window.longest);
                    last.loads[SNIN] =
                        loads(self.topology, possible, |port| window.packets[port.index()]);
                }
            }
            take(&mut runs, &mut last, &mut wrong, comparison.take_done());
            last.window = window.number;
            (last.demands, last.plan) = drawn(self.topology, &world.tables(), &window);
        }
        progress.step("static and ecmp");
        take(&mut runs, &mut last, &mut wrong, comparison.finish());
        runs[SNIN].statistics = Some(world.wire().statistics().clone());
        let unasked = Some(unasked).filter(|_| args.unmanaged > 0);
        let facts = Facts { policy: self.policy(unasked), ..facts(&world) };
        wrong.extend(self.wrong(&world));
        let counts = (windows as usize, world.tally(), world.totals());
        let patterns = world.patterns().to_vec();
        let beside = None;
        Ok(Done { runs, last, facts, unasked, beside, cost, smps, patterns, counts, wrong })
    }

    /// Has static and ecmp carry what a window sends.
    fn compare(
        &self,
        comparison: &mut Comparison,
        sending: &Sending,
        ways: &Ways,
        world: &World<'_>,
    ) {
        let (window, grace) = (sending.number, world.guard().1);
        for (way, routed) in [(STATIC, &ways.by_static), (ECMP, &ways.by_trees)] {
            let flows = self.flows(sending, way, ways);
            let (routed, changes) = (routed.clone(), world.cable_changes().to_vec());
            let longest = sending.longest;
            comparison.start(Job { window, way, routed, flows, changes, longest, grace });
        }
    }

    fn pattern(&self, number: usize) -> Result<Vec<Demand>, Failure> {
        let seed = self.args.seed.wrapping_add(number as u64);
        input::traffic(&self.args.traffic, seed, self.topology, &self.routing)
    }

    /// What should not be, a line each.
    fn wrong(&self, world: &World<'_>) -> Vec<String> {
        let (topology, wire) = (self.topology, world.wire());
        let clashes = wire.watch().named().iter().map(|clash| clash.named(topology).to_string());
        let mut wrong: Vec<String> = clashes.collect();
        let name =
            |host: HostId| topology.node(topology.port(self.port(host)).node).name.to_string();
        for broken in wire.judge().broken(wire.statistics()) {
            let flow = world.demand(broken.flow).map_or_else(String::new, |demand| {
                format!("{} -> {}", name(demand.source), name(demand.destination))
            });
            wrong.push(broken.named(topology, &flow).to_string());
        }
        wrong.extend(world.notes().iter().cloned());
        wrong
    }

    /// What the policy means for this fabric and traffic, where there is something to say.
    fn policy(&self, unasked: Option<Unasked>) -> Option<String> {
        let trees = self.routing.forest.len();
        let unmanaged = self.routing.plan.unmanaged_trees().len().max(1);
        let left = trees.saturating_sub(unmanaged);
        let granted = match self.args.policy {
            cli::Policy::Strict => format!(
                "strict: the tree of ordinary traffic is never granted, so {left} of {trees} trees are left \
                 between leaves"
            ),
            cli::Policy::Shared => {
                unasked?;
                "shared: all trees are granted".to_owned()
            }
            cli::Policy::Off => "off: nothing is granted".to_owned(),
        };
        let Some(unasked) = unasked else { return Some(granted) };
        let share = unasked.goodput() * 100.0;
        Some(format!(
            "{granted}; hosts that do not ask: {}, at base addresses, on a lane below the others': {share:.1} % \
             of theirs arrives in time",
            self.args.unmanaged
        ))
    }

    fn flows(&self, sending: &Sending, way: usize, ways: &Ways) -> Vec<Flow> {
        let flow = |(number, sent): (usize, &Sent)| {
            let port = self.port(sent.destination);
            let address = match way {
                STATIC => ways.by_static.addresses.base(port).unwrap_or(Lid::NONE),
                _ => {
                    let ends = (sent.source, sent.destination);
                    self.random_address((sending.number, number), ends).unwrap_or(sent.lid)
                }
            };
            Flow { source: sent.port, address, bytes: Some(sent.bytes), rate: sent.rate }
        };
        sending.sent.iter().enumerate().map(flow).collect()
    }

    fn port(&self, host: HostId) -> PortIndex {
        // Demands are of this routing's hosts.
        self.routing.hosts.get(host).expect("a host of the fabric").port
    }

    /// Any tree that covers both leaves, each equally likely: what hashing a flow comes to.
    fn random_address(
        &self,
        (window, number): (u32, usize),
        (source, destination): (HostId, HostId),
    ) -> Option<Lid> {
        let (hosts, forest) = (&self.routing.hosts, &self.routing.forest);
        let port = self.port(destination);
        let covers = |tree: TreeId| {
            let ends = [source, destination].into_iter();
            ends.filter_map(|host| hosts.get(host)).all(|host| forest.covers(host.switch, tree))
        };
        let trees: Vec<TreeId> =
            self.routing.plan.trees(port).filter(|&tree| covers(tree)).collect();
        let chance = mix(mix(mix(self.args.seed) ^ u64::from(window)) ^ number as u64);
        let tree = trees.get((chance % trees.len().max(1) as u64) as usize);
        tree.and_then(|&tree| self.routing.plan.dlid(port, tree)).map(|dlid| dlid.0)
    }
}

impl Done {
    fn document(&self, lab: &Lab<'_>) -> Document {
        let clos = lab.routing.shape.as_ref().ok();
        let runs = (&self.runs, self.unasked, self.beside);
        Document::new(lab.topology, clos, &lab.routing, self.cost, self.counts, runs)
    }
}

fn facts(world: &World<'_>) -> Facts {
    let watch = world.wire().watch();
    Facts {
        policy: None,
        lost: world.wire().statistics().dropped,
        guard: world.guard(),
        transmissions: watch.transmissions(),
        clashes: watch.clashes(),
        control: world.totals().control,
    }
}

/// What other ways have carried meanwhile; a line for each window that could not be.
fn take(
    runs: &mut [Run; 3],
    last: &mut Last,
    wrong: &mut Vec<String>,
    done: impl IntoIterator<Item = compare::Done>,
) {
    for (window, way, carried) in done {
        let carried = match carried {
            Ok(carried) => carried,
            Err(error) => {
                wrong.push(format!("window {}, {}: {error}", window + 1, runs[way].name));
                continue;
            }
        };
        runs[way].add(window, &carried);
        // An idle window is no picture.
        let shown = last.carried[way].is_none_or(|known| known <= window) && carried.possible > 0;
        if shown {
            (last.carried[way], last.loads[way]) = (Some(window), carried.load);
        }
    }
}

/// Neighbouring numbers to numbers that have nothing in common (the finaliser of SplitMix64; Steele, Lea
/// and Flood, 2014).
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn print<W: Write>(
    lab: &Lab<'_>,
    document: &Document,
    done: &Done,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    for (key, value) in snin_report::facts(document, &done.facts, &done.patterns) {
        out.line(format_args!("{key:<12}{value}"))?;
    }
    let Lab { args, samples, windows, .. } = lab;
    let what = match lab.sized {
        true => "each message whole, in one window".to_owned(),
        false => format!("back to back for {} of each window", args.slice),
    };
    let other = match samples < windows {
        true => format!("static and ecmp in {samples} of {windows} windows"),
        false => "all three ways in every window".to_owned(),
    };
    out.line(format_args!("traffic     {what}; {other}\n"))?;
    for [name, cells @ ..] in snin_report::table(document) {
        let [by_static, ecmp, snin] = cells;
        out.line(format_args!("{name:<16}{by_static:>12}{ecmp:>12}{snin:>12}"))?;
    }
    Ok(())
}
