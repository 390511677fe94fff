//! A subnet that ibsim simulates, the program that manages it, and what ibsim then holds.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::tree::{CheckedTree, Stages, TreeReport, trees};
use snin_fabric::check::walk::{LostRoute, walk};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{AddressPlan, Engine, Routing, RoutingTree};
use snin_fabric::{
    Addresses, ForwardingTable, Lid, Lmc, NodeIndex, PortIndex, PortNum, Topology, dump, ibnet,
};
use snin_judges::{HeldNode, JudgeError, Running, Simulator, ibnetdiscover};

/// The program.
const SNIN_SM: &str = env!("CARGO_BIN_EXE_snin-sm");
/// However busy the machine, by then it is done.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// A node's name in the netlist.
pub(crate) fn id(topology: &Topology, node: NodeIndex) -> String {
    let letter = if topology.is_switch(node) { 'S' } else { 'H' };
    format!("{letter}-{:016x}", topology.node(node).guid.0)
}

pub(crate) struct Lab {
    pub(crate) simulator: Simulator,
    /// The whole fabric, as it is found before anything is cut.
    pub(crate) topology: Topology,
    /// Where the manager is: the first host.
    pub(crate) home: NodeIndex,
}

impl Lab {
    pub(crate) fn new(topology: &Topology) -> Result<Self, JudgeError> {
        let simulator = Simulator::start(&ibnet::write(topology))?;
        // With port GUIDs as ibsim gives them.
        let topology = ibnet::parse(&ibnetdiscover(&simulator)?).unwrap();
        let home = topology
            .nodes()
            .find(|&node| !topology.is_switch(node) && topology.cables(node).next().is_some());
        let home = home.expect("a host");
        Ok(Self { simulator, topology, home })
    }

    /// Where the program leaves and finds things.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.simulator.folder().join(name)
    }

    /// The program, at its host.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(SNIN_SM);
        command.args(["--ibsim", self.simulator.name()]);
        command.args(["--ibsim-host", &id(&self.topology, self.home)]);
        command.arg("--state").arg(self.file("state")).arg("--dump").arg(self.file("dump"));
        command.env_remove("LD_PRELOAD").current_dir(self.simulator.folder());
        command
    }

    /// Brings the subnet up, which must go well; the program's report.
    #[track_caller]
    pub(crate) fn once(&self, more: &[&str]) -> Value {
        let said = self.command().args(["--once", "--json"]).args(more).output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        let out = String::from_utf8_lossy(&said.stdout);
        assert!(said.status.success(), "{}: {err}{out}", said.status);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Starts it to stay, with these lines of configuration.
    pub(crate) fn keep(&self, config: &str) -> Result<Keeper, JudgeError> {
        self.keep_with(config, &[])
    }

    /// The same with an opensm.conf of this text.
    pub(crate) fn keep_as_opensm(&self, text: &str, config: &str) -> Result<Keeper, JudgeError> {
        let file = self.file("of-opensm.conf");
        fs::write(&file, text).unwrap();
        self.keep_with(config, &["--opensm-conf".as_ref(), file.as_ref()])
    }

    fn keep_with(&self, config: &str, more: &[&OsStr]) -> Result<Keeper, JudgeError> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("snin-sm-{number}");
        let (file, events) =
            (self.file(&format!("{name}.toml")), self.file(&format!("{name}.events")));
        fs::write(&file, format!("events_file = {events:?}\n{config}")).unwrap();
        let mut command = self.command();
        // As its unit has it: a heap, not one a thread.
        command.arg("--config").arg(file).args(more).env("MALLOC_ARENA_MAX", "1");
        let running = Running::start(&mut command, self.simulator.folder(), &name)?;
        Ok(Keeper { running, events })
    }

    /// What the program says that it wrote: tables and addresses.
    pub(crate) fn told(&self) -> (Vec<ForwardingTable>, Addresses) {
        let read = |name: &str| {
            let path = self.file("dump").join(name);
            fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let tables = dump::lfts::parse(&read("opensm-lfts.dump"), &self.topology);
        let addresses = dump::guid2lid::parse(&read("guid2lid"), &self.topology);
        (tables.unwrap(), addresses.unwrap())
    }

    /// What ibsim holds now.
    pub(crate) fn held(&self) -> Result<Held, JudgeError> {
        Ok(Held::of(&self.topology, self.home, &self.simulator.held()?))
    }

    /// Waits until so many cables are whole and nothing is wrong with what nodes hold.
    pub(crate) fn settled(&self, keeper: &Keeper, cables: usize) -> Result<Held, JudgeError> {
        let begin = Instant::now();
        loop {
            let held = self.held()?;
            let fault = held.fault(None);
            if held.live.cable_count() == cables && fault.is_none() {
                return Ok(held);
            }
            let why = || format!("{fault:?}; {:?}; {}", keeper.events(), keeper.tail());
            assert!(begin.elapsed() < PATIENCE, "not settled: {}", why());
            sleep(Duration::from_millis(100));
        }
    }
}

/// A daemon that keeps a subnet; ends with the value.
pub(crate) struct Keeper {
    running: Running,
    events: PathBuf,
}

