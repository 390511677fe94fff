//! What each requester may see, and what is not even refused.

use snin_administration::Unanswered;
use snin_fabric::Lid;
use snin_mad::sa::*;
use snin_mad::{Method, Octets, PKey, Status};
use snin_sm_core::Event;
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::Origin;

use crate::clients::{BROADCAST, broadcast};
use crate::subnet::{Subnet, config};

#[test]
fn keys_make_the_difference() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let wanted = broadcast(&subnet, 1);
    subnet.member(1, Method::Set, &wanted, &BROADCAST).unwrap();
    let ask = |subnet: &mut Subnet, key, request: &SaRequest| {
        subnet.try_ask(1, &request.clone().key(key))
    };
    let members = SaRequest::new(Method::GetTable, &McMemberRecord::default(), ComponentMask(0));
    // Not trusted: a record a group, which names no member.
    let answer = ask(&mut subnet, 0, &members).unwrap();
    let [group] = &answer.records::<McMemberRecord>().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((group.port_gid.0, group.join_state.0), ([0; 16], 0));
    // Trusted: a record a member.
    let answer = ask(&mut subnet, 1, &members).unwrap();
    let [member] = &answer.records::<McMemberRecord>().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((member.port_gid, member.join_state.0), (subnet.gid(1), 1));
    // A wrong key: silence, counted.
    assert!(ask(&mut subnet, 7, &members).is_none());
    assert_eq!(subnet.manager.administration().unanswered[&Unanswered::WrongKey], 1);
    // The partition tables, which OpenSM refuses with the same status.
    let keys = SaRequest::new(Method::GetTable, &PKeyTableRecord::default(), ComponentMask(0));
    assert_eq!(ask(&mut subnet, 0, &keys).unwrap().status, SaStatus::REQ_INVALID);
    let table: Vec<PKeyTableRecord> = ask(&mut subnet, 1, &keys).unwrap().records().collect();
    assert!(table.len() >= 4 && table[0].table.parse().unwrap().keys[0] == PKey::DEFAULT);
    // A service's key.
    let key = Octets([9; 16]);
    let service = ServiceRecord { id: 1, gid: subnet.gid(1), key, ..ServiceRecord::default() };
    let set = SaRequest::new(Method::Set, &service, ComponentMask::of(&[0, 1, 5]));
    assert!(subnet.ask(1, &set).status.is_ok());
    let all = SaRequest::new(Method::GetTable, &ServiceRecord::default(), ComponentMask(0));
    let shown = |answer: SaRequest| answer.records::<ServiceRecord>().next().unwrap().key;
    assert_eq!(shown(ask(&mut subnet, 0, &all).unwrap()), Octets([0; 16]));
    assert_eq!(shown(ask(&mut subnet, 1, &all).unwrap()), key);
    // Which keys go with which names.
    let all = ServiceAssociationRecord::default();
    let all = SaRequest::new(Method::GetTable, &all, ComponentMask(0));
    assert_eq!(ask(&mut subnet, 0, &all).unwrap().status, SaStatus::DENIED);
    let told: Vec<ServiceAssociationRecord> =
        ask(&mut subnet, 1, &all).unwrap().records().collect();
    assert_eq!(told, [ServiceAssociationRecord { key, name: service.name }]);
    // No other port changes it.
    let other = ServiceRecord { key: Octets([8; 16]), ..service };
    let set = SaRequest::new(Method::Set, &other, ComponentMask::of(&[0, 1, 5]));
    assert_eq!(subnet.ask(1, &set).status, SaStatus::DENIED);
}

#[test]
fn nobody_asks_in_a_partition_that_it_is_not_in() {
    let partitions = "Default=0x7fff : ALL=full; 1 : ALL=full;".parse().unwrap();
    let mut subnet = Subnet::new("clos:2,2,2", Config { partitions, ..config() });
    let own = NodeRecord { lid: subnet.lid(1), ..NodeRecord::default() };
    let request = SaRequest::new(Method::Get, &own, ComponentMask::of(&[0])).mad();
    for (key, answered) in [(0x8001, 1), (0x0001, 2), (0x8002, 2), (0x0000, 2), (0x7FFF, 3)] {
        subnet.give(Origin { p_key: PKey(key), ..subnet.origin(1) }, &request.0);
        assert_eq!(subnet.mail.len(), answered, "{key:#x}");
    }
    assert!(subnet.mail.iter().any(|(to, _)| to.p_key == PKey(0x8001)), "in the same partition");
    assert_eq!(subnet.manager.administration().unanswered[&Unanswered::ForeignPartition], 2);
}

