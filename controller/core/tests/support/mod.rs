//! A fabric and its packed connections as the tests know them. Link owners are worked out anew from
//! the requests and their trees; nothing here is taken from the packer.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this one")]

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use snin_controller_core::bound::degree_bound;
use snin_controller_core::owners::{Granted, check};
use snin_controller_core::packing::{
    ConnectionId, Direction, LeafId, Link, Outcome, Packer, Request, SetId, Shape,
};
use snin_fabric::TreeId;

/// A fabric: which cables there are and which trees each registered set holds.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub leaves: usize,
    pub trees: usize,
    /// Pod of each leaf and group of each tree, in three stages.
    pub pods: Option<(Vec<u32>, Vec<u32>)>,
    pub missing: BTreeSet<(usize, usize)>,
    /// The sets beside "all", by the number that `set` was given.
    pub sets: Vec<Vec<usize>>,
}

impl Fabric {
    pub fn two_stage(leaves: usize, trees: usize) -> Self {
        Self { leaves, trees, pods: None, missing: BTreeSet::new(), sets: Vec::new() }
    }

    /// `pods` pods of `leaves` leaves, `groups` groups of `cores` trees.
    pub fn three_stage(pods: usize, leaves: usize, groups: usize, cores: usize) -> Self {
        let pod_of_leaf = (0..pods * leaves).map(|leaf| (leaf / leaves) as u32).collect();
        let group_of_tree = (0..groups * cores).map(|tree| (tree / cores) as u32).collect();
        Self {
            pods: Some((pod_of_leaf, group_of_tree)),
            ..Self::two_stage(pods * leaves, groups * cores)
        }
    }

    /// The packer's shape and the ids of the sets.
    pub fn shape(&self) -> (Shape, Vec<SetId>) {
        let mut shape = match &self.pods {
            None => Shape::two_stage(self.leaves, self.trees),
            Some((pods, groups)) => Shape::three_stage(pods.clone(), groups.clone()),
        };
        for &(leaf, tree) in &self.missing {
            shape.set_unusable(LeafId(leaf as u32), TreeId(tree as u16));
        }
        let trees = |set: &Vec<usize>| set.iter().map(|&t| TreeId(t as u16)).collect::<Vec<_>>();
        let ids = self.sets.iter().map(|set| shape.add_set(trees(set))).collect();
        (shape, ids)
    }

    fn group(&self, tree: usize) -> u32 {
        self.pods.as_ref().map_or(tree as u32, |(_, groups)| groups[tree])
    }

    /// The directed links that a connection uses on a tree.
    pub fn links(&self, ask: &Ask, tree: usize) -> Vec<Link> {
        let leaf = |leaf: usize| LeafId(leaf as u32);
        let mut links = vec![
            Link::Leaf(leaf(ask.source), self.group(tree), Direction::Up),
            Link::Leaf(leaf(ask.destination), self.group(tree), Direction::Down),
        ];
        if let Some((pods, _)) = &self.pods {
            let (up, down) = (pods[ask.source], pods[ask.destination]);
            if up != down {
                links.push(Link::Pod(up, TreeId(tree as u16), Direction::Up));
                links.push(Link::Pod(down, TreeId(tree as u16), Direction::Down));
            }
        }
        links
    }

    /// The trees that a connection may use.
    pub fn allowed(&self, ask: &Ask) -> Vec<usize> {
        let there = |&tree: &usize| {
            ask.set.is_none_or(|set| self.sets[set].contains(&tree))
                && !self.missing.contains(&(ask.source, tree))
                && !self.missing.contains(&(ask.destination, tree))
        };
        (0..self.trees).filter(there).collect()
    }

    /// Links that a leaf has in one direction.
    pub fn capacity(&self, leaf: usize) -> usize {
        let there = (0..self.trees).filter(|&tree| !self.missing.contains(&(leaf, tree)));
        there.map(|tree| self.group(tree)).collect::<BTreeSet<_>>().len()
    }

    /// The most connections that the leaves' links can carry.
    pub fn bound(&self, asks: &[Ask]) -> usize {
        let links: Vec<_> = (0..self.leaves).map(|leaf| self.capacity(leaf)).collect();
        let ends: Vec<_> = asks.iter().map(|ask| (ask.source, ask.destination)).collect();
        degree_bound(&links, &links, &ends).count
    }
}

/// A connection asked for; `set` is a place in `Fabric::sets`, or none for all trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    pub id: u32,
    pub source: usize,
    pub destination: usize,
    pub set: Option<usize>,
    pub pinned: bool,
    pub tree: Option<usize>,
}

impl Ask {
    pub fn new(id: usize, source: usize, destination: usize) -> Self {
        Self { id: id as u32, source, destination, set: None, pinned: false, tree: None }
    }
}

/// A packer, and beside it what it must have promised: every call is checked.
pub struct Checked {
    pub fabric: Fabric,
    pub packer: Packer,
    sets: Vec<SetId>,
    /// Packed connections and their trees, kept from outcomes alone.
    pub held: BTreeMap<u32, (Ask, usize)>,
}

impl Checked {
    pub fn new(fabric: Fabric) -> Self {
        let (shape, sets) = fabric.shape();
        Self { fabric, packer: Packer::new(shape), sets, held: BTreeMap::new() }
    }

