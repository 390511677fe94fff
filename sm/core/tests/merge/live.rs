//! Subnets under live managers are cabled together: one manager cedes, and its database is joined to the other's.
//!
//! The judge reads tables, addresses and partition tables of the emulated fabric and knows nothing of managers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use snin_emulator::{Config as Hardware, Fabric, Fault, Health};
use snin_fabric::{ForwardingTable, Lid, NodeIndex, PortIndex, Topology};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, Record, SaRequest, ServiceRecord};
use snin_mad::{Gid, GidPrefix, Method, NodeString, PKey, QKey, SmState};
use snin_protocol::Time;
use snin_sm_core::{Event, Report};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::merge::Number;
use snin_sm_database::records::{Groups, Members};

use crate::cabled::{Judge, MOST, cabled, delivered, holds, side};
use crate::seats::{self, Subnet, config};
use crate::two::ip;

const PREFIX: GidPrefix = GidPrefix(0xFE80_0000_0000_0000);
const ROOMS: [&str; 3] = ["200", "2a0", "2b0"];

/// Subnets of twelve hosts, a manager each, which have sessions and no cable.
pub(crate) struct Live {
    pub(crate) subnet: Subnet,
    pub(crate) joints: Vec<PortIndex>,
    pub(crate) judge: Rc<RefCell<Judge>>,
    /// The pairs that shared a partition beside the default one, as they were.
    before: BTreeSet<(PortIndex, PortIndex)>,
    tables: BTreeMap<NodeIndex, ForwardingTable>,
}

/// Priorities fall; every subnet has a partition 0x10 of its own, which it has a name of its own for.
pub(crate) fn settings(n: usize) -> Config {
    named(n, ["north", "south", "west"][n])
}

/// Priorities fall; every subnet calls its partition 0x10 so.
pub(crate) fn named(n: usize, name: &str) -> Config {
    Config { partitions: crate::partitions(name), ..config(5 - n as u8) }
}

pub(crate) fn hosts(topology: &Topology) -> Vec<PortIndex> {
    let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    hosts.filter_map(|node| topology.external_ports(node).next()).collect()
}

/// The keys of a port, but for the default partition's.
fn keys(fabric: &Fabric, port: PortIndex) -> BTreeSet<u16> {
    let keys = (0..64).map(|entry| fabric.p_key(port, entry).0);
    keys.filter(|key| key & 0x7FFF != 0 && key & 0x7FFF != 0x7FFF).collect()
}

/// Pairs of hosts with a partition in common that one of them has in full, and where each reaches the other.
fn pairs(fabric: &Fabric, topology: &Topology) -> BTreeSet<(PortIndex, PortIndex)> {
    let tables: BTreeMap<_, _> =
        topology.switches().map(|switch| (switch, fabric.table(switch))).collect();
    let hosts = hosts(topology);
    let held: BTreeMap<PortIndex, BTreeSet<u16>> =
        hosts.iter().map(|&host| (host, keys(fabric, host))).collect();
    let mut pairs = BTreeSet::new();
    for &a in &hosts {
        let lids: Vec<u16> = (1..MOST).filter(|&lid| holds(fabric, a, lid)).collect();
        for &b in hosts.iter().filter(|&&b| b != a) {
            let meet =
                |x: &u16| held[&b].iter().any(|y| x & 0x7FFF == y & 0x7FFF && x | y >= 0x8000);
            if !held[&a].iter().any(meet) {
                continue;
            }
            let Some(peer) = topology.peer(b) else { continue };
            let from = topology.port(peer).node;
            let reaches = |&lid: &u16| delivered(fabric, topology, &tables, (from, lid)) == Some(a);
            if !lids.is_empty() && lids.iter().all(reaches) {
                pairs.insert((b, a));
            }
        }
    }
    pairs
}

impl Live {
    pub(crate) fn new(rooms: usize) -> Self {
        Self::with(rooms, settings)
    }

