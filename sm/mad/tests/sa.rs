//! Records of subnet administration as OpenSM 3.3.23 sends them and as Linux asks for them, byte by byte.

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::sa::*;
use snin_mad::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The record in `hex`, which is also what it is written as.
fn golden<R: Record + PartialEq + std::fmt::Debug>(hex: &str, record: &R) {
    let expected = bytes(hex);
    assert_eq!(&R::from_bytes(&expected).unwrap(), record);
    let written = record.bytes();
    assert_eq!(&written.as_ref()[..expected.len()], expected, "{}", R::LAYOUT.name);
    assert!(written.as_ref()[expected.len()..].iter().all(|&byte| byte == 0));
}

fn ipoib() -> Gid {
    Gid(bytes("ff12401bffff00000000 0000ffffffff").try_into().unwrap())
}

#[test]
fn the_broadcast_group_of_ip() {
    golden(
        "ff12401bffff00000000 0000ffffffff  fe80000000000000 0002c90300a1b2c3  00000b1b c000 84 00 \
         ffff 83 92 00000000 21 00 0000",
        &McMemberRecord {
            mgid: ipoib(),
            port_gid: Gid::new(GidPrefix(0xFE80_0000_0000_0000), Guid(0x0002_c903_00a1_b2c3)),
            q_key: QKey(0xb1b),
            mlid: Lid(0xC000),
            mtu_selector: Selector::Exactly,
            mtu: 4,
            p_key: PKey(0xFFFF),
            rate_selector: Selector::Exactly,
            rate: 3,
            lifetime_selector: Selector::Exactly,
            lifetime: 18,
            scope: 2,
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        },
    );
}

#[test]
fn a_path_as_rdma_cm_asks_for_it() {
    // ServiceID, DGID, SGID, Reversible, NumbPath, P_Key, QoSClass (linux drivers/infiniband/core/cma.c).
    let mask = ComponentMask::of(&[0, 1, 2, 3, 11, 12, 13, 14]);
    assert_eq!(mask.0, 0x780F);
    let record = PathRecord {
        service_id: 0x0000_0000_0106_4321,
        dgid: Gid::new(GidPrefix(0xFE80_0000_0000_0000), Guid(0x11)),
        sgid: Gid::new(GidPrefix(0xFE80_0000_0000_0000), Guid(0x22)),
        reversible: true,
        numb_path: 1,
        p_key: PKey(0xFFFF),
        ..PathRecord::default()
    };
    golden(
        "0000000001064321 fe800000000000000000000000000011 fe800000000000000000000000000022 \
         0000 0000 00000000 00 81 ffff 0000 00 00 00 00",
        &record,
    );
    let mad = SaRequest::new(Method::Get, &record, mask).transaction(0x1234).mad();
    assert_eq!(
        &mad.0[..36],
        bytes(
            "01030201 00000000 0000000000001234 00350000 00000000 \
        00000000 00000000 00000000"
        )
    );
    assert_eq!(mad.0[36..56], bytes("0000000000000000 0008 0000 000000000000780f")[..]);
    let parsed = SaRequest::parse(&mad).unwrap();
    assert_eq!(parsed.record::<PathRecord>(), Ok(record));
    assert!(parsed.record::<NodeRecord>().is_err());
}

#[test]
fn a_subscription_of_srp_daemon() {
    golden(
        "00000000000000000000000000000000 ffff 0000 0000 01 01 0003 0040 00000112 00 000004",
        &InformInfo {
            lid_begin: ANY_LID,
            is_generic: 1,
            subscribe: 1,
            kind: 3,
            trap_number: 64,
            qpn: Hex32(1),
            response_time: 18,
            producer: Hex32(4),
            ..InformInfo::default()
        },
    );
}

#[test]
fn records_around_an_attribute() {
    let info = NodeInfo {
        base_version: 1,
        class_version: 1,
        node_type: NodeType::ChannelAdapter,
        num_ports: 1,
        system_image_guid: Guid(0x77),
        node_guid: Guid(0x78),
        port_guid: Guid(0x79),
        partition_cap: 128,
        device_id: Hex16(0x1011),
        revision: Hex32(1),
        local_port: PortNum(1),
        vendor_id: Hex32(0x2c9),
    };
    let record = NodeRecord {
        lid: Lid(5),
        info: Inner::of(&info),
        description: Inner::of(&NodeDescription { text: NodeString::new("host") }),
    };
    golden(
        "0005 0000 01 01 01 01 0000000000000077 0000000000000078 0000000000000079 0080 1011 \
         00000001 01 0002c9 686f7374",
        &record,
    );
    assert_eq!(record.info.parse(), Ok(info));
    assert!(record.to_string().contains("NodeInfo={NodeInfo BaseVersion=1"), "{record}");
    let mask = ComponentMask::of(&[7, 14]);
    let (asked, bytes) = (record.bytes(), record.bytes());
    assert!(matches(NodeRecord::COMPONENTS, mask, &asked, &bytes));
    let mut other = bytes;
    other[44] = b'x';
    assert!(!matches(NodeRecord::COMPONENTS, mask, &asked, &other));
    assert!(matches(NodeRecord::COMPONENTS, ComponentMask::of(&[7, 8]), &asked, &other));
}

#[test]
fn tables_are_cut_by_their_offset() {
    let mut answer = SaRequest::new(Method::GetTableResp, &LinkRecord::default(), ComponentMask(0));
    answer.data = (0..24).collect();
    let links: Vec<_> = answer.records::<LinkRecord>().map(|link| link.from_lid.0).collect();
    assert_eq!(links, [0x0001, 0x0809, 0x1011]);
    answer.attribute_offset = 0;
    assert_eq!(answer.records::<LinkRecord>().count(), 0);
}

/// A client counts records by the length that it is handed.
#[test]
fn a_message_of_one_segment_is_handed_on_as_long_as_it_is() {
    use snin_mad::rmpp::{Policy, Sender, handed_on};
    use snin_protocol::Time;
    let mut header = Mad::ZERO;
    Header::edit(&mut header.0).base_version(1).class(Class::Administration).class_version(2);
    let first = |data: usize| {
        let mut sender = Sender::new(&header, vec![7; data], Policy::default(), Time::ZERO);
        handed_on(&sender.poll(Time::ZERO).unwrap())
    };
    // SA's header is 56 bytes, and a record of groups 56 more.
    assert_eq!([first(0), first(56), first(200), first(201)], [56, 112, 256, 256]);
    // What is no RMPP's, and what only looks like it: bytes of an SMP's M_Key.
    assert_eq!(handed_on(&header), 256);
    let mut smp = Mad([0xFF; 256]);
    Header::edit(&mut smp.0).class(Class::DirectedSubnet);
    assert_eq!(handed_on(&smp), 256);
}
