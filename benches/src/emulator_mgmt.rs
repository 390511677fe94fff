//! How many SMPs a second the emulator answers on one core: each is a request that travels to its agent along
//! a directed route or by LID, is answered there, and travels back.

use std::time::Instant;

use snin_emulator::{ClientId, Config, Emulator};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lid, NodeIndex, PortIndex, PortNum, Topology};
use snin_mad::{
    Attribute, DrPath, Header, LinearForwarding, Mad, NodeInfo, PortInfo, Route, Smp, TransactionId,
};
use snin_protocol::Time;

use crate::{Hash, Outcome, Size};

/// What the emulator shall answer at least, in SMPs a second.
const GOAL: f64 = 1e6;
/// SMPs under way at a time: what keeps a manager that uses every agent at once busy.
const WINDOW: u64 = 256;

/// Reads and writes over directed routes, and reads by LID.
pub fn run(size: Size) -> Vec<Outcome> {
    let (recipes, count) = match size {
        Size::Small => (&["clos:4,2,3", "fattree:4"], 2_000),
        Size::Full => (&["clos:36,18,18", "fattree:24"], 2_000_000),
    };
    let mut outcomes = Vec::new();
    for recipe in recipes {
        let topology = recipe.parse::<Recipe>().and_then(Recipe::build).expect("a fabric");
        for (what, requests) in [
            ("reads", reads(&topology)),
            ("writes", writes(&topology)),
            ("by LID", by_lid(&topology)),
        ] {
            let mut fabric = Bench::new(&topology);
            let begin = Instant::now();
            let hash = fabric.sweep(&requests, count);
            let ours = count as f64 / begin.elapsed().as_secs_f64();
            outcomes.push(Outcome {
                bench: "emulator",
                case: format!("{recipe} {what}"),
                unit: "SMP/s",
                ours,
                peer: GOAL,
                peer_name: "goal".to_owned(),
                paired: None,
                hash,
            });
        }
    }
    outcomes
}

/// A MAD and the LID it is sent to.
type Request = (Mad, Lid);

fn routes(topology: &Topology) -> Vec<Route> {
    let emulator = Emulator::new(topology, Config::default());
    let routes = emulator.fabric().routes_from(home(topology));
    routes.into_iter().map(|route| Route::directed(route.unwrap_or(DrPath::HERE))).collect()
}

/// What a sweep asks: NodeInfo of every node, PortInfo of every port.
fn reads(topology: &Topology) -> Vec<Request> {
    let mut requests = Vec::new();
    for (node, route) in topology.nodes().zip(routes(topology)) {
        requests.push((Smp::get(NodeInfo::ID, 0, route).mad(), Lid::NONE));
        let ports = topology.external_ports(node).map(|port| u32::from(topology.num(port).0));
        let infos = ports.map(|port| Smp::get(PortInfo::ID, port, route).mad());
        requests.extend(infos.map(|mad| (mad, Lid::NONE)));
    }
    requests
}

/// What a repair writes: blocks of forwarding tables.
fn writes(topology: &Topology) -> Vec<Request> {
    let mut requests = Vec::new();
    for (switch, route) in topology.switches().zip(routes(topology)) {
        for block in 0..16 {
            let ports = [PortNum((switch.0 % 16) as u8); 64];
            let smp = Smp::set(LinearForwarding::ID, block, route);
            requests.push((smp.mad().with(&LinearForwarding { ports }), Lid::NONE));
        }
    }
    requests
}

/// NodeInfo of every node, by every address it has.
fn by_lid(topology: &Topology) -> Vec<Request> {
    let routing = Routing::compute(topology, Engine::Trees, None).expect("a Clos");
    let addresses = routing.plan.addresses();
    let lids = addresses.iter().flat_map(|(port, ..)| addresses.of(port));
    lids.map(|lid| (Smp::get(NodeInfo::ID, 0, Route::Lid).mad(), lid)).collect()
}

/// The first host's port.
fn home(topology: &Topology) -> PortIndex {
    let host = NodeIndex(topology.switch_count() as u32);
    topology.port_of(host, PortNum(1)).expect("hosts come after the switches")
}

struct Bench {
    emulator: Emulator,
    client: ClientId,
}

impl Bench {
    /// A fabric that has addresses and tables already.
    fn new(topology: &Topology) -> Self {
        let config = Config { agent_latency: Time::micros(1), ..Config::default() };
        let mut emulator = Emulator::new(topology, config);
        let routing = Routing::compute(topology, Engine::Trees, None).expect("a Clos");
        emulator.configure(routing.plan.addresses(), &routing.tables, Lid(1));
        let client = emulator.attach(home(topology)).expect("nobody else is there");
        Self { emulator, client }
    }

    /// Asks `count` times, and mixes all answers and their times into one number.
    fn sweep(&mut self, requests: &[Request], count: u64) -> u64 {
        let mut hash = Hash::default();
        let mut requests = requests.iter().cycle();
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count && sent - answered < WINDOW {
                let (mad, to) = requests.next().expect("it goes round");
                let mut mad = mad.clone();
                Header::edit(&mut mad.0).transaction_id(TransactionId(sent));
                self.emulator.send(self.client, &mad, *to, self.emulator.now());
                sent += 1;
            }
            let next = self.emulator.next_event_time().expect("answers are on their way");
            self.emulator.advance(next);
            while let Some(received) = self.emulator.poll(self.client) {
                answered += 1;
                let words = received.mad.0.chunks_exact(8).map(|word| word.try_into());
                let fold = |all: u64, word: Result<[u8; 8], _>| {
                    all.rotate_left(1) ^ word.map_or(0, u64::from_le_bytes)
                };
                hash.number(words.fold(received.at.nanos(), fold));
            }
        }
        hash.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_sweep_gives_the_same_answers() {
        let [first, second] = [run(Size::Small), run(Size::Small)];
        assert_eq!(first.len(), 6);
        for (a, b) in first.iter().zip(&second) {
            assert_eq!((&a.case, a.hash), (&b.case, b.hash));
        }
        assert!(first.iter().zip(&first[1..]).all(|(a, b)| a.hash != b.hash));
    }
}