    pub(crate) fn with(rooms: usize, settings: impl Fn(usize) -> Config) -> Self {
        let (topology, joints) = cabled(&ROOMS[..rooms]);
        let mut subnet = Subnet::on(topology, Hardware::default());
        for &joint in &joints {
            subnet.strike(Fault::Cut(joint));
        }
        for (n, room) in ROOMS[..rooms].iter().enumerate() {
            subnet.seat(&format!("{room}-host0"), settings(n));
        }
        for a in 0..rooms {
            (0..rooms).filter(|&b| b != a).for_each(|b| subnet.call(a, b));
        }
        for n in 0..rooms {
            // Masterships are told apart by when they began.
            subnet.run(Time::millis(7));
            subnet.start(n);
        }
        subnet.run(Time::secs(2));
        let mut live = Self {
            subnet,
            joints,
            judge: Rc::default(),
            before: BTreeSet::new(),
            tables: BTreeMap::new(),
        };
        (0..rooms).for_each(|n| live.register(n));
        live.subnet.run(Time::secs(2));
        live.begin();
        let (watched, cables) = (live.judge.clone(), live.subnet.topology.clone());
        live.subnet.emulator.watch(move |fabric, write| {
            if [0x15, 0x19].contains(&write.attribute.0) {
                let mut judge = watched.borrow_mut();
                judge.writes += 1;
                judge.look(fabric, &cables);
            }
        });
        live
    }

    /// From now on every address means what it means now.
    pub(crate) fn begin(&mut self) {
        let (fabric, topology) = (self.subnet.emulator.fabric(), &self.subnet.topology);
        self.judge.borrow_mut().begin(fabric, topology);
        self.before = pairs(fabric, topology);
        self.tables = topology.switches().map(|switch| (switch, fabric.table(switch))).collect();
    }

    /// A host tells a manager something.
    fn tell<R: Record>(&mut self, n: usize, host: PortIndex, record: &R, bits: &[u8]) {
        let now = self.subnet.now();
        let manager = &mut self.subnet.seats[n].manager;
        let lid = manager.view().and_then(|view| {
            let guid = self.subnet.topology.port(host).guid;
            let own = view.topology().ports().find(|&port| view.topology().port(port).guid == guid);
            own.and_then(|own| view.addresses().base(own))
        });
        let from = Origin { lid: lid.unwrap(), qp: 1, sl: 0, p_key: PKey::DEFAULT };
        let request = SaRequest::new(Method::Set, record, ComponentMask::of(bits));
        let mad = request.transaction(now.nanos()).mad();
        manager.handle(Event::General { port: LocalPort(0), from, bytes: &mad.0 }, now);
        self.subnet.run(Time::millis(1));
    }

    /// Hosts join the broadcast groups of both partitions and one that their manager names, and offer a service.
    fn register(&mut self, n: usize) {
        let topology = &self.subnet.topology;
        let own = side(topology, topology.port(self.subnet.seats[n].at).node);
        let hosts: Vec<PortIndex> = hosts(topology)
            .into_iter()
            .filter(|&host| side(topology, topology.port(host).node) == own)
            .collect();
        for &host in &hosts[1..5] {
            let port_gid = Gid::new(PREFIX, self.subnet.topology.port(host).guid);
            for key in [0xFFFF, 0x8010] {
                let member = McMemberRecord {
                    mgid: ip(key, 0xFFFF_FFFF),
                    port_gid,
                    p_key: PKey(key),
                    join_state: JoinState::FULL,
                    ..McMemberRecord::default()
                };
                self.tell(n, host, &member, &[0, 1, 7, 16]);
            }
            let own = McMemberRecord {
                port_gid,
                q_key: QKey(host.0),
                p_key: PKey(0x8010),
                join_state: JoinState::FULL,
                ..McMemberRecord::default()
            };
            self.tell(n, host, &own, &[0, 1, 2, 6, 7, 12, 13, 16]);
            let service = ServiceRecord {
                id: 0x10_0002,
                gid: port_gid,
                p_key: PKey(0x8010),
                lease: u32::MAX,
                name: NodeString::new(ROOMS[n]),
                ..ServiceRecord::default()
            };
            self.tell(n, host, &service, &[0, 1, 2, 4, 6]);
        }
    }

    pub(crate) fn plug(&mut self, joint: usize) {
        let joint = self.joints[joint];
        self.subnet.strike(Fault::Restore(joint));
    }

