//! Floods: of requests, of joins, of traps, of questions that take much reading. The fabric has its turn all the
//! same, in virtual time and by counts of what was done.

use snin_emulator::{Fault, Health};
use snin_fabric::NodeIndex;
use snin_mad::notice::LinkStateDetails;
use snin_mad::sa::*;
use snin_mad::{Attribute as _, Gid, Method, Notice, PERMISSIVE, PKey, QKey, Smp, Trap};
use snin_protocol::Time;
use snin_sm_core::intake::{Intake, IntakeLimits, Waiting};
use snin_sm_core::{Event, Output};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::records::Members;

use crate::subnet::{Subnet, config};

/// Switches with 36 ports: more tables of lanes than one survey reads.
const WIDE: &str = "clos:4,18,18";

fn quiet() -> Config {
    Config { sweep_interval_s: 0, ..config() }
}

fn named(subnet: &Subnet, name: &str) -> NodeIndex {
    let topology = &subnet.topology;
    topology.nodes().find(|&node| &*topology.node(node).name == name).unwrap()
}

fn all_lanes(count: u64) -> SaRequest {
    let lanes = SlToVlRecord::default();
    SaRequest::new(Method::GetTable, &lanes, ComponentMask(0)).transaction(count)
}

fn join(subnet: &Subnet, host: usize, group: u32) -> SaRequest {
    let mut mgid = [0; 16];
    (mgid[0], mgid[1]) = (0xFF, 0x12);
    mgid[12..].copy_from_slice(&group.to_be_bytes());
    let record = McMemberRecord {
        mgid: Gid(mgid),
        port_gid: subnet.gid(host),
        p_key: PKey::DEFAULT,
        q_key: QKey(1),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    };
    SaRequest::new(Method::Set, &record, ComponentMask::of(&[0, 1, 2, 6, 7, 12, 13, 16]))
}

/// A switch whose tables are asked for is lost before they are read: the reading ends, however often it is asked.
#[test]
fn what_cannot_be_read_is_not_read_for_ever() {
    let mut subnet = Subnet::new(WIDE, quiet());
    let before = subnet.manager.metrics().surveys;
    let from = subnet.origin(1);
    subnet.give(from, &all_lanes(1).mad().0);
    subnet.strike(Fault::PowerOff(named(&subnet, "leaf3")));
    for count in 2..200 {
        subnet.give(from, &all_lanes(count).mad().0);
        subnet.run(Time::millis(50));
        subnet.mail.clear();
    }
    assert!(subnet.manager.is_idle(), "nothing is left to be read");
    let surveys = subnet.manager.metrics().surveys - before;
    assert!(surveys < 100, "{surveys} surveys for what one reading tells");
}

/// A switch is silent when a group needs a block of its table that was not read yet.
#[test]
fn a_silent_switch_is_not_asked_again_and_again_for_a_group() {
    let mut subnet = Subnet::new("clos:4,4,2", quiet());
    let from = subnet.origin(1);
    subnet.strike(Fault::Agent(named(&subnet, "leaf3"), Health::Dead));
    let before = subnet.manager.metrics().surveys;
    // The next block of every multicast table.
    for group in 1..=40 {
        let request = join(&subnet, 1, group).transaction(group.into());
        subnet.give(from, &request.mad().0);
    }
    for _ in 0..1_000 {
        subnet.run(Time::millis(1));
        // A trap that means nothing.
        trap(&mut subnet, "leaf0");
    }
    let surveys = subnet.manager.metrics().surveys - before;
    assert!(surveys < 1_200, "{surveys} surveys for 1,000 traps and a silent switch");
}

/// Members and groups are planned and written some at a time.
#[test]
fn joins_are_planned_together() {
    let mut subnet = Subnet::new("clos:6,4,4", quiet());
    let (begin, before) = (subnet.now(), subnet.manager.metrics().surveys);
    let hosts = 23;
    for n in 0..4_000_u32 {
        let host = 1 + n as usize % hosts;
        let request = join(&subnet, host, 1 + n / 2).transaction(u64::from(n) + 1);
        let from = subnet.origin(host);
        subnet.give(from, &request.mad().0);
        if n % 4 == 3 {
            subnet.run(Time::millis(1));
        }
    }
    let passed = Time(subnet.now().nanos() - begin.nanos());
    let computed = subnet.computed;
    assert!(passed >= Time::secs(1) && computed <= 1 + passed.nanos() / 20_000_000, "{computed}");
    assert_eq!(subnet.manager.database().all::<Members>().len(), 4_000, "all have joined");
    assert!(computed > 10, "{computed}");
    let surveys = subnet.manager.metrics().surveys - before;
    assert!(surveys <= computed, "{surveys} surveys for {computed} plans");
    subnet.settle();
}

