//! `snin lab`: the same traffic with static routing, random paths, and strictly non-interfering.

use std::fs;
use std::io::Write;

use serde::Serialize;
use snin::lab::carry::{Flow, Forwarding};
use snin::lab::subnet::{Cost, Subnet};
use snin::lab::windows::{Served, Tally, Window, Windows, sampled};
use snin_controller::plan::Grant;
use snin_emulator::data;
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::{Listed, Pattern};
use snin_fabric::{Addresses, Lid, PortIndex, Topology, TreeId};
use snin_protocol::Time;

use crate::failure::Failure;
use crate::output::{Output, Progress};
use crate::report::{self, Document, Last, Report, Run};
use crate::{Verdict, cli, input};

/// How much virtual time the manager has to bring the fabric up.
const PATIENCE: Time = Time::secs(60);

/// Brings up, plans, carries, reports.
pub(crate) fn run<W: Write>(args: &cli::Lab, out: &mut Output<W>) -> Result<Verdict, Failure> {
    if args.list_patterns {
        list_patterns(args, out)?;
        return Ok(Verdict::Well);
    }
    let progress = Progress::new();
    let name = args.topology.as_deref().unwrap_or_default();
    progress.step("reading the topology");
    let topology = input::topology(name)?;
    let lab = Lab::bring_up(args, name, &topology, &progress)?;
    let mut windows = Windows::new(&topology, &lab.routing, &lab.addresses);
    let sampled = sampled(args.windows as usize, args.samples as usize);
    let mut runs = ["static", "ecmp", "snin"].map(Run::new);
    let mut last = Last::default();
    for number in 0..args.windows {
        progress.step(format!("window {} of {}", number + 1, args.windows));
        let window = windows.plan(|pattern| {
            let seed = args.seed.wrapping_add(pattern as u64);
            input::traffic(&args.pattern, seed, &topology, &lab.routing)
        })?;
        if sampled.contains(&window.number) {
            last.loads = lab.carry(&window, &mut runs, &progress)?;
            last.sampled = window.number;
        }
        last.window = Some(window);
    }
    let clos = lab.routing.shape.as_ref().map_err(|reason| Failure::content(name, reason))?;
    let tally = windows.tally();
    let document = Document::new(&topology, clos, &lab.routing, lab.cost, tally, &runs);
    if let Some(file) = &args.html {
        progress.step("drawing");
        let report = Report {
            command: command(args),
            topology: &topology,
            routing: &lab.routing,
            document: &document,
            patterns: windows.patterns(),
            smps: &lab.smps,
            runs: &runs,
            last: &last,
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
            print(args, &document, windows.patterns(), out)?;
        }
    }
    let Tally { max_link_load, violations, .. } = tally;
    Ok(if max_link_load <= 1 && violations == 0 { Verdict::Well } else { Verdict::Unwell })
}

/// A fabric that is up, and two ways to route it.
struct Lab<'a> {
    args: &'a cli::Lab,
    topology: &'a Topology,
    /// With the tables that the switches hold.
    routing: Routing,
    /// That the ports hold.
    addresses: Addresses,
    /// D-mod-K.
    by_static: Routing,
    cost: Cost,
    smps: Vec<(String, u64)>,
    config: data::Config,
}

impl<'a> Lab<'a> {
    fn bring_up(
        args: &'a cli::Lab,
        name: &str,
        topology: &'a Topology,
        progress: &Progress,
    ) -> Result<Self, Failure> {
        progress.step(format!("bringing up {} nodes", topology.node_count()));
        let failed = |what: &dyn std::fmt::Display| Failure::content(name, format_args!(" {what}"));
        let hardware =
            snin_emulator::Config { seed: args.seed, ..snin_emulator::Config::default() };
        let manager = snin_sm::Config {
            lmc: args.lmc.map(snin_fabric::Lmc::bits),
            seed: args.seed,
            ..snin_sm::Config::default()
        };
        let mut subnet =
            Subnet::new(topology, hardware, manager).map_err(|error| failed(&error))?;
        let cost = subnet.bring_up(PATIENCE);
        if let Some(missing) = subnet.missing().first() {
            return Err(failed(&format_args!("the fabric did not come up: {missing}")));
        }
        let (addresses, tables) = subnet
            .read_back()
            .ok_or_else(|| failed(&"ports hold addresses that contradict each other"))?;

        let routed = |engine, lmc| {
            let routing = Routing::compute(topology, engine, lmc);
            routing.map_err(|error| Failure::Routing { name: name.to_owned(), error })
        };
        let by_static = routed(Engine::DModK, None)?;
        let mut routing = routed(Engine::Trees, args.lmc)?;
        // A fabric that was never managed gets the addresses that a plan gives it; who names trees by
        // offsets relies on it.
        if *routing.plan.addresses() != addresses {
            return Err(failed(&"ports hold other addresses than a fresh fabric gets"));
        }
        routing.tables = tables;
        let config =
            data::Config { bandwidth: args.bandwidth, mtu: args.mtu, ..data::Config::default() };
        let smps = subnet.metrics().by_name();
        Ok(Self { args, topology, routing, addresses, by_static, cost, smps, config })
    }

