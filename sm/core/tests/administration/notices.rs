//! Notices to subscribers: which, to which of them, how often.

use snin_emulator::Fault;
use snin_mad::sa::*;
use snin_mad::{Hex32, Method, Trap};
use snin_protocol::Time;
use snin_sm_database::config::Config;

use crate::clients::{BROADCAST, OTHERS, broadcast, ip};
use crate::subnet::{Subnet, config};

fn subscribe(
    subnet: &mut Subnet,
    host: usize,
    trap_number: u16,
    subscribe: u8,
) -> snin_mad::Status {
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe,
        kind: 3,
        trap_number,
        qpn: Hex32(1),
        producer: Hex32(4),
        ..InformInfo::default()
    };
    let set = SaRequest::new(Method::Set, &inform, ComponentMask::of(&[1, 4, 5, 6, 7, 8, 12]));
    subnet.ask(host, &set).status
}

/// Reports that are on their way: subscriber, number, GID. They are acknowledged if that is wanted.
fn reports(subnet: &mut Subnet, acknowledge: bool) -> Vec<(usize, u16, snin_mad::Gid)> {
    let mut seen = Vec::new();
    let mut others = std::collections::VecDeque::new();
    while let Some((to, mad)) = subnet.mail.pop_front() {
        if mad.header().method() != Method::Report {
            others.push_back((to, mad));
            continue;
        }
        let host = (0..).find(|&host| subnet.lid(host) == to.lid).unwrap();
        let notice: SaNotice = SaRequest::parse(&mad).unwrap().record().unwrap();
        let inner = notice.notice.parse().unwrap();
        assert_eq!(notice.issuer_gid, subnet.gid(0));
        let gid = match inner.trap().unwrap().unwrap() {
            Trap::GidInService(details)
            | Trap::GidOutOfService(details)
            | Trap::GroupCreated(details)
            | Trap::GroupDeleted(details) => details.gid,
            other => panic!("{other:?}"),
        };
        seen.push((host, inner.trap_number, gid));
        if acknowledge {
            let mut response = mad.clone();
            response.answer(snin_mad::Status::OK);
            subnet.give(to, &response.0);
        }
    }
    subnet.mail = others;
    seen
}

#[test]
fn groups_that_come_and_go_are_told() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    assert!(subscribe(&mut subnet, 1, 66, 1).is_ok());
    assert!(subscribe(&mut subnet, 2, 67, 1).is_ok());
    assert_eq!(subnet.table(1, &InformInfoRecord::default(), &[]).len(), 2);
    let group = broadcast(&subnet, 3);
    let group = subnet.member(3, Method::Set, &group, &BROADCAST).unwrap();
    assert_eq!(reports(&mut subnet, true), [], "it was there before");
    let other = McMemberRecord { mgid: ip(5), mlid: snin_fabric::Lid(0), ..group };
    subnet.member(3, Method::Set, &other, &OTHERS).unwrap();
    assert_eq!(reports(&mut subnet, true), [(1, 66, ip(5))]);
    subnet.member(3, Method::Delete, &other, &[0, 1, 16]).unwrap();
    assert_eq!(reports(&mut subnet, true), [(2, 67, ip(5))]);
    subnet.run(Time::secs(10));
    assert_eq!(reports(&mut subnet, true), [], "each once");
    // A subscription ends; another's cannot be ended.
    assert_eq!(subscribe(&mut subnet, 3, 66, 0), SaStatus::REQ_INVALID);
    assert!(subscribe(&mut subnet, 1, 66, 0).is_ok());
    assert_eq!(subscribe(&mut subnet, 1, 66, 0), SaStatus::REQ_INVALID);
    subnet.member(3, Method::Set, &other, &OTHERS).unwrap();
    assert_eq!(reports(&mut subnet, true), []);
    // Notices of wrong keys go to trusted subscribers only.
    assert_eq!(subscribe(&mut subnet, 1, 257, 1), SaStatus::REQ_INVALID);
}

#[test]
fn a_report_is_repeated_and_given_up() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    assert!(subscribe(&mut subnet, 1, 66, 1).is_ok());
    let group = broadcast(&subnet, 3);
    let group = subnet.member(3, Method::Set, &group, &BROADCAST).unwrap();
    let other = McMemberRecord { mgid: ip(5), mlid: snin_fabric::Lid(0), ..group };
    subnet.member(3, Method::Set, &other, &OTHERS).unwrap();
    subnet.run(Time::secs(60));
    assert_eq!(reports(&mut subnet, false).len(), 4);
    assert_eq!(subnet.manager.administration().reports_given_up, 1);
}

/// A node's own trap, which its agent repeats until it is answered, comes to each subscriber once.
#[test]
fn a_change_of_a_node_is_told_once_to_those_that_want_it() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    for (host, number) in [(1, 144), (2, 145)] {
        let inform = InformInfo {
            lid_begin: ANY_LID,
            is_generic: 1,
            subscribe: 1,
            kind: 4,
            trap_number: number,
            producer: Hex32(1),
            ..InformInfo::default()
        };
        let bits = ComponentMask::of(&[1, 4, 5, 6, 7, 12]);
        assert!(subnet.ask(host, &SaRequest::new(Method::Set, &inform, bits)).status.is_ok());
    }
    let (changed, lid) = (subnet.host(3), subnet.lid(3));
    let node = subnet.topology.port(changed).node;
    subnet.strike(Fault::Rename(node, "another name".to_owned()));
    let mut told = Vec::new();
    for _ in 0..100 {
        subnet.run(Time::millis(100));
        while let Some((to, mad)) = subnet.mail.pop_front() {
            let notice: SaNotice = SaRequest::parse(&mad).unwrap().record().unwrap();
            let inner = notice.notice.parse().unwrap();
            assert_eq!(notice.issuer_gid, subnet.gid(3));
            told.push((mad.header().method(), to.lid, inner.trap_number, inner.issuer));
            let mut response = mad.clone();
            response.answer(snin_mad::Status::OK);
            subnet.give(to, &response.0);
        }
    }
    assert_eq!(told, [(Method::Report, subnet.lid(1), 144, lid)]);
}

