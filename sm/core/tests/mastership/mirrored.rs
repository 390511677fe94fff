//! A standby's copy of the master's database, and what it is good for when the master is gone.

use snin_fabric::{Lid, NodeKind, PortIndex};
use snin_mad::sa::{
    ComponentMask, InformInfo, JoinState, McMemberRecord, Record, SaRequest, ServiceRecord,
};
use snin_mad::{
    Attribute as _, Gid, GidPrefix, LinearForwarding, Method, MulticastForwarding, PKey, QKey,
    SmState,
};
use snin_mastership::mirror::{MirrorEvent, MirrorReport};
use snin_protocol::Time;
use snin_sm_core::{Event, Manager, Report};
use snin_sm_database::config::Config;
use snin_sm_database::keys::KeyPolicy;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::{Aliases, Groups, KeptRecord, Links, Nodes, Services};
use snin_sweep::Missing;
use snin_sweep::Report as SweepReport;

use crate::subnet::{Subnet, config};

const PREFIX: GidPrefix = GidPrefix(0xFE80_0000_0000_0000);
/// What is said of a group that is created.
const CREATE: [u8; 9] = [0, 1, 2, 6, 7, 12, 13, 14, 16];

pub(crate) fn hosts(subnet: &Subnet) -> Vec<PortIndex> {
    let topology = &subnet.topology;
    let adapters = topology.nodes().filter(|&n| topology.node(n).kind == NodeKind::Adapter);
    adapters.filter_map(|node| Some(topology.cables(node).next()?.0)).collect()
}

/// A host asks a manager for something.
fn ask<R: Record>(subnet: &mut Subnet, n: usize, host: usize, record: &R, bits: &[u8]) {
    let port = hosts(subnet)[host];
    let now = subnet.now();
    let manager = &mut subnet.seats[n].manager;
    // A port that is cut off is not in the view.
    let guid = subnet.topology.port(port).guid;
    let lid = manager.view().and_then(|view| {
        let known = view.topology();
        view.addresses().base(known.ports().find(|&port| known.port(port).guid == guid)?)
    });
    let Some(lid) = lid else { return };
    let from = Origin { lid, qp: 1, sl: 0, p_key: PKey::DEFAULT };
    let request = SaRequest::new(Method::Set, record, ComponentMask::of(bits));
    let id = now.nanos() + host as u64;
    let mad = request.transaction(id).mad();
    manager.handle(Event::General { port: LocalPort(0), from, bytes: &mad.0 }, now);
    subnet.run(Time::millis(1));
}

fn gid(subnet: &Subnet, host: usize) -> Gid {
    Gid::new(PREFIX, subnet.topology.port(hosts(subnet)[host]).guid)
}

/// Every host is in one of three groups, offers a service and wants to be told of ports.
pub(crate) fn register(subnet: &mut Subnet, n: usize, group: u8) {
    for host in 1..hosts(subnet).len() {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1], mgid[14], mgid[15]) = (0xFF, 0x12, group, host as u8 % 3);
        let member = McMemberRecord {
            mgid: Gid(mgid),
            port_gid: gid(subnet, host),
            q_key: QKey(0xB1B),
            p_key: PKey::DEFAULT,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        ask(subnet, n, host, &member, &CREATE);
        let service = ServiceRecord {
            id: 0x10 + u64::from(group),
            gid: gid(subnet, host),
            p_key: PKey::DEFAULT,
            lease: 3_600,
            ..ServiceRecord::default()
        };
        ask(subnet, n, host, &service, &[0, 1, 2, 4]);
        let inform = InformInfo {
            subscribe: 1,
            is_generic: 1,
            kind: 0xFFFF,
            lid_begin: Lid(0xFFFF),
            trap_number: 64 + u16::from(group),
            ..InformInfo::default()
        };
        ask(subnet, n, host, &inform, &[]);
    }
}

/// What hosts said, without what was removed.
pub(crate) fn kept(manager: &Manager) -> Vec<KeptRecord> {
    let all = manager.database().kept().into_iter();
    all.filter(|record| !record.is_removed()).collect()
}