    /// Carries what was granted in a window, three times; gives the load of every link each time.
    fn carry(
        &self,
        window: &Window,
        runs: &mut [Run; 3],
        progress: &Progress,
    ) -> Result<[Vec<f64>; 3], Failure> {
        let topology = self.topology;
        let tables = &self.by_static.tables;
        let addresses = self.by_static.plan.addresses();
        let by_static = Forwarding { topology, addresses, tables };
        let (tables, addresses) = (&self.routing.tables, &self.addresses);
        let by_trees = Forwarding { topology, addresses, tables };
        let failed = |error| Failure::content("the data plane", format_args!(" {error}"));

        let longest = window.plan.grants.iter().max_by_key(|grant| grant.path.len());
        let Some(longest) = longest else { return Ok([const { Vec::new() }; 3]) };
        let longest = self.flow(window, longest, longest.dlid.0);
        let grace = by_trees.alone(&self.config, longest).map_err(failed)?;
        let mut loads = [const { Vec::new() }; 3];
        for (way, run) in runs.iter_mut().enumerate() {
            progress.step(format!("window {}: {}", window.number + 1, run.name));
            let forwarding = if way == 0 { by_static } else { by_trees };
            let flows: Vec<Flow> = (window.plan.grants.iter().enumerate())
                .map(|(number, grant)| {
                    let address = match way {
                        0 => self.static_address(window, grant),
                        1 => self.random_address(window, number, grant),
                        _ => grant.dlid.0,
                    };
                    self.flow(window, grant, address)
                })
                .collect();
            let carried = forwarding.carry(&self.config, &flows, self.args.slice, grace);
            let carried = carried.map_err(failed)?;
            run.add(window.number as u32, &carried);
            loads[way] = carried.load;
        }
        Ok(loads)
    }

    fn flow(&self, window: &Window, grant: &Grant, address: Lid) -> Flow {
        let demand = window.demands[grant.demand];
        Flow { source: self.port(demand.source), address, bytes: demand.bytes }
    }

    fn port(&self, host: HostId) -> PortIndex {
        // Demands are of this routing's hosts.
        self.routing.hosts.get(host).expect("a host of the fabric").port
    }

    fn static_address(&self, window: &Window, grant: &Grant) -> Lid {
        let port = self.port(window.demands[grant.demand].destination);
        self.by_static.plan.addresses().base(port).unwrap_or(Lid::NONE)
    }

    /// Any tree that covers both leaves, each equally likely: what hashing a flow comes to.
    fn random_address(&self, window: &Window, number: usize, grant: &Grant) -> Lid {
        let demand = window.demands[grant.demand];
        let (hosts, forest) = (&self.routing.hosts, &self.routing.forest);
        let port = self.port(demand.destination);
        let covers = |tree: TreeId| {
            let ends = [demand.source, demand.destination].into_iter();
            ends.filter_map(|host| hosts.get(host)).all(|host| forest.covers(host.switch, tree))
        };
        let trees: Vec<TreeId> =
            self.routing.plan.trees(port).filter(|&tree| covers(tree)).collect();
        let chance = mix(mix(mix(self.args.seed) ^ window.number as u64) ^ number as u64);
        let tree = trees.get((chance % trees.len().max(1) as u64) as usize);
        let dlid = tree.and_then(|&tree| self.routing.plan.dlid(port, tree));
        dlid.unwrap_or(grant.dlid).0
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

fn write_json(file: &std::path::Path, document: &impl Serialize) -> Result<(), Failure> {
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
    patterns: &[Served],
    out: &mut Output<W>,
) -> Result<(), Failure> {
    for (key, value) in report::facts(document, patterns) {
        out.line(format_args!("{key:<12}{value}"))?;
    }
    let (samples, slice) = (args.samples.min(args.windows), args.slice);
    out.line(format_args!(
        "traffic     {samples} of the windows, every granted source back to back for {slice}\n"
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
