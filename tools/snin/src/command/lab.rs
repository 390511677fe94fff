//! `snin lab`: the same traffic with static routing, random paths, and strictly non-interfering.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Instant;

use serde::Serialize;
use snin::lab::carry::{Flow, Forwarding, loads};
use snin::lab::compare::{Comparison, Job, Routed, sampled};
use snin::lab::subnet::{Cost, Subnet};
use snin::lab::traffic::{Served, Tally};
use snin::lab::world::{Sent, Setup, Totals, Window, World, WorldError};
use snin_controller::plan::{Grant, Hop, Plan};
use snin_emulator::data;
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::{Demand, Listed, Pattern};
use snin_fabric::{Dlid, ForwardingTable, Lid, PortIndex, PortNum, Topology, TreeId};
use snin_protocol::Time;

use crate::failure::Failure;
use crate::output::{Output, Progress, note};
use crate::report::{self, Document, Facts, Last, Report, Run};
use crate::{Verdict, cli, input};

/// How much virtual time the manager has to bring the fabric up.
const PATIENCE: Time = Time::secs(60);
/// Packets of every host by which it is guessed how long all will take.
const TRIAL: u64 = 16;
/// Bit/s of links, for that guess, where the user names none.
const TYPICAL: u64 = 400_000_000_000;
/// Runs by place.
const STATIC: usize = 0;
const ECMP: usize = 1;
const SNIN: usize = 2;

/// Brings up, carries window after window, reports.
pub(crate) fn run<W: Write>(args: &cli::Lab, out: &mut Output<W>) -> Result<Verdict, Failure> {
    if args.list_patterns {
        list_patterns(args, out)?;
        return Ok(Verdict::Well);
    }
    let progress = Progress::new();
    let name = args.topology.as_deref().unwrap_or_default();
    progress.step("reading the topology");
    let topology = input::topology(name)?;
    progress.step(format!("bringing up {} nodes", topology.node_count()));
    let (lab, subnet) = Lab::bring_up(args, name, &topology)?;
    let done = lab.carry(subnet, &progress)?;
    let document = done.document(&lab);
    if let Some(file) = &args.html {
        progress.step("drawing");
        let report = Report {
            command: command(args),
            topology: &topology,
            routing: &lab.routing,
            document: &document,
            facts: &done.facts,
            patterns: &done.patterns,
            smps: &lab.smps,
            runs: &done.runs,
            last: &done.last,
        };
        fs::write(file, report::html(&report)).map_err(Failure::file(file))?;
    }
    drop(progress);
    match &args.json {
        Some(file) if file.as_os_str() == "-" => out.json(&document)?,
        file => {
            if let Some(file) = file {
                write_json(file, &document)?;
            }
            print(args, &document, &done, out)?;
        }
    }
    done.wrong.iter().for_each(note);
    Ok(if done.wrong.is_empty() { Verdict::Well } else { Verdict::Unwell })
}

/// A fabric that was brought up.
struct Lab<'a> {
    args: &'a cli::Lab,
    topology: &'a Topology,
    /// As a fresh fabric is routed.
    routing: Routing,
    cost: Cost,
    smps: Vec<(String, u64)>,
    data: data::Config,
}

/// What came of it.
struct Done {
    runs: [Run; 3],
    last: Last,
    facts: Facts,
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
    fn bring_up(
        args: &'a cli::Lab,
        name: &str,
        topology: &'a Topology,
    ) -> Result<(Self, Subnet), Failure> {
        let failed = |what: &dyn std::fmt::Display| Failure::content(name, format_args!(" {what}"));
        let routing = Routing::compute(topology, Engine::Trees, args.lmc)
            .map_err(|error| Failure::Routing { name: name.to_owned(), error })?;
        if let Err(reason) = &routing.shape {
            return Err(failed(&format_args!(
                "the lab needs routing trees, and this fabric is no Clos: {reason} (snin sm simulate \
                 brings it up, snin plan packs its routes)"
            )));
        }
        let hardware =
            snin_emulator::Config { seed: args.seed, ..snin_emulator::Config::default() };
        let manager = snin_sm::Config {
            lmc: args.lmc.map(snin_fabric::Lmc::bits),
            // As long as grants may be in force of agents that nobody hears of any more.
            clear_wait_ms: 200,
            seed: args.seed,
            ..snin_sm::Config::default()
        };
        let mut subnet =
            Subnet::new(topology, hardware, manager).map_err(|error| failed(&error))?;
        let cost = subnet.bring_up(PATIENCE);
        if let Some(missing) = subnet.missing().first() {
            return Err(failed(&format_args!("the fabric did not come up: {missing}")));
        }
        // A fabric that was never managed gets the addresses that a plan gives it; who names trees by
        // offsets relies on it.
        if subnet.addresses().as_ref() != Some(routing.plan.addresses()) {
            return Err(failed(&"ports hold other addresses than a fresh fabric gets"));
        }
        let smps = subnet.metrics().by_name();
        let data =
            data::Config { bandwidth: args.bandwidth, mtu: args.mtu, ..data::Config::default() };
        Ok((Self { args, topology, routing, cost, smps, data }, subnet))
    }