/// A switch, or somebody in its name, says that a link changed.
fn trap(subnet: &mut Subnet, name: &str) {
    let port = subnet.topology.port0(named(subnet, name));
    let guid = subnet.topology.port(port).guid;
    let Some((_, port)) = subnet.manager.database().by_guid(guid) else { return };
    let lid = port.base;
    let notice = Notice::generic(&Trap::LinkStateChange(LinkStateDetails { lid }), 2, lid);
    let mad = Smp::trap().mad().with(&notice);
    subnet.tell(Event::Mad { port: LocalPort(0), source: lid, bytes: &mad.0 });
}

/// A cut cable is taken out of the tables in so many blocks, and after so long.
fn repaired(blocks: Option<u64>) -> (u64, Time) {
    let mut subnet = Subnet::new("clos:8,4,4", Config { window: 4, window_max: 4, ..quiet() });
    let leaf = named(&subnet, "leaf1");
    let up = subnet.topology.cables(leaf).find(|&(_, peer)| {
        let node = subnet.topology.port(peer).node;
        subnet.topology.is_switch(node)
    });
    let (begin, before) = (subnet.now(), subnet.manager.metrics().blocks_written);
    subnet.sent.clear();
    subnet.strike(Fault::Cut(up.unwrap().0));
    subnet.run(Time::micros(50));
    let mut said = 0;
    let written = |subnet: &Subnet| subnet.manager.metrics().blocks_written - before;
    while blocks.is_some_and(|blocks| written(&subnet) < blocks) {
        trap(&mut subnet, &format!("leaf{}", said % 8));
        said += 1;
        subnet.run(Time::micros(100));
        assert!(subnet.now() < begin + Time::secs(20), "it is never repaired");
    }
    if blocks.is_none() {
        subnet.settle();
    }
    let repressed = subnet.sent.get(&(Notice::ID, Method::TrapRepress.code()));
    assert!(repressed.is_some_and(|&count| count >= said), "all are answered");
    (written(&subnet), subnet.now() - begin)
}

/// Traps without end, of every switch: a cut cable is taken out of the tables all the same, and each is answered.
#[test]
fn traps_without_end_do_not_keep_the_fabric_from_being_repaired() {
    let (blocks, calm) = repaired(None);
    assert!(blocks > 8, "{blocks}");
    let (_, flooded) = repaired(Some(blocks));
    assert!(flooded.nanos() < 20 * calm.nanos(), "{flooded} instead of {calm}");
}

/// What one request of a host costs the manager, what an SMP does, and how many requests come: eight times as many
/// as it could serve.
const REQUEST: Time = Time::micros(200);
const SMP: Time = Time::micros(5);
const EVERY: Time = Time::micros(25);

/// A manager with its intake as the daemon has it, where work takes time.
struct Flooded {
    subnet: Subnet,
    intake: Intake,
    now: Time,
    count: u64,
    next_request: Option<Time>,
}

impl Flooded {
    fn new(flooded: bool) -> Self {
        let subnet = Subnet::new("clos:12,6,6", quiet());
        let now = subnet.now();
        let intake = Intake::new(IntakeLimits { waiting: 512, ..IntakeLimits::default() });
        Self { subnet, intake, now, count: 0, next_request: flooded.then_some(now) }
    }

    fn ask(&mut self) -> Waiting {
        self.count += 1;
        let host = 1 + self.count as usize % 60;
        let path = PathRecord {
            sgid: self.subnet.gid(host),
            dgid: self.subnet.gid((host * 7) % 60 + 1),
            p_key: PKey::DEFAULT,
            numb_path: 1,
            ..PathRecord::default()
        };
        let request = match self.count % 3 {
            0 => SaRequest::new(Method::Get, &path, ComponentMask::of(&[2, 3, 12, 13])),
            1 => join(&self.subnet, host, 1 + (self.count % 400) as u32),
            _ => SaRequest::new(Method::GetTable, &NodeRecord::default(), ComponentMask(0)),
        };
        let mad = Box::new(request.transaction(self.count).mad());
        Waiting { port: LocalPort(0), from: self.subnet.origin(host), mad }
    }

