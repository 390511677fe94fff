//! Subnet administration: what the core does in a second with 11,664 hosts on the emulated fabric, and the whole
//! daemon beside OpenSM on ibsim.
//!
//! On the emulated fabric nothing travels: requests are handed to the manager's core and answers taken from it,
//! so that the figures are the core's alone. There is no peer there: 1 stands for it.

mod beside;

use std::time::Instant;

use snin_emulator::{ClientId, Config as Hardware, Emulator};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeKind};
use snin_mad::rmpp::{self, Policy, Receiver};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, NodeRecord, PathRecord, SaRequest};
use snin_mad::{Gid, GidPrefix, Mad, Method, PERMISSIVE, PKey, QKey};
use snin_protocol::Time;
use snin_sm_core::{Event, Manager, Output};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::saved::Saved;

use crate::{Outcome, Size};

/// Paths, joins, whole tables, memory; `allocated` says how many bytes the program holds. `SNIN_CASE=core` and
/// `SNIN_CASE=opensm` measure only the one or the other.
///
/// # Panics
/// Where the fabric does not come up, or something is not answered.
pub fn run(size: Size, allocated: fn() -> usize) -> Vec<Outcome> {
    let only = std::env::var("SNIN_CASE").unwrap_or_default();
    let mut outcomes = Vec::new();
    if only != "opensm" {
        outcomes.extend(core(size, allocated));
    }
    if only != "core" {
        outcomes.extend(beside::run(size).unwrap_or_else(|error| panic!("{error}")));
    }
    outcomes
}

fn core(size: Size, allocated: fn() -> usize) -> Vec<Outcome> {
    let (recipe, paths, joins, groups) = match size {
        Size::Small => ("clos:8,4,4", 500, 100, 10),
        Size::Full => ("fattree:36", 200_000, 10_000, 1_000),
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
        subnet.ask(from, &path(subnet.hosts[from].0, subnet.hosts[to].0));
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
    // Until every switch has what the last join takes.
    subnet.settle();
    let seconds = begin.elapsed().as_secs_f64();
    let case = format!("{joins} joins to {groups} groups, and the tables written");
    line(&case, "1/s", joins as f64 / seconds);

    // The rest of the program does not change meanwhile.
    let Subnet { manager, .. } = subnet;
    let before = allocated();
    drop(manager);
    let held = before.saturating_sub(allocated());
    line("memory of the core, a host", "KiB", held as f64 / 1024.0 / hosts as f64);
    outcomes
}

fn path(from: Guid, to: Guid) -> SaRequest {
    let record = PathRecord {
        sgid: gid(from),
        dgid: gid(to),
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
        subnet.settle();
        let guids = ports.iter().map(|&(port, _)| topology.port(port).guid);
        let lid = |guid| subnet.manager.database().by_guid(guid).map(|(_, port)| port.base);
        subnet.hosts = guids.map(|guid| (guid, lid(guid).expect("an address"))).collect();
        subnet
    }

    /// Until the manager has nothing to do.
    fn settle(&mut self) {
        loop {
            self.work();
            let next = self.emulator.next_event_time();
            let next = next.into_iter().chain(self.manager.next_deadline()).min();
            let Some(next) = next.filter(|_| !self.manager.is_idle()) else { break };
            self.emulator.advance(next);
            self.work();
            if self.manager.next_deadline().is_some_and(|due| due <= self.emulator.now()) {
                let now = self.emulator.now();
                self.manager.handle_deadline(now);
            }
        }
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
        let from = Origin { lid: self.hosts[host].1, qp: 1, sl: 0, p_key: PKey::DEFAULT };
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

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

    use super::*;

    #[global_allocator]
    static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    fn held() -> usize {
        let stats = ALLOCATOR.stats();
        stats.bytes_allocated - stats.bytes_deallocated
    }

    #[test]
    fn small() {
        let outcomes = run(Size::Small, held);
        let cases: Vec<&str> = outcomes.iter().map(|outcome| outcome.case.as_str()).collect();
        assert_eq!(outcomes.len(), 5 + 3, "{cases:?}");
        assert!(outcomes.iter().all(|outcome| outcome.ours > 0.0 && outcome.peer > 0.0));
    }
}