    fn setup(&self) -> Setup {
        let args = self.args;
        Setup {
            seed: args.seed,
            windows: args.windows,
            window: args.window,
            slice: args.slice,
            hold: args.hold,
            skew: args.skew,
            clocks: args.skew,
            control_latency: args.control_latency,
            control_loss: args.control_loss.0,
            policy: args.policy.into(),
            bounds: args.bound.clone(),
            transport: args.transport.into(),
            data: self.data.clone(),
            events: args.event.clone(),
        }
    }

    /// All windows, strictly non-interfering, and some of them in the other ways too.
    fn carry(&self, subnet: Subnet, progress: &Progress) -> Result<Done, Failure> {
        let args = self.args;
        let mut world = World::new(self.setup(), self.topology, subnet)?;
        let mut runs = ["static", "ecmp", "snin"].map(Run::new);
        let mut last = Last::default();
        let compared = sampled(args.windows as usize, args.samples as usize);
        let mut first = Some(self.pattern(0)?);
        let mut ways = Ways::of(self, &world)?;
        note(format_args!("about {} s", self.estimate(&ways.by_trees)?));
        let comparison = Comparison::new(&self.data, args.transport.into());
        progress.step(format!("window 1 of {}", args.windows));
        while let Some(window) = world.next_window(|pattern| match first.take() {
            Some(first) => Ok(first),
            None => self.pattern(pattern),
        })? {
            progress.step(format!("window {} of {}", window.number + 2, args.windows));
            runs[SNIN].count(window.number, window.in_time, window.possible);
            ways.follow(self, &world)?;
            if compared.contains(&(window.number as usize)) {
                let grace = world.guard().1;
                for (way, routed) in [(STATIC, &ways.by_static), (ECMP, &ways.by_trees)] {
                    let flows = self.flows(&window, way, &ways);
                    let routed = routed.clone();
                    comparison.start(Job { window: window.number, way, routed, flows, grace });
                }
                last.sampled = window.number;
                let possible = |port| world.wire().packets_possible(port, window.longest);
                last.loads[SNIN] =
                    loads(self.topology, possible, |port| window.packets[port.index()]);
            }
            last.window = window.number;
            (last.demands, last.plan) = drawn(self.topology, &world.tables(), &window);
        }
        progress.step("static and ecmp");
        let failed = |error| Failure::content("the data plane", format_args!(" {error}"));
        for (window, way, carried) in comparison.finish().map_err(failed)? {
            runs[way].add(window, &carried);
            last.loads[way] = carried.load;
        }
        runs[SNIN].statistics = Some(world.wire().statistics().clone());
        Ok(Done::new(self, &world, runs, last))
    }

    fn pattern(&self, number: usize) -> Result<Vec<Demand>, Failure> {
        let seed = self.args.seed.wrapping_add(number as u64);
        input::traffic(&self.args.pattern, seed, self.topology, &self.routing)
    }

    /// How many seconds it will take: by how long a little takes in which every host sends half around.
    fn estimate(&self, routed: &Routed) -> Result<u64, Failure> {
        let Routed { topology, addresses, tables } = routed;
        let hosts = &self.routing.hosts;
        let few = u64::from(self.args.mtu) * TRIAL;
        let flow = |(id, host): (HostId, &Host)| {
            let to = (id.index() + hosts.len() / 2) % hosts.len();
            let to = hosts.get(HostId(to as u32)).filter(|to| to.port != host.port)?.port;
            let offset = id.0 as u16 % addresses.lmc(to).addresses() as u16;
            Some(Flow {
                source: host.port,
                address: Lid(addresses.base(to)?.0 + offset),
                bytes: Some(few),
            })
        };
        let flows: Vec<Flow> = hosts.iter().filter_map(flow).collect();
        let begin = Instant::now();
        let forwarding = Forwarding { topology, addresses, tables };
        let carried = forwarding.carry(
            &self.data,
            &flows,
            self.args.transport.into(),
            Time::ZERO,
            Time::ZERO,
        );
        carried.map_err(|error| Failure::content("the data plane", format_args!(" {error}")))?;
        let trial = begin.elapsed().as_secs_f64();
        let packet = f64::from(self.args.mtu) * 8.0 / self.args.bandwidth.unwrap_or(TYPICAL) as f64;
        let trials = (self.args.slice.as_secs() / packet / TRIAL as f64).max(1.0);
        // The other ways run beside, where there are processors for it, and take longer: packets wait.
        let (windows, samples) = (f64::from(self.args.windows), f64::from(self.args.samples));
        let others =
            3.0 * samples.min(windows) / available_parallelism().map_or(1.0, |n| n.get() as f64);
        Ok((trial * trials * (windows + others)).ceil() as u64)
    }

