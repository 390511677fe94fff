//! A subnet that an earlier version brought up, under traffic, when this one starts.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use snin_emulator::Config as Hardware;
use snin_emulator::data::{Config as Wires, Message, MessageId, Network, Outcome};
use snin_fabric::lft::BLOCK;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Addresses, ForwardingTable, Guid, Lid, Lmc, PortIndex, Topology};
use snin_mad::{Attribute as _, LinearForwarding};
use snin_protocol::Time;
use snin_sm_database::saved::Saved;
use snin_sweep::Sweep;

use crate::support::{Lab, config, fabric};

/// Links are slow, so that packets are everywhere while tables change.
const SLOW: u64 = 10_000_000_000;
const BYTES: u64 = 60 * 4_096;

/// Addresses and tables as they were before base addresses were spread: tree `t` at offset `t`, so that all base
/// addresses lead along tree 0. 2^LMC addresses a port, as many as there are trees.
fn predecessor(topology: &Topology, lmc: Lmc) -> (Addresses, Vec<ForwardingTable>, Saved) {
    let more = Lmc::at_least(lmc.addresses() + 1).unwrap();
    let routing = Routing::compute(topology, Engine::Trees, Some(more)).unwrap();
    assert_eq!((routing.forest.len(), routing.plan.first_offset()), (lmc.addresses(), 1));
    let mut addresses = Addresses::none(topology.port_count());
    let mut saved = Saved { lmc: Some(lmc), ..Saved::default() };
    let mut entries = Vec::new();
    let mut next = (topology.switch_count() + 1).next_multiple_of(lmc.addresses()) as u16;
    for (port, base, planned) in routing.plan.addresses().iter() {
        let (lid, own) = match planned {
            Lmc::ZERO => (base, Lmc::ZERO),
            _ => (Lid(next), lmc),
        };
        if own == lmc {
            next += lmc.addresses() as u16;
            let along = (0..lmc.addresses() as u16).map(|tree| (lid.0 + tree, base.0 + 1 + tree));
            entries.extend(along.map(|(lid, planned)| (Lid(lid), Lid(planned))));
        } else {
            entries.push((lid, base));
        }
        addresses.assign(port, lid, own).unwrap();
        saved.lids.insert(topology.port(port).guid, (lid, own));
    }
    for tree in routing.forest.trees() {
        let name: (Guid, u16) = (topology.node(tree.root).guid, tree.plane);
        saved.trees.insert(name, tree.id.0);
    }
    let table = |planned: &ForwardingTable| {
        let mut table = ForwardingTable::up_to(addresses.top());
        entries.iter().for_each(|&(lid, from)| table.set(lid, planned.get(from)));
        table
    };
    let tables = routing.tables.iter().map(table).collect();
    (addresses, tables, saved)
}

/// Every host's packets to base addresses of all leaves, and to the other addresses of some.
fn send_everywhere(
    network: &mut Network,
    topology: &Topology,
    addresses: &Addresses,
) -> Vec<MessageId> {
    let hosts: Vec<PortIndex> = addresses
        .iter()
        .map(|(port, ..)| port)
        .filter(|&p| !topology.is_switch(topology.port(p).node))
        .collect();
    let mut sent = Vec::new();
    for (place, &from) in hosts.iter().enumerate() {
        for step in 1..hosts.len() {
            let to = hosts[(place + step) % hosts.len()];
            let offset = if step % 2 == 0 { 0 } else { step % addresses.lmc(to).addresses() };
            let lid = Lid(addresses.base(to).unwrap().0 + offset as u16);
            sent.push(network.send(Message::new(from, lid, BYTES)).unwrap());
        }
    }
    sent
}

