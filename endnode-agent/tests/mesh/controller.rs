//! A controller that gives trees to flows as chance has it, keeps its promise that no tree has two owners,
//! and moves flows far more often than a good one would.

use std::collections::BTreeMap;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use snin_agent::core::{FlowId, Frame, Grant, Order, Report};
use snin_fabric::TreeId;
use snin_protocol::Time;

type Key = (usize, FlowId);

/// Who may be on a tree.
#[derive(Clone, Copy, Debug)]
struct Owner {
    key: Key,
    until: Time,
    /// When it was told to leave, if it was.
    left: Option<Time>,
}

pub(crate) struct Controller {
    pub(crate) term: u64,
    pub(crate) window: Time,
    trees: BTreeMap<TreeId, Option<Owner>>,
    wanting: BTreeMap<Key, Option<TreeId>>,
    rng: ChaCha8Rng,
    pub(crate) moves: u64,
}

impl Controller {
    pub(crate) fn new(trees: u16, window: Time, rng: ChaCha8Rng) -> Self {
        let trees = (0..trees).map(|tree| (TreeId(tree), None)).collect();
        Self { term: 1, window, trees, wanting: BTreeMap::new(), rng, moves: 0 }
    }

    pub(crate) fn report(&mut self, host: usize, report: Report) {
        match report {
            Report::Request { flow, .. } => {
                self.wanting.entry((host, flow)).or_default();
            }
            Report::Release { flow } => {
                // It may be an old one, and the flow wants to send again: trees are freed by time.
                self.wanting.remove(&(host, flow));
            }
            Report::Drained { flow, tree, order } => {
                let owner = self.trees.get_mut(&tree).unwrap();
                let mine =
                    |o: &mut Owner| o.key == (host, flow) && o.left.is_some_and(|at| at <= order);
                owner.take_if(mine);
            }
        }
    }

    /// What happens in the window that begins now: orders by host.
    pub(crate) fn window(&mut self, now: Time) -> Vec<(usize, Frame)> {
        for owner in self.trees.values_mut() {
            owner.take_if(|owner| owner.until <= now);
        }
        let keys: Vec<Key> = self.wanting.keys().copied().collect();
        let mut frames = Vec::new();
        for (at, key) in keys.into_iter().enumerate() {
            // No two orders have the same time.
            let sent = now + Time(at as u64);
            if let Some(order) = self.order(key, sent) {
                frames.push((key.0, Frame { term: self.term, at: sent, order }));
            }
        }
        frames
    }

    fn order(&mut self, key: Key, now: Time) -> Option<Order> {
        let (_, flow) = key;
        let held = self.wanting[&key].filter(|tree| {
            self.trees[tree].is_some_and(|owner| owner.key == key && owner.left.is_none())
        });
        match (held, self.rng.random_range(0..100)) {
            // Lapses by itself.
            (Some(_), 0..5) => None,
            (Some(tree), 5..15) => {
                self.leave(tree, now);
                Some(Order::Revoke { flow })
            }
            (Some(tree), 15..45) => {
                let until = now + self.window * 3;
                let owner = self.trees.get_mut(&tree).unwrap().as_mut().unwrap();
                let from = owner.until - self.window;
                owner.until = owner.until.max(until);
                let grant = Grant { tree, from, until: owner.until, pinned: false };
                Some(Order::Grant { flow, grant })
            }
            (held, _) => {
                let tree = self.any_free()?;
                if let Some(held) = held {
                    self.leave(held, now);
                    self.moves += 1;
                }
                let from = now + self.window * self.rng.random_range(0..2);
                let until = from + self.window * self.rng.random_range(1..4);
                self.trees.insert(tree, Some(Owner { key, until, left: None }));
                self.wanting.insert(key, Some(tree));
                Some(Order::Grant { flow, grant: Grant { tree, from, until, pinned: false } })
            }
        }
    }

    fn leave(&mut self, tree: TreeId, now: Time) {
        if let Some(owner) = self.trees.get_mut(&tree).unwrap() {
            owner.left = Some(now);
        }
    }

    fn any_free(&mut self) -> Option<TreeId> {
        let free = self.trees.iter().filter(|(_, owner)| owner.is_none()).map(|(tree, _)| *tree);
        let free: Vec<TreeId> = free.collect();
        (!free.is_empty()).then(|| free[self.rng.random_range(0..free.len())])
    }
}
