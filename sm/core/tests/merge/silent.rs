//! Hosts whose agents are silent while their subnet is joined: they keep addresses that mean other ports now.
//!
//! The judge asks the emulated fabric: which address a silent host has, where that leads, and whether its link
//! carries anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use snin_emulator::{Fabric, Fault, Health};
use snin_fabric::{PortIndex, Topology};
use snin_mad::PortState;
use snin_protocol::Time;

use crate::cabled::{MOST, delivered, holds, side};
use crate::live::{Live, hosts, settings};

/// Two hosts of the subnet that gives way.
fn chosen(live: &Live) -> Vec<PortIndex> {
    let topology = &live.subnet.topology;
    let other = side(topology, topology.port(live.subnet.seats[1].at).node);
    let of_other = |&host: &PortIndex| side(topology, topology.port(host).node) == other;
    hosts(topology).into_iter().filter(of_other).skip(1).step_by(2).take(2).collect()
}

/// Addresses that a host has on an ACTIVE link, and that lead to another from its own side.
fn confused(fabric: &Fabric, topology: &Topology, host: PortIndex) -> Vec<u16> {
    let leaf = topology.peer(host).unwrap();
    if [host, leaf].iter().any(|&end| fabric.port_state(end) != PortState::Active) {
        return vec![];
    }
    let tables: BTreeMap<_, _> =
        topology.switches().map(|switch| (switch, fabric.table(switch))).collect();
    let own = side(topology, topology.port(host).node);
    let leads_astray = |&lid: &u16| {
        let switches = topology.switches().filter(|&switch| side(topology, switch) == own);
        let mut ends = switches.flat_map(|from| delivered(fabric, topology, &tables, (from, lid)));
        ends.any(|end| end != host)
    };
    (1..MOST).filter(|&lid| holds(fabric, host, lid)).filter(leads_astray).collect()
}

#[test]
fn a_silent_host_is_cut_off_before_its_address_means_another() {
    silent_host_is_cut_off(false, false);
}

#[test]
fn so_is_one_that_falls_silent_when_its_subnet_is_joined() {
    silent_host_is_cut_off(true, false);
}

#[test]
fn so_it_is_where_the_manager_dies_when_it_has_stored_the_numbers() {
    silent_host_is_cut_off(false, true);
    silent_host_is_cut_off(true, true);
}

/// Hardware that leaves such a link in use, or refuses to be told, is told once: work is bounded.
#[test]
fn a_link_that_cannot_be_reset_is_told_once() {
    let mut live = Live::new(2);
    for host in chosen(&live) {
        let topology = &live.subnet.topology;
        let (node, leaf) = (topology.port(host).node, topology.peer(host).unwrap());
        live.subnet.strike(Fault::Agent(node, Health::Dead));
        live.subnet.strike(Fault::Refuse(leaf, true));
    }
    live.plug(0);
    live.settle(0, 2);
    assert_eq!(live.subnet.seats[0].manager.metrics().link_orders, 2);
    assert!(live.subnet.seats[0].saved.lineage.unwritten.is_empty());
}

/// `late`: it is silent once the numbers of both are stored, and not before. `dies`: then the manager dies for a
/// while.
fn silent_host_is_cut_off(late: bool, dies: bool) {
    let mut live = Live::new(2);
    let silent = chosen(&live);
    let strike = |live: &mut Live, health| {
        for &host in &silent {
            let node = live.subnet.topology.port(host).node;
            live.subnet.strike(Fault::Agent(node, health));
        }
    };
    // They answered when the cable came, or have been silent since long before.
    if !late {
        strike(&mut live, Health::Dead);
    }
    let wrong: Rc<RefCell<Vec<String>>> = Rc::default();
    let (watched, cables, hosts) = (wrong.clone(), live.subnet.topology.clone(), silent.clone());
    live.subnet.emulator.watch(move |fabric, write| {
        if [0x15, 0x19].contains(&write.attribute.0) {
            for &host in &hosts {
                let lids = confused(fabric, &cables, host);
                if !lids.is_empty() {
                    watched.borrow_mut().push(format!("{lids:?} of {}", cables.port_name(host)));
                }
            }
        }
    });
    live.plug(0);
    if late || dies {
        while live.subnet.seats[0].saved.lineage.subnets.len() < 2 {
            live.subnet.run(Time::micros(10));
        }
        strike(&mut live, Health::Dead);
        if dies {
            live.subnet.kill(0);
            live.subnet.run(Time::millis(300));
            live.subnet.revive(0, settings(0), true);
            live.subnet.call(0, 1);
            live.subnet.call(1, 0);
        }
        live.subnet.run(Time::secs(5));
    }
    live.settle(0, 2);
    assert_eq!(*wrong.borrow(), [""; 0]);
    let orders = live.subnet.seats[0].manager.metrics().link_orders;
    assert_eq!(orders, silent.len() as u64, "no other link was told anything");
    // They answer again, and are as all others.
    strike(&mut live, Health::Well);
    live.subnet.run(Time::secs(40));
    live.settle(0, 2);
    live.judge();
}
