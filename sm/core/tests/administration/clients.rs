//! The exact requests of Linux's IPoIB, ib_multicast and rdma_cm (drivers/infiniband): what they need to work.

use snin_fabric::Lid;
use snin_mad::sa::*;
use snin_mad::{Gid, Hex8, Method, PKey, QKey};

use crate::subnet::{Subnet, config};

/// MGID, PortGID, P_Key, JoinState: all that IPoIB says of the broadcast group.
pub(crate) const BROADCAST: [u8; 4] = [0, 1, 7, 16];
/// ... and of every other group, from what the broadcast group has.
pub(crate) const OTHERS: [u8; 13] = [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 14, 16];

pub(crate) fn ip(last: u32) -> Gid {
    let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    mgid[12..].copy_from_slice(&last.to_be_bytes());
    Gid(mgid)
}

pub(crate) fn broadcast(subnet: &Subnet, host: usize) -> McMemberRecord {
    McMemberRecord {
        mgid: ip(0xFFFF_FFFF),
        port_gid: subnet.gid(host),
        p_key: PKey(0xFFFF),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    }
}

#[test]
fn ipoib_comes_up() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    // The broadcast group, which IPoIB cannot make.
    let wanted = broadcast(&subnet, 1);
    let group = subnet.member(1, Method::Set, &wanted, &BROADCAST).unwrap();
    assert_eq!(
        group,
        McMemberRecord {
            q_key: QKey(0xB1B),
            mlid: Lid(0xC000),
            mtu_selector: Selector::Exactly,
            mtu: 4,
            rate_selector: Selector::Exactly,
            rate: 3,
            lifetime_selector: Selector::Exactly,
            lifetime: 18,
            scope: 2,
            ..wanted
        }
    );
    // All-hosts, with what the broadcast group has.
    let all_hosts = McMemberRecord { mgid: ip(1), mlid: Lid(0), ..group.clone() };
    let joined = subnet.member(1, Method::Set, &all_hosts, &OTHERS).unwrap();
    assert_eq!((joined.mlid, joined.join_state), (Lid(0xC001), JoinState::FULL));
    let second = McMemberRecord { port_gid: subnet.gid(2), ..all_hosts.clone() };
    assert_eq!(subnet.member(2, Method::Set, &second, &OTHERS).unwrap().mlid, Lid(0xC001));
    // Sending to a group in which one is not: send-only, which ClassPortInfo says there is.
    let info: snin_mad::ClassPortInfo =
        subnet.get(1, &snin_mad::ClassPortInfo::default(), &[]).unwrap();
    assert_ne!(info.capabilities2.0 & 1 << 12, 0);
    let sender = McMemberRecord {
        port_gid: subnet.gid(3),
        join_state: JoinState::SEND_ONLY_FULL,
        ..all_hosts.clone()
    };
    assert_eq!(subnet.member(3, Method::Set, &sender, &OTHERS).unwrap().mlid, Lid(0xC001));
    // Unicast: DGID, SGID, TClass, NumbPath, P_Key.
    let path = PathRecord {
        dgid: subnet.gid(4),
        sgid: subnet.gid(1),
        numb_path: 1,
        p_key: PKey(0xFFFF),
        ..PathRecord::default()
    };
    let path = subnet.get(1, &path, &[2, 3, 10, 12, 13]).unwrap();
    assert_eq!((path.dlid, path.slid), (subnet.lid(4), subnet.lid(1)));
    assert_eq!((path.mtu, path.rate, path.lifetime, path.hop_limit), (5, 21, 18, 0));
    assert!(path.reversible);
}

#[test]
fn rdma_cm_resolves_a_route() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let wanted = PathRecord {
        service_id: 0x0106_1234,
        dgid: subnet.gid(5),
        sgid: subnet.gid(2),
        p_key: PKey(0xFFFF),
        numb_path: 1,
        reversible: true,
        ..PathRecord::default()
    };
    for (mask, class) in [(0x780F_u64, 0x20), (0x3C0F, 0x20)] {
        let bits: Vec<u8> = (0..64).filter(|bit| mask >> bit & 1 != 0).collect();
        let wanted = PathRecord { traffic_class: Hex8(class), ..wanted.clone() };
        let path = subnet.get(2, &wanted, &bits).unwrap();
        assert_eq!((path.dgid, path.sgid, path.p_key), (wanted.dgid, wanted.sgid, wanted.p_key));
        assert_eq!(path.traffic_class, Hex8(if mask == 0x3C0F { class } else { 0 }));
    }
    // Half a service.
    let half = subnet.get(2, &wanted, &[0, 2, 3]);
    assert_eq!(half, Err(SaStatus::INSUFFICIENT_COMPONENTS));
}

