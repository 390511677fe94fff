//! Managers at ports of an emulated fabric, each a process that can be stopped, continued and killed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_emulator::{ClientId, Config as Hardware, Emulator, Fault};
use snin_fabric::check::walk::walk;
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeIndex, PortIndex, PortNum, Topology};
use snin_mad::{Attribute, AttributeId, Method, PERMISSIVE, PortInfo, PortState, SmInfo, SmState};
use snin_mastership::Report as MastershipReport;
use snin_mastership::cluster::ClusterEvent;
use snin_mastership::mirror::{Link, MirrorEvent, MirrorOutput};
use snin_protocol::Time;
use snin_sm_core::{Event, Manager, Output, Report};
use snin_sm_database::config::Config;
use snin_sm_database::keys::{KeyPolicy, KeySecret};
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::records::KeptRecord;
use snin_sm_database::saved::Saved;
use snin_sweep::Missing;
use snin_sweep::Report as SweepReport;

#[path = "carried.rs"]
mod carried;
#[path = "foreigner.rs"]
mod foreigner;

pub(crate) use carried::reaches;
pub(crate) use foreigner::Foreign;

use crate::store::Store;

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

/// A write that a manager sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) at: Time,
    /// By which manager.
    pub(crate) by: usize,
}

/// A manager and its port.
pub(crate) struct Seat {
    pub(crate) at: PortIndex,
    pub(crate) client: ClientId,
    /// Its further ports.
    pub(crate) more: Vec<ClientId>,
    pub(crate) manager: Manager,
    pub(crate) saved: Saved,
    /// What was to be kept, in order.
    pub(crate) kept: Vec<KeptRecord>,
    /// As a stopped process: what comes in waits, and no time passes.
    pub(crate) stopped: bool,
    /// How long its clock stood still too.
    behind: Time,
    /// Killed: no manager is there, though the port says so still.
    pub(crate) dead: bool,
    pub(crate) reports: Vec<Report>,
    /// What it has sent, by attribute and method, and what it had when every port knew that it is master.
    pub(crate) sent: Sent,
    pub(crate) sent_before: Option<Sent>,
    /// Where its directed SMPs went: by which local port, and by which ports from there.
    pub(crate) routes: BTreeSet<(LocalPort, Vec<u8>)>,
}

impl Seat {
    /// What its clock says.
    fn clock(&self, now: Time) -> Time {
        now - self.behind
    }

    fn client_at(&self, port: LocalPort) -> ClientId {
        match port.0 {
            0 => self.client,
            more => self.more[more as usize - 1],
        }
    }
}

/// Numbers of SMPs by attribute and method.
pub(crate) type Sent = BTreeMap<(AttributeId, Method), usize>;

pub(crate) struct Subnet {
    pub(crate) topology: Topology,
    pub(crate) emulator: Emulator,
    pub(crate) seats: Vec<Seat>,
    pub(crate) foreign: Option<Foreign>,
    pub(crate) written: Vec<Written>,
    /// What is said in sessions between managers, and to whom.
    pub(crate) said: VecDeque<(usize, MirrorEvent)>,
    /// A cluster's service, and the ports of its members: a manager is answered that reaches most of them.
    pub(crate) store: Option<(Store, Vec<PortIndex>)>,
}

/// The link of a session in which this seat called.
const CALLS: u64 = 1_000;

impl Subnet {
    pub(crate) fn new(recipe: &str) -> Self {
        Self::on(fabric(recipe), Hardware::default())
    }

    pub(crate) fn on(topology: Topology, hardware: Hardware) -> Self {
        let emulator = Emulator::new(&topology, hardware);
        let (seats, written, said) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { topology, emulator, seats, foreign: None, written, said, store: None }
    }

    /// Seats a manager at a host's first port; it has not begun yet.
    pub(crate) fn seat(&mut self, host: &str, config: Config) -> usize {
        let at = port(&self.topology, host, 1);
        self.seat_at(&[at], config)
    }

