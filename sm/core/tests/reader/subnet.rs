//! Two managers on an emulated fabric in virtual time: one keeps the subnet, the other only reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_emulator::{ClientId, Config as Hardware, Emulator, Fault};
use snin_fabric::generate::Recipe;
use snin_fabric::{Lid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_mad::{
    Attribute as _, Class, LinearForwarding, Mad, Method, PERMISSIVE, PKey, Route, Smp,
};
use snin_protocol::Time;
use snin_sm_core::{Core, Event, Output, Report};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort, Origin};
use snin_sm_database::saved::Saved;
use snin_sweep::{FabricView, Report as SweepReport};

pub(crate) struct Side {
    pub(crate) core: Core,
    client: ClientId,
    /// SMPs by method, and when each was sent.
    pub(crate) smps: BTreeMap<u8, Vec<Time>>,
    /// MADs of subnet administration by method.
    pub(crate) administration: BTreeMap<u8, u64>,
    /// What was published, and when.
    pub(crate) views: Vec<(Time, Arc<FabricView>)>,
    missing: Vec<String>,
    pub(crate) reports: Vec<Report>,
    /// Computations are left undone.
    holds: bool,
}

pub(crate) struct Subnet {
    pub(crate) topology: Topology,
    pub(crate) emulator: Emulator,
    pub(crate) kept: Side,
    pub(crate) reader: Side,
}

impl Side {
    fn at(emulator: &mut Emulator, port: PortIndex, config: Config) -> Self {
        Self {
            core: Core::new(config, Saved::default(), []).unwrap(),
            client: emulator.attach(port).unwrap(),
            smps: BTreeMap::new(),
            administration: BTreeMap::new(),
            views: Vec::new(),
            missing: Vec::new(),
            reports: Vec::new(),
            holds: false,
        }
    }

    fn perform(&mut self, emulator: &mut Emulator) {
        while let Some(output) = self.core.poll_output() {
            let now = emulator.now();
            match output {
                Output::Send { to, mad, .. } => {
                    let to = match to {
                        Destination::Directed => PERMISSIVE,
                        Destination::Lid(lid) => lid,
                    };
                    let method = mad.header().method();
                    self.smps.entry(method.code()).or_default().push(now);
                    emulator.send(self.client, &mad, to, now);
                }
                Output::Answer { to, mad, .. } => {
                    let method = mad.header().method();
                    *self.administration.entry(method.code()).or_default() += 1;
                    emulator.send(self.client, &mad, to.lid, now);
                }
                Output::Compute(_) if self.holds => {}
                Output::Compute(job) => {
                    self.core.handle(Event::Computed(Box::new(job.run())), now);
                }
                Output::View(view) => self.views.push((now, view)),
                Output::Report(report) => {
                    if let Report::Sweep(SweepReport::Ready { missing, .. }) = &report {
                        self.missing = missing.iter().map(ToString::to_string).collect();
                    }
                    self.reports.push(report);
                }
                _ => {}
            }
        }
    }

    /// Whether anything came in.
    fn take(&mut self, emulator: &mut Emulator) -> bool {
        let Some(received) = emulator.poll(self.client) else { return false };
        let (port, source, mad) = (LocalPort(0), received.slid, &received.mad);
        let event = match mad.header().class() {
            Class::Administration => {
                let from = Origin { lid: source, qp: 1, sl: 0, p_key: PKey::DEFAULT };
                Event::General { port, from, bytes: &mad.0 }
            }
            _ => Event::Mad { port, source, bytes: &mad.0 },
        };
        self.core.handle(event, received.at);
        true
    }

    /// What is missing, and why nothing was read.
    pub(crate) fn named(&self) -> Vec<String> {
        let unread = |report: &Report| match report {
            Report::Sweep(SweepReport::Unread(why)) => Some(why.clone()),
            _ => None,
        };
        self.missing.iter().cloned().chain(self.reports.iter().filter_map(unread)).collect()
    }

    pub(crate) fn sent(&self, method: Method) -> usize {
        self.smps.get(&method.code()).map_or(0, Vec::len)
    }

