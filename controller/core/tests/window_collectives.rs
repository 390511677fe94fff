//! Collectives: a slice's hosts send as the kind says, on links of their own, through losses, cuts, crashes and
//! takeovers. Agents send from the first to the last nanosecond of their time slots by clocks as wrong as they may
//! be, and the checker of all windows watches every link.

mod window_support;

use std::collections::BTreeSet;

use snin_controller_core::config::Policy;
use snin_controller_core::events::Event;
use snin_controller_core::orders::{CollectiveError, CollectiveWanted, SliceHosts};
use snin_fabric::Guid;
use snin_fabric::routing::{Routing, RoutingOptions};
use snin_protocol::Time;
use snin_protocol::collective::{CollectiveKind, Dims};
use snin_protocol::message::{Verdict, Wait};
use snin_protocol::view::VIEW_LEASE;
use window_support::agent::COLLECTIVE;
use window_support::fabric::Fabric;
use window_support::life::Life;
use window_support::orders::Orders as _;
use window_support::world::World;

const SLOT: Time = Time::micros(500);
const JOB: &str = "job/1";

const KINDS: [CollectiveKind; 6] = [
    CollectiveKind::Ring,
    CollectiveKind::BidirectionalRing,
    CollectiveKind::HalvingDoubling,
    CollectiveKind::AllToAll,
    CollectiveKind::Grid(Dims { x: 4, y: 2, z: 1 }),
    CollectiveKind::Halo(Dims { x: 2, y: 4, z: 1 }),
];

fn world(life: Life, seed: u64) -> World {
    let mut world = World::new(Fabric::generated("clos:4,4,4"), life, seed);
    world.run(10);
    // Two of each leaf.
    let ports: Vec<Guid> = world.fabric.ports();
    let on = (0..16).filter(|host| host % 4 < 2).map(|host| ports[host]).collect();
    world.core.create_slice(JOB, &SliceHosts::Ports(on)).unwrap();
    world.run(10);
    world
}

fn begin(world: &mut World, kind: CollectiveKind) {
    world.core.set_collective(JOB, Some(CollectiveWanted { kind, slot: SLOT })).unwrap();
}

#[test]
fn every_kind_has_its_links_and_others_wait_or_go_beside_it() {
    for kind in KINDS {
        let mut world = world(Life::calm(), 7);
        // One between members, one to a member, and two of others.
        for (number, (from, to)) in [(0, 4), (2, 5), (2, 7), (10, 15)].into_iter().enumerate() {
            world.request(from, number as u32, to, 0);
        }
        world.run(10);
        begin(&mut world, kind);
        world.run(10);
        world.run(50);
        let status = world.core.collective(JOB).unwrap().unwrap();
        assert_eq!((status.granted, status.max_link_load), (8, 1), "{kind}");
        let wait = |place: usize, number: u32| {
            let verdicts = &world.agents[place].verdicts;
            verdicts.get(&snin_protocol::ConnectionNumber(number)).copied()
        };
        let waits = Some(Verdict::Deferred(Wait::Collective));
        assert_eq!((wait(0, 0), wait(2, 1)), (waits, waits), "{kind}");
        let granted = |world: &World| {
            let of = world.core.grants().filter(|grant| grant.until > world.now);
            of.map(|grant| grant.connection.0).collect::<BTreeSet<u32>>()
        };
        assert!(granted(&world).is_superset(&BTreeSet::from([2, 3])), "{kind}");
        world.core.set_collective(JOB, None).unwrap();
        world.run(20);
        // What a member sends of its time slots, less what guards and clocks may take; 60 windows were its.
        let most = world.life.config.window * 60;
        for (place, port) in (0..).zip(&status.members) {
            let slots = (0..status.phases).filter(|&phase| kind.peer(8, place, phase).is_some());
            let share = slots.count() as u64 * 100 / u64::from(status.phases);
            let sent = world.checker.sent[&(*port, COLLECTIVE)].nanos() * 100 / most.nanos();
            assert!(sent <= share && sent + 30 > share, "{kind}: {place}: {sent} of {share} %");
        }
        assert!(granted(&world).is_superset(&BTreeSet::from([0, 3])), "{kind}");
        assert!(world.agents.iter().all(|agent| agent.collective.is_none()), "{kind}");
        assert_eq!(world.checker.clashes.first(), None, "{kind}");
    }
}

/// Programs that ask for nothing are told their member's tree for all that they send.
#[test]
fn a_jobs_programs_send_along_the_trees_of_its_collective() {
    let mut world = world(Life::calm(), 5);
    assert_eq!(world.core.job_trees(JOB, None, &[]).unwrap().collective(), None);
    begin(&mut world, CollectiveKind::Halo(Dims { x: 2, y: 4, z: 1 }));
    world.run(20);
    let status = world.core.collective(JOB).unwrap().unwrap();
    let trees = world.core.job_trees(JOB, None, &[]).unwrap();
    assert_eq!(trees.collective(), Some("halo 2x4x1"));
    for (port, tree) in status.members.iter().zip(&status.trees) {
        let own = trees.hosts().iter().find(|host| host.port == *port).unwrap();
        for other in trees.hosts().iter().filter(|other| other.leaf != own.leaf) {
            let way = trees.way(own.lids.0, other.lids.0).unwrap().unwrap();
            assert_eq!(way.tree, Some(*tree), "{} to {}", own.name, other.name);
        }
    }
}