/// The most base addresses that a leaf sends by one port.
fn most_by_a_port(topology: &Topology, addresses: &Addresses, tables: &[ForwardingTable]) -> usize {
    let mut most = 0;
    for switch in topology.switches() {
        let links: BTreeSet<_> = topology.switch_links(switch).map(|(port, _)| port).collect();
        let carries = topology.cables(switch).count() > links.len();
        for port in links.into_iter().filter(|_| carries) {
            let leads = |&(end, lid, lmc): &(PortIndex, Lid, Lmc)| {
                lmc != Lmc::ZERO
                    && tables[switch.index()].get(lid) == port
                    && addresses.base(end).is_some()
            };
            most = most.max(addresses.iter().filter(leads).count());
        }
    }
    most
}

#[test]
fn addresses_stay_and_nothing_is_lost() {
    for (recipe, lmc, most) in [("clos:4,4,4", 2, 3), ("clos:5,2,3", 1, 8), ("clos:3,8,3", 3, 2)] {
        let (topology, lmc) = (fabric(recipe), Lmc::new(lmc).unwrap());
        let (addresses, old, saved) = predecessor(&topology, lmc);
        let mut lab = Lab::of(topology.clone(), Hardware::default(), config(lmc.bits()));
        let home = topology.cables(topology.nodes().find(|&n| !topology.is_switch(n)).unwrap());
        let master = home.map(|(port, _)| addresses.base(port).unwrap()).next().unwrap();
        lab.emulator.configure(&addresses, &old, master);
        lab.sweep = Sweep::new(config(lmc.bits()), saved).unwrap();

        let wires = Wires { bandwidth: Some(SLOW), ..Wires::default() };
        let mut network = Network::new(&topology, wires).unwrap();
        network.set_addresses(&addresses);
        network.set_tables(&old);
        let sent = send_everywhere(&mut network, &topology, &addresses);
        assert_eq!(network.run_until(Time::micros(50)), Outcome::Running, "{recipe}");
        // Each table comes into force in the data plane when it was written, and packets move on before the next.
        let shared = Rc::new(RefCell::new((network, 50_u64, 0_u64)));
        let its = Rc::clone(&shared);
        lab.emulator.watch(move |fabric, write| {
            if write.attribute == LinearForwarding::ID {
                let (network, now, writes) = &mut *its.borrow_mut();
                network.set_table(write.node, &fabric.table(write.node));
                (*now, *writes) = (*now + 5, *writes + 1);
                assert_eq!(
                    network.run_until(Time::micros(*now)),
                    Outcome::Running,
                    "nothing moves any more"
                );
            }
        });
        lab.bring_up();
        lab.check();

        for (port, base, lmc) in addresses.iter() {
            let info = lab.emulator.fabric().port_info(port);
            assert_eq!((info.lid, info.lmc), (base, lmc), "{recipe}: {}", topology.port_name(port));
        }
        let new = lab.emulator.fabric().tables();
        let blocks = 0..=(addresses.top().index() / BLOCK) as u16;
        let differs = |(old, new): (&ForwardingTable, &ForwardingTable)| {
            blocks.clone().filter(|&block| old.block(block) != new.block(block)).count()
        };
        let due: usize = old.iter().zip(&new).map(differs).sum();
        let (network, _, writes) = &mut *shared.borrow_mut();
        let written = lab.sweep.metrics().blocks_written;
        println!("{recipe}: {written} blocks written, {due} differ, {} messages", sent.len());
        assert!(due > 0 && *writes == written, "{recipe}");
        // No block is written that need not be, and few twice.
        assert!(written <= 2 * due as u64, "{recipe}: {written} blocks, {due} differ");
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished, "{recipe}");
        assert!(
            sent.iter().all(|&message| network.progress(message).delivered == BYTES),
            "{recipe}"
        );
        let statistics = network.take_statistics();
        assert_eq!(statistics.dropped, 0, "{recipe}");
        network.audit().unwrap();
        // It was one port for all; now of each other leaf's hosts as many as there are to a tree.
        let before = most_by_a_port(&topology, &addresses, &old);
        let after = most_by_a_port(&topology, &addresses, &new);
        println!(
            "{recipe}: of a leaf's base addresses elsewhere {before} by one port, then {after}"
        );
        assert!(after <= most && after < before, "{recipe}: {after}, {before}");
    }
}