    fn flows(&self, window: &Window, way: usize, ways: &Ways) -> Vec<Flow> {
        let flow = |(number, sent): (usize, &Sent)| {
            let port = self.port(sent.destination);
            let address = match way {
                STATIC => ways.by_static.addresses.base(port).unwrap_or(Lid::NONE),
                _ => self.random_address(window, number, sent),
            };
            Flow { source: sent.port, address, bytes: Some(sent.bytes) }
        };
        window.sent.iter().enumerate().map(flow).collect()
    }

    fn port(&self, host: HostId) -> PortIndex {
        // Demands are of this routing's hosts.
        self.routing.hosts.get(host).expect("a host of the fabric").port
    }

    /// Any tree that covers both leaves, each equally likely: what hashing a flow comes to.
    fn random_address(&self, window: &Window, number: usize, sent: &Sent) -> Lid {
        let (hosts, forest) = (&self.routing.hosts, &self.routing.forest);
        let port = self.port(sent.destination);
        let covers = |tree: TreeId| {
            let ends = [sent.source, sent.destination].into_iter();
            ends.filter_map(|host| hosts.get(host)).all(|host| forest.covers(host.switch, tree))
        };
        let trees: Vec<TreeId> =
            self.routing.plan.trees(port).filter(|&tree| covers(tree)).collect();
        let chance = mix(mix(mix(self.args.seed) ^ u64::from(window.number)) ^ number as u64);
        let tree = trees.get((chance % trees.len().max(1) as u64) as usize);
        let dlid = tree.and_then(|&tree| self.routing.plan.dlid(port, tree));
        dlid.map_or(sent.lid, |dlid| dlid.0)
    }
}

/// The fabric as the other ways see it.
struct Ways {
    /// By D-mod-K, over the cables that are whole.
    by_static: Routed,
    /// As the switches forward now.
    by_trees: Routed,
}

impl Ways {
    fn of(lab: &Lab<'_>, world: &World<'_>) -> Result<Self, Failure> {
        let topology = Arc::new(world.live_topology());
        let failed = |error| Failure::content("D-mod-K", format_args!(" {error}"));
        let routing = Routing::compute(&topology, Engine::DModK, None).map_err(failed)?;
        let by_static = Routed {
            topology,
            addresses: Arc::new(routing.plan.addresses().clone()),
            tables: Arc::new(routing.tables),
        };
        let by_trees = Routed {
            topology: Arc::new(lab.topology.clone()),
            addresses: Arc::new(world.addresses().clone()),
            tables: world.tables(),
        };
        Ok(Self { by_static, by_trees })
    }

    /// Something was written to a switch: a cable is gone, or back.
    fn follow(&mut self, lab: &Lab<'_>, world: &World<'_>) -> Result<(), Failure> {
        if !Arc::ptr_eq(&self.by_trees.tables, &world.tables()) {
            *self = Self::of(lab, world)?;
        }
        Ok(())
    }
}

impl Done {
    fn new(lab: &Lab<'_>, world: &World<'_>, runs: [Run; 3], last: Last) -> Self {
        let watch = world.wire().watch();
        let totals = world.totals();
        let facts = Facts {
            guard: world.guard(),
            transmissions: watch.transmissions(),
            clashes: watch.clashes(),
            control: totals.control,
        };
        let topology = lab.topology;
        let mut wrong: Vec<String> =
            watch.named().iter().map(|clash| clash.named(topology).to_string()).collect();
        let name =
            |host: HostId| topology.node(topology.port(lab.port(host)).node).name.to_string();
        for broken in world.wire().judge().broken(world.wire().statistics()) {
            let flow = world.demand(broken.flow).map_or_else(String::new, |demand| {
                format!("{} -> {}", name(demand.source), name(demand.destination))
            });
            wrong.push(broken.named(topology, &flow).to_string());
        }
        wrong.extend(world.notes().iter().cloned());
        let counts = (lab.args.windows as usize, world.tally(), totals);
        Self { runs, last, facts, patterns: world.patterns().to_vec(), counts, wrong }
    }

