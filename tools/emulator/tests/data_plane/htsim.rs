//! The connection matrix that htsim's lossless RoCE was measured on: 1,024 messages of 2 MB, 100 Gbit/s,
//! packets of 4 KiB. With a random path for each, over its three-tier tree, messages were slowed down 3.1
//! times in the median, 6.2 times at the 99th percentile, 7.4 times at most.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::plan::plan_window;
use snin_emulator::data::{Config, Message, MessageId, Network, Outcome, Queues, Transport};
use snin_fabric::names::HostNames;
use snin_fabric::routing::Engine;
use snin_fabric::traffic::{Demand, parse};
use snin_fabric::{ForwardingTable, Guid, Lid, NodeIndex, PortNum};
use snin_judges::shared;
use snin_protocol::Time;

use crate::support::Fabric;

/// The file lies beside the repository, not in it.
fn matrix() -> Option<Vec<Demand>> {
    let (_, text) = shared("traffic/perm_1024_seed7.cm")?;
    let names = HostNames::new((0..1_024).map(|host| (Guid(host), PortNum(1), "")));
    Some(parse(&text, &names).unwrap())
}

fn config() -> Config {
    Config { bandwidth: Some(100_000_000_000), ..Config::default() }
}

/// Tables in which each destination is reached by a random way up: at most one message goes to each.
fn random_paths(fabric: &Fabric, demands: &[Demand], seed: u64) -> Vec<ForwardingTable> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut tables = fabric.routing.tables.clone();
    for demand in demands {
        let lid = fabric.lid(demand.destination.0);
        let mut switch = fabric.topology.peer_node(fabric.port(demand.source.0)).unwrap();
        while goes_up(fabric, switch, lid) {
            let links = fabric.topology.switch_links(switch);
            let ups: Vec<(PortNum, NodeIndex)> =
                links.filter(|&(_, next)| height(fabric, next) > height(fabric, switch)).collect();
            let (port, next) = ups[random.random_range(0..ups.len())];
            tables[switch.index()].set(lid, port);
            switch = next;
        }
    }
    tables
}

/// Whether the tables as they were computed lead up from here.
fn goes_up(fabric: &Fabric, switch: NodeIndex, lid: Lid) -> bool {
    let port = fabric.routing.tables[switch.index()].get(lid);
    let mut links = fabric.topology.switch_links(switch).filter(|&(number, _)| number == port);
    links.any(|(_, next)| height(fabric, next) > height(fabric, switch))
}

fn height(fabric: &Fabric, switch: NodeIndex) -> u8 {
    fabric.routing.shape.as_ref().unwrap().level(switch) as u8
}

/// Sends each message to the address that is given with it; slow-down in the median, of 99 in 100, and of
/// all.
fn slowdown(network: &mut Network, messages: Vec<Message>) -> [f64; 3] {
    let send = |message| network.send(message).unwrap();
    let messages: Vec<MessageId> = messages.into_iter().map(send).collect();
    assert_eq!(network.run_until(Time::MAX), Outcome::Finished);
    network.audit().unwrap();
    let progress = messages.iter().map(|&message| network.progress(message).slowdown.unwrap());
    let mut slowdowns: Vec<f64> = progress.collect();
    slowdowns.sort_unstable_by(f64::total_cmp);
    [0.5, 0.99, 1.0].map(|share| slowdowns[(share * (slowdowns.len() - 1) as f64) as usize])
}

#[test]
fn random_paths_slow_messages_down_as_in_htsim() {
    let Some(demands) = matrix() else { return };
    // A path meets others on two links of a two-stage Clos, on four of a three-stage one. One queue an
    // input adds what waits for another output.
    let (voq, fifo) = (Queues::PerOutput, Queues::PerInput);
    let cases = [
        ("clos:32,32,32", voq, [2.0, 5.0, 7.1]),
        ("clos:32,32,32", fifo, [2.7, 5.0, 7.0]),
        ("fattree:16", voq, [3.1, 6.2, 7.4]),
        ("fattree:16", fifo, [3.1, 6.2, 7.4]),
    ];
    for (recipe, queues, expected) in cases {
        let fabric = Fabric::of(recipe, Engine::MinHop);
        let mut network = fabric.network(Config { queues, ..config() });
        network.set_tables(&random_paths(&fabric, &demands, 7));
        let message = |demand: &Demand| {
            let (from, to) = (fabric.port(demand.source.0), fabric.lid(demand.destination.0));
            Message::new(from, to, demand.bytes.unwrap())
        };
        let found = slowdown(&mut network, demands.iter().map(message).collect());
        let near = |(found, expected): (f64, f64)| (found / expected - 1.0).abs() < 0.08;
        assert!(found.into_iter().zip(expected).all(near), "{recipe} {queues:?}: {found:?}");
    }
}

#[test]
fn granted_messages_take_as_long_as_alone() {
    let Some(demands) = matrix() else { return };
    let fabric = Fabric::of("clos:32,32,32", Engine::Trees);
    let plan = plan_window(&fabric.topology, &fabric.routing, &demands);
    assert_eq!(plan.grants.len(), demands.len());
    for (transport, most) in [(Transport::Uc, 1.0), (Transport::Rc, 1.01)] {
        let mut network = fabric.network(config());
        let messages = plan.grants.iter().map(|grant| {
            let demand = demands[grant.demand];
            let from = fabric.port(demand.source.0);
            let message = Message::new(from, grant.dlid.0, demand.bytes.unwrap());
            Message { transport, ..message }
        });
        let [median, _, longest] = slowdown(&mut network, messages.collect());
        assert!(median >= 1.0 && longest <= most, "{transport:?}: {median} {longest}");
    }
}
