//! What all this is for: a full permutation, strictly non-interfering, and as static routing carries it.

use snin_controller_core::plan::plan_window;
use snin_emulator::data::{Config, Message, Network, Outcome, Statistics, Transport};
use snin_fabric::routing::Engine;
use snin_fabric::traffic::{Demand, Pattern};
use snin_fabric::{Lid, PortIndex};
use snin_protocol::Time;

use crate::support::Fabric;

const FABRIC: &str = "clos:36,18,18";
const SLICE: Time = Time::micros(40);

/// One flow a demand: by its grant's address, or by the base LID.
fn granted(fabric: &Fabric, demands: &[Demand]) -> Vec<(PortIndex, Lid)> {
    let plan = plan_window(&fabric.topology, &fabric.routing, demands);
    assert_eq!(plan.grants.len(), demands.len());
    let flow = |grant: &snin_controller_core::plan::Grant| {
        (fabric.port(demands[grant.demand].source.0), grant.dlid.0)
    };
    plan.grants.iter().map(flow).collect()
}

fn by_base_lid(fabric: &Fabric, demands: &[Demand]) -> Vec<(PortIndex, Lid)> {
    let flow = |demand: &Demand| (fabric.port(demand.source.0), fabric.lid(demand.destination.0));
    demands.iter().map(flow).collect()
}

/// Every flow sends back to back for a slice.
fn slice(fabric: &Fabric, flows: &[(PortIndex, Lid)], transport: Transport) -> Network {
    let mut network = fabric.network(Config::default());
    for &(source, destination) in flows {
        let window = Some(Time::ZERO..SLICE);
        let message = Message { window, transport, ..Message::new(source, destination, u64::MAX) };
        network.send(message).unwrap();
    }
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    network.audit().unwrap();
    assert_eq!(network.statistics().dropped, 0);
    network
}

/// Of what the sources could have sent.
fn goodput(network: &Network, flows: &[(PortIndex, Lid)]) -> f64 {
    let possible: u64 =
        flows.iter().map(|&(source, _)| network.payload_possible(source, SLICE)).sum();
    network.statistics().bytes as f64 / possible as f64
}

#[test]
fn granted_flows_never_wait() {
    let fabric = Fabric::of(FABRIC, Engine::Trees);
    let demands = fabric.demands(Pattern::Permutation, 7);
    assert_eq!(demands.len(), 648);
    let flows = granted(&fabric, &demands);
    let network = slice(&fabric, &flows, Transport::Uc);
    assert_eq!(goodput(&network, &flows), 1.0);
    assert_eq!(network.statistics().queueing_ns.max(), 0);
    // No port waits for credits either.
    let waits = fabric.topology.ports().map(|port| network.counters(port, 0).xmit_wait);
    assert_eq!(waits.max(), Some(Time::ZERO));
}

#[test]
fn acknowledgements_cost_granted_flows_less_than_a_hundredth() {
    let fabric = Fabric::of(FABRIC, Engine::Trees);
    let flows = granted(&fabric, &fabric.demands(Pattern::Permutation, 8));
    let network = slice(&fabric, &flows, Transport::Rc);
    let goodput = goodput(&network, &flows);
    assert!((0.99..=1.0).contains(&goodput), "{goodput}");
    let Statistics { acknowledgements, packets, queueing_ns, .. } = network.statistics();
    // One for 32 packets: a slice is not the end of a message.
    assert_eq!(*acknowledgements, 648 * (packets / 648 / 32));
    assert!(queueing_ns.max() < 100, "{}", queueing_ns.max());

    // Whole messages, 2 MB each.
    let mut network = fabric.network(Config::default());
    let messages: Vec<_> = flows
        .iter()
        .take(300)
        .map(|&(source, to)| {
            let message =
                Message { transport: Transport::Rc, ..Message::new(source, to, 2_000_000) };
            network.send(message).unwrap()
        })
        .collect();
    network.run_until(Time::MAX);
    for message in messages {
        let slowdown = network.progress(message).slowdown.unwrap();
        assert!((1.0..=1.01).contains(&slowdown), "{slowdown}");
    }
}

#[test]
fn static_routing_loses_a_third_and_makes_packets_wait() {
    let fabric = Fabric::of(FABRIC, Engine::DModK);
    for (pattern, most) in [(Pattern::Permutation, 0.7), (Pattern::Adversarial, 0.2)] {
        let flows = by_base_lid(&fabric, &fabric.demands(pattern, 7));
        let network = slice(&fabric, &flows, Transport::Uc);
        let goodput = goodput(&network, &flows);
        assert!(goodput <= most, "{pattern:?}: {goodput}");
        assert!(network.statistics().queueing_ns.max() > 1_000);
    }
    // Shifts are what it is made for.
    let flows = by_base_lid(&fabric, &fabric.demands(Pattern::Shift(18), 0));
    assert_eq!(goodput(&slice(&fabric, &flows, Transport::Uc), &flows), 1.0);
}