#[test]
fn no_link_has_two_owners_whatever_happens() {
    let (mut moved, mut cuts, mut takeovers) = (0, 0, 0);
    for (seed, kind) in (0..).zip(KINDS) {
        let mut world = world(Life::calm(), seed);
        begin(&mut world, kind);
        world.life = Life::hard();
        let mut trees = world.core.collective(JOB).unwrap().unwrap().trees;
        let mut progress = Time::ZERO;
        for round in 0..30 {
            world.run(10);
            assert_eq!(world.checker.clashes.first(), None, "{kind}, round {round}");
            if let Ok(Some(status)) = world.core.collective(JOB) {
                moved += u32::from(status.trees != trees);
                trees = status.trees;
            }
            progress = world
                .checker
                .sent
                .iter()
                .filter(|(flow, _)| flow.1 == COLLECTIVE)
                .map(|(_, &sent)| sent)
                .fold(progress, Time::max);
        }
        (cuts, takeovers) = (cuts + world.cuts, takeovers + world.takeovers);
        assert!(progress > world.life.config.window * 20, "{kind}: {progress}");
    }
    assert!(cuts > 9 && takeovers > 9 && moved > 0, "{cuts} {takeovers} {moved}");
}

#[test]
fn a_controller_that_comes_after_another_one_goes_on() {
    let mut world = world(Life::calm(), 3);
    begin(&mut world, CollectiveKind::AllToAll);
    world.run(20);
    world.take_over();
    world.run(40);
    let status = world.core.collective(JOB).unwrap().unwrap();
    assert_eq!((status.granted, status.wanted.kind), (8, CollectiveKind::AllToAll));
    assert_eq!(world.checker.clashes.first(), None);
    // With the slice the collective goes.
    assert!(world.core.delete_slice(JOB));
    world.run(20);
    assert!(world.agents.iter().all(|agent| agent.collective.is_none()));
}

#[test]
fn what_cannot_be_is_said() {
    let mut world = world(Life::calm(), 1);
    let tried = |world: &World, kind, slot| {
        let tried = world.core.try_collective(JOB, CollectiveWanted { kind, slot });
        tried.unwrap_err().to_string()
    };
    let dims = CollectiveKind::Halo(Dims { x: 3, y: 3, z: 1 });
    assert_eq!(tried(&world, dims, SLOT), "3x3x1 makes 9 members, but there are 8");
    assert_eq!(
        tried(&world, CollectiveKind::AllToAll, Time::micros(100)),
        "slots of 100us are too short: 180us is the least, of which 90us are guard"
    );
    let wanted = CollectiveWanted { kind: CollectiveKind::Ring, slot: SLOT };
    let none = world.core.set_collective("job/2", Some(wanted)).unwrap_err();
    assert_eq!(none, CollectiveError::NoSlice("job/2".to_owned()));
    // Three hosts of one leaf and one of another have one link between the leaves, which is enough.
    let ports = world.fabric.ports();
    world.core.delete_slice(JOB);
    let few = [0, 1, 2, 4].map(|host| ports[host]).to_vec();
    world.core.create_slice(JOB, &SliceHosts::Ports(few)).unwrap();
    world.core.try_collective(JOB, wanted).unwrap();
}

/// A strict controller that does not hear its manager begins nothing, and what is in force goes on.
#[test]
fn without_a_manager_what_is_in_force_goes_on() {
    let mut life = Life::calm();
    life.config.policy = Policy::Strict;
    let mut fabric = Fabric::generated("clos:4,4,4");
    let options = RoutingOptions { unmanaged_trees: 1, ..RoutingOptions::default() };
    fabric.routing = Routing::with(&fabric.topology, &options).unwrap();
    let mut world = World::new(fabric, life, 2);
    world.run(10);
    let ports: Vec<Guid> = world.fabric.ports();
    world.core.create_slice(JOB, &SliceHosts::Ports(ports[..2].to_vec())).unwrap();
    world.core.create_slice("job/2", &SliceHosts::Ports(ports[2..4].to_vec())).unwrap();
    begin(&mut world, CollectiveKind::Ring);
    world.run(20);
    world.notify(Event::Manager(false));
    let windows = VIEW_LEASE.nanos() / world.life.config.window.nanos();
    world.run(windows + 20);
    let ring = CollectiveWanted { kind: CollectiveKind::Ring, slot: SLOT };
    world.core.set_collective("job/2", Some(ring)).unwrap();
    world.run(20);
    let granted = |owner: &str| world.core.collective(owner).unwrap().unwrap().granted;
    assert_eq!((granted(JOB), granted("job/2")), (2, 0));
    world.notify(Event::Manager(true));
    world.run(20);
    assert_eq!(world.core.collective("job/2").unwrap().unwrap().granted, 2);
}
