//! How many packet-hops a second the emulator's data plane does on one core: a packet sent on a directed
//! link, acknowledgements included. The peer is the same network with a binary heap for its agenda; both
//! must give the same run.

use snin_controller_core::plan::plan_window;
use snin_emulator::data::{Agenda, Config, Heap, Message, Network, Transport, Wheel};
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::{Demand, Pattern, Shape};
use snin_fabric::{Lid, PortIndex, Topology};
use snin_protocol::Time;

use crate::{Hash, Outcome, Size};

/// Runs of each case and agenda, of which the median counts.
const RUNS: usize = 3;

/// Nanoseconds from one host's start to the next one's, within a microsecond: prime to it.
const SCATTER: u64 = 617;

/// A permutation, strictly non-interfering and by D-mod-K: on a fabric whose state a core's cache holds, and
/// on one that is as large as memory is slow.
pub fn run(size: Size) -> Vec<Outcome> {
    match size {
        Size::Small => [on("clos:4,2,2", Time::micros(5), 1), on("fattree:4", Time::micros(5), 1)],
        Size::Full => {
            [on("clos:36,18,18", Time::micros(100), RUNS), on("fattree:36", Time::micros(4), RUNS)]
        }
    }
    .concat()
}

fn on(recipe: &str, slice: Time, runs: usize) -> Vec<Outcome> {
    let topology = recipe.parse::<Recipe>().and_then(Recipe::build).expect("a fabric");
    let cases = [
        ("snin uc", Engine::Trees, Transport::Uc),
        ("snin rc", Engine::Trees, Transport::Rc),
        ("dmodk uc", Engine::DModK, Transport::Uc),
    ];
    let outcome = |(name, engine, transport)| {
        let case = Case::new(&topology, engine, transport, slice);
        let (ours, hash) = case.rate::<Wheel>(runs);
        let (peer, same) = case.rate::<Heap>(runs);
        assert_eq!(hash, same, "{name}: wheel and heap give different runs");
        Outcome {
            bench: "emulator-data",
            case: format!("{recipe} {name}"),
            unit: "hops/s",
            ours,
            peer,
            peer_name: "binary heap".to_owned(),
            paired: None,
            hash,
        }
    };
    cases.into_iter().map(outcome).collect()
}

/// The senders and their destinations on a fabric.
struct Case<'a> {
    topology: &'a Topology,
    routing: Routing,
    flows: Vec<(PortIndex, Lid)>,
    transport: Transport,
    slice: Time,
}

impl<'a> Case<'a> {
    fn new(topology: &'a Topology, engine: Engine, transport: Transport, slice: Time) -> Self {
        let routing = Routing::compute(topology, engine, None).expect("tables");
        let demands = permutation(&routing);
        let port = |host: HostId| routing.hosts.get(host).map(|host: &Host| host.port);
        let base = |host| port(host).and_then(|port| routing.plan.addresses().base(port));
        let flows = if engine == Engine::Trees {
            let grants = plan_window(topology, &routing, &demands).grants;
            let flow = |grant: &snin_controller_core::plan::Grant| {
                Some((port(demands[grant.demand].source)?, grant.dlid.0))
            };
            grants.iter().filter_map(flow).collect()
        } else {
            let flow = |demand: &Demand| Some((port(demand.source)?, base(demand.destination)?));
            demands.iter().filter_map(flow).collect()
        };
        Self { topology, routing, flows, transport, slice }
    }

    /// Packet-hops a second in the median of some runs, and what the run was.
    fn rate<Q: Agenda>(&self, runs: usize) -> (f64, u64) {
        let mut rates: Vec<(f64, u64)> = (0..runs).map(|_| self.once::<Q>()).collect();
        rates.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        rates[runs / 2]
    }

    fn once<Q: Agenda>(&self) -> (f64, u64) {
        let mut network =
            Network::<Q>::with_agenda(self.topology, Config::default()).expect("a configuration");
        network.set_addresses(self.routing.plan.addresses());
        network.set_tables(&self.routing.tables);
        for (&(source, destination), number) in self.flows.iter().zip(0..) {
            // Clocks differ: no two hosts of a thousand begin at one instant.
            let start = Time(number * SCATTER % 1_000);
            let message = Message {
                window: Some(start..start + self.slice),
                transport: self.transport,
                ..Message::new(source, destination, u64::MAX)
            };
            network.send(message).expect("a host");
        }
        let begin = core_nanos();
        network.run_until(Time::MAX);
        let seconds = core_nanos().saturating_sub(begin).max(1) as f64 / 1e9;
        (network.statistics().transmissions as f64 / seconds, self.hash(&network))
    }

    fn hash<Q: Agenda>(&self, network: &Network<Q>) -> u64 {
        let mut hash = Hash::default();
        for port in self.topology.ports() {
            for vl in 0..Config::default().vls {
                let counters = network.counters(port, vl);
                hash.number(counters.bytes);
                hash.number(counters.xmit_wait.nanos());
            }
        }
        hash.number(network.now().nanos());
        hash.number(network.statistics().latency_ns.mean().to_bits());
        hash.0
    }
}

/// Nanoseconds that this thread has run on a core: others who share the machine do not count.
///
/// # Panics
/// Where the system is no Linux.
fn core_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    nanos.expect("the time on a core as Linux tells it")
}

/// Of all hosts, always the same.
fn permutation(routing: &Routing) -> Vec<Demand> {
    let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
    let shape = Shape { leaf_of: &leaf_of, uplinks: routing.forest.len() as u32 };
    Pattern::Permutation.generate(shape, 1).expect("a permutation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_is_the_same_every_time() {
        let hashes = || run(Size::Small).iter().map(|outcome| outcome.hash).collect::<Vec<_>>();
        assert_eq!(hashes(), hashes());
    }
}