impl Keeper {
    /// All events so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.events).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What it last said of the whole subnet.
    pub(crate) fn last_up(&self) -> Value {
        let text = fs::read_to_string(&self.events).unwrap_or_default();
        let last = text.lines().rfind(|line| line.contains("\"SUBNET_UP\"")).unwrap_or("{}");
        serde_json::from_str(last).unwrap_or_default()
    }

    /// Waits until the events so far are as they should be.
    #[track_caller]
    pub(crate) fn wait(&self, are: impl Fn(&[Value]) -> bool) {
        let begin = Instant::now();
        while !are(&self.events()) {
            assert!(begin.elapsed() < PATIENCE, "{:?}; {}", self.events(), self.tail());
            sleep(Duration::from_millis(5));
        }
    }

    /// The last that it said.
    pub(crate) fn tail(&self) -> String {
        self.running.tail()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.running.id() as i32).expect("a process")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Sends it a signal and waits until it is gone: well, unless it was killed.
    #[track_caller]
    pub(crate) fn end(mut self, signal: Signal) {
        self.signal(signal);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.running.ended().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "{}", self.tail());
            sleep(Duration::from_millis(5));
        };
        assert!(status.success() || signal == Signal::KILL, "{status}: {}", self.tail());
    }

    /// Kibibytes of memory in use, open files, threads.
    pub(crate) fn size(&self) -> (u64, usize, usize) {
        let process = PathBuf::from(format!("/proc/{}", self.running.id()));
        let status = fs::read_to_string(process.join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let count = |what| fs::read_dir(process.join(what)).unwrap().count();
        (line.trim().trim_end_matches(" kB").parse().unwrap(), count("fd"), count("task"))
    }
}

/// What can be reached from the manager's host, in the whole fabric's numbers.
pub(crate) struct Held {
    /// The cables there are.
    pub(crate) live: Topology,
    pub(crate) addresses: Addresses,
    pub(crate) tables: Vec<ForwardingTable>,
    /// The manager's address, which every port has.
    pub(crate) manager: Option<u16>,
    /// Ports that are not as they should be.
    pub(crate) wrong: Vec<String>,
}

impl Held {
    fn of(topology: &Topology, home: NodeIndex, nodes: &BTreeMap<String, HeldNode>) -> Self {
        let ids: Vec<String> = topology.nodes().map(|node| id(topology, node)).collect();
        let port = |port: PortIndex| {
            nodes[&ids[topology.port(port).node.index()]].ports.get(&topology.num(port).0)
        };
        let missing = |end: &PortIndex| {
            let Some(peer) = topology.peer(*end) else { return false };
            let there = (&ids[topology.port(peer).node.index()], topology.num(peer).0);
            port(*end).and_then(|held| held.peer.as_ref()).map(|(node, num)| (node, *num))
                != Some(there)
        };
        let live = topology.without_cables(&topology.ports().filter(missing).collect::<Vec<_>>());
        let reached = reach(&live, home);
        let beyond = live.ports().filter(|&end| !reached[live.port(end).node.index()]);
        let live = live.without_cables(&beyond.collect::<Vec<_>>());

        let (mut addresses, mut wrong) = (Addresses::none(live.port_count()), Vec::new());
        let manager = live.cables(home).find_map(|(end, _)| Some(port(end)?.address?.2));
        for end in live.ports() {
            let node = live.port(end).node;
            let cabled = live.peer(end).is_some();
            let name = live.port_name(end);
            let held = port(end);
            if cabled && held.is_none_or(|held| held.state != "Active") {
                wrong.push(format!("{name} is {held:?}"));
            }
            let port0 = live.is_switch(node) && end == live.port0(node);
            if !(cabled && !live.is_switch(node) || port0 && reached[node.index()]) {
                continue;
            }
            match held.and_then(|held| held.address) {
                Some((lid, lmc, sm)) if lid != 0 && Some(sm) == manager => {
                    let lmc = Lmc::new(lmc).expect("three bits");
                    if let Err(error) = addresses.assign(end, Lid(lid), lmc) {
                        wrong.push(format!("{name}: {error}"));
                    }
                }
                address => wrong.push(format!("{name} has {address:?}")),
            }
        }
        let table = |switch: NodeIndex| {
            let held = &nodes[&ids[switch.index()]].table;
            let mut table = ForwardingTable::up_to(Lid::NONE);
            for (lid, &out) in held.iter().enumerate() {
                table.set(Lid(lid as u16), PortNum(out));
            }
            table
        };
        let tables = topology.switches().map(table).collect();
        Self { live, addresses, tables, manager, wrong }
    }

    /// The first thing that is wrong: a link that is not up, an address that is not there, a route that does
    /// not arrive or is not on its tree though cables would let it, a credit loop.
    pub(crate) fn fault(&self, trees: Option<&Trees>) -> Option<String> {
        self.fault_but_as_told(trees, || Value::Null)
    }

