//! Records as they are found: whole tables and keyed ones, one answer and none.

use std::collections::BTreeSet;

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::sa::*;
use snin_mad::{Attribute as _, ClassPortInfo, Gid, GuidInfo, Inner, Method, NodeInfo, Status};

use crate::subnet::{PREFIX, Subnet, config};

#[test]
fn a_table_is_the_union_of_its_keyed_queries() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let topology = subnet.topology.clone();
    let nodes: Vec<NodeRecord> = subnet.table(1, &NodeRecord::default(), &[]);
    assert_eq!(nodes.len(), topology.node_count());
    let mut links = 0;
    for node in &nodes {
        assert_eq!(subnet.table(1, node, &[0]), std::slice::from_ref(node));
        let port_guid = node.info.parse().unwrap().port_guid;
        let info = NodeInfo { port_guid, ..NodeInfo::default() };
        let wanted = NodeRecord { info: Inner::of(&info), ..NodeRecord::default() };
        assert_eq!(subnet.get(1, &wanted, &[8]).as_ref(), Ok(node));
        let from = LinkRecord { from_lid: node.lid, ..LinkRecord::default() };
        links += subnet.table(1, &from, &[0]).len();
    }
    let all: Vec<LinkRecord> = subnet.table(1, &LinkRecord::default(), &[]);
    assert_eq!((all.len(), links), (2 * topology.cable_count(), links));
    assert_eq!(all.len(), links);
    // Every address of a port stands for the first.
    let host = nodes.iter().find(|node| node.lid == subnet.lid(2)).unwrap();
    let other = NodeRecord { lid: Lid(host.lid.0 + 1), ..NodeRecord::default() };
    assert_eq!(subnet.get(1, &other, &[0]).as_ref(), Ok(host));
    // Ports: of switches all, port 0 too.
    let ports: Vec<PortInfoRecord> = subnet.table(1, &PortInfoRecord::default(), &[]);
    let expected: usize = topology
        .nodes()
        .map(|node| usize::from(topology.is_switch(node)) + topology.external_ports(node).count())
        .sum();
    assert_eq!(ports.len(), expected);
    let lids: BTreeSet<Lid> = ports.iter().map(|port| port.lid).collect();
    assert_eq!(lids, nodes.iter().map(|node| node.lid).collect());
    for switch in subnet.table(1, &SwitchInfoRecord::default(), &[]) {
        let top = switch.info.parse().unwrap().linear_fdb_top;
        let wanted = LinearForwardingRecord { lid: switch.lid, ..Default::default() };
        assert_eq!(subnet.table(1, &wanted, &[0]).len(), usize::from(top.0 / 64) + 1);
    }
}

#[test]
fn tables_longer_than_a_datagram_come_whole() {
    let mut subnet = Subnet::new("clos:36,18,18", config());
    let nodes: Vec<NodeRecord> = subnet.table(1, &NodeRecord::default(), &[]);
    let guids: BTreeSet<_> = nodes.iter().map(|n| n.info.parse().unwrap().port_guid).collect();
    assert_eq!((nodes.len(), guids.len()), (702, 702));
    let ports = subnet.table(1, &PortInfoRecord::default(), &[]);
    assert_eq!(ports.len(), 648 + 54 * 37);
    let from = PathRecord { sgid: subnet.gid(3), ..PathRecord::default() };
    assert!(subnet.table(3, &from, &[3]).len() > 648);
}

