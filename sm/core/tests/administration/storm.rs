//! Every host of a fabric at once, as after a power cut: they join, subscribe and ask while a cable is cut, and
//! of what they say and hear some is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_administration::Unanswered;
use snin_emulator::Fault;
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::multicast::{Group, Held, multicast};
use snin_fabric::{Lid, Mlid, NodeKind, PortIndex};
use snin_mad::rmpp::{self, Policy, Receiver};
use snin_mad::sa::*;
use snin_mad::{Hex32, Mad, Method, PKey, QKey};
use snin_protocol::Time;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::{Members, Subscriptions};

use crate::clients::{BROADCAST, OTHERS, broadcast, ip};
use crate::subnet::{Subnet, config};

/// 36 leaves with 18 hosts each below 18 spines.
const FABRIC: &str = "clos:36,18,18";
const HOSTS: usize = 648;
/// Joins after the broadcast group's, subscriptions, paths and a table: what a host says at once.
const PATHS: usize = 22;
/// How soon a host asks again: IPoIB's patience.
const AGAIN: Time = Time::millis(1_000);
/// Of a thousand datagrams so many are lost, either way.
const LOST: u32 = 20;

/// A host's request, until it is answered.
struct Asking {
    from: Origin,
    request: SaRequest,
    due: Time,
    message: Option<Receiver>,
}

/// What happened to datagrams, beside what administration counts itself.
#[derive(Default)]
struct Books {
    /// Given to the manager, and taken from it.
    given: u64,
    taken: u64,
    /// Lost on the way to it, and back.
    lost: [u64; 2],
    answered: u64,
    reports: BTreeSet<(Lid, u64)>,
}

struct Storm {
    subnet: Subnet,
    random: ChaCha8Rng,
    asking: BTreeMap<u64, Asking>,
    /// What a host says once it has joined the broadcast group.
    later: BTreeMap<u64, Vec<SaRequest>>,
    count: u64,
    books: Books,
}

impl Storm {
    fn new(subnet: Subnet) -> Self {
        let (random, asking, later) =
            (ChaCha8Rng::seed_from_u64(648), BTreeMap::new(), BTreeMap::new());
        Self { subnet, random, asking, later, count: 0, books: Books::default() }
    }

    fn asks(&mut self, from: Origin, request: SaRequest) -> u64 {
        self.count += 1;
        let request = request.transaction(self.count);
        let due = self.subnet.now();
        self.asking.insert(self.count, Asking { from, request, due, message: None });
        self.count
    }

    fn is_lost(&mut self, way: usize) -> bool {
        let lost = self.random.random_range(0..1_000) < LOST;
        self.books.lost[way] += u64::from(lost);
        lost
    }

    fn give(&mut self, from: Origin, mad: &Mad) {
        if !self.is_lost(0) {
            self.books.given += 1;
            self.subnet.give(from, &mad.0);
        }
    }

    /// Sends what is due, and takes what has come, until there is neither.
    fn work(&mut self) {
        let now = self.subnet.now();
        let due: Vec<u64> =
            self.asking.iter().filter(|(_, asking)| asking.due <= now).map(|(id, _)| *id).collect();
        for id in due {
            let Some(asking) = self.asking.get_mut(&id) else { continue };
            asking.due = now + AGAIN;
            // A table that is under way comes to its end by itself, or is asked for anew.
            let began = asking.message.take().is_some_and(|message| message.deadline() > now);
            let (from, mad) = (asking.from, asking.request.mad());
            if !began {
                self.give(from, &mad);
            }
        }
        while let Some((to, mad)) = self.subnet.mail.pop_front() {
            self.books.taken += 1;
            if !self.is_lost(1) {
                self.receive(to, &mad);
            }
        }
    }

