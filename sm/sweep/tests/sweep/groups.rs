//! Multicast groups: what the switches hold for them, in every state on the way, while members, cables and
//! switches come and go.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use snin_emulator::{Config as Hardware, Fault};
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::multicast;
use snin_fabric::check::multicast::{Fault as BadCopy, Group as Expected, Held, MulticastReport};
use snin_fabric::{Guid, Mlid, Topology};
use snin_mad::{Attribute, Method, MulticastForwarding};
use snin_protocol::Time;
use snin_sweep::{Event, Group, Groups, Missing};

use crate::support::{Lab, config, fabric};

fn mlid(n: usize) -> Mlid {
    Mlid::nth(n).unwrap()
}

/// A group of these hosts.
fn group(lab: &Lab, full: impl IntoIterator<Item = usize>) -> Group {
    Group { full: full.into_iter().map(|host| guid(lab, host)).collect(), ..Group::default() }
}

fn guid(lab: &Lab, host: usize) -> Guid {
    lab.topology.port(lab.port(&format!("host{host}"), 1)).guid
}

fn notify(lab: &mut Lab, groups: Groups) {
    let now = lab.now();
    lab.sweep.handle(Event::Groups(Arc::new(groups)), now);
}

fn set(lab: &mut Lab, groups: impl IntoIterator<Item = (usize, Group)>) {
    notify(lab, groups.into_iter().map(|(n, group)| (mlid(n), group)).collect());
}

fn expected(topology: &Topology, groups: &Groups) -> Vec<Expected> {
    let ports = |guids: &BTreeSet<Guid>| {
        let has = |port: &_| {
            let node = topology.port(*port).node;
            let switch = topology.is_switch(node);
            let end =
                if switch { topology.num(*port).0 == 0 } else { topology.peer(*port).is_some() };
            end && guids.contains(&topology.port(*port).guid)
        };
        topology.ports().filter(has).collect::<BTreeSet<_>>()
    };
    let expect = |(&mlid, group): (&Mlid, &Group)| {
        let (receivers, senders) = (ports(&group.full), ports(&group.send_only));
        Expected { mlid, receivers, senders }
    };
    groups.iter().map(expect).collect()
}

fn judge(fabric: &snin_emulator::Fabric, groups: &Groups) -> MulticastReport {
    let live = fabric.live_topology();
    let (addresses, unicast) = (fabric.addresses().unwrap(), fabric.tables());
    let tables = fabric.multicast_tables();
    let held =
        Held { topology: &live, addresses: &addresses, unicast: &unicast, multicast: &tables };
    multicast(&held, &expected(&live, groups), Traffic::All, 50)
}

#[track_caller]
fn check(lab: &Lab, groups: &Groups) {
    lab.check();
    let report = judge(lab.emulator.fabric(), groups);
    assert!(report.is_ok(), "{report}");
    assert_eq!(*lab.served, *groups);
    for switch in lab.topology.switches() {
        let held = lab.emulator.fabric().multicast_table(switch);
        let told = lab.sweep.multicast_table(lab.topology.node(switch).guid);
        if let Some(told) = told {
            assert_eq!(*told, held, "{}", lab.topology.node(switch).name);
        }
    }
}

fn counts(lab: &Lab) -> (u64, u64) {
    let of = |method: Method| {
        let key = (MulticastForwarding::ID, method.code());
        lab.sweep.metrics().sent.get(&key).copied().unwrap_or(0)
    };
    (of(Method::Get), of(Method::Set))
}

/// Has every state of the tables from now on checked: no member of these groups, which may be changed, gets a copy
/// twice, and none goes round. Where they are `whole` no member misses a copy either, else none goes to strangers.
struct Watch {
    groups: Rc<RefCell<(Groups, bool)>>,
    states: Rc<RefCell<u64>>,
}

impl Watch {
    fn on(lab: &mut Lab) -> Self {
        let groups = Rc::new(RefCell::new((Groups::new(), false)));
        let states = Rc::new(RefCell::new(0));
        let (seen, count) = (groups.clone(), states.clone());
        lab.emulator.watch(move |fabric, write| {
            if ![0x12, 0x19, 0x1B].contains(&write.attribute.0) || fabric.addresses().is_err() {
                return;
            }
            let (groups, whole) = &*seen.borrow();
            let report = judge(fabric, groups);
            let is_bad = |fault| match fault {
                BadCopy::Twice | BadCopy::Round | BadCopy::NoSwitch => true,
                BadCopy::Missing => *whole,
                BadCopy::Stray => !*whole,
                // The cable is gone, and the switch does not know yet.
                BadCopy::NoCable => false,
            };
            let bad: Vec<_> =
                report.failures.first.iter().filter(|copy| is_bad(copy.fault)).collect();
            assert!(bad.is_empty(), "{bad:?}");
            assert!(report.credit.is_ok(), "{report}");
            *count.borrow_mut() += 1;
        });
        Self { groups, states }
    }

