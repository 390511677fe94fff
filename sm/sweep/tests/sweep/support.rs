//! A sweep core joined to an emulated fabric in virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use snin_emulator::{ClientId, Config as Hardware, Emulator, Fault};
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::{credit, walk};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};
use snin_mad::{Attribute as _, Mad, Method, PERMISSIVE, PortInfo, PortState};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, FabricView, Groups, Job, Missing, Output, Report, Sweep};

pub(crate) struct Lab {
    pub(crate) topology: Topology,
    pub(crate) emulator: Emulator,
    pub(crate) client: ClientId,
    pub(crate) sweep: Sweep,
    pub(crate) saved: Arc<Saved>,
    /// The groups that were last said to be served.
    pub(crate) served: Arc<Groups>,
    /// Every view, with the SMPs sent and the writes done before it.
    pub(crate) views: Vec<(Arc<FabricView>, u64, u64)>,
    pub(crate) reports: Vec<Report>,
    /// Every MAD that came in, for those who want them.
    pub(crate) overheard: Option<Vec<Mad>>,
    /// Computations are done when the test says so.
    /// What ports with this number answer to writes of their PortInfo is lost.
    pub(crate) unconfirmed: Option<u32>,
    unconfirmed_ids: BTreeSet<u64>,
    pub(crate) keep_jobs: bool,
    /// How often tables were computed.
    pub(crate) computed: u64,
    jobs: VecDeque<Job>,
    sent: u64,
}