/// Whether a manager's copy is what the other one has: what was found, and what hosts said.
#[track_caller]
pub(crate) fn assert_equal(subnet: &Subnet, a: usize, b: usize) {
    let [a, b] = [a, b].map(|n| &subnet.seats[n].manager);
    assert_eq!(kept(a), kept(b));
    let nodes = |manager: &Manager| {
        let all = manager.database().all::<Nodes>();
        all.entries().map(|(key, value, stamp)| (*key, value.cloned(), stamp)).collect::<Vec<_>>()
    };
    assert_eq!(nodes(a), nodes(b));
    let links = |manager: &Manager| {
        let all = manager.database().all::<Links>();
        all.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>()
    };
    assert_eq!(links(a), links(b));
    assert_ne!(links(a), []);
}

/// Two managers that call each other, the first of them master, with what hosts said.
pub(crate) fn pair(recipe: &str) -> Subnet {
    pair_of(recipe, config)
}

/// Those of these settings, by priority.
pub(crate) fn pair_of(recipe: &str, config: impl Fn(u8) -> Config) -> Subnet {
    begun(seated(recipe, config))
}

/// Two managers that have not begun.
pub(crate) fn seated(recipe: &str, config: impl Fn(u8) -> Config) -> Subnet {
    let mut subnet = Subnet::new(recipe);
    subnet.seat("host0", config(5));
    let last = hosts(&subnet).len() - 1;
    subnet.seat(&format!("host{last}"), config(1));
    subnet
}

/// One after the other begins.
pub(crate) fn begun(mut subnet: Subnet) -> Subnet {
    subnet.call(0, 1);
    subnet.call(1, 0);
    subnet.start(0);
    subnet.run(Time::secs(1));
    subnet.start(1);
    subnet.run(Time::secs(1));
    register(&mut subnet, 0, 1);
    subnet.run(Time::secs(1));
    subnet
}

pub(crate) fn blocks(manager: &Manager) -> [u64; 2] {
    let set = Method::Set.code();
    let sent = |id| manager.metrics().sent.get(&(id, set)).copied().unwrap_or(0);
    [sent(LinearForwarding::ID), sent(MulticastForwarding::ID)]
}

#[test]
fn a_standby_has_all_that_the_master_knows() {
    let mut two = pair("clos:4,2,4");
    assert_equal(&two, 0, 1);
    let states = two.seats[0].manager.mirrors();
    let [state] = &states[..] else { panic!("{states:?}") };
    assert_eq!((state.follows, state.whole, state.behind), (true, true, 0));
    assert_eq!(state.differ, Vec::<String>::new());
    // It goes on where it stopped: what was said meanwhile comes from the log, and nothing is read anew.
    two.hang_up(1, 0);
    two.run(Time::secs(1));
    register(&mut two, 0, 2);
    assert_ne!(kept(&two.seats[0].manager), kept(&two.seats[1].manager));
    two.call(1, 0);
    two.run(Time::secs(1));
    assert_equal(&two, 0, 1);
    let complete =
        |report: &&Report| matches!(report, Report::Mirror(MirrorReport::Complete { .. }));
    assert_eq!(two.seats[1].reports.iter().filter(complete).count(), 1);
}

#[test]
fn a_difference_is_named_and_mended() {
    let mut two = pair("clos:4,2,4");
    // One change is lost on its way.
    two.run(Time::secs(1));
    let before = kept(&two.seats[1].manager);
    two.seats[1].stopped = true;
    register(&mut two, 0, 3);
    two.said.retain(|(_, event)| {
        !matches!(event, MirrorEvent::Heard(_, snin_protocol::mirror::FromMaster::Part(part))
            if String::from_utf8_lossy(&part.lines).contains("service"))
    });
    two.seats[1].stopped = false;
    two.run(Time::millis(300));
    assert_ne!(kept(&two.seats[1].manager), before);
    assert_ne!(kept(&two.seats[1].manager), kept(&two.seats[0].manager));
    two.run(Time::secs(60));
    assert_equal(&two, 0, 1);
    let named = two.seats[1].reports.iter().any(|report| {
        matches!(report, Report::Mirror(MirrorReport::Differs { table: "services", .. }))
    });
    assert!(named, "{:?}", two.seats[1].reports);
}

/// When its master changes each host registers again. That moves no group, and writes no table: after a failover
/// and after a HANDOVER.
#[test]
fn the_storm_of_rejoins_moves_no_group() {
    let mut two = pair("clos:4,2,4");
    let groups = |manager: &Manager| -> Vec<(Gid, u16)> {
        let all = manager.database().all::<Groups>();
        all.iter().map(|(mgid, group)| (*mgid, group.record.mlid.0)).collect()
    };
    let before = groups(&two.seats[0].manager);
    assert!(before.len() > 3, "{before:?}");
    for new in [1, 0] {
        if new == 1 {
            let (event, now) = (Event::Priority(9), two.now());
            two.seats[1].manager.handle(event, now);
        } else {
            two.kill(1);
        }
        two.run(Time::secs(5));
        two.check(new);
        let tables = blocks(&two.seats[new].manager);
        register(&mut two, new, 1);
        two.run(Time::secs(1));
        assert_eq!(groups(&two.seats[new].manager), before);
        assert_eq!(blocks(&two.seats[new].manager), tables, "by manager {new}");
    }
}

