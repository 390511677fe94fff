//! Two of our managers in one subnet, one of which stands still for a while; and one that is not ours.

use snin_emulator::{ClientId, Config as Hardware, Emulator};
use snin_fabric::check::walk::walk;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lid, Lmc, Topology};
use snin_mad::{PERMISSIVE, SmInfo, SmState};
use snin_protocol::Time;
use snin_sm_core::{Config, Destination, Event, LocalPort, Missing, Output, Report, Saved, Sweep};

use crate::lab::{Lab, config, fabric, port};

struct Manager {
    client: ClientId,
    sweep: Sweep,
    stopped: bool,
}

struct Two {
    topology: Topology,
    emulator: Emulator,
    managers: Vec<Manager>,
}

impl Two {
    /// Nobody has begun yet. The first has priority 5, the second 1.
    fn new() -> Self {
        let topology = fabric("clos:6,3,4");
        let mut emulator = Emulator::new(&topology, Hardware::default());
        let managers = [("host0", 5), ("host13", 1)].map(|(host, priority)| {
            let client = emulator.attach(port(&topology, host, 1)).unwrap();
            let config = Config { priority, ..config(1) };
            Manager { client, sweep: Sweep::new(config, Saved::default()).unwrap(), stopped: true }
        });
        Self { topology, emulator, managers: managers.into() }
    }

    fn start(&mut self, n: usize) {
        let manager = &mut self.managers[n];
        manager.stopped = false;
        self.emulator.set_manager(manager.client, true);
        manager.sweep.handle(Event::Start, self.emulator.now());
    }

    /// As a stopped process: what comes in waits, and no time passes.
    fn stop(&mut self, n: usize, stopped: bool) {
        self.managers[n].stopped = stopped;
    }

    fn work(&mut self) {
        let emulator = &mut self.emulator;
        for manager in self.managers.iter_mut().filter(|manager| !manager.stopped) {
            loop {
                while let Some(output) = manager.sweep.poll_output() {
                    let now = emulator.now();
                    match output {
                        Output::Send { to, mad, .. } => {
                            let to = match to {
                                Destination::Directed => PERMISSIVE,
                                Destination::Lid(lid) => lid,
                            };
                            emulator.send(manager.client, &mad, to, now);
                        }
                        Output::Compute(job) => {
                            manager.sweep.handle(Event::Computed(Box::new(job.run())), now);
                        }
                        _ => {}
                    }
                }
                let Some(received) = emulator.poll(manager.client) else { break };
                let (port, source) = (LocalPort(0), received.slid);
                let event = Event::Mad { port, source, bytes: &received.mad.0 };
                manager.sweep.handle(event, emulator.now());
            }
        }
    }

    fn run(&mut self, time: Time) {
        let until = self.emulator.now() + time;
        loop {
            self.work();
            let running = self.managers.iter().filter(|manager| !manager.stopped);
            let due = running.filter_map(|manager| manager.sweep.next_deadline());
            let next = self.emulator.next_event_time().into_iter().chain(due).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.emulator.advance(next);
            self.work();
            let now = self.emulator.now();
            for manager in self.managers.iter_mut().filter(|manager| !manager.stopped) {
                if manager.sweep.next_deadline().is_some_and(|due| due <= now) {
                    manager.sweep.handle_deadline(now);
                }
            }
        }
        self.emulator.advance(until);
    }

    fn states(&self) -> [SmState; 2] {
        [0, 1].map(|n| self.managers[n].sweep.state())
    }

    /// One is master, every route arrives, and every port has its address.
    #[track_caller]
    fn check(&self, master: usize) {
        let mut expected = [SmState::Standby; 2];
        expected[master] = SmState::Master;
        assert_eq!(self.states(), expected);
        let sweep = &self.managers[master].sweep;
        assert_eq!(sweep.missing(), []);
        let (fabric, view) = (self.emulator.fabric(), sweep.view().unwrap());
        let walked = walk(&self.topology, &fabric.addresses().unwrap(), &fabric.tables(), 5);
        assert!(walked.is_ok(), "{walked}");
        for port in self.topology.ports() {
            let info = fabric.port_info(port);
            let master = view.manager();
            assert!(info.lid == Lid::NONE || info.master_sm_lid == master, "{info:?}");
        }
    }
}