#[test]
fn too_much_at_once_is_dropped_and_counted_or_refused_where_that_is_set() {
    for busy in [false, true] {
        let mut subnet = Subnet::new("clos:2,2,2", Config { sa_busy: busy, ..config() });
        let own = NodeRecord { lid: subnet.lid(1), ..NodeRecord::default() };
        let request = SaRequest::new(Method::Get, &own, ComponentMask::of(&[0]));
        // The port takes nothing for a while.
        subnet.tell(Event::Crowded(true));
        for id in 0..40_000 {
            subnet.give(subnet.origin(1), &request.clone().transaction(id).mad().0);
        }
        assert!(subnet.mail.is_empty());
        subnet.tell(Event::Crowded(false));
        subnet.run(snin_protocol::Time::secs(1));
        let status = |(_, mad): &(Origin, snin_mad::Mad)| mad.header().status();
        let served = subnet.mail.iter().filter(|mail| status(mail).is_ok()).count();
        let refused = subnet.mail.iter().filter(|mail| status(mail) == Status::BUSY).count();
        assert_eq!((served, refused), (16_384, if busy { 8_192 } else { 0 }));
        let metrics = subnet.manager.administration();
        assert_eq!(metrics.unanswered[&Unanswered::Overload], 40_000 - 16_384);
        // Afterwards all is well.
        assert!(subnet.get(1, &own, &[0]).is_ok());
    }
}

#[test]
fn nobody_asks_from_nowhere() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let request = SaRequest::new(Method::GetTable, &NodeRecord::default(), ComponentMask(0)).mad();
    for lid in [0, 0x4000, 0xC000, 0xFFFF] {
        subnet.give(Origin { lid: Lid(lid), qp: 1, sl: 0, p_key: PKey::DEFAULT }, &request.0);
    }
    assert!(subnet.mail.is_empty());
    assert_eq!(subnet.manager.administration().unanswered[&Unanswered::UnknownRequester], 4);
    // Another port's GID: the port is named, not the one who asks, and only the operator may.
    let foreign = McMemberRecord {
        port_gid: snin_mad::Gid::new(snin_mad::GidPrefix(0x1234), subnet.guid(2)),
        ..broadcast(&subnet, 1)
    };
    let refused = subnet.member(1, Method::Set, &foreign, &BROADCAST);
    assert_eq!(refused, Err(SaStatus::INVALID_GID));
    let unknown = McMemberRecord {
        port_gid: snin_mad::Gid::new(crate::subnet::PREFIX, snin_fabric::Guid(0x1234)),
        ..broadcast(&subnet, 1)
    };
    let refused = subnet.member(1, Method::Set, &unknown, &BROADCAST);
    assert_eq!(refused, Err(SaStatus::REQ_INVALID));
}

#[test]
fn a_client_that_never_acknowledges_costs_bounded_memory_and_time() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let from = subnet.origin(1);
    let request = SaRequest::new(Method::GetTable, &NodeRecord::default(), ComponentMask(0));
    for id in 0..10_000 {
        subnet.give(from, &request.clone().transaction(id).mad().0);
    }
    // One segment each: no window is open for more.
    assert_eq!(subnet.mail.len(), 10_000);
    // The same number again is another program's question.
    subnet.give(from, &request.transaction(9_999).mad().0);
    assert_eq!(subnet.mail.len(), 10_001);
    subnet.run(snin_protocol::Time::secs(60));
    assert!(subnet.mail.len() <= 10_001 + 4_096, "{}", subnet.mail.len());
    let sent = subnet.mail.len();
    subnet.run(snin_protocol::Time::secs(60));
    assert_eq!(subnet.mail.len(), sent, "it is over");
}
