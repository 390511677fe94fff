//! A standby gets its copy of a whole subnet's database, and one change of it: seconds and bytes, all messages
//! encoded and decoded as in a session, on an emulated fabric.

use std::collections::VecDeque;
use std::time::Instant;

use snin_emulator::{ClientId, Config as Hardware, Emulator};
use snin_fabric::{NodeKind, Topology};
use snin_mad::sa::{ComponentMask, SaRequest, ServiceRecord};
use snin_mad::{Gid, GidPrefix, Method, PERMISSIVE, PKey};
use snin_mastership::mirror::{Link, MirrorEvent, MirrorOutput};
use snin_protocol::Time;
use snin_protocol::codec::{Message, decode, encode};
use snin_sm_core::{Event, Manager, Output};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::saved::Saved;

/// Services that a host registers, a change each.
const CHANGES: u64 = 200;
/// The session's number at both ends.
const LINK: Link = Link(1);
/// In virtual time.
const PATIENCE: Time = Time::secs(600);

/// How long a copy took, and how much was said for it.
pub(super) struct Mirroring {
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) bytes_a_change: f64,
}

/// A master and a standby at the first and the last host.
struct Pair {
    emulator: Emulator,
    managers: [(ClientId, Manager); 2],
    /// Frames that are on their way, and to which of the two.
    said: VecDeque<(usize, Vec<u8>)>,
    bytes: u64,
}

pub(super) fn run(topology: &Topology) -> Mirroring {
    let mut pair = Pair::up(topology);
    let (begin, now) = (Instant::now(), pair.emulator.now());
    let [(_, master), (_, standby)] = &mut pair.managers;
    master.handle(Event::Mirror(Box::new(MirrorEvent::Called(LINK))), now);
    standby.handle(Event::Mirror(Box::new(MirrorEvent::Answered(LINK))), now);
    pair.until("mirrored", Pair::is_mirrored);
    let (seconds, bytes) = (begin.elapsed().as_secs_f64(), pair.bytes);
    let held = |pair: &Pair, n: usize| pair.managers[n].1.database().kept().len();
    assert_eq!(held(&pair, 0), held(&pair, 1), "what hosts said");
    let (before, log) = (pair.bytes, pair.managers[0].1.database().cursor());
    for id in 0..CHANGES {
        pair.register(topology, id);
        pair.until("mirrored", Pair::is_mirrored);
    }
    let changes = pair.managers[0].1.database().cursor() - log;
    assert!(changes >= CHANGES, "{changes} changes");
    Mirroring { seconds, bytes, bytes_a_change: (pair.bytes - before) as f64 / changes as f64 }
}

impl Pair {
    fn up(topology: &Topology) -> Self {
        let mut emulator = Emulator::new(topology, Hardware::default());
        let hosts = topology.nodes().filter(|&node| topology.node(node).kind == NodeKind::Adapter);
        let ports: Vec<_> =
            hosts.filter_map(|node| Some(topology.cables(node).next()?.0)).collect();
        let mut seat = |port, priority| {
            let client = emulator.attach(port).expect("a free port");
            emulator.set_manager(client, true);
            let config =
                Config { lmc: Some(0), priority, sweep_interval_s: 0, ..Config::default() };
            (client, Manager::new(config, Saved::default(), []).expect("a configuration"))
        };
        let managers = [seat(ports[0], 5), seat(*ports.last().expect("hosts"), 1)];
        let mut pair = Self { emulator, managers, said: VecDeque::new(), bytes: 0 };
        pair.managers[0].1.handle(Event::Start, Time::ZERO);
        pair.until("up", |pair| pair.managers[0].1.is_idle());
        let now = pair.emulator.now();
        pair.managers[1].1.handle(Event::Start, now);
        pair.until("standing by", |pair| pair.managers[1].1.state() == snin_mad::SmState::Standby);
        pair
    }

    fn is_mirrored(&self) -> bool {
        let states = self.managers[0].1.mirrors();
        self.said.is_empty() && states.iter().any(|state| state.whole && state.behind == 0)
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = self.emulator.now() + PATIENCE;
        self.work();
        while !is_so(self) {
            let due = self.managers.iter().filter_map(|(_, manager)| manager.next_deadline());
            let next = self.emulator.next_event_time().into_iter().chain(due).min();
            let next = next.filter(|&next| next < end).unwrap_or_else(|| panic!("not {what}"));
            self.emulator.advance(next);
            let now = self.emulator.now();
            for (_, manager) in &mut self.managers {
                if manager.next_deadline().is_some_and(|due| due <= now) {
                    manager.handle_deadline(now);
                }
            }
            self.work();
        }
    }

    fn work(&mut self) {
        loop {
            let mut idle = true;
            for n in 0..2 {
                while let Some(output) = self.managers[n].1.poll_output() {
                    self.obey(n, output);
                }
                while let Some(received) = self.emulator.poll(self.managers[n].0) {
                    idle = false;
                    let (port, source) = (LocalPort(0), received.slid);
                    let event = Event::Mad { port, source, bytes: &received.mad.0 };
                    self.managers[n].1.handle(event, received.at);
                }
            }
            if let Some((to, frame)) = self.said.pop_front() {
                idle = false;
                let event = match to {
                    0 => MirrorEvent::Asked(LINK, read(&frame)),
                    _ => MirrorEvent::Heard(LINK, read(&frame)),
                };
                let now = self.emulator.now();
                self.managers[to].1.handle(Event::Mirror(Box::new(event)), now);
            }
            if idle {
                return;
            }
        }
    }

    fn obey(&mut self, n: usize, output: Output) {
        let now = self.emulator.now();
        let (client, manager) = &mut self.managers[n];
        let frame = match output {
            Output::Send { to, mad, .. } => {
                let to = match to {
                    Destination::Directed => PERMISSIVE,
                    Destination::Lid(lid) => lid,
                };
                return self.emulator.send(*client, &mad, to, now);
            }
            Output::Compute(job) => {
                return manager.handle(Event::Computed(Box::new(job.run())), now);
            }
            Output::Mirror(MirrorOutput::ToMaster(_, said)) => encode(&said),
            Output::Mirror(MirrorOutput::ToStandby(_, said)) => encode(&said),
            _ => return,
        };
        let frame = frame.expect("a message that fits");
        self.bytes += frame.len() as u64;
        self.said.push_back((1 - n, frame));
    }

    /// A host offers a service.
    fn register(&mut self, topology: &Topology, id: u64) {
        let hosts = topology.nodes().filter(|&node| topology.node(node).kind == NodeKind::Adapter);
        let host = hosts.skip(1).find_map(|node| topology.cables(node).next()).expect("a host").0;
        let guid = topology.port(host).guid;
        let (now, (_, manager)) = (self.emulator.now(), &mut self.managers[0]);
        let lid = manager.database().by_guid(guid).expect("an address").1.base;
        let gid = Gid::new(GidPrefix(0xFE80_0000_0000_0000), guid);
        let (p_key, lease) = (PKey::DEFAULT, u32::MAX);
        let record = ServiceRecord { id: id + 1, gid, p_key, lease, ..ServiceRecord::default() };
        let request = SaRequest::new(Method::Set, &record, ComponentMask::of(&[0, 1, 2, 4]));
        let from = Origin { lid, qp: 1, sl: 0, p_key: PKey::DEFAULT };
        let mad = request.transaction(id + 1).mad();
        manager.handle(Event::General { port: LocalPort(0), from, bytes: &mad.0 }, now);
    }
}

fn read<M: Message>(frame: &[u8]) -> M {
    decode(frame).expect("a frame").expect("a whole one").0
}
