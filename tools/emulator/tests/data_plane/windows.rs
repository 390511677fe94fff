//! Messages that may be sent in a window only.

use snin_emulator::data::{Config, Message, Observer, Outcome, Transmission};
use snin_fabric::PortIndex;
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use crate::support::{Fabric, PS_PER_BYTE, star, wire};

/// When the first packet of a port began, and the last.
struct Begins(PortIndex, Vec<Time>);

impl Observer for Begins {
    fn transmitted(&mut self, transmission: &Transmission) {
        if transmission.port == self.0 {
            self.1.push(transmission.begin);
        }
    }
}

#[test]
fn packets_begin_in_the_window_and_never_after() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let mut network = fabric.network(Config::default());
    let (from, until) = (Time::micros(3), Time::micros(5));
    let message = Message {
        start: Time::micros(1),
        window: Some(from..until),
        ..Message::new(fabric.port(0), fabric.lid(1), u64::MAX)
    };
    let id = network.send(message).unwrap();
    let mut begins = Begins(fabric.port(0), Vec::new());
    assert_eq!(network.run_observed(Time::MAX, &mut begins), Outcome::Finished);
    let packet = wire(4_096) * PS_PER_BYTE;
    let packets = 2_000_000_u64.div_ceil(packet);
    assert_eq!(begins.1.first(), Some(&from));
    assert_eq!(begins.1.last(), Some(&(from + Time((packets - 1) * packet / 1_000))));
    let progress = network.progress(id);
    assert_eq!(progress.delivered, packets * 4_096);
    assert_eq!(progress.delivered, network.payload_possible(fabric.port(0), until - from));
    assert_eq!((progress.sent, progress.completed), (progress.delivered, None));
}

#[test]
fn what_can_be_sent_in_a_time_takes_that_time() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let network = fabric.network(Config::default());
    let port = fabric.port(0);
    let packet = wire(4_096) * PS_PER_BYTE;
    for packets in [1, 2, 1_000] {
        let time = network.sending_time(port, packets * 4_096);
        assert_eq!(time, Time((packets * packet).div_ceil(1_000)));
        assert_eq!(network.payload_possible(port, Time(packets * packet / 1_000)), packets * 4_096);
    }
    let last = wire(100) * PS_PER_BYTE;
    assert_eq!(network.sending_time(port, 4_196), Time((packet + last).div_ceil(1_000)));
}

#[test]
fn a_window_that_has_passed_sends_nothing() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let mut network = fabric.network(Config::default());
    network.run_until(Time::micros(9));
    let window = Some(Time::micros(1)..Time::micros(9));
    let message = Message { window, ..Message::new(fabric.port(0), fabric.lid(1), 100) };
    let id = network.send(message).unwrap();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    assert_eq!(network.progress(id).sent, 0);
    assert_eq!(network.statistics().transmissions, 0);
}

#[test]
fn slowdown_counts_from_the_opening_of_the_window() {
    let fabric = Fabric::new(star(2), Engine::Trees);
    let mut network = fabric.network(Config::default());
    let window = Some(Time::micros(700)..Time::micros(900));
    let message = Message { window, ..Message::new(fabric.port(0), fabric.lid(1), 1 << 20) };
    let id = network.send(message).unwrap();
    network.run_until(Time::MAX);
    assert_eq!(network.progress(id).slowdown, Some(1.0));
    assert_eq!(network.statistics().slowdown_thousandths.max(), 1_000);
    let taken = network.take_statistics();
    assert_eq!((taken.bytes, network.statistics().bytes), (1 << 20, 0));
}
