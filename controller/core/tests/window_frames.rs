//! Time frames: admitted against each other when they are asked for, and when one comes its connection is
//! granted, even if others want its ports.

mod window_support;

use snin_controller_core::orders::{Frame, FrameError};
use snin_protocol::message::Refusal;
use snin_protocol::{ConnectionNumber, Time};
use window_support::fabric::Fabric;
use window_support::life::Life;
use window_support::orders::Orders as _;
use window_support::world::World;

const WINDOW: Time = Time::millis(2);

fn world(recipe: &str) -> World {
    let mut world = World::new(Fabric::generated(recipe), Life::calm(), 1);
    world.run(10);
    world
}

fn frame(world: &World, owner: &str, ends: (usize, usize), from: u64, windows: u64) -> Frame {
    let port = |place: usize| world.agents[place].port;
    let from = world.now + WINDOW * from;
    Frame {
        owner: owner.to_owned(),
        source: port(ends.0),
        destination: port(ends.1),
        from,
        until: from + WINDOW * windows,
    }
}

#[test]
fn when_a_frame_comes_its_connection_goes_before_all_others() {
    let mut world = world("clos:4,4,2");
    // Three want to send to host 7, and host 0 wants to send to three others: all have their turns.
    for (from, to) in [(0, 7), (2, 7), (3, 7), (0, 4), (0, 5), (0, 6)] {
        world.request(from, (10 * from + to) as u32, to, 0);
    }
    let wanted = frame(&world, "ann", (0, 7), 20, 10);
    let (from, until) = (wanted.from, wanted.until);
    let now = world.now;
    let id = world.core.add_frame(wanted, now).unwrap();
    world.run(19);
    let flow = (world.agents[0].port, ConnectionNumber(7));
    let sent = |world: &World| world.checker.sent.get(&flow).copied().unwrap_or(Time::ZERO);
    let before = sent(&world);
    assert!(before < WINDOW * 15, "it shares its ports: {before}");
    // Within its frame it is on the way all the time but for the guards of windows.
    let inside = |world: &World| world.now > from + WINDOW && world.now + WINDOW * 2 < until;
    let mut seen = 0;
    for _ in 0..14 {
        world.run(1);
        if inside(&world) {
            let held = world.core.grants();
            let ports = (world.agents[0].port, world.agents[7].port);
            let of_ports = held.filter(|g| g.source == ports.0 || g.destination == ports.1);
            let of_ports: Vec<_> = of_ports.filter(|g| g.until > world.now).collect();
            assert!(of_ports.iter().all(|g| (g.source, g.destination) == ports), "{of_ports:?}");
            seen += of_ports.len();
        }
    }
    assert!(seen >= 6, "{seen}");
    world.run(10);
    assert_eq!(world.core.frames().count(), 0, "{id} is over");
    assert_eq!(world.checker.clashes.first(), None);
}

#[test]
fn frames_are_admitted_against_each_other() {
    let mut world = world("clos:4,4,2");
    let now = world.now;
    let add = |world: &mut World, owner: &str, ends, from, windows| {
        let wanted = frame(world, owner, ends, from, windows);
        world.core.add_frame(wanted, now)
    };
    let first = add(&mut world, "ann", (0, 7), 100, 50).unwrap();
    let told = |answer: Result<u64, FrameError>| answer.unwrap_err().to_string();
    let taken = |end: &str| format!("request {first} has the {end} port then: it ends in 0.300 s");
    assert_eq!(told(add(&mut world, "bob", (0, 5), 149, 5)), taken("sending"));
    assert_eq!(told(add(&mut world, "bob", (1, 7), 90, 11)), taken("receiving"));
    // Before, after, and the other way round.
    for (ends, from, windows) in [((0, 5), 150, 5), ((1, 7), 90, 10), ((7, 0), 100, 50)] {
        add(&mut world, "bob", ends, from, windows).unwrap();
    }
    let itself = add(&mut world, "bob", (3, 3), 0, 1);
    assert_eq!(itself, Err(FrameError::Refused(Refusal::Itself)));
    assert_eq!(add(&mut world, "bob", (3, 4), 5, 0), Err(FrameError::Empty));
    assert_eq!(add(&mut world, "bob", (3, 4), 5, 1 << 40), Err(FrameError::TooFar));
    // What was given back is free again.
    assert!(world.core.remove_frame(first).is_some() && world.core.remove_frame(first).is_none());
    add(&mut world, "bob", (0, 3), 100, 50).unwrap();
    // One owner's do not fill the table.
    for number in 0..300 {
        let answer = add(&mut world, "eve", (2, 5), 1000 + 2 * number, 1);
        let full = number >= 256;
        assert_eq!(answer.is_err(), full, "{number}: {answer:?}");
    }
    add(&mut world, "bob", (2, 5), 3000, 1).unwrap();
}

#[test]
fn a_leaf_with_fewer_links_than_hosts_takes_no_more_frames_than_links() {
    // Two spines, three hosts a leaf.
    let mut world = world("clos:3,2,3");
    let now = world.now;
    let mut add = |ends, from, windows| {
        let wanted = frame(&world, "ann", ends, from, windows);
        world.core.add_frame(wanted, now)
    };
    add((0, 3), 10, 10).unwrap();
    add((1, 4), 15, 10).unwrap();
    assert_eq!(add((2, 6), 12, 10), Err(FrameError::LeafFull("sending")));
    // Never three at one moment.
    add((2, 6), 20, 10).unwrap();
    assert_eq!(add((8, 5), 16, 3), Err(FrameError::LeafFull("receiving")));
    // Within a leaf there is nothing to run out of.
    add((2, 0), 10, 10).unwrap();
}