#[test]
fn settings_that_differ_are_named() {
    let mut two = Subnet::new("clos:4,2,4");
    two.seat("host0", config(5));
    let partitions = "7 : ALL=full;".parse().unwrap();
    two.seat("host7", Config { partitions, ..config(1) });
    two.call(1, 0);
    two.start(0);
    two.run(Time::secs(1));
    two.start(1);
    two.run(Time::secs(1));
    let differ = two.seats[1].manager.mirrors()[0].differ.clone();
    assert_eq!(differ.len(), 1, "{differ:?}");
    assert!(differ[0].starts_with("partitions is 1 lines, 0x"), "{differ:?}");
    assert!(differ[0].ends_with(" here and by default there"), "{differ:?}");
}

/// Killed three times, each time the other one: nothing that hosts said is lost, no table is written, no group
/// gets another address.
#[test]
fn a_failover_loses_nothing_and_writes_no_table() {
    let mut two = pair("clos:6,3,4");
    for turn in 0..3 {
        let (old, new) = (turn % 2, 1 - turn % 2);
        let (said, before) = (kept(&two.seats[old].manager), blocks(&two.seats[new].manager));
        assert!(said.len() > 60, "{said:?}");
        two.kill(old);
        two.run(Time::secs(5));
        two.check(new);
        let manager = &two.seats[new].manager;
        assert_eq!(kept(manager), said, "after {} failovers", turn + 1);
        assert_eq!(blocks(manager), before, "after {} failovers", turn + 1);
        assert!(manager.database().all::<Services>().len() >= 22);
        assert_eq!(manager.database().all::<Aliases>().len(), 0);
        two.revive(old, config([5, 1][old]), false);
        two.call(0, 1);
        two.call(1, 0);
        two.run(Time::secs(5));
        // The one with the higher priority is master again, and has what the other one was told.
        two.check(0);
        assert_equal(&two, 0, 1);
        if turn == 0 {
            let priority = Event::Priority(9);
            let now = two.now();
            two.seats[1].manager.handle(priority, now);
            two.run(Time::secs(3));
            two.check(1);
            register(&mut two, 1, 7);
            two.run(Time::secs(1));
        }
    }
    assert_eq!(two.states()[0], SmState::Master);
}

/// Where M_Keys are generated the secret is not told where others can read it. The next master has what hosts
/// said, and surveys: at level 0 ports show their keys, and get its own; at level 1 they show none, and are
/// named until they do.
#[test]
fn without_the_secret_the_next_master_has_what_hosts_said_and_asks_ports_for_their_keys() {
    for level in [0, 1] {
        let generated = |priority| Config {
            m_key_policy: KeyPolicy::PerPort,
            m_key_protect: level,
            m_key_lease_s: 2 * u16::from(level),
            ..config(priority)
        };
        let mut two = seated("clos:3,2,2", generated);
        two.seats.iter_mut().for_each(|seat| seat.manager.set_readable(true));
        let mut two = begun(two);
        assert_equal(&two, 0, 1);
        assert_ne!(two.seats[0].saved.keys, two.seats[1].saved.keys, "the secret was not told");
        let before = kept(&two.seats[0].manager);
        two.kill(0);
        two.run(Time::secs(3));
        let took = |report: &Report| matches!(report, Report::Sweep(SweepReport::TookOver { .. }));
        assert!(!two.seats[1].reports.iter().any(took), "it surveys");
        if level == 1 {
            let locked = |missing: &Missing| matches!(missing, Missing::Locked { .. });
            let missing = two.seats[1].manager.missing();
            assert!(missing.iter().any(locked), "{missing:?}");
        }
        // When the lease of a wrong key has run out a port shows its own.
        two.run(Time::secs(40));
        assert_eq!(two.seats[1].manager.state(), SmState::Master);
        two.check(1);
        assert_eq!(kept(&two.seats[1].manager), before, "level {level}");
    }
}
