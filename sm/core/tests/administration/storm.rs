//! A machine room is switched on: every host joins, subscribes and asks at once, while a cable is cut.

use std::collections::BTreeMap;

use snin_emulator::Fault;
use snin_fabric::{Lid, NodeKind, PortIndex};
use snin_mad::sa::*;
use snin_mad::{Hex32, Method, PKey};
use snin_protocol::Time;
use snin_sm_core::Config;

use crate::clients::{BROADCAST, OTHERS, broadcast, ip};
use crate::subnet::Subnet;

const HOSTS: usize = 648;

/// A cable between the first leaf and a spine.
fn uplink(subnet: &Subnet) -> PortIndex {
    let topology = &subnet.topology;
    let leaf = topology.port(topology.peer(subnet.host(0)).unwrap()).node;
    let up = |&(_, peer): &(PortIndex, PortIndex)| {
        topology.node(topology.port(peer).node).kind == NodeKind::Switch
    };
    topology.cables(leaf).find(up).unwrap().0
}

/// SMPs of the repair by name, those of multicast tables left out; and the subnet afterwards.
fn repair(storm: bool) -> (BTreeMap<String, u64>, Subnet) {
    let config = Config { lmc: Some(4), sweep_interval_s: 0, ..Config::default() };
    let mut subnet = Subnet::new("clos:36,18,18", config);
    let before: BTreeMap<String, u64> = subnet.manager.metrics().by_name().into_iter().collect();
    let cut = uplink(&subnet);
    subnet.strike(Fault::Cut(cut));
    if storm {
        for host in 1..HOSTS {
            ask_everything(&mut subnet, host);
            subnet.run(Time::micros(20));
        }
    }
    subnet.run(Time::secs(1));
    subnet.settle();
    let after = subnet.manager.metrics().by_name().into_iter();
    let sent = after.map(|(name, count)| {
        let count = count - before.get(&name).copied().unwrap_or(0);
        (name, count)
    });
    let counts = |(name, count): &(String, u64)| *count > 0 && !name.contains("Multicast");
    (sent.filter(counts).collect(), subnet)
}

/// What a Linux host asks when its port goes up.
fn ask_everything(subnet: &mut Subnet, host: usize) {
    let wanted = broadcast(subnet, host);
    let group = subnet.member(host, Method::Set, &wanted, &BROADCAST).unwrap();
    let other = McMemberRecord { mgid: ip(1), mlid: Lid(0), ..group };
    subnet.member(host, Method::Set, &other, &OTHERS).unwrap();
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind: 3,
        trap_number: 65,
        producer: Hex32(4),
        ..InformInfo::default()
    };
    let set = SaRequest::new(Method::Set, &inform, ComponentMask::of(&[1, 4, 5, 6, 7, 8, 12]));
    assert!(subnet.ask(host, &set).status.is_ok());
    let path = PathRecord {
        sgid: subnet.gid(host),
        dgid: subnet.gid((host + 100) % HOSTS),
        p_key: PKey(0xFFFF),
        numb_path: 1,
        ..PathRecord::default()
    };
    assert!(subnet.get(host, &path, &[2, 3, 12, 13]).is_ok());
}

#[test]
fn a_reboot_storm_changes_nothing_of_a_repair() {
    let (calm, _) = repair(false);
    let (stormy, mut subnet) = repair(true);
    assert!(calm.values().sum::<u64>() > 0);
    println!("calm {calm:?}\nstormy {stormy:?}");
    assert_eq!(stormy, calm, "as many SMPs as without");
    let members: Vec<McMemberRecord> = subnet.table(1, &McMemberRecord::default(), &[]);
    assert_eq!(members.len(), 2 * (HOSTS - 1), "everybody is in both groups");
    assert_eq!(subnet.table(1, &InformInfoRecord::default(), &[]).len(), HOSTS - 1);
    let metrics = subnet.manager.administration();
    assert!(metrics.unanswered.is_empty(), "{:?}", metrics.unanswered);
    // The multicast tables carry both groups: every leaf's table has its hosts.
    let tables: Vec<MulticastForwardingRecord> =
        subnet.table(1, &MulticastForwardingRecord::default(), &[]);
    let ports: u32 = tables
        .iter()
        .flat_map(|table| table.table.parse().unwrap().masks)
        .map(|mask| mask.0.count_ones())
        .sum();
    assert!(ports >= 2 * (HOSTS as u32 - 1), "{ports} ports in {} blocks", tables.len());
}