    /// No member misses anything of what these are sent.
    fn whole(&self, groups: &Groups) {
        *self.groups.borrow_mut() = (groups.clone(), true);
    }

    fn broken(&self, groups: &Groups) {
        *self.groups.borrow_mut() = (groups.clone(), false);
    }
}

#[test]
fn a_join_writes_only_what_differs() {
    let mut lab = Lab::new("clos:6,3,4", 2);
    lab.bring_up();
    assert_eq!(counts(&lab), (0, 0), "without groups nobody asks");
    let watch = Watch::on(&mut lab);
    let mut groups = Groups::new();
    // Nine switches, up to seven ports: one block, one position.
    let expected = [
        (4, 0, "the first has nobody to hear"),
        (8, 3, "two leaves and their spine"),
        (9, 1, "the second host of a leaf"),
        (16, 2, "a third leaf, and the spine"),
        (0, 2, "the transit leaf"),
    ];
    for (n, (host, writes, why)) in expected.into_iter().enumerate() {
        let (read, written) = counts(&lab);
        watch.whole(&groups);
        let host = guid(&lab, host);
        groups.entry(mlid(0)).or_default().full.insert(host);
        notify(&mut lab, groups.clone());
        lab.settle();
        check(&lab, &groups);
        let (reads, sets) = counts(&lab);
        assert_eq!((reads - read, sets - written), (if n == 0 { 9 } else { 0 }, writes), "{why}");
    }
    // A leave takes off as little, and no other member notices.
    let (_, written) = counts(&lab);
    groups.get_mut(&mlid(0)).unwrap().full.remove(&guid(&lab, 16));
    watch.whole(&groups);
    notify(&mut lab, groups.clone());
    lab.settle();
    check(&lab, &groups);
    assert_eq!(counts(&lab).1 - written, 2);
    assert!(*watch.states.borrow() >= 8);
}

#[test]
fn senders_that_do_not_receive_get_nothing() {
    let mut lab = Lab::new("clos:4,2,3", 1);
    lab.bring_up();
    let mut groups = Groups::new();
    let mut both = group(&lab, [3, 6]);
    both.send_only.extend([guid(&lab, 4), guid(&lab, 9)]);
    groups.insert(mlid(40), both);
    notify(&mut lab, groups.clone());
    lab.settle();
    check(&lab, &groups);
}

#[test]
fn groups_that_come_before_the_fabric_is_up_are_served_with_it() {
    let mut lab = Lab::new("fattree:4", 1);
    let groups: Groups =
        (0..70).map(|n| (mlid(n), group(&lab, [n % 16, (n * 7 + 1) % 16]))).collect();
    notify(&mut lab, groups.clone());
    let watch = Watch::on(&mut lab);
    watch.broken(&groups);
    lab.bring_up();
    check(&lab, &groups);
    assert!(*watch.states.borrow() > 0);
}

#[test]
fn a_restarted_manager_writes_nothing() {
    let mut lab = Lab::new("clos:6,3,4", 2);
    let groups: Groups =
        (0..40).map(|n| (mlid(n), group(&lab, [n % 24, (n * 5 + 7) % 24]))).collect();
    notify(&mut lab, groups.clone());
    lab.bring_up();
    check(&lab, &groups);
    let mut lab = lab.restarted(config(2));
    notify(&mut lab, groups.clone());
    lab.bring_up();
    check(&lab, &groups);
    // Two blocks of nine switches are read.
    assert_eq!(counts(&lab), (18, 0));
}

/// Eight groups with a member on every leaf but the first, one with all.
fn spread(lab: &Lab, leaves: usize, hosts: usize) -> Groups {
    let on_each =
        |from: usize, n: usize| group(lab, (from..leaves).map(|leaf| leaf * hosts + n % hosts));
    let mut groups: Groups = (0..8).map(|n| (mlid(n), on_each(1, n))).collect();
    groups.insert(mlid(33), on_each(0, 0));
    groups
}

