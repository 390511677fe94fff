//! Links of several rates: slow ones share a fast one, and take what is theirs at their own rates.

use snin_emulator::data::{Config, Message, Network, Outcome, Queues};
use snin_fabric::TreeId;
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use crate::support::{Fabric, star_of, wire};

/// What K = 2 hosts may cost each other on links twice as fast as they are: 3 (K - 1) packets of 4,122 bytes at
/// 20 ps.
const MOST_WAIT: u64 = 247;

/// Sends `packets` from every pair's first host to its second along its tree, each a little later than the one
/// before; whether all of it goes at full rate.
fn carry(fabric: &Fabric, pairs: &[(u32, u32, u16)], packets: u64, stagger: u64) -> Network {
    let mut network = fabric.network(Config::default());
    let bytes = packets * 4_096;
    let mut sent = Vec::new();
    for (n, &(from, to, tree)) in (0..).zip(pairs) {
        let lid = fabric.routing.plan.dlid(fabric.port(to), TreeId(tree)).unwrap().0;
        let start = Time(n * stagger);
        let message = Message { start, ..Message::new(fabric.port(from), lid, bytes) };
        sent.push(network.send(message).unwrap());
    }
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    network.audit().unwrap();
    let alone = network.sending_time(fabric.port(0), bytes).0;
    for message in sent {
        let slowdown = network.progress(message).slowdown.unwrap();
        let most = 1.0 + MOST_WAIT as f64 / alone as f64;
        assert!((1.0..=most).contains(&slowdown), "{slowdown}, {stagger}");
    }
    network
}

#[test]
fn two_slow_pairs_fill_one_fast_uplink() {
    let fabric = Fabric::of("clos:2,1,2,host=200G,up=400G", Engine::Trees);
    for stagger in (0..200).step_by(7) {
        let network = carry(&fabric, &[(0, 2, 0), (1, 3, 0)], 2_000, stagger);
        let longest = network.statistics().queueing_ns.max();
        assert!(longest <= MOST_WAIT, "{longest} ns, {stagger}");
    }
}

/// Every host of a leaf sends to the host of its number at another, two hosts a tree: two owners of every link
/// between switches.
#[test]
fn every_fast_link_of_a_clos_carries_two_slow_pairs() {
    let fabric = Fabric::of("clos:6,3,6,host=200G,up=400G", Engine::Trees);
    for (shift, stagger) in [(1, 0), (1, 13), (2, 31), (3, 82), (5, 101)] {
        let pair = |host: u32| (host, (host + shift * 6) % 36, (host % 6 / 2) as u16);
        let pairs: Vec<_> = (0..36).map(pair).collect();
        let network = carry(&fabric, &pairs, 500, stagger);
        let longest = network.statistics().queueing_ns.max();
        assert!(longest <= MOST_WAIT, "{longest} ns, {shift} {stagger}");
    }
}

/// A fast host feeds slow ones at once, as long as it does not send to any faster than that takes it.
#[test]
fn an_input_gives_to_every_output_at_its_own_rate() {
    let rates = ["4xNDR", "4xEDR", "4xHDR", "2xHDR"];
    let fabric = Fabric::new(star_of(&rates), Engine::Trees);
    for queues in [Queues::PerOutput, Queues::PerInput] {
        let mut network = fabric.network(Config { queues, ..Config::default() });
        let receivers = [(1, 100), (2, 200), (3, 100)];
        let sent = receivers.map(|(host, rate)| {
            let rate = rate * 1_000_000_000;
            let bytes = rate / 8 / 10_000;
            let message = Message::new(fabric.port(0), fabric.lid(host), bytes);
            network.send(Message { rate: Some(rate), ..message }).unwrap()
        });
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
        // Each is sent for 100 us, and waits for others of its own host only.
        for message in sent {
            let slowdown = network.progress(message).slowdown.unwrap();
            assert!((1.0..1.02).contains(&slowdown), "{queues:?}: {slowdown}");
        }
    }
}

/// A packet that crawls out by a slow port keeps the place of itself only: what overtakes it to a fast port is
/// given back when that has left.
#[test]
fn a_slow_output_holds_back_nobody_s_credits() {
    let fabric = Fabric::new(star_of(&["4xNDR", "1xSDR", "4xNDR"]), Engine::Trees);
    // Room for sixteen packets. One takes 16 us to leave by the slow port; in these 200 leave by the other.
    let mut network = fabric.network(Config::default());
    let slow = network.send(Message::new(fabric.port(0), fabric.lid(1), 4_096)).unwrap();
    let message =
        Message { start: Time(500), ..Message::new(fabric.port(0), fabric.lid(2), 100 * 4_096) };
    let fast = network.send(message).unwrap();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert_eq!(network.progress(fast).slowdown, Some(1.0));
    let (slow, fast) = (network.progress(slow).completed, network.progress(fast).completed);
    assert!(slow > fast && slow > Some(Time(wire(4_096) * 8 / 2)), "{slow:?} {fast:?}");
    network.audit().unwrap();
}