    /// Seats a manager at several ports.
    pub(crate) fn seat_at(&mut self, ports: &[PortIndex], config: Config) -> usize {
        let at = ports[0];
        let mut clients = ports.iter().map(|&port| self.emulator.attach(port).unwrap());
        let (client, more) = (clients.next().unwrap(), clients.collect());
        let config = Config { ports: ports.len() as u8, ..config };
        // As the driver makes it: each machine's own.
        let secret = [self.seats.len() as u8 + 1; 32];
        let generated = config.m_key_policy != KeyPolicy::Given;
        let keys = generated.then_some(KeySecret { secret, generation: 0 });
        let saved = Saved { keys, ..Saved::default() };
        let manager = Manager::new(config, saved.clone(), []).unwrap();
        let reports = Vec::new();
        let (stopped, dead) = (true, false);
        let kept = Vec::new();
        let (sent, sent_before) = (Sent::new(), None);
        let routes = BTreeSet::new();
        let seat = Seat {
            at,
            client,
            more,
            manager,
            saved,
            kept,
            stopped,
            behind: Time::ZERO,
            dead,
            reports,
            sent,
            sent_before,
            routes,
        };
        self.seats.push(seat);
        self.seats.len() - 1
    }

    pub(crate) fn guid(&self, n: usize) -> Guid {
        self.topology.port(self.seats[n].at).guid
    }

    pub(crate) fn start(&mut self, n: usize) {
        let seat = &mut self.seats[n];
        seat.stopped = false;
        self.emulator.set_manager(seat.client, true);
        seat.manager.handle(Event::Start, seat.clock(self.emulator.now()));
    }

    /// Runs for so long while a manager and its clock stand still.
    pub(crate) fn freeze(&mut self, n: usize, time: Time) {
        self.stop(n, true);
        self.run(time);
        self.seats[n].behind += time;
        self.stop(n, false);
    }

    pub(crate) fn stop(&mut self, n: usize, stopped: bool) {
        self.seats[n].stopped = stopped;
    }

    /// One manager has a session with another, which it called.
    pub(crate) fn call(&mut self, from: usize, to: usize) {
        self.said.push_back((from, MirrorEvent::Answered(Link(to as u64))));
        self.said.push_back((to, MirrorEvent::Called(Link(CALLS + from as u64))));
    }

    /// The session is over.
    pub(crate) fn hang_up(&mut self, from: usize, to: usize) {
        self.said.push_back((from, MirrorEvent::Closed(Link(to as u64))));
        self.said.push_back((to, MirrorEvent::Closed(Link(CALLS + from as u64))));
    }

    /// What was said arrives at once; who stands still does not hear it.
    fn deliver(&mut self) -> bool {
        let (now, mut some) = (self.emulator.now(), false);
        for _ in 0..self.said.len() {
            let Some((to, event)) = self.said.pop_front() else { break };
            match &mut self.seats[to] {
                seat if seat.dead => {}
                seat if seat.stopped => self.said.push_back((to, event)),
                seat => {
                    some = true;
                    seat.manager.handle(Event::Mirror(Box::new(event)), seat.clock(now));
                }
            }
        }
        some
    }

    /// Where one was killed another begins, with nothing in its head, and with or without the disk.
    pub(crate) fn revive(&mut self, n: usize, config: Config, disk: bool) {
        self.emulator.detach(self.seats[n].client);
        let seat = &mut self.seats[n];
        seat.client = self.emulator.attach(seat.at).unwrap();
        if !disk {
            (seat.saved, seat.kept) = Default::default();
        }
        seat.manager = Manager::new(config, seat.saved.clone(), seat.kept.clone()).unwrap();
        (seat.dead, seat.reports) = (false, Vec::new());
        self.start(n);
    }