    fn document(&self, lab: &Lab<'_>) -> Document {
        let clos = lab.routing.shape.as_ref().ok();
        Document::new(lab.topology, clos, &lab.routing, lab.cost, self.counts, &self.runs)
    }
}

/// What a window sent, as pictures of plans want it.
fn drawn(topology: &Topology, tables: &[ForwardingTable], window: &Window) -> (Vec<Demand>, Plan) {
    let demands = window.sent.iter().map(|sent| Demand::new(sent.source.0, sent.destination.0));
    let grant = |(demand, sent): (usize, &Sent)| {
        let (tree, dlid, path) = (sent.tree, Dlid(sent.lid), path(topology, tables, sent));
        Grant { demand, tree, dlid, path }
    };
    let grants = window.sent.iter().enumerate().map(grant).collect();
    (demands.collect(), Plan { grants, ..Plan::default() })
}

/// Every switch that a message passed, and by which port it left.
fn path(topology: &Topology, tables: &[ForwardingTable], sent: &Sent) -> Vec<Hop> {
    let mut path = Vec::new();
    let mut next = topology.peer_node(sent.port);
    while let Some(switch) = next.filter(|&node| topology.is_switch(node)) {
        let port = tables[switch.index()].get(sent.lid);
        path.push(Hop { switch, port });
        let out = topology.port_of(switch, port).filter(|_| port != PortNum::ZERO);
        next = out.filter(|_| path.len() <= tables.len()).and_then(|out| topology.peer_node(out));
    }
    path
}

/// Neighbouring numbers to numbers that have nothing in common (the finaliser of SplitMix64; Steele, Lea
/// and Flood, 2014).
const fn mix(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn write_json(file: &Path, document: &impl Serialize) -> Result<(), Failure> {
    let mut json = Output::new(fs::File::create(file).map_err(Failure::file(file))?);
    json.json(document)?;
    json.finish()
}

/// The command line in short, as a report shows it.
fn command(args: &cli::Lab) -> String {
    let cli::Lab { topology, pattern, windows, slice, samples, seed, .. } = args;
    let topology = topology.as_deref().unwrap_or_default();
    format!(
        "snin lab {topology} --pattern {pattern} --windows {windows} --slice {slice} --samples {samples} \
         --seed {seed}"
    )
}

fn print<W: Write>(
    args: &cli::Lab,
    document: &Document,
    done: &Done,
    out: &mut Output<W>,
) -> Result<(), Failure> {
    for (key, value) in report::facts(document, &done.facts, &done.patterns) {
        out.line(format_args!("{key:<12}{value}"))?;
    }
    if args.policy == cli::Policy::Strict {
        let trees = document.trees;
        out.line(format_args!(
            "policy      strict: tree 0 is never granted, so {} of {trees} trees are left between leaves",
            trees.saturating_sub(1)
        ))?;
    }
    let (samples, slice) = (args.samples.min(args.windows), args.slice);
    out.line(format_args!(
        "traffic     every granted source back to back for {slice} of each window; static and ecmp carry \
         {samples} of them\n"
    ))?;
    for [name, cells @ ..] in report::table(document) {
        let [by_static, ecmp, snin] = cells;
        out.line(format_args!("{name:<16}{by_static:>12}{ecmp:>12}{snin:>12}"))?;
    }
    Ok(())
}

/// Every pattern with its degree and meaning.
fn list_patterns<W: Write>(args: &cli::Lab, out: &mut Output<W>) -> Result<(), Failure> {
    if args.json.as_deref() == Some("-".as_ref()) {
        let pattern = |listed: &Listed| {
            let Listed { name, degree, meaning } = *listed;
            serde_json::json!({ "name": name, "degree": degree, "meaning": meaning })
        };
        return out.json(&Pattern::LIST.iter().map(pattern).collect::<Vec<_>>());
    }
    out.line(format_args!("{:<13}{:<11}MEANING", "PATTERN", "DEGREE"))?;
    for Listed { name, degree, meaning } in Pattern::LIST {
        out.line(format_args!("{name:<13}{degree:<11}{meaning}"))?;
    }
    out.line("")?;
    out.line(
        "A pattern is served in as many windows as its degree. `static`, D-mod-K, is made for",
    )?;
    out.line("shifts: on them it is as good as snin.")
}