#[test]
fn cuts_are_repaired_and_nobody_gets_a_copy_twice_on_the_way() {
    for (recipe, leaves, hosts) in
        [("clos:6,3,2", 6, 2), ("clos:6,2,2,2", 6, 2), ("fattree:4", 8, 2)]
    {
        let mut lab = Lab::new(recipe, 1);
        let groups = spread(&lab, leaves, hosts);
        notify(&mut lab, groups.clone());
        lab.bring_up();
        check(&lab, &groups);
        let watch = Watch::on(&mut lab);
        watch.broken(&groups);
        for (leaf, up) in [("leaf2", hosts + 1), ("leaf0", hosts + 1), ("leaf5", hosts + 2)] {
            let cable = lab.port(leaf, up as u8);
            for fault in [Fault::Cut(cable), Fault::Restore(cable)] {
                let written = counts(&lab).1;
                lab.strike(fault.clone());
                lab.run(Time::millis(6));
                lab.settle();
                check(&lab, &groups);
                println!("{recipe}: {fault:?}: {} writes of masks", counts(&lab).1 - written);
            }
        }
        assert!(*watch.states.borrow() > 20, "{} states", watch.states.borrow());
    }
}

#[test]
fn a_switch_that_lost_its_table_gets_it_again() {
    let mut lab = Lab::new("clos:6,3,2", 1);
    let groups = spread(&lab, 6, 2);
    notify(&mut lab, groups.clone());
    lab.bring_up();
    let watch = Watch::on(&mut lab);
    watch.broken(&groups);
    for name in ["spine0", "spine1", "spine2", "leaf3", "leaf0"] {
        let node = lab.node(name);
        lab.strike(Fault::Reboot(node, Time::millis(400)));
        lab.run(Time::secs(12));
        lab.settle();
        check(&lab, &groups);
    }
}

#[test]
fn what_another_manager_left_is_replaced() {
    let mut lab = Lab::new("clos:6,3,2", 1);
    let groups = spread(&lab, 6, 2);
    notify(&mut lab, groups.clone());
    lab.bring_up();
    // Another manager: the same addresses for other groups.
    let others: Groups = (0..8).map(|n| (mlid(n), group(&lab, [n % 3, 4 + n, 11 - n]))).collect();
    let mut lab = lab.restarted(config(1));
    notify(&mut lab, others.clone());
    lab.bring_up();
    // The block with the last of the old groups is not read: it drops.
    check(&lab, &others);
    assert_eq!(counts(&lab).0, 9);
}

#[test]
fn groups_change_while_everything_else_does() {
    for seed in 0..6u64 {
        let mut lab = Lab::new("clos:6,3,2", 1);
        lab.bring_up();
        let mut groups = Groups::new();
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut draw = |most: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as usize % most
        };
        for _ in 0..30 {
            let (n, host) = (draw(4), guid(&lab, draw(12)));
            let group = groups.entry(mlid(n)).or_default();
            if !group.full.remove(&host) {
                group.full.insert(host);
            }
            notify(&mut lab, groups.clone());
            match draw(6) {
                0 => {
                    let cable = lab.port(&format!("leaf{}", draw(6)), 3 + draw(3) as u8);
                    let fault =
                        if draw(2) == 0 { Fault::Cut(cable) } else { Fault::Restore(cable) };
                    lab.strike(fault);
                }
                _ => lab.run(Time(draw(3_000_000) as u64)),
            }
        }
        for leaf in 0..6 {
            for up in 3..6 {
                let cable = lab.port(&format!("leaf{leaf}"), up);
                lab.strike(Fault::Restore(cable));
            }
        }
        lab.run(Time::secs(11));
        lab.settle();
        check(&lab, &groups);
    }
}

#[test]
fn switches_without_multicast_are_left_out_and_their_members_named() {
    let mut hardware = Hardware::default();
    hardware.switch.multicast_fdb_cap = 0;
    let mut lab = Lab::of(fabric("clos:4,2,2"), hardware, config(1));
    let groups: Groups = [(mlid(0), group(&lab, [0, 4]))].into();
    notify(&mut lab, groups);
    lab.bring_up();
    let unserved: Vec<Missing> = lab.missing();
    assert_eq!(unserved.len(), 2, "{unserved:?}");
    assert!(unserved.iter().all(|missing| missing.to_string().starts_with("group 0xc000")));
    assert_eq!((counts(&lab), lab.sweep.multicast_capacity()), ((0, 0), None));
}

#[test]
fn many_groups_are_one_block_of_each_switch() {
    let mut lab = Lab::new("clos:6,3,2", 1);
    lab.bring_up();
    let groups: Groups =
        (0..32).map(|n| (mlid(n), group(&lab, (1..6).map(|leaf| leaf * 2)))).collect();
    notify(&mut lab, groups.clone());
    lab.settle();
    check(&lab, &groups);
    // Five leaves and all three spines; the transit leaf has no member.
    assert_eq!(counts(&lab), (9, 8));
    set(&mut lab, []);
    lab.settle();
    check(&lab, &Groups::new());
    assert_eq!(counts(&lab), (9, 16));
}
