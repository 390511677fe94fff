//! Credit loops: a ring whose packets all go the same way round stands still, one with ranks does not.

use snin_emulator::data::{Config, MessageId, Network, Outcome, Queues};
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use crate::support::{Fabric, ring};

const SWITCHES: u32 = 7;
const HOSTS: u32 = 2;
const BYTES: u64 = 1 << 20;

/// Everyone on a ring of switches sends to who is three switches on: the shortest ways all go one way
/// round.
fn around(engine: Engine, queues: Queues) -> (Network, Vec<MessageId>) {
    let fabric = Fabric::new(ring(SWITCHES, HOSTS), engine);
    let config = Config { buffer: 16 << 10, queues, ..Config::default() };
    let mut network = fabric.network(config);
    let hosts = fabric.hosts();
    let messages = (0..hosts).map(|host| {
        let to = fabric.lid((host + 3 * HOSTS) % hosts);
        let message = snin_emulator::data::Message::new(fabric.port(host), to, BYTES);
        network.send(message).unwrap()
    });
    let messages = messages.collect();
    (network, messages)
}

#[test]
fn a_ring_without_ranks_deadlocks() {
    for queues in [Queues::PerOutput, Queues::PerInput] {
        let (mut network, messages) = around(Engine::MinHop, queues);
        assert_eq!(network.run_until(Time::MAX), Outcome::Stuck, "{queues:?}");
        assert!(messages.iter().all(|&message| network.progress(message).delivered < BYTES));
        // Nothing is lost, and nothing moves.
        assert_eq!(network.statistics().dropped, 0);
        network.audit().unwrap();
        assert_eq!(network.run_until(Time::secs(10)), Outcome::Stuck);
    }
}

#[test]
fn a_ring_with_ranks_does_not() {
    for queues in [Queues::PerOutput, Queues::PerInput] {
        let (mut network, messages) = around(Engine::Trees, queues);
        assert_eq!(network.run_until(Time::MAX), Outcome::Finished, "{queues:?}");
        assert!(messages.iter().all(|&message| network.progress(message).delivered == BYTES));
        network.audit().unwrap();
    }
}