    /// Kills it: its port says still that a manager sits there.
    pub(crate) fn kill(&mut self, n: usize) {
        for other in (0..self.seats.len()).filter(|&other| other != n) {
            self.hang_up(other, n);
            self.hang_up(n, other);
        }
        (self.seats[n].dead, self.seats[n].stopped) = (true, true);
    }

    pub(crate) fn now(&self) -> Time {
        self.emulator.now()
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        let now = self.now();
        self.emulator.inject(fault, now);
    }

    fn work(&mut self) {
        self.answer_for_the_foreign();
        let emulator = &mut self.emulator;
        let running = self.seats.iter_mut().enumerate().filter(|(_, seat)| !seat.stopped);
        for (by, seat) in running {
            loop {
                // Requests of this turn that are no heartbeats.
                let mut others = Vec::new();
                while let Some(output) = seat.manager.poll_output() {
                    let now = emulator.now();
                    match output {
                        Output::Send { port, to, mad } => {
                            let to = match to {
                                Destination::Directed => PERMISSIVE,
                                Destination::Lid(lid) => lid,
                            };
                            let header = mad.header();
                            let kind = (header.attribute(), header.method());
                            *seat.sent.entry(kind).or_insert(0) += 1;
                            if !header.method().is_response() {
                                // A survey asks for SMInfo too, and says nothing of its own manager.
                                let said = mad.attribute::<SmInfo>().ok();
                                let is_heartbeat = header.attribute() == SmInfo::ID
                                    && said.is_some_and(|said| said.guid != Guid(0));
                                assert!(
                                    !is_heartbeat || others.is_empty(),
                                    "a heartbeat waits: {by} at {now}, behind {others:?}"
                                );
                                // The own port is mastership's question too, and the trap its claim.
                                let is_own = header.method() == Method::Trap
                                    || header.attribute() == PortInfo::ID
                                        && mad.directed().hop_count() == 0;
                                others.extend((!is_heartbeat && !is_own).then_some(kind));
                            }
                            if to == PERMISSIVE && !header.method().is_response() {
                                let smp = mad.directed();
                                let hops = usize::from(smp.hop_count());
                                let path = smp.initial_path().0[1..=hops].to_vec();
                                seat.routes.insert((port, path));
                            }
                            if header.method() == Method::Set && header.attribute() != SmInfo::ID {
                                self.written.push(Written { at: now, by });
                            }
                            emulator.send(seat.client_at(port), &mad, to, now);
                        }
                        Output::Sit(port) => {
                            let all = [&[seat.client][..], &seat.more].concat();
                            for (n, &client) in all.iter().enumerate() {
                                emulator.set_manager(client, n == port.0 as usize);
                            }
                        }
                        Output::Compute(job) => {
                            let computed = Event::Computed(Box::new(job.run()));
                            seat.manager.handle(computed, seat.clock(now));
                        }
                        Output::Save(saved) => seat.saved = (*saved).clone(),
                        Output::Keep(kept) => seat.kept.extend(kept),
                        Output::Cluster(ask) => {
                            let Some((store, members)) = &mut self.store else { continue };
                            let near = |to: &&PortIndex| {
                                reaches(emulator.fabric(), &self.topology, seat.at, **to)
                            };
                            if members.iter().filter(near).count() * 2 > members.len() {
                                let (number, answer) = store.answer(ask, now);
                                let answered = ClusterEvent::Answered(number, answer);
                                let answered = Event::Cluster(Box::new(answered));
                                seat.manager.handle(answered, seat.clock(now));
                            }
                        }
                        Output::Report(report) => {
                            if matches!(report, Report::Sweep(SweepReport::TookOver { .. })) {
                                seat.sent_before = Some(seat.sent.clone());
                            }
                            seat.reports.push(report);
                        }
                        Output::Mirror(MirrorOutput::ToMaster(Link(to), said)) => {
                            let link = Link(CALLS + by as u64);
                            self.said.push_back((to as usize, MirrorEvent::Asked(link, said)));
                        }
                        Output::Mirror(MirrorOutput::ToStandby(Link(to), said)) => {
                            let (to, link) = ((to - CALLS) as usize, Link(by as u64));
                            self.said.push_back((to, MirrorEvent::Heard(link, said)));
                        }
                        _ => {}
                    }
                }
                let ports = (0..=seat.more.len() as u32).map(LocalPort);
                let polled = |port| Some((port, emulator.poll(seat.client_at(port))?));
                let Some((port, received)) = ports.into_iter().find_map(polled) else { break };
                let source = received.slid;
                let event = Event::Mad { port, source, bytes: &received.mad.0 };
                seat.manager.handle(event, seat.clock(emulator.now()));
            }
        }
    }