#[test]
fn groups_live_as_long_as_somebody_keeps_them() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    let group = broadcast(&subnet, 1);
    let group = subnet.member(1, Method::Set, &group, &BROADCAST).unwrap();
    let other = |subnet: &Subnet, host| McMemberRecord {
        mgid: ip(7),
        port_gid: subnet.gid(host),
        join_state: JoinState::FULL,
        ..group.clone()
    };
    // The group does not exist, and a request that says too little cannot make it.
    let first = other(&subnet, 1);
    let short = subnet.member(1, Method::Set, &first, &BROADCAST);
    assert_eq!(short, Err(SaStatus::INSUFFICIENT_COMPONENTS));
    let sender = McMemberRecord { join_state: JoinState::SEND_ONLY, ..first.clone() };
    assert_eq!(subnet.member(1, Method::Set, &sender, &OTHERS), Err(SaStatus::REQ_INVALID));
    // Too fast, too large, another key.
    for wrong in [
        McMemberRecord { rate: 23, ..first.clone() },
        McMemberRecord { mtu: 6, ..first.clone() },
        McMemberRecord { q_key: QKey(1), ..first.clone() },
        McMemberRecord { p_key: PKey(0x8001), ..first.clone() },
    ] {
        assert_eq!(subnet.member(1, Method::Set, &wrong, &OTHERS), Err(SaStatus::REQ_INVALID));
    }
    subnet.member(1, Method::Set, &first, &OTHERS).unwrap();
    let listener = McMemberRecord { join_state: JoinState::NON_MEMBER, ..other(&subnet, 2) };
    subnet.member(2, Method::Set, &listener, &OTHERS).unwrap();
    // One port may be more than one thing; it leaves in parts.
    let both = McMemberRecord { join_state: JoinState::SEND_ONLY, ..first.clone() };
    assert_eq!(subnet.member(1, Method::Set, &both, &OTHERS).unwrap().join_state.0, 5);
    let leave = [0, 1, 16];
    let rest = subnet.member(1, Method::Delete, &both, &leave).unwrap();
    assert_eq!(rest.join_state, JoinState::FULL);
    assert_eq!(subnet.table(1, &first, &[0]).len(), 2);
    // The last full member goes, and the group with it.
    assert_eq!(subnet.member(1, Method::Delete, &first, &leave).unwrap().join_state.0, 0);
    assert_eq!(subnet.table(1, &first, &[0]), []);
    assert_eq!(subnet.member(1, Method::Delete, &first, &leave), Err(SaStatus::REQ_INVALID));
    // Its address is free again; a name and an address of the manager's choice.
    let unnamed = McMemberRecord { mgid: Gid([0; 16]), ..first };
    let made = subnet.member(1, Method::Set, &unnamed, &OTHERS).unwrap();
    assert_eq!((made.mlid, &made.mgid.0[..4]), (Lid(0xC001), &[0xFF, 0x12, 0xA0, 0x1B][..]));
    // The broadcast group stays without anybody.
    let last = broadcast(&subnet, 1);
    subnet.member(1, Method::Delete, &last, &leave).unwrap();
    assert_eq!(subnet.get(1, &last, &[0]).unwrap().mlid, Lid(0xC000));
}

#[test]
fn a_restart_loses_no_group_service_or_subscription() {
    let mut subnet = Subnet::new("clos:4,2,3", config());
    for host in 1..6 {
        let wanted = broadcast(&subnet, host);
        let group = subnet.member(host, Method::Set, &wanted, &BROADCAST).unwrap();
        let other = McMemberRecord { mgid: ip(host as u32 % 2 + 1), mlid: Lid(0), ..group };
        subnet.member(host, Method::Set, &other, &OTHERS).unwrap();
    }
    let service =
        ServiceRecord { id: 5, gid: subnet.gid(1), lease: 90, ..ServiceRecord::default() };
    let set = SaRequest::new(Method::Set, &service, ComponentMask::of(&[0, 1, 4]));
    assert!(subnet.ask(1, &set).status.is_ok());
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind: 3,
        trap_number: 66,
        producer: snin_mad::Hex32(4),
        ..InformInfo::default()
    };
    let set = SaRequest::new(Method::Set, &inform, ComponentMask::of(&[1, 4, 5, 6, 7, 8, 12]));
    assert!(subnet.ask(2, &set).status.is_ok());
    let all = |subnet: &mut Subnet| {
        (
            subnet.table(1, &McMemberRecord::default(), &[]),
            subnet.table(1, &ServiceRecord::default(), &[]).len(),
            subnet.table(1, &InformInfoRecord::default(), &[]),
        )
    };
    let before = all(&mut subnet);
    assert_eq!((before.0.len(), before.1, before.2.len()), (10, 1, 1));
    let mut subnet = subnet.restarted(config());
    assert_eq!(all(&mut subnet), before);
}