/// Runs `target` for as many seeds as the environment variable says, from `SNIN_SEED` on. A long run says how
/// far it is; one that fails, with which seed.
pub(crate) fn for_seeds(variable: &str, otherwise: u64, target: impl Fn(u64)) {
    struct Told(u64);
    impl Drop for Told {
        fn drop(&mut self) {
            if std::thread::panicking() {
                println!("failed with SNIN_SEED={}", self.0);
            }
        }
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (first, count) = (number("SNIN_SEED").unwrap_or(0), number(variable).unwrap_or(otherwise));
    for seed in first..first + count {
        let _told = Told(seed);
        target(seed);
        if (seed - first + 1) % 1_000 == 0 {
            println!("{variable}: seeds {first} to {seed} done");
        }
    }
}

pub(crate) fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

pub(crate) fn node(topology: &Topology, name: &str) -> NodeIndex {
    let named = |index: &NodeIndex| &*topology.node(*index).name == name;
    topology.nodes().find(named).unwrap_or_else(|| panic!("no node {name}"))
}

pub(crate) fn port(topology: &Topology, name: &str, num: u8) -> PortIndex {
    topology.port_of(node(topology, name), PortNum(num)).unwrap()
}

pub(crate) fn config(lmc: u8) -> Config {
    Config { lmc: Some(lmc), ..Config::default() }
}

impl Lab {
    pub(crate) fn new(recipe: &str, lmc: u8) -> Self {
        Self::of(fabric(recipe), Hardware::default(), config(lmc))
    }

    pub(crate) fn of(topology: Topology, hardware: Hardware, config: Config) -> Self {
        let emulator = Emulator::new(&topology, hardware);
        Self::on(emulator, topology, config, Saved::default())
    }

    /// The manager sits at the first cabled adapter.
    fn on(mut emulator: Emulator, topology: Topology, config: Config, saved: Saved) -> Self {
        let adapter = |index: &NodeIndex| topology.node(*index).kind == NodeKind::Adapter;
        let first = topology.nodes().filter(adapter).find_map(|n| topology.cables(n).next());
        let (home, _) = first.expect("a host");
        let client = emulator.attach(home).unwrap();
        let sweep = Sweep::new(config, saved.clone()).unwrap();
        let saved = Arc::new(saved);
        Self {
            topology,
            emulator,
            client,
            sweep,
            saved,
            served: Arc::default(),
            views: Vec::new(),
            reports: Vec::new(),
            overheard: None,
            unconfirmed: None,
            unconfirmed_ids: BTreeSet::new(),
            keep_jobs: false,
            computed: 0,
            jobs: VecDeque::new(),
            sent: 0,
        }
    }

    /// The manager sits at this port instead.
    pub(crate) fn move_to(&mut self, port: PortIndex) {
        self.emulator.detach(self.client);
        self.client = self.emulator.attach(port).unwrap();
    }

    /// Another manager after this one: same fabric, same place, nothing in its head but what was saved.
    pub(crate) fn restarted(self, config: Config) -> Self {
        let Self { mut emulator, client, topology, saved, .. } = self;
        emulator.detach(client);
        Self::on(emulator, topology, config, (*saved).clone())
    }

    pub(crate) fn port(&self, name: &str, num: u8) -> PortIndex {
        port(&self.topology, name, num)
    }

    pub(crate) fn node(&self, name: &str) -> NodeIndex {
        node(&self.topology, name)
    }

    /// As if this had been saved before the start.
    pub(crate) fn remember(&mut self, saved: &Saved) {
        let config = Config { lmc: saved.lmc.map(|lmc| lmc.bits()), ..Config::default() };
        self.sweep = Sweep::new(config, saved.clone()).unwrap();
    }

    pub(crate) fn now(&self) -> Time {
        self.emulator.now()
    }

    pub(crate) fn start(&mut self) {
        let now = self.now();
        self.sweep.handle(Event::Start, now);
        self.work();
    }

    /// Lets the fault strike now.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now();
        self.emulator.inject(fault, now);
    }

    /// Does what the core wants done, until it wants nothing.
    fn work(&mut self) {
        loop {
            while let Some(output) = self.sweep.poll_output() {
                let now = self.emulator.now();
                match output {
                    Output::Send { port, to, mad } => {
                        assert_eq!(port, LocalPort(0));
                        let to = match to {
                            Destination::Directed => PERMISSIVE,
                            Destination::Lid(lid) => lid,
                        };
                        self.sent += 1;
                        let header = mad.header();
                        let is_port = header.attribute() == PortInfo::ID;
                        let writes = header.method() == Method::Set && is_port;
                        if writes && self.unconfirmed == Some(header.modifier().0) {
                            self.unconfirmed_ids.insert(header.transaction_id().0);
                        }
                        self.emulator.send(self.client, &mad, to, now);
                    }
                    Output::Compute(job) if self.keep_jobs => self.jobs.push_back(*job),
                    Output::Compute(job) => {
                        self.computed += u64::from(job.computes_tables());
                        self.sweep.handle(Event::Computed(Box::new(job.run())), now);
                    }
                    Output::View(view) => {
                        self.views.push((view, self.sent, self.emulator.stats().writes));
                    }
                    Output::Served(groups) => self.served = groups,
                    Output::Save(saved) => self.saved = saved,
                    Output::Report(report) => self.reports.push(report),
                    // There is no judge of ports here.
                    Output::Answer { .. } | Output::TestLink { .. } => unreachable!(),
                }
            }
            let Some(received) = self.emulator.poll(self.client) else { return };
            if let Some(overheard) = &mut self.overheard {
                overheard.push(received.mad.clone());
            }
            if self.unconfirmed_ids.contains(&received.mad.header().transaction_id().0) {
                continue;
            }
            let (port, source) = (LocalPort(0), received.slid);
            let event = Event::Mad { port, source, bytes: &received.mad.0 };
            self.sweep.handle(event, received.at);
        }
    }

    /// Does one of the computations that were kept.
    pub(crate) fn compute_one(&mut self) {
        let now = self.now();
        if let Some(job) = self.jobs.pop_front() {
            self.sweep.handle(Event::Computed(Box::new(job.run())), now);
        }
    }

    pub(crate) fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Runs until then.
    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            self.work();
            let next =
                self.emulator.next_event_time().into_iter().chain(self.sweep.next_deadline());
            let Some(next) = next.min().filter(|&next| next <= until) else { break };
            self.emulator.advance(next);
            self.work();
            if self.sweep.next_deadline().is_some_and(|deadline| deadline <= self.now()) {
                let now = self.now();
                self.sweep.handle_deadline(now);
            }
        }
        self.emulator.advance(until);
    }

    pub(crate) fn run(&mut self, time: Time) {
        let until = self.now() + time;
        self.run_until(until);
    }

    /// Runs until the core has nothing to do; how long that took.
    #[track_caller]
    pub(crate) fn settle(&mut self) -> Time {
        let begin = self.now();
        for _ in 0..20_000 {
            self.work();
            if self.sweep.is_idle() {
                return self.now() - begin;
            }
            self.run(Time::millis(1));
        }
        panic!("not settled after {}: {:?}", self.now() - begin, self.sweep.metrics());
    }

    /// Something happens, a second later what follows from it is done; then the next.
    #[track_caller]
    pub(crate) fn strike_and_settle(&mut self, faults: &[Fault]) {
        for fault in faults {
            self.strike(fault.clone());
            self.run(Time::secs(1));
            self.settle();
        }
    }

    /// Starts and waits until the fabric is up.
    #[track_caller]
    pub(crate) fn bring_up(&mut self) -> Time {
        self.start();
        self.settle()
    }

    pub(crate) fn view(&self) -> &FabricView {
        self.sweep.view().expect("a view")
    }

    pub(crate) fn smps(&self) -> u64 {
        self.sweep.metrics().smps()
    }

    pub(crate) fn missing(&self) -> Vec<Missing> {
        self.sweep.missing()
    }

    /// Everything that is connected works: links active, every address where the view says, every route
    /// arrives, nothing can deadlock.
    #[track_caller]
    pub(crate) fn check(&self) {
        let fabric = self.emulator.fabric();
        let live = fabric.live_topology();
        for port in live.ports().filter(|&port| live.peer(port).is_some()) {
            let name = live.port_name(port);
            assert_eq!(fabric.port_state(port), PortState::Active, "{name}");
        }
        self.check_tables(&live);
        self.check_held();
    }

    /// Whether every switch but one holds the table that the view says.
    pub(crate) fn is_written(&self, but: Option<&str>) -> bool {
        let theirs = self.view().topology();
        let guid = |node: NodeIndex| theirs.node(node).guid;
        let named = |node: NodeIndex| Some(&*theirs.node(node).name) == but;
        theirs.switches().filter(|&switch| !named(switch)).all(|switch| {
            let own =
                self.topology.switches().find(|&n| self.topology.node(n).guid == guid(switch));
            let held = own.map(|own| self.emulator.fabric().table(own));
            held.is_some_and(|t| t.iter().eq(self.view().routing().tables[switch.index()].iter()))
        })
    }

    /// Tables and addresses are what the view says.
    #[track_caller]
    pub(crate) fn check_held(&self) {
        let (fabric, view) = (self.emulator.fabric(), self.view());
        let nodes = self.topology.nodes();
        let by_guid: BTreeMap<Guid, NodeIndex> =
            nodes.map(|n| (self.topology.node(n).guid, n)).collect();
        let theirs = view.topology();
        let node = |node: NodeIndex| by_guid[&theirs.node(node).guid];
        for switch in theirs.switches() {
            let held = fabric.table(node(switch));
            let wanted = &view.routing().tables[switch.index()];
            let name = &theirs.node(switch).name;
            assert!(held.iter().eq(wanted.iter()), "{name} holds another table");
        }
        for (port, base, lmc) in view.addresses().iter() {
            let home = node(theirs.port(port).node);
            let end = self.topology.port_of(home, theirs.num(port)).expect("the port");
            let info = fabric.port_info(end);
            assert_eq!((info.lid, info.lmc), (base, lmc), "{}", theirs.port_name(port));
            assert_eq!(info.master_sm_lid, view.manager());
        }
    }

    /// Tables alone, over the cables that are up now.
    #[track_caller]
    pub(crate) fn check_tables(&self, live: &Topology) {
        let fabric = self.emulator.fabric();
        let addresses = fabric.addresses().unwrap();
        let tables = fabric.tables();
        let walked = walk(live, &addresses, &tables, 5);
        assert_eq!(walked.looped, 0, "{walked}");
        // So many cables may be missing that no legal route is left; then that is said by name.
        let excused = !self.view().routing().unreachable.is_empty();
        assert!(walked.is_ok() || excused, "{walked}");
        let credits = credit(live, &addresses, &tables, Traffic::All, |_, _| 0);
        assert!(credits.is_ok(), "{credits}");
    }

    /// Has every state of the tables from now on checked for loops, over the cables that are up then. The
    /// number of states checked.
    pub(crate) fn watch(&mut self) -> Rc<RefCell<u64>> {
        let checked = Rc::new(RefCell::new(0));
        let count = checked.clone();
        self.emulator.watch(move |fabric, write| {
            if ![0x12, 0x19].contains(&write.attribute.0) {
                return;
            }
            let Ok(addresses) = fabric.addresses() else { return };
            let (live, tables) = (fabric.live_topology(), fabric.tables());
            let walked = walk(&live, &addresses, &tables, 5);
            assert_eq!(walked.looped, 0, "{walked}");
            let credits = credit(&live, &addresses, &tables, Traffic::All, |_, _| 0);
            assert!(credits.is_ok(), "{credits}");
            *count.borrow_mut() += 1;
        });
        checked
    }
}
