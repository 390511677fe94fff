//! Subnet administration on one core: requests a second, on the emulated fabric, with hosts that ask as fast as
//! they are answered.
//!
//! Nothing travels: requests are handed to the manager's core and answers taken from it, so that the figures
//! are the core's alone. The goals are those that this project set itself; where there is none it is 1.

use std::time::Instant;

use snin_emulator::{ClientId, Config as Hardware, Emulator};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeKind};
use snin_mad::rmpp::{self, Policy, Receiver};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, NodeRecord, PathRecord, SaRequest};
use snin_mad::{Gid, GidPrefix, Mad, Method, PERMISSIVE, PKey, QKey};
use snin_protocol::Time;
use snin_sm_core::administration::Origin;
use snin_sm_core::{Config, Destination, Event, LocalPort, Manager, Output, Saved};

use crate::{Outcome, Size};

/// Paths, joins, whole tables.
///
/// # Panics
/// Where the fabric does not come up, or something is not answered.
pub fn run(size: Size) -> Vec<Outcome> {
    let (recipe, paths, joins, groups) = match size {
        Size::Small => ("clos:8,4,4", 500, 100, 10),
        Size::Full => ("clos:324,36,36", 200_000, 10_000, 1_000),
    };
    let mut subnet = Subnet::up(recipe);
    let hosts = subnet.hosts.len();
    let mut outcomes = Vec::new();
    let mut line = |case: &str, unit, ours| {
        outcomes.push(Outcome {
            bench: "sa",
            case: format!("{hosts} hosts: {case}"),
            unit,
            ours,
            peer: 1.0,
            peer_name: "no goal".to_owned(),
            paired: None,
            hash: 0,
        });
    };
    let begin = Instant::now();
    for n in 0..paths {
        let (from, to) = (n % hosts, (n * 7 + 1) % hosts);
        subnet.ask(from, &path(&subnet, from, to));
    }
    line("Get(PathRecord)", "1/s", paths as f64 / begin.elapsed().as_secs_f64());

    let all = SaRequest::new(Method::GetTable, &NodeRecord::default(), ComponentMask(0));
    let begin = Instant::now();
    let answer = subnet.ask(0, &all);
    let seconds = begin.elapsed().as_secs_f64();
    assert!(answer.records::<NodeRecord>().count() > hosts);
    line("GetTable(NodeRecord), acknowledged", "ms", seconds * 1e3);

    let begin = Instant::now();
    for n in 0..joins {
        let request = join(&subnet, n % hosts, (n % groups) as u32);
        let answer = subnet.ask(n % hosts, &request);
        assert!(answer.status.is_ok(), "{}", answer.status);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let case = format!("{joins} joins to {groups} groups");
    line(&case, "1/s", joins as f64 / seconds);
    outcomes
}

fn path(subnet: &Subnet, from: usize, to: usize) -> SaRequest {
    let record = PathRecord {
        sgid: gid(subnet.hosts[from].0),
        dgid: gid(subnet.hosts[to].0),
        p_key: PKey::DEFAULT,
        numb_path: 1,
        reversible: true,
        ..PathRecord::default()
    };
    SaRequest::new(Method::Get, &record, ComponentMask::of(&[2, 3, 11, 12, 13]))
}

fn join(subnet: &Subnet, host: usize, group: u32) -> SaRequest {
    let mut mgid = [0; 16];
    (mgid[0], mgid[1]) = (0xFF, 0x12);
    mgid[12..].copy_from_slice(&(group + 1).to_be_bytes());
    let record = McMemberRecord {
        mgid: Gid(mgid),
        port_gid: gid(subnet.hosts[host].0),
        p_key: PKey::DEFAULT,
        q_key: QKey(1),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    };
    SaRequest::new(Method::Set, &record, ComponentMask::of(&[0, 1, 2, 6, 7, 12, 13, 16]))
}

const fn gid(guid: Guid) -> Gid {
    Gid::new(GidPrefix(0xFE80_0000_0000_0000), guid)
}

/// A manager and its fabric, which is up.
struct Subnet {
    emulator: Emulator,
    client: ClientId,
    manager: Manager,
    /// GUID and first address of every host port.
    hosts: Vec<(Guid, Lid)>,
    mail: Vec<Mad>,
    count: u64,
}

impl Subnet {
    fn up(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
        let mut emulator = Emulator::new(&topology, Hardware::default());
        let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
        let ports: Vec<_> = adapters.filter_map(|node| topology.cables(node).next()).collect();
        let client = emulator.attach(ports[0].0).expect("a free port");
        let config = Config { lmc: Some(2), sweep_interval_s: 0, ..Config::default() };
        let manager = Manager::new(config, Saved::default(), []).expect("a configuration");
        let mut subnet =
            Self { emulator, client, manager, hosts: Vec::new(), mail: Vec::new(), count: 0 };
        subnet.manager.handle(Event::Start, Time::ZERO);
        while !subnet.manager.is_idle() {
            subnet.work();
            let next = subnet.emulator.next_event_time();
            let next = next.into_iter().chain(subnet.manager.next_deadline()).min();
            let Some(next) = next.filter(|_| !subnet.manager.is_idle()) else { break };
            subnet.emulator.advance(next);
            subnet.work();
            if subnet.manager.next_deadline().is_some_and(|due| due <= subnet.emulator.now()) {
                let now = subnet.emulator.now();
                subnet.manager.handle_deadline(now);
            }
        }
        let guids = ports.iter().map(|&(port, _)| topology.port(port).guid);
        let lid = |guid| subnet.manager.database().by_guid(guid).map(|(_, port)| port.base);
        subnet.hosts = guids.map(|guid| (guid, lid(guid).expect("an address"))).collect();
        subnet
    }

    fn work(&mut self) {
        loop {
            while let Some(output) = self.manager.poll_output() {
                let now = self.emulator.now();
                match output {
                    Output::Send { to, mad, .. } => {
                        let to = match to {
                            Destination::Directed => PERMISSIVE,
                            Destination::Lid(lid) => lid,
                        };
                        self.emulator.send(self.client, &mad, to, now);
                    }
                    Output::Answer { mad, .. } => self.mail.push(*mad),
                    Output::Compute(job) => {
                        self.manager.handle(Event::Computed(Box::new(job.run())), now);
                    }
                    _ => {}
                }
            }
            let Some(received) = self.emulator.poll(self.client) else { return };
            let (port, source) = (LocalPort(0), received.slid);
            let event = Event::Mad { port, source, bytes: &received.mad.0 };
            self.manager.handle(event, received.at);
        }
    }

    fn give(&mut self, from: Origin, mad: &Mad) {
        let now = self.emulator.now();
        self.manager.handle(Event::General { port: LocalPort(0), from, bytes: &mad.0 }, now);
        self.work();
    }

    /// A request of a host and its answer, all segments of it.
    fn ask(&mut self, host: usize, request: &SaRequest) -> SaRequest {
        self.count += 1;
        let from = Origin { lid: self.hosts[host].1, qp: 1, sl: 0 };
        self.mail.clear();
        self.give(from, &request.clone().transaction(self.count).mad());
        let mut message: Option<Receiver> = None;
        loop {
            for mad in std::mem::take(&mut self.mail) {
                if !rmpp::is_active(&mad) {
                    return SaRequest::parse(&mad).expect("an answer");
                }
                let policy = Policy { longest: 1 << 26, ..Policy::default() };
                let now = self.emulator.now();
                let receiver = message.get_or_insert_with(|| Receiver::new(&mad, policy, now));
                if let Some(reply) = receiver.receive(&mad).reply {
                    self.give(from, &reply);
                }
            }
            let message = message.as_mut().expect("an answer");
            if let Some(data) = message.take() {
                let header = SaRequest::parse(message.header()).expect("an answer");
                return SaRequest { data, ..header };
            }
        }
    }
}