    pub(crate) fn run_until(&mut self, until: Time) {
        loop {
            self.work();
            while self.deliver() {
                self.work();
            }
            self.answer_for_the_foreign();
            let running = self.seats.iter().filter(|seat| !seat.stopped);
            let due = running
                .filter_map(|seat| seat.manager.next_deadline().map(|due| due + seat.behind));
            let next = self.emulator.next_event_time().into_iter().chain(due).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.emulator.advance(next);
            self.work();
            let now = self.emulator.now();
            for seat in self.seats.iter_mut().filter(|seat| !seat.stopped) {
                let clock = seat.clock(now);
                if seat.manager.next_deadline().is_some_and(|due| due <= clock) {
                    seat.manager.handle_deadline(clock);
                }
            }
        }
        self.emulator.advance(until);
    }

    pub(crate) fn run(&mut self, time: Time) {
        let until = self.now() + time;
        self.run_until(until);
    }

    pub(crate) fn states(&self) -> Vec<SmState> {
        self.seats.iter().map(|seat| seat.manager.state()).collect()
    }

    /// The states that a manager was in since this was last asked.
    pub(crate) fn told(&mut self, n: usize) -> Vec<SmState> {
        let state = |report: Report| match report {
            Report::Mastership(MastershipReport::State(state)) => Some(state),
            _ => None,
        };
        std::mem::take(&mut self.seats[n].reports).into_iter().filter_map(state).collect()
    }

    /// One is master and every other one that runs stands by, every route arrives, and every port that can be
    /// reached has its address and the master's.
    #[track_caller]
    pub(crate) fn check(&self, master: usize) {
        self.check_but(master, &[]);
    }

    /// The same where something is missing.
    #[track_caller]
    pub(crate) fn check_but(&self, master: usize, missing: &[Missing]) {
        for (n, seat) in self.seats.iter().enumerate().filter(|(_, seat)| !seat.stopped) {
            let expected = if n == master { SmState::Master } else { SmState::Standby };
            let (state, why) = (seat.manager.state(), seat.manager.why());
            assert_eq!(state, expected, "manager {n} at {}: {why}", self.now());
        }
        let manager = &self.seats[master].manager;
        assert_eq!(manager.missing(), missing);
        let (fabric, view) = (self.emulator.fabric(), manager.view().unwrap());
        let live = fabric.live_topology();
        let walked = walk(&live, &fabric.addresses().unwrap(), &fabric.tables(), 5);
        assert!(walked.is_ok(), "{walked}");
        for port in self.topology.ports() {
            let info = fabric.port_info(port);
            let unaddressed = info.lid == Lid::NONE || info.state == PortState::Down;
            assert!(unaddressed || info.master_sm_lid == view.manager(), "{info:?}");
        }
    }

    /// Writes from a time on, by who made them.
    pub(crate) fn writes_by(&self, n: usize, since: Time) -> usize {
        self.written.iter().filter(|write| write.by == n && write.at >= since).count()
    }
}

pub(crate) fn config(priority: u8) -> Config {
    Config { lmc: Some(1), priority, seed: u64::from(priority) << 20, ..Config::default() }
}
