//! Two jobs at once in virtual time, on every leaf both. One sends small messages now and then, and the time of
//! each is written down; the other sends as much as its links carry. The first has the fabric alone, beside the
//! other with slices, and beside the other on the addresses of programs that ask for nothing, as fat-tree routing
//! (D-mod-K) leads them.
//!
//! With slices both take the addresses that `libsnin_preload.so` takes: those of the job's trees.

use std::sync::Arc;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::events::Event;
use snin_controller_core::orders::Order;
use snin_controller_core::orders::SliceHosts;
use snin_emulator::data::{self, Message, MessageId, Network, Transport};
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::HostId;
use snin_fabric::job::JobTrees;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::view::PlannedView;
use snin_fabric::{Guid, Lid, PortIndex, Topology};
use snin_protocol::Time;

use super::{line, percentile};
use crate::{Hash, Outcome, Size};

/// Between two messages of a host, and what a message has, in bytes.
const PAUSE: Time = Time(10_000);
const BYTES: u64 = 4_096;
/// Nanoseconds from one host's start to the next one's, prime to the pause.
const SCATTER: u64 = 617;

/// # Panics
/// Where a slice is not made, or with slices a message takes any longer than alone.
pub(super) fn run(size: Size) -> Vec<Outcome> {
    let (recipe, messages) = match size {
        Size::Full => ("clos:18,18,18", 200),
        Size::Small => ("clos:4,4,4", 20),
    };
    let fabric = Fabric::new(recipe);
    let (victim, other) = fabric.jobs();
    let sliced = Engine::Trees;
    let alone = fabric.times(sliced, &victim, &other[..0], messages);
    let slices = fabric.times(sliced, &victim, &other, messages);
    let none = fabric.times(Engine::DModK, &victim, &other, messages);
    assert_eq!(alone, slices, "not one message of a slice waits for another job");
    let mut hash = Hash::default();
    [&slices, &none].into_iter().flatten().for_each(|time| hash.number(time.to_bits()));
    let case = |what: &str| format!("{recipe}, two jobs: {what}, the other beside it");
    let outcomes =
        [("p50", 0.5), ("p99", 0.99), ("longest", 1.0)].into_iter().flat_map(|(name, share)| {
            let goal = percentile(&alone, share);
            [("slices", &slices), ("no slices", &none)].map(|(way, times)| {
                let told = line(
                    case(&format!("{name}, {way}")),
                    "us",
                    percentile(times, share),
                    goal,
                    hash.0,
                );
                Outcome { peer_name: "alone".to_owned(), ..told }
            })
        });
    outcomes.collect()
}

struct Fabric {
    topology: Topology,
    trees: Routing,
    static_routes: Routing,
}

/// Hosts of a job, and which addresses they use with slices.
struct Job {
    hosts: Vec<HostId>,
    trees: JobTrees,
}

impl Fabric {
    fn new(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
        let of = |engine| Routing::compute(&topology, engine, None).expect("tables");
        let (trees, static_routes) = (of(Engine::Trees), of(Engine::DModK));
        Self { topology, trees, static_routes }
    }

    fn port(&self, host: HostId) -> PortIndex {
        self.trees.hosts.get(host).expect("a host").port
    }

    fn guid(&self, host: HostId) -> Guid {
        self.topology.port(self.port(host)).guid
    }

    /// Half of the hosts of every leaf each, in no order, with slices of one controller.
    fn jobs(&self) -> (Job, Vec<Job>) {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut leaves: std::collections::BTreeMap<_, Vec<HostId>> =
            std::collections::BTreeMap::new();
        for (id, host) in self.trees.hosts.iter() {
            leaves.entry(host.switch).or_default().push(id);
        }
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for hosts in leaves.values_mut() {
            hosts.shuffle(&mut random);
            let (first, second) = hosts.split_at(hosts.len() / 2);
            one.extend(first);
            other.extend(second);
        }
        let (topology, routing) = (self.topology.clone(), self.trees.clone());
        let view = PlannedView::new(1, topology, routing);
        let mut core = Core::new(Config::default(), Arc::new(view), Time::ZERO).expect("a core");
        let [one, other] = [("job/1", one), ("job/2", other)].map(|(owner, mut hosts)| {
            let ports = hosts.iter().map(|&host| self.guid(host)).collect();
            let order = Order::CreateSlice(owner.to_owned(), SliceHosts::Ports(ports));
            core.handle(Event::Order(order), Time::ZERO).slice().expect("room");
            hosts.shuffle(&mut random);
            let trees = core.job_trees(owner, None, &[]).expect("its slice");
            Job { hosts, trees }
        });
        (one, vec![other])
    }

    /// What each message of the victim took, in us, in the order of being sent.
    fn times(&self, engine: Engine, victim: &Job, others: &[Job], messages: u64) -> Vec<f64> {
        let routing = if engine == Engine::Trees { &self.trees } else { &self.static_routes };
        let mut network = Network::new(&self.topology, data::Config::default()).expect("a network");
        network.set_addresses(routing.plan.addresses());
        network.set_tables(&routing.tables);
        let until = PAUSE * (messages + 1);
        for other in others {
            for (at, &from) in other.hosts.iter().enumerate() {
                let to = other.hosts[(at + 1) % other.hosts.len()];
                let (source, destination) =
                    (self.port(from), self.address(engine, other, from, to));
                let window = Some(Time::ZERO..until);
                let (transport, background) = (Transport::Rc, true);
                let message = Message::new(source, destination, u64::MAX);
                let message = Message { window, transport, background, ..message };
                network.send(message).expect("a host");
            }
        }
        let mut sent: Vec<(MessageId, Time)> = Vec::new();
        let count = victim.hosts.len();
        for round in 0..messages {
            for (at, &from) in victim.hosts.iter().enumerate() {
                // Another peer each time.
                let to = victim.hosts[(at + 1 + round as usize % (count - 1)) % count];
                let start = PAUSE * (round + 1) + Time(at as u64 * SCATTER % PAUSE.nanos());
                let destination = self.address(engine, victim, from, to);
                let message = Message::new(self.port(from), destination, BYTES);
                let message = Message { start, transport: Transport::Rc, ..message };
                sent.push((network.send(message).expect("a host"), start));
            }
        }
        network.run_until(Time::MAX);
        let took = |&(message, start): &(MessageId, Time)| {
            let completed = network.progress(message).completed.expect("all of it arrives");
            (completed - start).nanos() as f64 / 1e3
        };
        sent.iter().map(took).collect()
    }

    fn address(&self, engine: Engine, job: &Job, from: HostId, to: HostId) -> Lid {
        let routing = if engine == Engine::Trees { &self.trees } else { &self.static_routes };
        let base = |host| routing.plan.addresses().base(self.port(host)).expect("an address");
        if engine != Engine::Trees {
            return base(to);
        }
        let way = job.trees.way(base(from), base(to)).expect("a way");
        way.expect("two hosts").to
    }
}
