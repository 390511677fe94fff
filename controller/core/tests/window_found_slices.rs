//! Slices and collectives on tables of another manager, where from each leaf an address leads along another tree.

mod window_support;

use std::collections::BTreeSet;

use snin_controller_core::Core;
use snin_controller_core::events::Event;
use snin_controller_core::orders::{CollectiveWanted, SliceHosts};
use snin_fabric::hosts::HostId;
use snin_fabric::job::JobTrees;
use snin_fabric::{Guid, Lid, NodeIndex, PortNum, TreeId};
use snin_protocol::Term;
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::message::{AgentMessage, Hello};
use window_support::found::{Read, ask_all, leases, run, says};
use window_support::life::Life;
use window_support::orders::Orders as _;

const RECIPE: &str = "clos:4,4,4";

type Link = (NodeIndex, PortNum);

fn core(read: &Read) -> Core {
    let mut core = Core::new(Life::config(), read.told().unwrap(), Time::ZERO).unwrap();
    for port in read.ports() {
        let hello = AgentMessage::Hello(Hello { port, term: Term(0) });
        says(&mut core, port, hello, Time::micros(1));
    }
    core
}

/// The hosts in these places of each leaf.
fn on_each_leaf(read: &Read, places: std::ops::Range<usize>) -> SliceHosts {
    let ports = read.ports().into_iter().enumerate();
    SliceHosts::Ports(ports.filter(|(at, _)| places.contains(&(at % 4))).map(|it| it.1).collect())
}

/// The links of every pair of a job, by the addresses that its programs are told.
fn links(read: &Read, job: &JobTrees) -> BTreeSet<Link> {
    let place = |port: Guid| {
        let at = read.ports().iter().position(|&other| other == port).unwrap();
        HostId(at as u32)
    };
    let mut links = BTreeSet::new();
    for (from, to) in job.hosts().iter().flat_map(|a| job.hosts().iter().map(move |b| (a, b))) {
        let Some(way) = job.way(from.lids.0, to.lids.0).unwrap() else { continue };
        let there = read.walk(place(from.port), place(to.port), way.to);
        let back = read.walk(place(to.port), place(from.port), way.from);
        links.extend(there.into_iter().chain(back));
    }
    links
}

#[test]
fn programs_of_two_slices_share_no_link() {
    let read = Read::shifted(RECIPE, 1, |leaf| 3 * leaf);
    let mut core = core(&read);
    for (owner, places) in [("job/1", 0..2), ("job/2", 2..4)] {
        core.create_slice(owner, &on_each_leaf(&read, places)).unwrap();
    }
    run(&mut core, 4);
    let of = |owner| {
        let text = core.job_trees(owner, None, &[]).unwrap().to_string();
        links(&read, &text.parse().unwrap())
    };
    let (one, two) = (of("job/1"), of("job/2"));
    // Two trees each, up and down at four leaves.
    assert_eq!((one.len(), two.len()), (16, 16));
    assert_eq!(one.intersection(&two).count(), 0);
    // Grants inside of slices keep to them.
    ask_all(&mut core, &read.ports(), 4);
    let held = run(&mut core, 8);
    assert_eq!(held.len(), 16);
    for (at, port) in read.ports().iter().enumerate() {
        let to = HostId(((at + 4) % 16) as u32);
        let own = if at % 4 < 2 { &one } else { &two };
        let way = read.walk(HostId(at as u32), to, held[port].dlid.0);
        assert!(way.iter().all(|link| own.contains(link)), "{way:?}");
    }
}

/// Two stages, two planes of cables, three stages: the links of three jobs that each have hosts in several places.
#[test]
fn slices_of_every_shape_share_no_link() {
    for recipe in ["clos:6,4,4", "clos:4,2,4,2", "fattree:8"] {
        let read = Read::ours(recipe, 1);
        let mut core = core(&read);
        let hosts = read.ports().len() as u32;
        let (mut all, mut made) = (BTreeSet::new(), 0);
        for owner in ["one", "two", "three"] {
            if core.create_slice(owner, &SliceHosts::Count(hosts / 4 + 1)).is_err() {
                continue;
            }
            made += 1;
            for link in links(&read, &core.job_trees(owner, None, &[]).unwrap()) {
                assert!(all.insert(link), "{recipe}: {link:?} is {owner}'s and another's");
            }
        }
        assert!(made >= 2 && all.len() > 8, "{recipe}: {made} slices, {} links", all.len());
    }
}