    fn receive(&mut self, to: Origin, mad: &Mad) {
        let id = mad.header().transaction_id().0;
        if mad.header().method() == Method::Report {
            self.books.reports.insert((to.lid, id));
            let mut response = mad.clone();
            response.answer(snin_mad::Status::OK);
            return self.give(to, &response);
        }
        let Some(asking) = self.asking.get_mut(&id) else { return };
        assert_eq!(to, asking.from);
        if rmpp::is_active(mad) {
            let policy = Policy { longest: 1 << 26, ..Policy::default() };
            let now = self.subnet.now();
            let receiver = asking.message.get_or_insert_with(|| Receiver::new(mad, policy, now));
            let reception = receiver.receive(mad);
            asking.due = now + Time::millis(45_000);
            let (done, data) = (receiver.is_done(), receiver.bytes().len());
            if let Some(reply) = reception.reply {
                self.give(to, &reply);
            }
            if !done {
                return;
            }
            assert_eq!(data, (HOSTS + 54) * 112, "every node's record");
        } else {
            let answer = SaRequest::parse(mad).unwrap();
            assert!(answer.status.is_ok(), "{}: {answer:?}", answer.status);
        }
        self.asking.remove(&id);
        self.books.answered += 1;
        for request in self.later.remove(&id).unwrap_or_default() {
            self.asks(to, request);
        }
    }

    /// Until all hosts have what they asked for; how long that took.
    fn pass(&mut self) -> Time {
        let begin = self.subnet.now();
        while !self.asking.is_empty() {
            self.work();
            self.subnet.run(Time::millis(1));
            assert!(self.subnet.now() < begin + Time::secs(60), "{} ask", self.asking.len());
        }
        let took = self.subnet.now();
        // Reports that are under way are acknowledged, and the last joins are programmed.
        for _ in 0..6_000 {
            self.work();
            self.subnet.run(Time::millis(1));
        }
        self.subnet.settle();
        Time(took.nanos() - begin.nanos())
    }
}

fn inform(trap_number: u16, kind: u16, producer: u32) -> SaRequest {
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind,
        trap_number,
        qpn: Hex32(1),
        producer: Hex32(producer),
        ..InformInfo::default()
    };
    SaRequest::new(Method::Set, &inform, ComponentMask::of(&[1, 4, 5, 6, 7, 8, 12]))
}

/// IPoIB with IPv4 and IPv6, srp_daemon's subscriptions, and as many paths as a job's first messages take.
fn everything(subnet: &Subnet, host: usize, gids: &[snin_mad::Gid]) -> Vec<SaRequest> {
    let member = |mgid| McMemberRecord {
        mgid,
        q_key: QKey(0xB1B),
        mtu_selector: Selector::Exactly,
        mtu: 4,
        rate_selector: Selector::Exactly,
        rate: 3,
        ..broadcast(subnet, host)
    };
    let mut solicited = [0; 16];
    solicited[..6].copy_from_slice(&[0xFF, 0x12, 0x60, 0x1B, 0xFF, 0xFF]);
    solicited[11..].copy_from_slice(&[1, 0xFF, 0, (host >> 8) as u8, host as u8]);
    let mut all = Vec::new();
    for mgid in [ip(1), snin_mad::Gid(solicited)] {
        all.push(SaRequest::new(Method::Set, &member(mgid), ComponentMask::of(&OTHERS)));
    }
    all.extend([inform(64, 3, 4), inform(144, 4, 1)]);
    for n in 0..PATHS {
        let path = PathRecord {
            sgid: gids[host],
            dgid: gids[(host * 7 + n * 29 + 1) % HOSTS],
            numb_path: 1,
            p_key: PKey::DEFAULT,
            ..PathRecord::default()
        };
        all.push(SaRequest::new(Method::Get, &path, ComponentMask::of(&[2, 3, 10, 12, 13])));
    }
    if host % 16 == 1 {
        all.push(SaRequest::new(Method::GetTable, &NodeRecord::default(), ComponentMask(0)));
    }
    all
}

/// A cable from a leaf to a spine.
fn a_cable(subnet: &Subnet) -> PortIndex {
    let topology = &subnet.topology;
    let leaf = topology.port(topology.peer(subnet.host(300)).unwrap()).node;
    let up = |&(_, peer): &(PortIndex, PortIndex)| {
        topology.node(topology.port(peer).node).kind == NodeKind::Switch
    };
    topology.cables(leaf).find(up).unwrap().0
}

