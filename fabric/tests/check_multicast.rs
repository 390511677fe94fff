//! The checker of multicast: finds each planted fault, and only that.

#[path = "support/naive.rs"]
mod naive;

use std::collections::BTreeSet;

use naive::{Subnet, build};
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::multicast::{Fault, Group, Held, MulticastReport};
use snin_fabric::check::{credit, multicast};
use snin_fabric::multicast::MulticastTable;
use snin_fabric::{ForwardingTable, Mlid, PortNum};

/// Four leaves with two hosts each (ports 1 and 2), two spines (ports 3 and 4 of the leaves; a spine's port is the
/// leaf's number from 1), and masks by switch and group.
struct Planted {
    subnet: Subnet,
    tables: Vec<MulticastTable>,
    groups: Vec<Group>,
}

impl Planted {
    fn new() -> Self {
        let subnet = Subnet::shortest(build("clos:4,2,2"), 0, |_, lid, choices| {
            choices[usize::from(lid.0 / 2) % choices.len()]
        });
        let tables = vec![MulticastTable::default(); subnet.topology.switch_count()];
        Self { subnet, tables, groups: Vec::new() }
    }

    /// A group of these hosts; the masks of these switches.
    fn group(mut self, hosts: &[usize], masks: &[(&str, &[u8])]) -> Self {
        let mlid = Mlid::nth(self.groups.len()).unwrap();
        for &(switch, ports) in masks {
            let switch = self.subnet.switch(switch);
            let ports = ports.iter().map(|&port| PortNum(port)).collect();
            self.tables[switch.index()].set(mlid, ports);
        }
        let receivers = hosts.iter().map(|&host| self.subnet.host(host)).collect();
        self.groups.push(Group { mlid, receivers, senders: BTreeSet::new() });
        self
    }

    fn judge(&self, unicast: &[ForwardingTable]) -> MulticastReport {
        let Subnet { topology, addresses, .. } = &self.subnet;
        let held = Held { topology, addresses, unicast, multicast: &self.tables };
        multicast(&held, &self.groups, Traffic::Hosts, 9)
    }

    fn faults(&self) -> Vec<(Fault, String)> {
        let report = self.judge(&self.subnet.tables);
        report.failures.first.into_iter().map(|bad| (bad.fault, bad.at)).collect()
    }
}

/// Hosts 0 and 2 by spine0.
const GOOD: [(&str, &[u8]); 3] = [("leaf0", &[1, 3]), ("leaf1", &[1, 3]), ("spine0", &[1, 2])];

fn changed(switch: &str, ports: &[u8]) -> Vec<(Fault, String)> {
    let masks = GOOD.map(|(name, good)| (name, if name == switch { ports } else { good }));
    let more = (!masks.iter().any(|(name, _)| *name == switch)).then_some((switch, ports));
    let masks: Vec<(&str, &[u8])> = masks.into_iter().chain(more).collect();
    Planted::new().group(&[0, 2], &masks).faults()
}

#[test]
fn each_planted_fault_is_found() {
    let times = |count, fault, at: &str| vec![(fault, at.to_owned()); count];
    let one = |fault, at: &str| times(1, fault, at);
    assert_eq!(changed("leaf0", &[1, 3]), []);
    assert_eq!(changed("leaf0", &[3]), one(Fault::Missing, "host0/1"));
    assert_eq!(changed("spine0", &[2]), one(Fault::Missing, "host0/1"));
    assert_eq!(changed("leaf0", &[1, 2, 3]), times(2, Fault::Stray, "host1/1"));
    assert_eq!(changed("leaf0", &[1, 3, 9]), times(2, Fault::NoCable, "leaf0/9"));
    // By both spines: the second copy comes round to the leaf that the first came from or went to.
    let both = [
        ("leaf0", &[1, 3, 4][..]),
        ("leaf1", &[1, 3, 4]),
        ("spine0", &[1, 2]),
        ("spine1", &[1, 2]),
    ];
    let faults = Planted::new().group(&[0, 2], &both).faults();
    assert!(faults.contains(&(Fault::Round, "leaf1".to_owned())), "{faults:?}");
}

#[test]
fn a_sender_outside_gets_nothing_and_has_to_be_heard() {
    let mut planted = Planted::new().group(&[0, 2], &GOOD);
    planted.groups[0].senders.insert(planted.subnet.host(4));
    assert_eq!(planted.faults().len(), 2, "neither receiver hears it");
    let leaf = planted.subnet.switch("leaf2");
    planted.tables[leaf.index()].set(Mlid::MIN, [PortNum(3)].into_iter().collect());
    assert_eq!(planted.faults(), []);
    planted.tables[leaf.index()].set(Mlid::MIN, [PortNum(1), PortNum(3)].into_iter().collect());
    assert_eq!(planted.faults(), [], "it is not sent back to where it came from");
    planted.tables[leaf.index()].set(Mlid::MIN, [PortNum(2), PortNum(3)].into_iter().collect());
    assert_eq!(planted.faults(), [(Fault::Stray, "host5/1".to_owned())]);
}

#[test]
fn valleys_close_a_loop_with_unicast() {
    // Hosts of leaf0, leaf1, leaf2 by spine0, leaf1, spine1; of leaf3, leaf2, leaf0 by spine0, leaf2, spine1.
    let planted = Planted::new()
        .group(
            &[0, 2, 4],
            &[
                ("leaf0", &[1, 3]),
                ("spine0", &[1, 2]),
                ("leaf1", &[1, 3, 4]),
                ("spine1", &[2, 3]),
                ("leaf2", &[1, 4]),
            ],
        )
        .group(
            &[6, 4, 0],
            &[
                ("leaf3", &[1, 3]),
                ("spine0", &[4, 3]),
                ("leaf2", &[1, 3, 4]),
                ("spine1", &[3, 1]),
                ("leaf0", &[1, 4]),
            ],
        );
    let alone = planted.judge(&[]);
    assert!(alone.is_ok(), "{alone}");
    assert_eq!((alone.packets, alone.delivered), (6, 12));
    let Subnet { topology, addresses, tables } = &planted.subnet;
    assert!(credit(topology, addresses, tables, Traffic::Hosts, |_, _| 0).is_ok());
    let beside = planted.judge(&planted.subnet.tables);
    assert!(beside.failures.is_empty() && !beside.credit.is_ok(), "{beside}");
    let cycle = beside.credit.cycle.unwrap();
    assert!(cycle.links.iter().any(|link| link.starts_with("leaf1/4")), "{cycle}");
}