    pub(crate) fn unplug(&mut self, joint: usize) {
        let joint = self.joints[joint];
        self.subnet.strike(Fault::Cut(joint));
    }

    pub(crate) fn states(&self) -> Vec<SmState> {
        self.subnet.states()
    }

    /// Runs until this manager is the only master and has joined so many subnets, and all is written.
    #[track_caller]
    pub(crate) fn settle(&mut self, master: usize, subnets: usize) {
        for _ in 0..400 {
            self.subnet.run(Time::millis(100));
            let seats = self.subnet.seats.iter().enumerate();
            let one = seats.filter(|(_, seat)| !seat.stopped).all(|(n, seat)| {
                (seat.manager.state() == SmState::Master) == (n == master)
                    && seat.saved.lineage.subnets.len() == subnets
            });
            if one && self.subnet.seats[master].manager.is_idle() {
                return self.subnet.run(Time::secs(1));
            }
        }
        let of = |seat: &seats::Seat| (seat.saved.lineage.master, seat.saved.lineage.subnets.len());
        let lineages: Vec<_> = self.subnet.seats.iter().map(of).collect();
        panic!("not one subnet: {:?} {lineages:?}", self.states());
    }

    /// Every pair that shared a partition does so now, and no other; every address leads to its port from
    /// everywhere.
    #[track_caller]
    pub(crate) fn judge(&self) {
        let (fabric, topology) = (self.subnet.emulator.fabric(), &self.subnet.topology);
        assert_eq!(self.judge.borrow().wrong, Vec::<String>::new());
        let now = pairs(fabric, topology);
        let name = |&(a, b): &(PortIndex, PortIndex)| {
            format!("{} to {}", topology.port_name(a), topology.port_name(b))
        };
        let lost: Vec<String> = self.before.difference(&now).map(name).collect();
        let new: Vec<String> = now.difference(&self.before).map(name).collect();
        assert_eq!((lost, new), (vec![], vec![]));
    }

    /// Entries of a side's switches for the side's own addresses that are not as they were.
    fn rewritten(&self, of: u64) -> usize {
        let (fabric, topology) = (self.subnet.emulator.fabric(), &self.subnet.topology);
        let own: Vec<u16> = hosts(topology)
            .into_iter()
            .filter(|&port| side(topology, topology.port(port).node) == of)
            .flat_map(|port| (1..MOST).filter(move |&lid| holds(fabric, port, lid)))
            .collect();
        let switches = topology.switches().filter(|&switch| side(topology, switch) == of);
        switches
            .map(|switch| {
                let now = fabric.table(switch);
                own.iter()
                    .filter(|&&lid| now.get(Lid(lid)) != self.tables[&switch].get(Lid(lid)))
                    .count()
            })
            .sum()
    }

    /// The partitions that ports are in, but for the default one.
    pub(crate) fn partitions(&self) -> BTreeSet<u16> {
        let (fabric, topology) = (self.subnet.emulator.fabric(), &self.subnet.topology);
        let held = hosts(topology).into_iter().flat_map(|host| keys(fabric, host));
        held.map(|key| key & 0x7FFF).collect()
    }

    /// The numbers of everything, for comparison.
    pub(crate) fn numbers(&self, n: usize) -> Vec<String> {
        let manager = &self.subnet.seats[n].manager;
        let mut numbers = Vec::new();
        let saved = &self.subnet.seats[n].saved;
        numbers.extend(saved.lids.iter().map(|(guid, (lid, lmc))| format!("{guid} {lid}/{lmc}")));
        let were = saved.lineage.were.iter();
        numbers.extend(were.map(|(was, is)| format!("{was:?} {is:?}")));
        let groups = manager.database().all::<Groups>();
        numbers.extend(groups.iter().map(|(mgid, group)| format!("{mgid} {}", group.record.mlid)));
        let members = manager.database().all::<Members>();
        numbers.extend(members.iter().map(|((mgid, guid), _)| format!("{mgid} {guid}")));
        numbers
    }
}

