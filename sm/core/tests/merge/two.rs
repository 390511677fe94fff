//! Two fabrics of other GUIDs and the same numbers, each under a manager of its own.

use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};
use snin_mad::notice::NoticeKind;
use snin_mad::sa::*;
use snin_mad::{Gid, Hex32, Method, NodeString, PKey, QKey};
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::merge::Snapshot;

use crate::subnet::{Subnet, config};

/// When the tests are: seconds of the epoch.
pub(crate) const NOW: u64 = 1_790_000_000;

/// A fabric whose GUIDs are another's, with these three digits in front.
pub(crate) fn fabric(recipe: &str, digits: &str) -> Topology {
    let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
    let (mut text, mut run) = (String::new(), String::new());
    for c in ibnet::write(&topology).chars().chain(['\n']) {
        if c.is_ascii_hexdigit() {
            run.push(c);
            continue;
        }
        let padded = run.len() == 16 && run.starts_with("0200");
        if padded || run.len() == 15 && run.starts_with("200") {
            run = run.replacen("200", digits, 1);
        }
        text.push_str(&run);
        run.clear();
        text.push(c);
    }
    ibnet::parse(text.as_bytes()).unwrap()
}

/// What IPoIB, a service and a subscriber do, in the default partition and in 0x8010.
pub(crate) fn live(subnet: &mut Subnet) {
    for host in 1..4 {
        for key in [0xFFFF, 0x8010] {
            let wanted = McMemberRecord {
                mgid: ip(key, 0xFFFF_FFFF),
                port_gid: subnet.gid(host),
                p_key: PKey(key),
                join_state: JoinState::FULL,
                ..McMemberRecord::default()
            };
            let group = subnet.member(host, Method::Set, &wanted, &[0, 1, 7, 16]).unwrap();
            let all_hosts = McMemberRecord { mgid: ip(key, 1), ..group };
            let bits = [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 14, 16];
            subnet.member(host, Method::Set, &all_hosts, &bits).unwrap();
        }
        // A group that the manager names.
        let own = McMemberRecord {
            mgid: Gid::default(),
            port_gid: subnet.gid(host),
            q_key: QKey(host as u32),
            p_key: PKey(0x8010),
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        subnet.member(host, Method::Set, &own, &[0, 1, 2, 6, 7, 12, 13, 16]).unwrap();
    }
    let name = if subnet.guid(1).0 & 0x00A0_0000_0000_0000 == 0 { "files" } else { "mail" };
    for (id, p_key) in [(0x10_0001, 0xFFFF), (0x10_0002, 0x8010)] {
        let service = ServiceRecord {
            id,
            gid: subnet.gid(1),
            p_key: PKey(p_key),
            lease: u32::MAX,
            name: NodeString::new(name),
            ..ServiceRecord::default()
        };
        let request = SaRequest::new(Method::Set, &service, ComponentMask::of(&[0, 1, 2, 4, 6]));
        assert!(subnet.ask(1, &request).status.is_ok());
    }
    let watched = subnet.lid(3);
    for (gid, begin, end) in [
        (Gid::default(), ANY_LID, ANY_LID),
        (Gid::default(), watched, watched),
        (subnet.gid(2), snin_fabric::Lid(0), snin_fabric::Lid(0)),
    ] {
        let info = InformInfo {
            gid,
            lid_begin: begin,
            lid_end: end,
            is_generic: 1,
            subscribe: 1,
            kind: u16::from(NoticeKind::Informational.code()),
            trap_number: 64,
            producer: Hex32(4),
            ..InformInfo::default()
        };
        let request = SaRequest::new(Method::Set, &info, ComponentMask::default());
        assert!(subnet.ask(2, &request).status.is_ok());
    }
}

/// The database of a real manager: 12 hosts that use it.
pub(crate) fn database(digits: &str, name: &str, priority: u8, age: Time) -> Snapshot {
    let config = Config { partitions: crate::partitions(name), priority, ..config() };
    let mut subnet = Subnet::of(fabric("clos:4,2,3", digits), config);
    live(&mut subnet);
    let (now, epoch) = (subnet.now(), Time::secs(NOW).0 - age.0);
    let mut snapshot = subnet.manager.snapshot(name, now).unwrap();
    let later = |time: &mut Time| time.0 += epoch;
    later(&mut snapshot.clock);
    stamps(&mut snapshot, later);
    snapshot
}

macro_rules! each {
    ($snapshot:ident, $change:ident: $($table:ident),*) => {
        $($snapshot.$table.values_mut().for_each(|entry| $change(&mut entry.stamp.time));)*
    };
}

/// Changes the time of every stamp.
pub(crate) fn stamps(snapshot: &mut Snapshot, change: impl Fn(&mut Time)) {
    each!(snapshot, change: nodes, ports, links, lids, partitions, tables, groups, members, services,
        subscriptions, aliases);
}

/// Of IP, in a partition.
pub(crate) fn ip(key: u16, last: u32) -> Gid {
    let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    mgid[4..6].copy_from_slice(&(key | 0x8000).to_be_bytes());
    mgid[12..].copy_from_slice(&last.to_be_bytes());
    Gid(mgid)
}