    /// The same, where so many cables may be missing that the manager tells of it in what it says of the subnet:
    /// pairs of switches that no legal route joins, which are then exactly those without one, while no hosts
    /// are; or no trees, where what is left is no Clos.
    pub(crate) fn fault_but_as_told(
        &self,
        trees: Option<&Trees>,
        told: impl Fn() -> Value,
    ) -> Option<String> {
        if let Some(wrong) = self.wrong.first() {
            return Some(wrong.clone());
        }
        let Self { live, addresses, tables, .. } = self;
        let walked = walk(live, addresses, tables, MOST_LOST);
        if walked.looped + walked.host_routes_lost != 0 || walked.lost > MOST_LOST as u64 {
            return Some(walk(live, addresses, tables, 3).to_string());
        }
        if !walked.is_ok() {
            let pair = |lost: &LostRoute| (lost.from.clone(), self.switch_of(Lid(lost.dlid)));
            let lost: BTreeSet<_> = walked.failures.first.iter().map(pair).collect();
            let named = unreachable(&told());
            if let Some((from, to)) = lost.symmetric_difference(&named).next() {
                return Some(format!(
                    "{from} to {to}: of {} pairs, {} named",
                    lost.len(),
                    named.len()
                ));
            }
        }
        let credits = credit(live, addresses, tables, Traffic::All, |_, _| 0);
        if !credits.is_ok() {
            return Some(credits.to_string());
        }
        let strayed = trees.map(|trees| trees.check(live, addresses, tables))?;
        let routing = Routing::compute(live, Engine::Trees, None);
        let clos = routing.is_ok_and(|routing| !routing.forest.is_empty());
        (!strayed.is_ok() && (clos || told()["trees"] != 0)).then(|| strayed.to_string())
    }

    /// The switch that an address is at, or at whose port its host is.
    fn switch_of(&self, lid: Lid) -> String {
        let live = &self.live;
        let (port, _) = self.addresses.owner(lid).expect("an address that was walked to");
        let own = live.port(port).node;
        let at = if live.is_switch(own) { Some(own) } else { live.peer_node(port) };
        at.map_or_else(String::new, |node| live.node(node).name.to_string())
    }
}

/// Pairs of switches that an event names as without a route.
fn unreachable(event: &Value) -> BTreeSet<(String, String)> {
    let missing = event["missing"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pair = |text: &str| {
        let (from, to) = text.strip_prefix("no route from ")?.split_once(" to ")?;
        Some((from.to_owned(), to.to_owned()))
    };
    missing.filter_map(pair).collect()
}

/// As many routes of switches are lost at most where no hosts' are.
const MOST_LOST: usize = 10_000;

/// Which nodes cables lead to.
fn reach(topology: &Topology, from: NodeIndex) -> Vec<bool> {
    let mut reached = vec![false; topology.node_count()];
    reached[from.index()] = true;
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        for (_, peer) in topology.cables(node) {
            let peer = topology.port(peer).node;
            if !std::mem::replace(&mut reached[peer.index()], true) {
                next.push(peer);
            }
        }
    }
    reached
}

/// The trees of a whole fabric, and which of them each address of a host stands for.
pub(crate) struct Trees {
    list: Vec<CheckedTree>,
    stages: Stages,
    routing: Routing,
}

impl Trees {
    /// `None` where the fabric is no Clos.
    pub(crate) fn of(topology: &Topology, lmc: Option<Lmc>) -> Option<Self> {
        let routing = Routing::compute(topology, Engine::Trees, lmc).unwrap();
        let clos = routing.shape.as_ref().ok()?;
        let stages = match clos.stages() {
            2 => Stages::Two,
            _ => Stages::Three,
        };
        let trees = routing.forest.trees().iter();
        let checked = |tree: &RoutingTree| {
            let below = Some(clos.below(tree.root, tree.plane));
            CheckedTree { below, ..CheckedTree::new(tree.root, tree.plane) }
        };
        let list = trees.map(checked).collect();
        Some(Self { list, stages, routing })
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.list.iter().map(|tree| tree.root)
    }

    /// The tree behind an address; none behind aliases.
    pub(crate) fn tree(&self, addresses: &Addresses, lid: Lid) -> Option<usize> {
        self.tree_by(&self.settled(addresses), addresses, lid)
    }

    fn settled(&self, addresses: &Addresses) -> AddressPlan {
        let mut plan = self.routing.plan.clone();
        plan.settle(addresses);
        plan
    }

    fn tree_by(&self, plan: &AddressPlan, addresses: &Addresses, lid: Lid) -> Option<usize> {
        let (port, offset) = addresses.owner(lid)?;
        if plan.is_rotated() || self.list.len() < 2 {
            return Some(plan.tree(port, offset)?.index());
        }
        match offset.checked_sub(1) {
            Some(tree) => Some(usize::from(tree)).filter(|&tree| tree < self.list.len()),
            None => Some(plan.home(port)?.index()),
        }
    }

    pub(crate) fn check(
        &self,
        topology: &Topology,
        addresses: &Addresses,
        tables: &[ForwardingTable],
    ) -> TreeReport {
        let plan = self.settled(addresses);
        let of = |lid| self.tree_by(&plan, addresses, lid);
        trees(topology, addresses, tables, &self.list, self.stages, of, 3)
    }
}
