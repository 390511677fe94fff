//! Published limits of switches: one queue per input, queues per output, one busy output.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_emulator::data::{Config, Message, Network, Queues};
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use crate::support::{Fabric, PS_PER_BYTE, star, wire};

const PORTS: u32 = 32;
const CELL: u64 = 256;

/// Someone else than `source`, each as likely.
fn other(random: &mut impl Rng, source: u32) -> u32 {
    (source + random.random_range(1..PORTS)) % PORTS
}

/// Cells that arrive a port and slot, when every input always has the next one.
fn throughput(queues: Queues, buffer: u32, slots: u64) -> f64 {
    let fabric = Fabric::new(star(PORTS), Engine::Trees);
    let config = Config { queues, buffer, mtu: CELL as u16, ..Config::default() };
    let mut network = fabric.network(config);
    let mut random = ChaCha8Rng::seed_from_u64(1987);
    let slot = wire(CELL) * PS_PER_BYTE;
    let warm_up = slots / 4;
    for _ in 0..slots + warm_up {
        for host in 0..PORTS {
            let to = fabric.lid(other(&mut random, host));
            network.send(Message::new(fabric.port(host), to, CELL)).unwrap();
        }
    }
    network.run_until(Time(warm_up * slot / 1_000));
    network.take_statistics();
    network.run_until(Time((slots + warm_up) * slot / 1_000));
    network.audit().unwrap();
    network.statistics().packets as f64 / (slots * u64::from(PORTS)) as f64
}

/// Karol, Hluchyj and Morgan (1987): 0.586 with infinitely many ports, a little more with few.
#[test]
fn one_queue_per_input_saturates_at_0_594() {
    let throughput = throughput(Queues::PerInput, 64 << 10, 4_000);
    assert!((0.584..=0.604).contains(&throughput), "{throughput}");
}

#[test]
fn queues_per_output_do_not() {
    let throughput = throughput(Queues::PerOutput, 256 << 10, 4_000);
    assert!(throughput >= 0.97, "{throughput}");
}

/// Mean wait at one output with Poisson arrivals from all inputs, in packets.
fn mean_wait(load: f64) -> f64 {
    let fabric = Fabric::new(star(PORTS), Engine::Trees);
    let mut network: Network = fabric.network(Config { mtu: CELL as u16, ..Config::default() });
    let mut random = ChaCha8Rng::seed_from_u64(1909);
    let packet = wire(CELL) * PS_PER_BYTE;
    let mean_gap = packet as f64 / 1_000.0 / load;
    let mut at = 0.0;
    for _ in 0..200_000 {
        at -= mean_gap * (1.0 - random.random::<f64>()).ln();
        let from = fabric.port(random.random_range(1..PORTS));
        let message = Message { start: Time(at as u64), ..Message::new(from, fabric.lid(0), CELL) };
        network.send(message).unwrap();
    }
    network.run_until(Time::MAX);
    network.statistics().queueing_ns.mean() / (packet as f64 / 1_000.0)
}

/// An output that packets of one size come to at random is an M/D/1 queue: rho / 2(1 - rho).
#[test]
fn a_busy_output_is_an_m_d_1_queue() {
    for load in [0.3, 0.6, 0.8] {
        let (measured, expected) = (mean_wait(load), load / (2.0 * (1.0 - load)));
        // Times are rounded up to a nanosecond, a fifth of a packet; inputs take one packet at a time.
        let error = (measured - expected).abs();
        assert!(error < 0.05 * expected + 0.1, "load {load}: {measured} for {expected}");
    }
}