#[test]
fn a_get_has_one_answer_or_a_reason() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let nothing = NodeRecord { lid: Lid(0x7777), ..NodeRecord::default() };
    assert_eq!(subnet.get(1, &nothing, &[0]), Err(SaStatus::NO_RECORDS));
    assert_eq!(subnet.table(1, &nothing, &[0]), []);
    let many = subnet.get(1, &NodeRecord::default(), &[]);
    assert_eq!(many, Err(SaStatus::TOO_MANY_RECORDS));
    assert_eq!(subnet.table(1, &RandomForwardingRecord::default(), &[]), []);
    let info = subnet.get(1, &ClassPortInfo::default(), &[]).unwrap();
    assert_eq!((info.base_version, info.class_version), (1, 2));
    // Methods that an attribute does not have, and methods that none has.
    let refused = |subnet: &mut Subnet, method, attribute| {
        let request = SaRequest::new(method, &LinkRecord::default(), ComponentMask(0));
        let request = SaRequest { attribute: snin_mad::AttributeId(attribute), ..request };
        subnet.ask(1, &request).status
    };
    assert_eq!(refused(&mut subnet, Method::Set, 0x11), Status::BAD_METHOD_ATTRIBUTE);
    assert_eq!(refused(&mut subnet, Method::GetMulti, 0x20), Status::BAD_METHOD_ATTRIBUTE);
    assert_eq!(refused(&mut subnet, Method::Get, 0x99), Status::BAD_METHOD_ATTRIBUTE);
    // An answer says nothing of the key, and repeats the mask.
    let request = SaRequest::new(
        Method::Get,
        &NodeRecord { lid: subnet.lid(2), ..NodeRecord::default() },
        ComponentMask::of(&[0]),
    )
    .key(1);
    let answer = subnet.ask(1, &request);
    assert_eq!((answer.sm_key.0, answer.mask.0, answer.attribute_offset), (0, 1, 14));
}

#[test]
fn lanes_are_read_when_they_are_asked_for() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let read = |subnet: &Subnet| {
        let sent = |id| subnet.sent.get(&(id, Method::Get.code())).copied().unwrap_or(0);
        [snin_mad::SlToVl::ID, snin_mad::VlArbitration::ID].map(sent)
    };
    assert_eq!(read(&subnet), [0, 0], "no part of a bring-up");
    let topology = subnet.topology.clone();
    let views = subnet.manager.metrics().views;
    // An adapter's port by number 0, as osmtest has it; a port of a switch.
    let host = VlArbitrationRecord { lid: subnet.lid(2), block: 1, ..Default::default() };
    for block in 1..=4 {
        let wanted = VlArbitrationRecord { block, ..host.clone() };
        let found = subnet.get(1, &wanted, &[0, 1, 2]).unwrap();
        assert_eq!((found.lid, found.port, found.block), (host.lid, PortNum(1), block));
    }
    let once = read(&subnet);
    assert!(once.iter().sum::<u64>() < 10, "of that port alone: {once:?}");
    let mapping = SlToVlRecord { lid: subnet.lid(2), ..SlToVlRecord::default() };
    assert!(subnet.get(1, &mapping, &[0, 1, 2]).is_ok());
    assert_eq!(read(&subnet), once, "and once");
    // All of all nodes, those of ports without a cable too.
    let ports = |node| 1 + topology.external_ports(node).count();
    let switches: Vec<_> = topology.switches().collect();
    let adapters = topology.node_count() - switches.len();
    let all: Vec<VlArbitrationRecord> = subnet.table(1, &VlArbitrationRecord::default(), &[]);
    let expected: usize = switches.iter().map(|&node| ports(node)).sum();
    assert_eq!(all.len(), 4 * (expected + adapters));
    let square = |&node: &_| (ports(node) - 1) * (ports(node) - 1) + 1;
    let maps: Vec<SlToVlRecord> = subnet.table(1, &SlToVlRecord::default(), &[]);
    assert_eq!(maps.len(), switches.iter().map(square).sum::<usize>() + adapters);
    let whole = read(&subnet);
    subnet.table::<SlToVlRecord>(1, &SlToVlRecord::default(), &[]);
    assert_eq!(read(&subnet), whole);
    assert_eq!(subnet.manager.metrics().views, views, "nothing else came of it");
}