#[test]
fn two_live_subnets_become_one() {
    let mut live = Live::new(2);
    let [north, south] = [0, 1].map(|n| live.subnet.guid(n));
    let lids = |live: &Live, n: usize| -> BTreeSet<Lid> {
        live.subnet.seats[n].saved.lids.values().map(|(lid, _)| *lid).collect()
    };
    assert_eq!(lids(&live, 0), lids(&live, 1), "all LIDs in common");
    let kept = live.subnet.seats[0].saved.lids.clone();
    assert_eq!(live.before.len(), 2 * 12 * 11);
    let blocks = live.subnet.seats[0].manager.metrics().blocks_written;
    let (smps, since) = (live.subnet.seats[0].manager.metrics().smps(), live.subnet.now());
    live.plug(0);
    while live.subnet.seats[0].saved.lineage.subnets.len() < 2 {
        live.subnet.run(Time::micros(100));
    }
    println!("joined {} ms after the cable", (live.subnet.now() - since).nanos() / 1_000_000);
    live.settle(0, 2);
    live.judge();
    // The survivor's numbers stay; the other's partition has a new one, in tables and groups.
    let manager = &live.subnet.seats[0].manager;
    for (guid, lids) in &kept {
        assert_eq!(live.subnet.seats[0].saved.lids.get(guid), Some(lids));
    }
    let lineage = &live.subnet.seats[0].saved.lineage;
    assert_eq!(lineage.master, Some(north));
    let Some(Number::Partition(new)) = lineage.were.get(&(south, Number::Partition(0x10))) else {
        panic!("{lineage:?}");
    };
    let members = |mgid: Gid| {
        manager.database().all::<Members>().iter().filter(|((of, _), _)| *of == mgid).count()
    };
    assert_eq!(members(ip(0xFFFF, 0xFFFF_FFFF)), 8);
    assert_eq!((members(ip(0x8010, 0xFFFF_FFFF)), members(ip(0x8000 | new, 0xFFFF_FFFF))), (4, 4));
    assert_eq!(manager.database().all::<Groups>().len(), 3 + 4 + 4);
    // The other one is a standby with all of it, and holds nothing back.
    let standby = &live.subnet.seats[1];
    assert!(!standby.saved.lineage.untaken && standby.manager.mirrors()[0].whole);
    assert_eq!(live.numbers(1), live.numbers(0));
    let told = live.subnet.seats[0].reports.iter().any(|report| match report {
        Report::Joined(report) => report.absorbed == [south] && !report.tell.is_empty(),
        _ => false,
    });
    assert!(told);
    let metrics = manager.metrics();
    let last = live.subnet.written.iter().filter(|write| write.by == 0).map(|write| write.at).max();
    println!("the last write {} ms after it", (last.unwrap() - since).nanos() / 1_000_000);
    println!(
        "{} SMPs of the winner, {} blocks",
        metrics.smps() - smps,
        metrics.blocks_written - blocks
    );
    // On its side every switch sends to every host as it did.
    assert_eq!(live.rewritten(0x020), 0);
}

/// A port that is silent when its partition table is to be written, or refuses that, is in its groups still when
/// it has taken it.
#[test]
fn members_stay_though_their_tables_are_written_late() {
    members_stay(|node, _, well| {
        Fault::Agent(node, if well { Health::Well } else { Health::Dead })
    });
    members_stay(|_, port, well| Fault::Refuse(port, !well));
}

/// `fault`: of a node and its port, before it is well and when it is.
fn members_stay(fault: impl Fn(NodeIndex, PortIndex, bool) -> Fault) {
    let mut live = Live::new(2);
    live.plug(0);
    while live.subnet.seats[0].saved.lineage.subnets.len() < 2 {
        live.subnet.run(Time::micros(10));
    }
    let topology = &live.subnet.topology;
    let other = side(topology, topology.port(live.subnet.seats[1].at).node);
    let of_other = |&host: &PortIndex| side(topology, topology.port(host).node) == other;
    let late: Vec<PortIndex> =
        hosts(topology).into_iter().filter(of_other).skip(1).take(2).collect();
    for well in [false, true] {
        for &port in &late {
            let node = live.subnet.topology.port(port).node;
            live.subnet.strike(fault(node, port, well));
        }
        live.subnet.run(Time::secs(if well { 30 } else { 5 }));
    }
    live.settle(0, 2);
    let manager = &live.subnet.seats[0].manager;
    let lineage = &live.subnet.seats[0].saved.lineage;
    let south = Number::Partition(0x10);
    let Some(Number::Partition(new)) = lineage.were.get(&(live.subnet.guid(1), south)) else {
        panic!("{lineage:?}");
    };
    let group = ip(0x8000 | new, 0xFFFF_FFFF);
    let all = manager.database().all::<Members>();
    assert_eq!(all.iter().filter(|((of, _), _)| *of == group).count(), 4);
}

