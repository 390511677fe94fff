//! Insertions into a packed fabric, one at a time and in batches: how long each takes and how many others
//! move for it.

use std::slice::from_ref;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{
    ConnectionId, LeafId, Outcome as Packed, Packer, Request, Shape,
};
use snin_controller_core::plan::packing_shape;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{TreeId, ibnet};
use snin_judges::shared;

use super::patterns::plain;
use super::{line, timed};
use crate::{Hash, Outcome, Size};

/// What connections are replaced on: as many can leave each leaf, and come to it, as it has places.
struct Fabric {
    name: String,
    shape: Shape,
    places: Vec<u32>,
}

/// What shall move at most for an insertion, by the load in per cent.
const MOVES: [(u32, f64); 4] = [(80, 0.17), (90, 0.75), (95, 2.5), (99, 13.5)];
/// At 95 % load: of a thousand insertions so many are slower, and the goal in nanoseconds.
const LATENCY: [(&str, usize, f64); 3] =
    [("p50", 500, 250.0), ("p99", 10, 1000.0), ("p99.9", 1, 1500.0)];
/// The same where cables are missing.
const LATENCY_CUT: [(&str, usize, f64); 1] = [("p99", 10, 20_000.0)];
const SEEDS: u64 = 3;

pub(super) fn run(size: Size) -> Vec<Outcome> {
    let full = size == Size::Full;
    let steps = if full { 100_000 } else { 100 };
    let fabric = if full { Fabric::regular(64, 32) } else { Fabric::regular(6, 4) };
    let mut outcomes = Vec::new();
    for (load, goal) in MOVES {
        let churns = churns(from_ref(&fabric), load, steps, 1);
        let name = format!("{} at {load} %", fabric.name);
        let moved = mean(&churns);
        let hash = hash(&churns);
        let case = format!("moves an insertion, {name}");
        outcomes.push(line(case, "moves", moved, (goal, "goal"), hash));
        let batch = fabric.connections(load) / 10;
        let batched = self::churns(from_ref(&fabric), load, steps / batch + 1, batch);
        let case = format!("moves an insertion, a tenth of all replaced at once, {name}");
        let peer = (moved, "one at a time");
        outcomes.push(line(case, "moves", mean(&batched), peer, self::hash(&batched)));
        if load == 95 {
            outcomes.extend(latencies(&name, &churns, &LATENCY));
        }
    }
    let mut irregular: Vec<Vec<Fabric>> = [10, 60]
        .map(|cuts| (0..SEEDS).map(|seed| Fabric::cut(36, 18, cuts, seed)).collect())
        .into();
    if full {
        irregular.extend(real().map(|fabric| vec![fabric]));
    }
    for fabrics in irregular {
        let churns = churns(&fabrics, 95, if full { 20_000 } else { 50 }, 1);
        let name = format!("{} at 95 %", fabrics[0].name);
        outcomes.extend(latencies(&name, &churns, &LATENCY_CUT));
    }
    outcomes
}

/// The real fabric, where it is there.
fn real() -> Option<Fabric> {
    let (_, text) = shared("topologies/dgx-gb200-2025.ibnetdiscover")?;
    let topology = ibnet::parse(&text).expect("ibnetdiscover's text");
    let routing = Routing::compute(&topology, Engine::Trees, None).expect("tables");
    let (shape, leaf_of_host) = packing_shape(&topology, &routing).expect("a Clos");
    let mut hosts = vec![0; shape.leaves()];
    leaf_of_host.iter().for_each(|leaf| hosts[leaf.index()] += 1);
    let links = (0..).map(|leaf| shape.capacity(LeafId(leaf)) as u32);
    let places = hosts.into_iter().zip(links).map(|(hosts, links)| u32::min(hosts, links));
    Some(Fabric { name: "DGX".to_owned(), places: places.collect(), shape })
}

impl Fabric {
    fn regular(leaves: u32, hosts: u32) -> Self {
        Self {
            name: format!("{leaves} x {hosts}"),
            shape: Shape::two_stage(leaves as usize, hosts as usize),
            places: vec![hosts; leaves as usize],
        }
    }

    fn cut(leaves: u32, hosts: u32, cuts: usize, seed: u64) -> Self {
        let mut fabric = Self::regular(leaves, hosts);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for link in rand::seq::index::sample(&mut rng, (leaves * hosts) as usize, cuts) {
            let (leaf, tree) = (link as u32 / hosts, link as u32 % hosts);
            fabric.shape.set_unusable(LeafId(leaf), TreeId(tree as u16));
            fabric.places[leaf as usize] -= 1;
        }
        fabric.name += &format!(", {cuts} cables cut,");
        fabric
    }

    /// A load is a part of what the places hold.
    fn connections(&self, load: u32) -> usize {
        self.places.iter().sum::<u32>() as usize * load as usize / 100
    }
}

/// Connections come and go on each of some fabrics, or on the one with each seed.
fn churns(fabrics: &[Fabric], load: u32, steps: usize, batch: usize) -> Vec<Churn> {
    let fabrics = fabrics.iter().cycle();
    (0..SEEDS).zip(fabrics).map(|(seed, fabric)| churn(fabric, load, steps, batch, seed)).collect()
}