/// A leaf that does not reach all hosts along a tree goes without that tree; the others keep it.
#[test]
fn a_slice_has_only_trees_that_lead_from_each_host_to_each() {
    let mut read = Read::shifted(RECIPE, 1, |leaf| leaf);
    let clos = read.routing.shape.as_ref().unwrap();
    let first = clos.leaves[0];
    let up = read.routing.forest.up(first, TreeId(2)).unwrap();
    let lids: Vec<Lid> = read.routing.plan.addresses().iter().map(|(_, lid, _)| lid).collect();
    let top = lids.iter().max().unwrap().0 + 4;
    // What the first leaf led along tree 2 it drops.
    for lid in (1..top).map(Lid) {
        let table = &mut read.0.routing.tables[first.index()];
        if table.get(lid) == up {
            table.set(lid, PortNum::NONE);
        }
    }
    let mut core = core(&read);
    core.create_slice("wide", &on_each_leaf(&read, 0..3)).unwrap();
    let pairs = core.slice("wide").unwrap().pairs;
    assert_eq!(pairs.len(), 12);
    assert!(pairs.iter().all(|&(_, tree)| tree != TreeId(2)), "{pairs:?}");
    links(&read, &core.job_trees("wide", None, &[]).unwrap());
    // A fourth tree there is for the other three leaves alone.
    assert!(core.delete_slice("wide"));
    let refused = core.create_slice("all", &on_each_leaf(&read, 0..4)).unwrap_err();
    assert!(refused.to_string().contains("trees that their leaves have in common"), "{refused}");
    core.create_slice("rest", &SliceHosts::Ports(read.ports().split_off(4))).unwrap();
    assert_eq!(core.slice("rest").unwrap().pairs.len(), 12);
}

/// While nothing is known of the tables a slice has no link; afterwards it has those that it had.
#[test]
fn a_pause_takes_a_slice_its_links_and_gives_them_back() {
    let read = Read::shifted(RECIPE, 1, |leaf| leaf);
    let mut core = core(&read);
    core.create_slice("job", &on_each_leaf(&read, 1..3)).unwrap();
    let wanted = CollectiveWanted { kind: CollectiveKind::Ring, slot: Time::micros(500) };
    core.set_collective("job", Some(wanted)).unwrap();
    run(&mut core, 8);
    let before = core.slice("job").unwrap();
    assert!(before.whole && before.pairs.len() == 8, "{before:?}");
    let now = core.next_deadline().unwrap();
    core.handle(Event::Unusable(read.pause(2)), now);
    run(&mut core, 8);
    let paused = core.slice("job").unwrap();
    assert_eq!((paused.whole, paused.pairs.len(), &paused.hosts), (false, 0, &before.hosts));
    let now = core.next_deadline().unwrap();
    let after = Read::shifted(RECIPE, 3, |leaf| leaf + 1);
    core.handle(Event::View(after.told().unwrap()), now);
    let leases = leases(&mut core, 8);
    let slice = core.slice("job").unwrap();
    assert_eq!((slice.whole, &slice.pairs), (true, &before.pairs));
    assert_eq!(leases.values().filter(|lease| lease.collective.is_some()).count(), 8);
}

#[test]
fn a_collective_goes_by_the_addresses_of_each_leaf() {
    let read = Read::shifted(RECIPE, 1, |leaf| 2 * leaf + 1);
    let mut core = core(&read);
    core.create_slice("job", &on_each_leaf(&read, 0..2)).unwrap();
    let kind = CollectiveKind::AllToAll;
    let slot = Time::micros(500);
    core.set_collective("job", Some(CollectiveWanted { kind, slot })).unwrap();
    let leases = leases(&mut core, 12);
    let ports = read.ports();
    let place = |port: Guid| HostId(ports.iter().position(|&other| other == port).unwrap() as u32);
    let entries: Vec<_> = leases.values().filter_map(|lease| lease.collective.as_ref()).collect();
    assert_eq!(entries.len(), 8);
    for phase in 0..7 {
        let mut owned = BTreeSet::new();
        for entry in &entries {
            let own = place(entry.members[usize::from(entry.place)].port);
            let peer = kind.peer(8, entry.place.into(), phase).unwrap();
            let to = entry.members[peer as usize];
            for link in read.walk(own, place(to.port), to.dlid.0) {
                assert!(owned.insert(link), "in phase {phase} {link:?} has two owners");
            }
        }
    }
}