/// Data between two limited members is refused by the first port that looks, their switch's. Its trap is counted,
/// and told to whom the operator trusts.
#[test]
fn a_foreign_partition_is_told_to_trusted_subscribers_once() {
    let partitions = "Default=0x7fff : ALL=limited, SELF=full;".parse().unwrap();
    let mut subnet = Subnet::new("clos:2,2,2", Config { partitions, ..config() });
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind: 2,
        trap_number: 259,
        producer: Hex32(2),
        ..InformInfo::default()
    };
    let set = SaRequest::new(Method::Set, &inform, ComponentMask::of(&[1, 4, 5, 6, 7, 12]));
    assert_eq!(subnet.ask(1, &set).status, SaStatus::REQ_INVALID);
    assert!(subnet.ask(2, &set.key(1)).status.is_ok());
    let (from, to, now) = (subnet.host(1), subnet.lid(3), subnet.now());
    subnet.emulator.refuse(from, to, now);
    let mut told = Vec::new();
    for _ in 0..20 {
        subnet.run(Time::millis(100));
        while let Some((to, mad)) = subnet.mail.pop_front() {
            let notice: SaNotice = SaRequest::parse(&mad).unwrap().record().unwrap();
            told.push((to.lid, notice.notice.parse().unwrap().trap_number));
            let mut response = mad.clone();
            response.answer(snin_mad::Status::OK);
            subnet.give(to, &response.0);
        }
    }
    assert_eq!(told, [(subnet.lid(2), 259)]);
    assert_eq!(subnet.manager.metrics().traps.get(&Some(259)), Some(&1));
}

/// How often each of these hosts was told to register again.
fn told(subnet: &Subnet, hosts: std::ops::Range<usize>) -> Vec<u64> {
    hosts.map(|host| subnet.emulator.fabric().reregistrations(subnet.host(host))).collect()
}

#[test]
fn hosts_register_again_exactly_when_what_they_registered_is_forgotten() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let first = told(&subnet, 0..4);
    assert_eq!(first, [1; 4], "with their first address");
    let group = broadcast(&subnet, 3);
    subnet.member(3, Method::Set, &group, &BROADCAST).unwrap();
    assert!(subscribe(&mut subnet, 2, 66, 1).is_ok());
    let flap = |subnet: &mut Subnet, host| {
        let port = subnet.host(host);
        for fault in [Fault::Cut(port), Fault::Restore(port)] {
            subnet.strike(fault);
            subnet.run(Time::secs(1));
            subnet.settle();
        }
    };
    // A port comes back as it was: with its addresses, and in no group any more.
    flap(&mut subnet, 3);
    assert_eq!(told(&subnet, 0..4), [1, 1, 1, 2]);
    flap(&mut subnet, 2);
    assert_eq!(told(&subnet, 0..4), [1, 1, 2, 2]);
    // Nothing of it was registered: nothing is forgotten.
    flap(&mut subnet, 1);
    flap(&mut subnet, 3);
    assert_eq!(told(&subnet, 0..4), [1, 1, 2, 2]);
    subnet.member(3, Method::Set, &group, &BROADCAST).unwrap();
    // The manager comes back, and knows; and comes back without its memory.
    let mut subnet = subnet.restarted(config());
    assert_eq!(told(&subnet, 0..4), [1, 1, 2, 2]);
    subnet.kept.clear();
    let subnet = subnet.restarted(config());
    assert_eq!(told(&subnet, 0..4), [2, 2, 3, 3]);
}

#[test]
fn ports_that_come_and_go_are_told_and_leave_their_groups() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    assert!(subscribe(&mut subnet, 1, 64, 1).is_ok());
    assert!(subscribe(&mut subnet, 1, 65, 1).is_ok());
    let (port, gid) = (subnet.host(3), subnet.gid(3));
    let group = broadcast(&subnet, 3);
    subnet.member(3, Method::Set, &group, &BROADCAST).unwrap();
    subnet.strike(Fault::Cut(port));
    subnet.run(Time::secs(1));
    subnet.settle();
    assert_eq!(reports(&mut subnet, true), [(1, 65, gid)]);
    assert_eq!(subnet.table(1, &group, &[0]), [], "it is in no group any more");
    subnet.strike(Fault::Restore(port));
    subnet.run(Time::secs(1));
    subnet.settle();
    assert_eq!(reports(&mut subnet, true), [(1, 64, gid)]);
    // The routes are in when that is told.
    let path = PathRecord { sgid: subnet.gid(1), dgid: gid, ..PathRecord::default() };
    assert!(subnet.get(1, &path, &[2, 3]).is_ok());
}