/// What many replacements took.
struct Churn {
    /// Of the calls that insert.
    times: Vec<Duration>,
    inserted: usize,
    moved: usize,
    hash: Hash,
}

/// A packer, who sends to whom, and what is free: a place a link of a leaf, for each direction.
struct Traffic {
    packer: Packer,
    ends: Vec<(u32, u32)>,
    sending: Vec<u32>,
    receiving: Vec<u32>,
}

impl Traffic {
    fn new(fabric: &Fabric, load: u32, rng: &mut ChaCha8Rng) -> Self {
        let places =
            (0..).zip(&fabric.places).flat_map(|(leaf, &places)| vec![leaf; places as usize]);
        let mut sending: Vec<u32> = places.collect();
        let mut receiving = sending.clone();
        sending.shuffle(rng);
        receiving.shuffle(rng);
        let packer = Packer::new(fabric.shape.clone());
        let mut traffic = Self { packer, ends: Vec::new(), sending, receiving };
        let all: Vec<Request> =
            (0..fabric.connections(load) as u32).map(|id| traffic.connect(id, rng)).collect();
        traffic.packer.apply(&[], &all);
        traffic
    }

    /// A connection between free places of two leaves.
    fn connect(&mut self, id: u32, rng: &mut ChaCha8Rng) -> Request {
        let source = self.sending.swap_remove(rng.random_range(0..self.sending.len()));
        let at = loop {
            let at = rng.random_range(0..self.receiving.len());
            if self.receiving[at] != source {
                break at;
            }
            // All that is left may be at home: then another place takes its turn.
            let other = rng.random_range(0..self.ends.len());
            if self.ends[other].0 != source && self.ends[other].1 != source {
                let id = ConnectionId(other as u32);
                self.packer.apply(&[id], &[]);
                let there = std::mem::replace(&mut self.ends[other].1, self.receiving[at]);
                let (from, to) = self.ends[other];
                if from == to {
                    self.ends[other].1 = there;
                } else {
                    self.receiving[at] = there;
                }
                self.packer.apply(&[], &[plain(other as u32, self.ends[other])]);
            }
        };
        let ends = (source, self.receiving.swap_remove(at));
        if id as usize == self.ends.len() {
            self.ends.push(ends);
        } else {
            self.ends[id as usize] = ends;
        }
        plain(id, ends)
    }

    /// Some connections end; what they held is free.
    fn disconnect(&mut self, ids: &[u32]) -> Vec<ConnectionId> {
        for &id in ids {
            let (source, destination) = self.ends[id as usize];
            self.sending.push(source);
            self.receiving.push(destination);
        }
        ids.iter().map(|&id| ConnectionId(id)).collect()
    }
}

/// `batch` connections end and as many begin, again and again.
fn churn(fabric: &Fabric, load: u32, steps: usize, batch: usize, seed: u64) -> Churn {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut traffic = Traffic::new(fabric, load, &mut rng);
    let mut churn = Churn { times: Vec::new(), inserted: 0, moved: 0, hash: Hash::default() };
    let all = traffic.ends.len() as u32;
    for _ in 0..steps {
        let gone = rand::seq::index::sample(&mut rng, all as usize, batch);
        let gone: Vec<u32> = gone.into_iter().map(|id| id as u32).collect();
        let removals = traffic.disconnect(&gone);
        traffic.packer.apply(&removals, &[]);
        let insertions: Vec<Request> =
            gone.into_iter().map(|id| traffic.connect(id, &mut rng)).collect();
        let (time, packed) = timed(|| traffic.packer.apply(&[], &insertions));
        churn.note(time, packed);
    }
    churn
}

impl Churn {
    fn note(&mut self, time: Duration, packed: &Packed) {
        self.times.push(time);
        self.inserted += packed.granted.len() + packed.deferred.len();
        self.moved += packed.moved.len();
        packed.granted.iter().for_each(|(_, tree)| self.hash.number(u64::from(tree.0)));
    }
}

fn mean(churns: &[Churn]) -> f64 {
    let sum = |count: fn(&Churn) -> usize| churns.iter().map(count).sum::<usize>() as f64;
    sum(|churn| churn.moved) / sum(|churn| churn.inserted)
}

fn hash(churns: &[Churn]) -> u64 {
    let mut hash = Hash::default();
    churns.iter().for_each(|churn| hash.number(churn.hash.0));
    hash.0
}

/// What the slowest of a thousand take, timer included.
fn latencies(name: &str, churns: &[Churn], goals: &[(&str, usize, f64)]) -> Vec<Outcome> {
    let mut times: Vec<Duration> =
        churns.iter().flat_map(|churn| churn.times.iter().copied()).collect();
    times.sort_unstable();
    let slower =
        |of_1000: usize| times[times.len() - 1 - times.len() * of_1000 / 1000].as_nanos() as f64;
    let held = |&(quantile, of_1000, goal): &(&str, usize, f64)| {
        line(
            format!("insertion {quantile}, {name}"),
            "ns",
            slower(of_1000),
            (goal, "goal"),
            hash(churns),
        )
    };
    goals.iter().map(held).collect()
}