    /// What may be granted by the view that is in force: nothing while it is paused.
    pub(crate) fn is_paused(&self) -> bool {
        let view = &self.views.last().expect("a view").1;
        let leaves = view.routing().shape.as_ref().map_or(0, |clos| clos.leaves.len());
        view.unusable().len() >= leaves * view.routing().forest.len()
    }
}

impl Subnet {
    /// The subnet is up; the reader has not begun.
    pub(crate) fn new(recipe: &str, kept: Config, reader: Config) -> Self {
        Self::with_time(recipe, kept, reader, Time::secs(2))
    }

    /// The same, where the kept manager has so long.
    pub(crate) fn with_time(recipe: &str, kept: Config, reader: Config, time: Time) -> Self {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let mut emulator = Emulator::new(&topology, Hardware::default());
        let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
        let hosts: Vec<PortIndex> =
            adapters.filter_map(|node| Some(topology.cables(node).next()?.0)).collect();
        let kept = Side::at(&mut emulator, hosts[0], kept);
        let reader = Config { read_only: true, ..reader };
        let reader = Side::at(&mut emulator, hosts[hosts.len() - 1], reader);
        let mut subnet = Self { topology, emulator, kept, reader };
        let now = subnet.emulator.now();
        subnet.kept.core.handle(Event::Start, now);
        subnet.run(time);
        assert!(subnet.kept.core.is_idle() && subnet.kept.core.view().is_some());
        subnet
    }

    pub(crate) fn begin(&mut self) {
        let now = self.emulator.now();
        self.reader.core.handle(Event::Start, now);
    }

    /// What the kept manager wants computed from now on is not: its tables stay as they are.
    pub(crate) fn freeze(&mut self) {
        self.kept.holds = true;
    }

    /// A MAD that somebody sends to the reader.
    pub(crate) fn tell(&mut self, from: Lid, mad: &Mad) {
        let from = Origin { lid: from, qp: 1, sl: 0, p_key: PKey::DEFAULT };
        let event = Event::General { port: LocalPort(0), from, bytes: &mad.0 };
        let now = self.emulator.now();
        self.reader.core.handle(event, now);
    }

    fn work(&mut self) {
        loop {
            let Self { emulator, kept, reader, .. } = self;
            kept.perform(emulator);
            reader.perform(emulator);
            if !kept.take(emulator) && !reader.take(emulator) {
                return;
            }
        }
    }

    pub(crate) fn run(&mut self, time: Time) {
        let until = self.emulator.now() + time;
        loop {
            self.work();
            let deadlines = [&self.kept, &self.reader].map(|side| side.core.next_deadline());
            let due = deadlines.into_iter().flatten().chain(self.emulator.next_event_time()).min();
            let Some(due) = due.filter(|&due| due <= until) else { break };
            self.emulator.advance(due);
            self.work();
            for side in [&mut self.kept, &mut self.reader] {
                if side.core.next_deadline().is_some_and(|at| at <= due) {
                    side.core.handle_deadline(due);
                }
            }
        }
        self.emulator.advance(until);
    }

    pub(crate) fn port(&self, name: &str, num: u8) -> PortIndex {
        let named = |node: &_| &*self.topology.node(*node).name == name;
        let node = self.topology.nodes().find(named).unwrap_or_else(|| panic!("no node {name}"));
        self.topology.port_of(node, PortNum(num)).unwrap()
    }

    /// One entry of a table is written, by the port at which the kept manager sits.
    pub(crate) fn write_entry(&mut self, switch: NodeIndex, lid: Lid, out: PortNum) {
        let fabric = self.emulator.fabric();
        let own = self.topology.port_of(switch, PortNum::ZERO).unwrap();
        let to = fabric.port_info(own).lid;
        let (table, block) = (fabric.table(switch), lid.0 / 64);
        let mut ports = [PortNum::NONE; 64];
        for (entry, port) in (block * 64..).zip(&mut ports) {
            *port = if entry == lid.0 { out } else { table.get(Lid(entry)) };
        }
        let smp = Smp::set(LinearForwarding::ID, block.into(), Route::Lid);
        let mad = smp.mad().with(&LinearForwarding { ports });
        let now = self.emulator.now();
        self.emulator.send(self.kept.client, &mad, to, now);
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.emulator.now();
        self.emulator.inject(fault, now);
    }
}