    pub fn request(&self, ask: &Ask) -> Request {
        Request {
            id: ConnectionId(ask.id),
            source: LeafId(ask.source as u32),
            destination: LeafId(ask.destination as u32),
            allowed: ask.set.map_or(SetId::ALL, |set| self.sets[set]),
            pinned: ask.pinned,
            tree: ask.tree.map(|tree| TreeId(tree as u16)),
        }
    }

    pub fn insert(&mut self, asks: &[Ask]) -> Outcome {
        self.apply(&[], asks)
    }

    /// One call, its outcome checked against every promise that always holds.
    pub fn apply(&mut self, removals: &[u32], asks: &[Ask]) -> Outcome {
        let gone: Vec<_> = removals.iter().map(|&id| ConnectionId(id)).collect();
        let requests: Vec<_> = asks.iter().map(|ask| self.request(ask)).collect();
        let outcome = self.packer.apply(&gone, &requests).clone();
        removals.iter().chain(asks.iter().map(|ask| &ask.id)).for_each(|id| {
            self.held.remove(id);
        });
        self.follow(asks, &outcome);
        self.check();
        outcome
    }

    /// Keeps up with an outcome; every insertion has exactly one answer.
    fn follow(&mut self, asks: &[Ask], outcome: &Outcome) {
        for &(id, from, to) in &outcome.moved {
            let (ask, tree) = self.held.get_mut(&id.0).expect("moved what was not packed");
            assert!(!ask.pinned, "moved a pinned connection");
            assert_eq!(*tree, from.index());
            assert_ne!(from, to);
            *tree = to.index();
        }
        for (id, _) in &outcome.evicted {
            let (ask, _) = self.held.remove(&id.0).expect("evicted what was not packed");
            assert!(!ask.pinned, "evicted a pinned connection");
        }
        let mut answered = BTreeSet::new();
        for &(id, tree) in &outcome.granted {
            let ask =
                *asks.iter().find(|ask| ask.id == id.0).expect("granted what nobody asked for");
            if ask.pinned {
                assert!(
                    ask.tree.is_none_or(|forced| forced == tree.index()),
                    "not the forced tree"
                );
            }
            self.held.insert(id.0, (ask, tree.index()));
            assert!(answered.insert(id.0));
        }
        for id in outcome.deferred.iter().map(|d| d.0).chain(outcome.refused.iter().map(|r| r.0)) {
            assert!(answered.insert(id.0), "two answers to {id:?}");
        }
        assert_eq!(answered, asks.iter().map(|ask| ask.id).collect());
        for (id, _) in &outcome.refused {
            let ask = asks.iter().find(|ask| ask.id == id.0).unwrap();
            let allowed = self.fabric.allowed(ask);
            let forced = ask.pinned && ask.tree.is_some_and(|tree| !allowed.contains(&tree));
            assert!(allowed.is_empty() || forced || ask.source == ask.destination, "{ask:?}");
        }
        for (id, _) in &outcome.deferred {
            let ask = asks.iter().find(|ask| ask.id == id.0).unwrap();
            assert!(!self.fabric.allowed(ask).is_empty(), "deferred for ever: {ask:?}");
        }
    }

    /// No link has two owners, every tree is an allowed one, and packer and certificate say the same.
    fn check(&self) {
        let mut owners = BTreeMap::new();
        for (&id, (ask, tree)) in &self.held {
            assert_eq!(self.packer.tree_of(ConnectionId(id)), Some(TreeId(*tree as u16)));
            assert!(self.fabric.allowed(ask).contains(tree), "{ask:?} on {tree}");
            for link in self.fabric.links(ask, *tree) {
                assert_eq!(owners.insert(link, ConnectionId(id)), None, "{link:?} has two owners");
            }
        }
        let certificate = self.packer.certificate();
        let granted = self.held.iter().map(|(&id, (ask, tree))| Granted {
            id: ConnectionId(id),
            source: LeafId(ask.source as u32),
            destination: LeafId(ask.destination as u32),
            tree: TreeId(*tree as u16),
        });
        assert_eq!(check(self.packer.shape(), granted, &certificate), Ok(owners.len()));
        assert_eq!(certificate.owners().collect::<BTreeMap<_, _>>(), owners);
    }
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A random permutation of hosts, less what stays within a leaf; `leaf_of` has an entry a host and
/// `set_of` may name a set for each destination host.
pub fn permutation(
    leaf_of: &[usize],
    set_of: impl Fn(usize) -> Option<usize>,
    rng: &mut ChaCha8Rng,
) -> Vec<Ask> {
    let mut to: Vec<usize> = (0..leaf_of.len()).collect();
    to.shuffle(rng);
    let ask = |(host, &to): (usize, &usize)| Ask {
        set: set_of(to),
        ..Ask::new(host, leaf_of[host], leaf_of[to])
    };
    to.iter().enumerate().map(ask).filter(|ask| ask.source != ask.destination).collect()
}

/// `hosts` hosts on each of `leaves` leaves.
pub fn equal_leaves(leaves: usize, hosts: usize) -> Vec<usize> {
    (0..leaves * hosts).map(|host| host / hosts).collect()
}
