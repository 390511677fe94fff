//! What can be said without simulating is what is simulated, to the nanosecond.

use snin_emulator::data::{Config, Message, Outcome, Queues};
use snin_fabric::Topology;
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use crate::support::{Fabric, PS_PER_BYTE, star, star_of, wire};

/// Wires, switches, the header's time a hop, one transmission: of all packets of the message.
fn alone_ps(config: &Config, switches: u64, bytes: u64, ps_per_byte: u64) -> u64 {
    let mtu = u64::from(config.mtu);
    let packets = bytes.div_ceil(mtu).max(1);
    let last = bytes - (packets - 1) * mtu;
    let on_wire = (packets - 1) * wire(mtu) + wire(last);
    let (wires, delays) = ((switches + 1) * config.propagation.0, switches * config.switch_delay.0);
    (wires + delays) * 1_000 + switches * 8 * ps_per_byte + on_wire * ps_per_byte
}

#[test]
fn one_flow_takes_wires_switches_headers_and_one_transmission() {
    let fabrics = [("clos:4,2,2", 0, 1, 1), ("clos:4,2,2", 0, 7, 3), ("fattree:4", 0, 15, 5)];
    for (recipe, from, to, switches) in fabrics {
        let fabric = Fabric::of(recipe, Engine::Trees);
        for (bandwidth, ps_per_byte) in [(400e9, 20), (100e9, 80), (10e9, 800)] {
            for bytes in [0, 1, 255, 4_096, 4_097, 100_000] {
                for (propagation, switch_delay) in [(50, 200), (0, 0), (1_000, 130)] {
                    let config = Config {
                        bandwidth: Some(bandwidth as u64),
                        propagation: Time(propagation),
                        switch_delay: Time(switch_delay),
                        buffer: 1 << 20,
                        ..Config::default()
                    };
                    let expected = alone_ps(&config, switches, bytes, ps_per_byte);
                    let mut network = fabric.network(config);
                    let start = Time(12_345);
                    let message =
                        Message { start, ..Message::new(fabric.port(from), fabric.lid(to), bytes) };
                    let id = network.send(message).unwrap();
                    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
                    let progress = network.progress(id);
                    let completed = start + Time(expected.div_ceil(1_000));
                    assert_eq!(progress.completed, Some(completed), "{recipe} {bytes} {bandwidth}");
                    assert_eq!(progress.slowdown, Some(1.0));
                    assert_eq!((progress.sent, progress.delivered), (bytes, bytes));
                    assert_eq!(network.statistics().queueing_ns.max(), 0);
                }
            }
        }
    }
}

/// A host at 100 Gbit/s and one at 400, on a switch.
fn mixed() -> Topology {
    star_of(&["4xEDR", "4xNDR"])
}

#[test]
fn between_fast_and_slow_links_no_byte_leaves_before_it_is_there() {
    let fabric = Fabric::new(mixed(), Engine::Trees);
    let (propagation, delay, bytes) = (50_000, 200_000, wire(4_096));
    // From slow to fast the last byte goes straight through. From fast to slow the header's time counts,
    // then the slow transmission.
    let expected = [
        (0, 1, bytes * 80 + propagation + delay + propagation),
        (1, 0, propagation + 8 * 20 + delay + bytes * 80 + propagation),
    ];
    for (from, to, first_ps) in expected {
        for packets in [1, 2, 20] {
            let mut network = fabric.network(Config::default());
            let message = Message::new(fabric.port(from), fabric.lid(to), packets * 4_096);
            let id = network.send(message).unwrap();
            assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
            let ps = first_ps + (packets - 1) * bytes * 80;
            let progress = network.progress(id);
            assert_eq!(progress.completed, Some(Time(ps.div_ceil(1_000))), "{from} {packets}");
            assert_eq!(progress.slowdown, Some(1.0));
        }
    }
}

#[test]
fn who_is_paced_to_the_slowest_link_waits_for_nobody() {
    let fabric = Fabric::new(mixed(), Engine::Trees);
    let bytes = 20 * 4_096;
    let carried = |paced: bool| {
        let mut network = fabric.network(Config::default());
        let (source, lid) = (fabric.port(1), fabric.lid(0));
        let slowest = network.path_rate(source, lid);
        assert_eq!(slowest, Some(100_000_000_000));
        let rate = slowest.filter(|_| paced);
        assert_eq!(
            network.paced_time(source, bytes, rate) > network.sending_time(source, bytes),
            paced
        );
        let message = network.send(Message { rate, ..Message::new(source, lid, bytes) }).unwrap();
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
        let completed = network.progress(message).completed.unwrap();
        (completed, network.statistics().queueing_ns.max(), network.progress(message).slowdown)
    };
    let ((at_once, waited, _), (paced, nothing, slowdown)) = (carried(false), carried(true));
    // The packets come as they go on: all are there as soon, and none has waited.
    assert_eq!((at_once, slowdown), (paced, Some(1.0)));
    assert!(waited > 1_000 && nothing == 0, "{waited} {nothing}");
}