#[test]
fn services_end_with_their_lease() {
    use snin_protocol::Time;
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let service = |subnet: &Subnet, id, lease| ServiceRecord {
        id,
        gid: subnet.gid(1),
        lease,
        ..ServiceRecord::default()
    };
    for (id, lease, bits) in [(1, 10, &[0, 1, 4][..]), (2, 100, &[0, 1, 4]), (3, 0, &[0, 1])] {
        let record = service(&subnet, id, lease);
        let set = SaRequest::new(Method::Set, &record, ComponentMask::of(bits));
        assert!(subnet.ask(1, &set).status.is_ok());
    }
    let ids = |subnet: &mut Subnet| {
        let all = subnet.table(1, &ServiceRecord::default(), &[]);
        all.into_iter().map(|service| (service.id, service.lease)).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut subnet), [(1, 10), (2, 100), (3, u32::MAX)]);
    subnet.run(Time::secs(50));
    assert_eq!(ids(&mut subnet), [(2, 50), (3, u32::MAX)]);
    let delete =
        SaRequest::new(Method::Delete, &service(&subnet, 3, 0), ComponentMask::of(&[0, 1]));
    assert!(subnet.ask(1, &delete).status.is_ok());
    assert_eq!(subnet.ask(1, &delete).status, SaStatus::NO_RECORDS);
    subnet.run(Time::secs(51));
    assert_eq!(ids(&mut subnet), []);
    let short = SaRequest::new(Method::Set, &service(&subnet, 4, 0), ComponentMask::of(&[0]));
    assert_eq!(subnet.ask(1, &short).status, SaStatus::REQ_INVALID);
}

#[test]
fn a_port_has_further_guids_as_long_as_it_wants() {
    let mut subnet = Subnet::new("clos:2,2,2", config());
    let (own, mine) = (subnet.guid(1), Guid(0x1234));
    let asked = |lid, second: Guid| {
        let mut guids = [Guid(0); 8];
        guids[2] = second;
        GuidInfoRecord { lid, block: 0, guids: Inner::of(&GuidInfo { guids }) }
    };
    let set = |subnet: &mut Subnet, host: usize, method, second| {
        let wanted = asked(subnet.lid(1), second);
        // The block's entries 1 and 2.
        let request = SaRequest::new(method, &wanted, ComponentMask::of(&[0, 1, 5, 6]));
        let answer = subnet.ask(host, &request);
        let guids = |record: GuidInfoRecord| record.guids.parse().unwrap().guids;
        if answer.status.is_ok() { Ok(guids(answer.record().unwrap())) } else { Err(answer.status) }
    };
    // One of the manager's choice, and one of the port's own.
    let [first, chosen, second, rest @ ..] = set(&mut subnet, 1, Method::Set, mine).unwrap();
    assert_eq!((first, second, rest), (own, mine, [Guid(0); 5]));
    assert!(chosen != Guid(0) && chosen != own);
    // Paths lead to each of them, and another port cannot have one, nor change this port's.
    let path = |subnet: &mut Subnet, to: Guid| {
        let (sgid, dgid) = (subnet.gid(3), Gid::new(PREFIX, to));
        let wanted = PathRecord { sgid, dgid, numb_path: 1, ..PathRecord::default() };
        subnet.get(3, &wanted, &[2, 3, 12]).map(|path| path.dlid)
    };
    for guid in [own, chosen, mine] {
        assert_eq!(path(&mut subnet, guid), Ok(subnet.lid(1)), "{guid}");
    }
    let other = subnet.guid(2);
    assert_eq!(set(&mut subnet, 1, Method::Set, other), Err(SaStatus::REQ_INVALID));
    // Again the same changes nothing.
    assert_eq!(set(&mut subnet, 1, Method::Set, mine).unwrap()[..3], [own, chosen, mine]);
    assert_eq!(set(&mut subnet, 2, Method::Set, mine), Err(SaStatus::DENIED));
    assert_eq!(set(&mut subnet, 2, Method::Delete, mine), Err(SaStatus::DENIED));
    // They outlive the manager, and end when the port says so.
    let mut subnet = subnet.restarted(config());
    assert_eq!(path(&mut subnet, mine), Ok(subnet.lid(1)));
    assert_eq!(
        set(&mut subnet, 1, Method::Delete, mine).map(|guids| guids[..3].to_vec()),
        Ok(vec![own, Guid(0), Guid(0)])
    );
    assert_eq!(path(&mut subnet, mine), Err(SaStatus::NO_RECORDS));
    assert_eq!(path(&mut subnet, own), Ok(subnet.lid(1)));
}