    fn send(&mut self) {
        while let Some(output) = self.subnet.manager.poll_output() {
            match output {
                Output::Send { to, mad, .. } => {
                    let to = match to {
                        Destination::Directed => PERMISSIVE,
                        Destination::Lid(lid) => lid,
                    };
                    self.subnet.emulator.send(self.subnet.client, &mad, to, self.now);
                }
                Output::Compute(job) => {
                    let computed = Box::new(job.run());
                    self.subnet.manager.handle(Event::Computed(computed), self.now);
                }
                _ => {}
            }
        }
    }

    fn came(&mut self) {
        self.subnet.emulator.advance(self.now);
        while let Some(due) = self.next_request.filter(|&due| due <= self.now) {
            self.next_request = Some(due + EVERY);
            let request = self.ask();
            // It is counted.
            let _ = self.intake.put(request);
        }
    }

    /// One turn of the daemon's loop, then a wait.
    fn turn(&mut self) {
        self.came();
        while let Some(received) = self.subnet.emulator.poll(self.subnet.client) {
            let (port, source) = (LocalPort(0), received.slid);
            let event = Event::Mad { port, source, bytes: &received.mad.0 };
            self.subnet.manager.handle(event, self.now);
            self.now += SMP;
            self.came();
        }
        self.send();
        if self.subnet.manager.next_deadline().is_some_and(|due| due <= self.now) {
            self.subnet.manager.handle_deadline(self.now);
            self.send();
        }
        let busy = !self.subnet.manager.is_idle();
        if let Some((until, most)) = self.intake.slice(busy, self.now) {
            let begin = self.now;
            for _ in 0..most {
                if self.now >= until {
                    break;
                }
                let Some(Waiting { port, from, mad }) = self.intake.pop() else { break };
                let event = Event::General { port, from, bytes: &mad.0 };
                self.subnet.manager.handle(event, self.now);
                self.now += REQUEST;
            }
            self.send();
            self.intake.served(begin, self.now);
        }
        let busy = !self.subnet.manager.is_idle();
        let next = [
            self.subnet.emulator.next_event_time(),
            self.subnet.manager.next_deadline(),
            self.intake.next_deadline(busy),
            self.next_request,
        ];
        self.now = self.now.max(next.into_iter().flatten().min().unwrap_or(self.now));
    }

    /// How long a sweep of everything takes that is asked for now.
    fn sweep(&mut self) -> Time {
        let begin = self.now;
        let sweeps = self.subnet.manager.metrics().full_sweeps;
        self.subnet.manager.handle(Event::Resweep, self.now);
        self.send();
        let is_done = |subnet: &Subnet| {
            subnet.manager.metrics().full_sweeps > sweeps && subnet.manager.has_swept()
        };
        while !is_done(&self.subnet) {
            self.turn();
            assert!(self.now < begin + Time::secs(60), "the sweep does not end");
        }
        self.now - begin
    }
}

#[test]
fn a_sweep_takes_at_most_twice_as_long_under_a_flood_and_loses_nobody() {
    let took = |flooded| {
        let mut manager = Flooded::new(flooded);
        // The flood is under way.
        for _ in 0..200 {
            manager.turn();
        }
        let took = (0..20).map(|_| manager.sweep()).max().unwrap();
        let metrics = manager.subnet.manager.metrics();
        let view = manager.subnet.manager.view().unwrap();
        assert_eq!((view.routing().hosts.len(), metrics.unanswered), (72, 0));
        assert_eq!(metrics.retries, 0, "silence of its own making");
        (took, manager.intake.refused())
    };
    let ((calm, none), (flooded, refused)) = (took(false), took(true));
    assert!(none == 0 && refused > 1_000, "{refused} were too many");
    // A slice more, which was under way when it began.
    let most = Time(2 * calm.nanos()) + IntakeLimits::default().idle + Time::millis(2);
    assert!(flooded <= most, "{flooded} instead of {calm}");
}