/// The first packet of a network's life, to a link that takes longer for it than all before it took.
#[test]
fn a_slow_link_may_take_longer_than_time_has_passed() {
    let fabric = Fabric::new(mixed(), Engine::Trees);
    let mut network =
        fabric.network(Config { propagation: Time(0), switch_delay: Time(0), ..Config::default() });
    let message = network.send(Message::new(fabric.port(1), fabric.lid(0), 4_096)).unwrap();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert_eq!(network.progress(message).slowdown, Some(1.0));
}

#[test]
fn who_comes_at_once_to_one_port_waits_for_all_before() {
    let fabric = Fabric::new(star(9), Engine::Trees);
    let config = Config::default();
    let alone = alone_ps(&config, 1, 4_096, PS_PER_BYTE);
    let mut network = fabric.network(config);
    let messages: Vec<_> = (1..9)
        .map(|host| network.send(Message::new(fabric.port(host), fabric.lid(0), 4_096)).unwrap())
        .collect();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    // The switch asks its inputs in turn.
    for (before, message) in (0..).zip(messages) {
        let waited = before * wire(4_096) * PS_PER_BYTE;
        let completed = Time((alone + waited).div_ceil(1_000));
        assert_eq!(network.progress(message).completed, Some(completed));
    }
    let statistics = network.statistics();
    let longest = (7 * wire(4_096) * PS_PER_BYTE).div_ceil(1_000);
    assert!(statistics.queueing_ns.max().abs_diff(longest) <= longest / 1_000);
    assert_eq!((statistics.packets, statistics.transmissions), (8, 16));
}

#[test]
fn messages_of_a_port_take_turns() {
    let fabric = Fabric::new(star(3), Engine::Trees);
    let mut network = fabric.network(Config::default());
    let mut send =
        |to| network.send(Message::new(fabric.port(0), fabric.lid(to), 10 * 4_096)).unwrap();
    let (first, second) = (send(1), send(2));
    network.run_until(Time::MAX);
    // The first has sent its last packet before the second's last.
    let packet = Time((wire(4_096) * PS_PER_BYTE).div_ceil(1_000));
    let at = |message| network.progress(message).completed.unwrap();
    assert!(at(second) - at(first) <= packet && at(second) > at(first));
    let slowdown = network.progress(second).slowdown.unwrap();
    assert!((1.6..2.0).contains(&slowdown), "{slowdown}");
}

#[test]
fn a_link_that_has_been_used_is_free_again() {
    let fabric = Fabric::new(star(3), Engine::Trees);
    let mut network = fabric.network(Config::default());
    // Two senders to one receiver, one after the other: closely, and after long silence.
    let one = alone_ps(&Config::default(), 1, 4_096, PS_PER_BYTE).div_ceil(1_000);
    for (n, gap) in [0, 1, one, 1_000_000, 0].into_iter().enumerate() {
        let from = fabric.port(n as u32 % 2);
        let start = network.now() + Time(gap);
        let message = Message { start, ..Message::new(from, fabric.lid(2), 4_096) };
        let id = network.send(message).unwrap();
        assert_eq!(network.run_until(start + Time(one)), Outcome::Finished);
        assert_eq!(network.progress(id).slowdown, Some(1.0), "{gap}");
    }
}

#[test]
fn inputs_share_an_output_equally() {
    let fabric = Fabric::new(star(4), Engine::Trees);
    for queues in [Queues::PerOutput, Queues::PerInput] {
        let mut network = fabric.network(Config { queues, ..Config::default() });
        let message = |host| Message::new(fabric.port(host), fabric.lid(0), 100 * 4_096);
        let messages: Vec<_> = (1..4).map(|host| network.send(message(host)).unwrap()).collect();
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
        let at = messages.iter().map(|&id| network.progress(id).completed.unwrap().0);
        let (first, last) = (at.clone().min().unwrap(), at.max().unwrap());
        let packet = wire(4_096) * PS_PER_BYTE;
        assert!(last - first <= (2 * packet).div_ceil(1_000), "{queues:?}: {first} to {last}");
    }
}

/// Buffers of a packet each: a packet is sent only when the one before has left the next switch and its
/// sender knows.
#[test]
fn too_few_credits_cost_a_round_trip() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let config = Config { buffer: 4_160, ..Config::default() };
    let mut network = fabric.network(config);
    let packets = 5;
    let message = Message::new(fabric.port(0), fabric.lid(1), packets * 4_096);
    let id = network.send(message).unwrap();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    let (transmission, header) = (wire(4_096) * PS_PER_BYTE, 8 * PS_PER_BYTE);
    // The host's packet enters the switch, leaves it, and the credit comes back.
    let round = 50_000 + header + 200_000 + transmission + 50_000;
    let one = alone_ps(&Config::default(), 1, 4_096, PS_PER_BYTE);
    let completed = Time((one + (packets - 1) * round).div_ceil(1_000));
    assert_eq!(network.progress(id).completed, Some(completed));
    let waited = (packets - 1) * (round - transmission);
    let counters = network.counters(fabric.port(0), 0);
    assert_eq!(counters.xmit_wait, Time(waited.div_ceil(1_000)));
    assert_eq!((counters.packets, counters.bytes), (packets, packets * wire(4_096)));
}
