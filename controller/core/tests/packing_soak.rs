//! Long histories on random fabrics, judged by owners of links that are worked out here, from the answers
//! alone. `SNIN_PACKED` says how many connections are to be packed; `make soak-packing` asks for 10^8.

use std::io::Write;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_controller_core::packing::{ConnectionId, LeafId, Outcome, Packer, Request, Shape};
use snin_fabric::TreeId;

/// A fabric of equal leaves, in two stages or in three.
#[derive(Clone, Copy, Debug)]
struct Fabric {
    leaves: u32,
    hosts: u32,
    /// Leaves of a pod, and as many trees of a group; none in two stages.
    pod: Option<u32>,
}

impl Fabric {
    fn random(rng: &mut ChaCha8Rng) -> Self {
        if rng.random_bool(0.3) {
            let (pods, pod, hosts) =
                (rng.random_range(2..9), rng.random_range(1..9), rng.random_range(1..9));
            return Self { leaves: pods * pod, hosts, pod: Some(pod) };
        }
        // Some have more trees than a word has bits.
        let hosts = if rng.random_bool(0.2) { 60..90 } else { 1..40 };
        Self { leaves: rng.random_range(2..70), hosts: rng.random_range(hosts), pod: None }
    }

    fn shape(self) -> Shape {
        let Self { leaves, hosts, pod } = self;
        match pod {
            None => Shape::two_stage(leaves as usize, hosts as usize),
            Some(pod) => Shape::three_stage(
                (0..leaves).map(|leaf| leaf / pod).collect(),
                (0..hosts * pod).map(|tree| tree / pod).collect(),
            ),
        }
    }

    /// The places of its links in a table of owners.
    fn links(self, (source, destination): (u32, u32), tree: u32) -> [Option<usize>; 4] {
        let group = tree / self.pod.unwrap_or(1);
        let leaf = |leaf, side| Some(((leaf * self.hosts + group) * 2 + side) as usize);
        let (up, down) = self.pod.map_or((0, 0), |pod| (source / pod, destination / pod));
        let trees = self.pod.map_or(0, |pod| self.hosts * pod);
        let core = |pod, side| {
            let link = (self.leaves * self.hosts + pod * trees + tree) * 2 + side;
            (up != down).then_some(link as usize)
        };
        [leaf(source, 0), leaf(destination, 1), core(up, 0), core(down, 1)]
    }

    fn link_count(self) -> usize {
        let trees = self.pod.map_or(0, |pod| self.hosts * pod);
        let pods = self.pod.map_or(0, |pod| self.leaves / pod);
        ((self.leaves * self.hosts + pods * trees) * 2) as usize
    }
}

const NOBODY: u32 = u32::MAX;

/// Who has which tree, by what the packer said.
struct Ledger {
    fabric: Fabric,
    ends: Vec<(u32, u32)>,
    trees: Vec<u32>,
    owners: Vec<u32>,
}

impl Ledger {
    fn new(fabric: Fabric) -> Self {
        let numbers = (fabric.leaves * fabric.hosts) as usize;
        Self {
            fabric,
            ends: vec![(0, 0); numbers],
            trees: vec![NOBODY; numbers],
            owners: vec![NOBODY; fabric.link_count()],
        }
    }

    fn give(&mut self, id: u32, tree: u32) {
        self.trees[id as usize] = tree;
        for link in self.fabric.links(self.ends[id as usize], tree).into_iter().flatten() {
            let before = std::mem::replace(&mut self.owners[link], id);
            assert_eq!(before, NOBODY, "{id} on a link of {before}");
        }
    }

    fn take(&mut self, id: u32) {
        let tree = std::mem::replace(&mut self.trees[id as usize], NOBODY);
        for link in self.fabric.links(self.ends[id as usize], tree).into_iter().flatten() {
            assert_eq!(std::mem::replace(&mut self.owners[link], NOBODY), id);
        }
    }

    /// All that moved leave before any arrives.
    fn follow(&mut self, outcome: &Outcome) {
        assert!(outcome.evicted.is_empty() && outcome.deferred.is_empty(), "{outcome:?}");
        assert!(outcome.refused.is_empty(), "{outcome:?}");
        for &(id, from, to) in &outcome.moved {
            assert_eq!(self.trees[id.index()], u32::from(from.0));
            assert_ne!(from, to);
            self.take(id.0);
        }
        for (id, tree) in
            outcome.moved.iter().map(|&(id, _, to)| (id, to)).chain(outcome.granted.iter().copied())
        {
            self.give(id.0, tree.0.into());
        }
    }
}