/// Whether the managers hear each other in their sessions or not.
#[test]
fn split_again_each_side_is_whole() {
    for sessions in [true, false] {
        let mut live = Live::new(2);
        live.plug(0);
        live.settle(0, 2);
        let numbers = live.numbers(0);
        live.begin();
        live.unplug(0);
        if !sessions {
            live.subnet.hang_up(0, 1);
            live.subnet.hang_up(1, 0);
        }
        live.subnet.run(Time::secs(20));
        assert_eq!(live.states(), [SmState::Master; 2], "{sessions}");
        live.judge();
        // Each is at work: a cable less on its side, and its routes go round.
        for room in ROOMS.iter().take(2) {
            let leaf = seats::port(&live.subnet.topology, &format!("{room}-leaf1"), 4);
            live.subnet.strike(Fault::Cut(leaf));
        }
        live.subnet.run(Time::secs(2));
        live.judge();
        for room in ROOMS.iter().take(2) {
            let leaf = seats::port(&live.subnet.topology, &format!("{room}-leaf1"), 4);
            live.subnet.strike(Fault::Restore(leaf));
        }
        live.subnet.run(Time::secs(2));
        live.judge();
        let lids = |live: &Live| {
            live.subnet.seats.iter().map(|seat| seat.saved.lids.clone()).collect::<Vec<_>>()
        };
        let all = lids(&live);
        assert_eq!(all[0], all[1], "{sessions}");
        // And once more together.
        live.plug(0);
        if !sessions {
            live.subnet.call(0, 1);
            live.subnet.call(1, 0);
        }
        live.settle(0, 2);
        live.judge();
        let again = live.numbers(0);
        let of_ports = |numbers: &[String]| -> Vec<String> {
            numbers.iter().filter(|line| line.contains('/')).cloned().collect()
        };
        assert_eq!(of_ports(&again), of_ports(&numbers), "{sessions}");
    }
}

/// A cable that is cut between the two managers, where there is another way, splits nothing.
#[test]
fn a_way_that_is_cut_is_no_split() {
    let mut live = Live::new(2);
    live.plug(0);
    live.settle(0, 2);
    let way = seats::port(&live.subnet.topology, "2a0-leaf0", 4);
    for fault in [Fault::Cut(way), Fault::Restore(way)] {
        live.subnet.strike(fault);
        live.subnet.run(Time::secs(15));
        assert_eq!(live.states(), [SmState::Master, SmState::Standby]);
        live.judge();
    }
}

/// Where all three meet at once every number is the same. Where one comes later, it is its addresses that give way
/// to what is there by then; partitions, which administrators have to know, have the same numbers all the same.
#[test]
fn three_live_subnets_become_one_in_every_order() {
    let (mut all, mut partitions): (Option<Vec<String>>, _) = (None, None);
    for (order, apart) in [([0, 1], 0), ([1, 0], 0), ([0, 1], 5), ([1, 0], 5)] {
        let mut live = Live::new(3);
        for joint in order {
            live.plug(joint);
            live.subnet.run(Time::secs(apart));
        }
        live.settle(0, 3);
        live.judge();
        let numbers = live.numbers(0);
        if apart == 0 {
            assert_eq!(all.get_or_insert_with(|| numbers.clone()), &numbers, "{order:?}");
        }
        let (topology, fabric) = (&live.subnet.topology, live.subnet.emulator.fabric());
        let of: Vec<_> = hosts(topology).into_iter().map(|host| keys(fabric, host)).collect();
        assert_eq!(of.iter().flatten().collect::<BTreeSet<_>>().len(), 3, "{of:?}");
        assert_eq!(partitions.get_or_insert_with(|| of.clone()), &of, "{order:?} {apart}");
    }
}