#[test]
fn a_senior_that_stood_still_is_the_only_master_again() {
    let mut two = Two::new();
    two.start(0);
    two.run(Time::secs(1));
    two.start(1);
    two.run(Time::secs(3));
    two.check(0);
    assert_eq!(two.managers[1].sweep.metrics().sets(), 0);
    for still in [2, 10, 13, 60] {
        two.stop(0, true);
        two.run(Time::secs(still));
        assert_eq!(two.states()[1] == SmState::Master, still > 5, "after {still} s");
        two.stop(0, false);
        two.run(Time::secs(5));
        two.check(0);
    }
}

#[test]
fn a_junior_that_stood_still_yields() {
    let mut two = Two::new();
    two.start(1);
    two.run(Time::secs(1));
    two.start(0);
    two.run(Time::secs(3));
    two.check(1);
    two.stop(1, true);
    two.run(Time::secs(13));
    assert_eq!(two.states()[0], SmState::Master);
    two.stop(1, false);
    two.run(Time::secs(5));
    two.check(0);
}

/// A standby asks the master whether it is there, and nothing else of anybody.
#[test]
fn a_standby_polls_and_sweeps_nothing() {
    let mut two = Two::new();
    two.start(0);
    two.run(Time::secs(1));
    two.start(1);
    two.run(Time::secs(1));
    let before = two.managers[1].sweep.metrics().smps();
    let swept = two.managers[1].sweep.metrics().full_sweeps;
    two.run(Time::secs(30));
    let metrics = two.managers[1].sweep.metrics();
    // As many questions, and as many answers to the master's own.
    assert!((50..=62).contains(&(metrics.smps() - before)), "{}", metrics.smps() - before);
    assert_eq!((metrics.full_sweeps, metrics.light_sweeps), (swept, 0));
}

#[test]
fn two_that_begin_at_once_end_as_one_master() {
    let mut two = Two::new();
    two.start(0);
    two.start(1);
    two.run(Time::secs(12));
    two.check(0);
}

#[test]
fn what_another_manager_overwrites_is_noticed_and_put_right() {
    let topology = fabric("clos:5,3,3");
    let other = Routing::compute(&topology, Engine::MinHop, Some(Lmc::ZERO)).unwrap();
    let mut lab = Lab::of(topology, Hardware::default(), config(1));
    lab.bring_up();
    lab.run(Time::secs(25));
    lab.settle();
    assert_eq!(lab.sweep.metrics().overwritten, 0);
    // It is gone before anybody could ask it.
    lab.emulator.configure(other.plan.addresses(), &other.tables, Lid(9));
    lab.run(Time::secs(11));
    lab.settle();
    lab.check();
    assert!(lab.reports.iter().any(|report| matches!(report, Report::Overwritten { .. })));
    // One block of one table, however far up.
    let (mut tables, addresses) =
        (lab.emulator.fabric().tables(), lab.emulator.fabric().addresses().unwrap());
    let manager = lab.view().manager();
    let leaf = lab.node("leaf3").index();
    let top = addresses.top();
    tables[leaf].set(top, snin_fabric::PortNum(1));
    lab.emulator.configure(&addresses, &tables, manager);
    lab.run(Time::secs(40));
    lab.settle();
    lab.check();
}

fn info(state: SmState, sm_key: u64) -> SmInfo {
    let sm_key = snin_mad::SmKey(sm_key);
    SmInfo { guid: snin_fabric::Guid(7), sm_key, priority: 15, state, ..SmInfo::default() }
}

#[test]
fn one_unanswered_question_makes_no_manager_forgotten() {
    let mut lab = Lab::new("clos:4,2,4", 0);
    let place = lab.port("host5", 1);
    lab.appoint(place, info(SmState::Master, 1));
    lab.bring_up();
    assert_eq!(lab.sweep.state(), SmState::Standby);
    lab.reports.clear();
    let (client, info) = lab.other.take().unwrap();
    lab.run(Time::millis(2_500));
    lab.other = Some((client, info));
    lab.run(Time::secs(10));
    assert_eq!((lab.sweep.state(), &lab.reports[..]), (SmState::Standby, &[][..]));
}

/// A master with another SM_Key is not of this subnet: it is not heeded, and the subnet is not well.
#[test]
fn a_master_with_another_key_is_named_and_not_heeded() {
    let mut lab = Lab::new("clos:4,2,4", 0);
    let place = lab.port("host5", 1);
    lab.appoint(place, info(SmState::Master, 2));
    lab.bring_up();
    assert_eq!(lab.sweep.state(), SmState::Master);
    assert!(matches!(&lab.missing()[..], [Missing::Rival { .. }]), "{:?}", lab.missing());
    lab.dismiss();
    lab.run(Time::secs(10));
    lab.settle();
    assert_eq!(lab.missing(), []);
    lab.check();
}