/// One fabric, some whole patterns, and connections that come and go in batches of any size. Returns how many
/// were packed.
fn history(seed: u64) -> usize {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let fabric = Fabric::random(&mut rng);
    let mut packer = Packer::new(fabric.shape());
    let mut ledger = Ledger::new(fabric);
    let numbers = fabric.leaves * fabric.hosts;
    let mut packed = 0;
    for _ in 0..4 {
        // Places to send from and to receive at, of which each connection takes one of each.
        let mut to: Vec<u32> = (0..numbers).collect();
        to.shuffle(&mut rng);
        let load = rng.random_range(1..=numbers) as usize;
        let leaf = |place: u32| place / fabric.hosts;
        let pattern: Vec<u32> = (0..numbers)
            .filter(|&place| leaf(place) != leaf(to[place as usize]))
            .take(load)
            .collect();
        packer.clear();
        ledger.owners.fill(NOBODY);
        ledger.trees.fill(NOBODY);
        packed += insert(&mut packer, &mut ledger, &to, &[], &pattern);
        for _ in 0..12 {
            let batch =
                if rng.random_bool(0.5) { 1 } else { rng.random_range(1..=numbers) } as usize;
            let mut places: Vec<u32> = (0..numbers).collect();
            places.shuffle(&mut rng);
            places.truncate(batch);
            let is_there = |place: &u32| ledger.trees[*place as usize] != NOBODY;
            let (gone, free): (Vec<u32>, Vec<u32>) =
                places.iter().partition(|place| is_there(place));
            let removals: Vec<ConnectionId> = gone.iter().map(|&id| ConnectionId(id)).collect();
            gone.iter().for_each(|&id| ledger.take(id));
            // Receivers change places among those that do not send to them now.
            let mut open = [gone, free].concat();
            let mut receivers: Vec<u32> = open.iter().map(|&place| to[place as usize]).collect();
            receivers.shuffle(&mut rng);
            open.iter().zip(receivers).for_each(|(&place, there)| to[place as usize] = there);
            open.retain(|&place| leaf(place) != leaf(to[place as usize]));
            packed += insert(&mut packer, &mut ledger, &to, &removals, &open);
        }
    }
    packed
}

fn insert(
    packer: &mut Packer,
    ledger: &mut Ledger,
    to: &[u32],
    removals: &[ConnectionId],
    places: &[u32],
) -> usize {
    let fabric = ledger.fabric;
    let ends = |&place: &u32| (place / fabric.hosts, to[place as usize] / fabric.hosts);
    places.iter().for_each(|place| ledger.ends[*place as usize] = ends(place));
    let request = |place: &u32| {
        let (source, destination) = ends(place);
        Request::new(*place, LeafId(source), LeafId(destination))
    };
    let requests: Vec<Request> = places.iter().map(request).collect();
    let outcome = packer.apply(removals, &requests);
    ledger.follow(outcome);
    assert_eq!(outcome.granted.len(), places.len(), "everything fits");
    if fabric.pod.is_none() && places.len() == 1 {
        assert!(outcome.moved.len() < fabric.leaves as usize, "{} moved", outcome.moved.len());
    }
    for &place in places {
        let tree = packer.tree_of(ConnectionId(place));
        assert_eq!(tree, Some(TreeId(ledger.trees[place as usize] as u16)));
    }
    places.len()
}

#[test]
fn no_link_has_two_owners_however_long_it_goes_on() {
    let goal = std::env::var("SNIN_PACKED").map_or(100_000, |text| text.parse().expect("a number"));
    let (mut packed, mut seed) = (0, 0);
    let mut log = std::io::stderr();
    while packed < goal {
        let before = packed;
        packed +=
            std::panic::catch_unwind(|| history(seed)).unwrap_or_else(|_| panic!("seed {seed}"));
        if packed / 10_000_000 > before / 10_000_000 {
            writeln!(log, "{packed} of {goal} packed, seeds 0 to {seed}").unwrap();
        }
        seed += 1;
    }
    writeln!(log, "{packed} connections packed on {seed} fabrics, no violation").unwrap();
}