#[test]
fn all_hosts_at_once_while_a_cable_is_cut() {
    // No light sweep in between: it would be counted in one run and not in the other.
    let config = || snin_sm_database::config::Config { sweep_interval_s: 0, ..config() };
    let mut calm = Subnet::new(FABRIC, config());
    calm.sent.clear();
    calm.strike(Fault::Cut(a_cable(&calm)));
    calm.run(Time::secs(1));
    calm.settle();

    let mut storm = Storm::new(Subnet::new(FABRIC, config()));
    let gids: Vec<_> = (0..HOSTS).map(|host| storm.subnet.gid(host)).collect();
    let origins: Vec<Origin> = (0..HOSTS).map(|host| storm.subnet.origin(host)).collect();
    let mut said = 0;
    for (host, &origin) in origins.iter().enumerate() {
        let all = everything(&storm.subnet, host, &gids);
        said += 1 + all.len() as u64;
        let member = broadcast(&storm.subnet, host);
        let first = SaRequest::new(Method::Set, &member, ComponentMask::of(&BROADCAST));
        let id = storm.asks(origin, first);
        storm.later.insert(id, all);
    }
    storm.subnet.sent.clear();
    storm.work();
    storm.subnet.strike(Fault::Cut(a_cable(&storm.subnet)));
    let took = storm.pass();
    assert!(calm.sent.values().sum::<u64>() > 100, "{:?}", calm.sent);
    assert_eq!(storm.subnet.sent, calm.sent, "repaired with as many SMPs, those for groups apart");

    let Storm { mut subnet, books, .. } = storm;
    println!(
        "{said} requests in {took}: {} datagrams to the manager, {} from it, {:?} lost",
        books.given, books.taken, books.lost
    );
    // Every host is answered, and everything is accounted for.
    assert_eq!(books.answered, said);
    let metrics = subnet.manager.administration();
    let answers: u64 = metrics.answers.values().sum();
    let unanswered: u64 = metrics.unanswered.values().sum();
    assert!(metrics.unanswered.keys().all(|why| {
        matches!(why, Unanswered::Repeated | Unanswered::StrayReport | Unanswered::StrayRmpp)
    }));
    assert_eq!(answers, metrics.requests.values().sum::<u64>());
    assert!(answers >= said && books.given >= answers + unanswered);
    assert_eq!(metrics.reports_given_up, 0);
    let database = subnet.manager.database();
    assert_eq!(database.all::<Members>().len(), 3 * HOSTS);
    assert_eq!(database.all::<Subscriptions>().len(), 2 * HOSTS);
    // A host that comes later is told of to each of them, once.
    assert!(books.reports.is_empty(), "no port came or went");
    served(&subnet);
    let port = subnet.host(500);
    subnet.strike(Fault::Cut(port));
    subnet.run(Time::secs(1));
    subnet.settle();
    subnet.strike(Fault::Restore(port));
    subnet.run(Time::secs(1));
    subnet.settle();
    let told: VecDeque<_> = std::mem::take(&mut subnet.mail);
    let told: BTreeSet<Lid> = told.iter().map(|(to, _)| to.lid).collect();
    assert_eq!(told.len(), HOSTS - 1, "all but the one that was gone, and so subscribes no more");
}

/// What one of all-hosts sends reaches every other exactly once, by what the switches hold.
fn served(subnet: &Subnet) {
    let fabric = subnet.emulator.fabric();
    let live = fabric.live_topology();
    let (addresses, unicast) = (fabric.addresses().unwrap(), fabric.tables());
    let tables = fabric.multicast_tables();
    let held =
        Held { topology: &live, addresses: &addresses, unicast: &unicast, multicast: &tables };
    let receivers: BTreeSet<PortIndex> = (0..HOSTS).map(|host| subnet.host(host)).collect();
    let groups = [0, 1].map(|n| {
        let mlid = Mlid::nth(n).unwrap();
        Group { mlid, receivers: receivers.clone(), senders: BTreeSet::new() }
    });
    let report = multicast(&held, &groups, Traffic::All, 50);
    assert!(report.is_ok(), "{report}");
}
