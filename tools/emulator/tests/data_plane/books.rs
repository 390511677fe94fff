//! Credits and bytes are conserved, for any traffic and any cut; and the same calls give the same
//! run, on a wheel and on a heap.

use proptest::prelude::*;
use snin_emulator::data::{
    Agenda, Config, Dropped, Heap, Message, MessageId, Network, Observer, Outcome, Queues,
    Transmission, Transport, Wheel,
};
use snin_fabric::routing::Engine;
use snin_fabric::{PortIndex, Topology};
use snin_protocol::Time;

use crate::support::Fabric;

#[derive(Clone, Debug)]
enum Step {
    Send { from: u32, to: u32, bytes: u64, reliable: bool, window: Option<u64> },
    Run(u64),
    Cut(usize),
    Restore(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let send =
        (0_u32..1_000, 0_u32..1_000, 0_u64..60_000, any::<bool>(), any::<bool>(), 0_u64..4_000);
    prop_oneof![
        6 => send.prop_map(|(from, to, bytes, reliable, bounded, window)| Step::Send {
            from, to, bytes, reliable, window: bounded.then_some(window),
        }),
        3 => (0_u64..3_000).prop_map(Step::Run),
        1 => any::<usize>().prop_map(Step::Cut),
        1 => any::<usize>().prop_map(Step::Restore),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let bandwidth =
        prop_oneof![Just(None), Just(Some(100_000_000_000)), Just(Some(56_789_012_345))];
    let queues = prop_oneof![Just(Queues::PerOutput), Just(Queues::PerInput)];
    let mtu = prop_oneof![Just(256_u16), Just(1_024), Just(4_096)];
    (bandwidth, queues, mtu, 1_u32..8, 0_u64..300, 0_u64..300).prop_map(
        |(bandwidth, queues, mtu, packets, propagation, switch_delay)| Config {
            bandwidth,
            queues,
            mtu,
            buffer: packets * 64 * (u32::from(mtu) + 26).div_ceil(64),
            propagation: Time(propagation),
            switch_delay: Time(switch_delay),
            ack_every: 4,
            ..Config::default()
        },
    )
}

/// Everything that happened.
#[derive(Default, PartialEq, Debug)]
struct Trace {
    transmissions: Vec<Transmission>,
    completed: Vec<(MessageId, Time)>,
    dropped: Vec<Dropped>,
}

impl Observer for Trace {
    fn transmitted(&mut self, transmission: &Transmission) {
        self.transmissions.push(*transmission);
    }

    fn completed(&mut self, message: MessageId, at: Time) {
        self.completed.push((message, at));
    }

    fn dropped(&mut self, dropped: &Dropped) {
        self.dropped.push(*dropped);
    }
}

fn cable(topology: &Topology, number: usize) -> PortIndex {
    let cabled: Vec<PortIndex> =
        topology.ports().filter(|&port| topology.peer(port).is_some()).collect();
    cabled[number % cabled.len()]
}

/// Plays the steps, with the books checked after each; then everything is restored and runs to the end.
fn play<Q: Agenda>(fabric: &Fabric, config: &Config, steps: &[Step]) -> (Trace, Network<Q>) {
    let mut network = fabric.network_with::<Q>(config.clone());
    let mut trace = Trace::default();
    for step in steps {
        match *step {
            Step::Send { from, to, bytes, reliable, window } => {
                let hosts = fabric.hosts();
                let from = from % hosts;
                let to = (from + 1 + to % (hosts - 1)) % hosts;
                let start = network.now();
                let message = Message {
                    window: window.map(|length| start..start + Time(length)),
                    transport: if reliable { Transport::Rc } else { Transport::Uc },
                    ..Message::new(fabric.port(from), fabric.lid(to), bytes)
                };
                network.send(message).unwrap();
            }
            Step::Run(time) => {
                network.run_observed(network.now() + Time(time), &mut trace);
            }
            Step::Cut(number) => network.cut(cable(&fabric.topology, number)),
            Step::Restore(number) => network.restore(cable(&fabric.topology, number)),
        }
        network.audit().unwrap();
    }
    fabric.topology.ports().for_each(|port| network.restore(port));
    assert_eq!(network.run_observed(Time::MAX, &mut trace), Outcome::Finished);
    network.audit().unwrap();
    (trace, network)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_made_or_lost(config in config(), steps in prop::collection::vec(step(), 1..60)) {
        let fabric = Fabric::of("clos:3,2,2,2", Engine::Trees);
        let (trace, network) = play::<Wheel>(&fabric, &config, &steps);
        let (same, _) = play::<Heap>(&fabric, &config, &steps);
        prop_assert_eq!(&trace, &same);
        check(&fabric, &config, &trace, &network);
    }
}

fn check(fabric: &Fabric, config: &Config, trace: &Trace, network: &Network) {
    // Counters and transmissions tell the same story, port by port and VL by VL.
    for port in fabric.topology.ports() {
        for vl in 0..config.vls {
            let counters = network.counters(port, vl);
            let of_lane = || trace.transmissions.iter().filter(|t| (t.port, t.vl) == (port, vl));
            assert_eq!(counters.packets, of_lane().count() as u64);
            assert_eq!(counters.bytes, of_lane().map(|t| u64::from(t.bytes)).sum::<u64>());
            let drops = trace.dropped.iter().filter(|d| (d.port, d.vl) == (port, vl)).count();
            assert_eq!(
                counters.discards + counters.relay_errors + counters.receive_errors,
                drops as u64
            );
            // One packet at a time.
            let lane: Vec<_> = trace.transmissions.iter().filter(|t| t.port == port).collect();
            assert!(lane.windows(2).all(|pair| pair[0].end.0 <= pair[1].begin.0 + 1));
        }
    }
    // Each message arrived, or lost packets, or its window closed.
    let statistics = network.statistics();
    assert_eq!(statistics.dropped, trace.dropped.len() as u64);
    assert_eq!(statistics.transmissions, trace.transmissions.len() as u64);
    assert_eq!(statistics.slowdown_thousandths.len(), trace.completed.len() as u64);
    for &(message, at) in &trace.completed {
        let progress = network.progress(message);
        assert_eq!((progress.sent, progress.lost), (progress.delivered, 0));
        assert_eq!(progress.completed, Some(at));
        assert!(progress.slowdown.unwrap() >= 1.0);
    }
}
