//! Grants on tables of another manager: from each leaf an address leads along another tree, and tables change.

mod window_support;

use std::collections::{BTreeMap, BTreeSet};

use snin_controller_core::Core;
use snin_controller_core::events::Event;
use snin_fabric::hosts::HostId;
use snin_fabric::routing::Engine;
use snin_fabric::{Guid, Lid, PortNum, TreeId};
use snin_protocol::Time;
use snin_protocol::message::Grant;
use window_support::found::{Read, ask_all, run};
use window_support::life::Life;

/// All that is granted arrives, along links of its own, and along the tree that is said.
fn assert_apart(read: &Read, held: &BTreeMap<Guid, Grant>, a_leaf: usize) {
    let (ports, mut owned) = (read.ports(), BTreeSet::new());
    for (place, port) in ports.iter().enumerate() {
        let Some(grant) = held.get(port) else { continue };
        let to = (place + a_leaf) % ports.len();
        let links = read.walk(HostId(place as u32), HostId(to as u32), grant.dlid.0);
        let (leaf, out) = links[0];
        assert_eq!(read.routing.forest.up(leaf, grant.tree), Some(out), "{grant:?}");
        for link in links {
            assert!(owned.insert(link), "{link:?} has two owners, {grant:?} is one");
        }
    }
}

#[test]
fn grants_follow_tables_that_lead_otherwise_from_every_leaf() {
    let (recipe, a_leaf) = ("clos:4,4,4", 4);
    let before = Read::shifted(recipe, 1, |leaf| leaf);
    let told = before.told().unwrap();
    assert_eq!(told.routing().engine, Engine::Found);
    assert_eq!(told.routing().tables, before.routing.tables);
    let ports = before.ports();
    let mut core = Core::new(Life::config(), told, Time::ZERO).unwrap();
    ask_all(&mut core, &ports, a_leaf);
    let held = run(&mut core, 12);
    assert_eq!(held.len(), ports.len(), "each pair has every tree");
    assert_apart(&before, &held, a_leaf);

    // While they change nothing is granted, and nothing is refused.
    let now = core.next_deadline().unwrap();
    core.handle(Event::Unusable(before.pause(2)), now);
    assert_eq!(run(&mut core, 12), BTreeMap::new());
    let cut_short = core.metrics().cut_short;
    assert_eq!(cut_short, ports.len() as u64, "all were stopped");

    // The second leaf's routes have moved.
    let after = Read::shifted(recipe, 3, |leaf| leaf + usize::from(leaf == 1));
    let now = core.next_deadline().unwrap();
    core.handle(Event::View(after.told().unwrap()), now);
    let later = run(&mut core, 12);
    assert_eq!(later.len(), ports.len());
    assert_apart(&after, &later, a_leaf);

    // The third leaf's routes move without a pause: what went there is given anew, and the rest stays.
    let last = Read::shifted(recipe, 4, |leaf| leaf + usize::from(leaf == 1 || leaf == 2));
    let now = core.next_deadline().unwrap();
    core.handle(Event::View(last.told().unwrap()), now);
    let latest = run(&mut core, 12);
    assert_eq!(latest.len(), ports.len());
    assert_apart(&last, &latest, a_leaf);
    assert_eq!(core.metrics().cut_short - cut_short, a_leaf as u64);
    let of_third = 2 * a_leaf..3 * a_leaf;
    for (place, port) in ports.iter().enumerate().filter(|(place, _)| !of_third.contains(place)) {
        assert_eq!(latest[port].dlid, later[port].dlid, "host {place} had to move");
    }
}

/// With one way a pair there is admission alone, and what does not arrive is refused.
#[test]
fn what_leads_nowhere_is_never_granted() {
    let mut read = Read::shifted("clos:4,4,4", 1, |leaf| leaf);
    let ports = read.ports();
    // The first leaf drops every address of host 4, and sends host 5's to a spine that sends them back.
    let clos = read.routing.shape.as_ref().unwrap();
    let (leaf, spine) = (clos.leaves[0], clos.roots[0]);
    let lids = |read: &Read, host: u32| {
        let port = read.routing.hosts.get(HostId(host)).unwrap().port;
        read.routing.plan.addresses().of(port).collect::<Vec<Lid>>()
    };
    let up = read.routing.forest.up(leaf, TreeId(0)).unwrap();
    let peer = read.topology.peer(read.topology.port_of(leaf, up).unwrap()).unwrap();
    assert_eq!(read.topology.port(peer).node, spine);
    let back = read.topology.num(peer);
    let (dropped, looped) = (lids(&read, 4), lids(&read, 5));
    for &lid in &dropped {
        read.0.routing.tables[leaf.index()].set(lid, PortNum::NONE);
    }
    for &lid in &looped {
        read.0.routing.tables[leaf.index()].set(lid, up);
        read.0.routing.tables[spine.index()].set(lid, back);
    }
    let mut core = Core::new(Life::config(), read.told().unwrap(), Time::ZERO).unwrap();
    ask_all(&mut core, &ports, 4);
    let held = run(&mut core, 12);
    assert_apart(&read, &held, 4);
    assert_eq!(held.len(), ports.len() - 2);
    assert!(!held.contains_key(&ports[0]) && !held.contains_key(&ports[1]));
}
