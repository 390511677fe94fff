//! The most connections that the leaves' links can carry at all: every connection takes one uplink of
//! its source leaf and one down link of its destination leaf, whatever tree it gets. A maximum flow
//! (Dinic) through the bipartite graph of leaves.

use std::collections::VecDeque;

/// A largest choice of connections that the leaves have links for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DegreeBound {
    /// How many connections fit: no packing grants more.
    pub count: usize,
    /// For each connection whether it belongs to the choice.
    pub chosen: Vec<bool>,
}

/// The bound for `connections` (source leaf, destination leaf), where a leaf has `up` links for those
/// that leave it and `down` links for those that come. Connections named first are chosen first, as
/// far as that costs none.
///
/// # Panics
/// Where a connection names a leaf beyond `up` or `down`.
pub fn degree_bound(up: &[usize], down: &[usize], connections: &[(usize, usize)]) -> DegreeBound {
    let mut flow = Flow::new(up, down, connections);
    flow.choose_greedily();
    while flow.measure() {
        flow.next.fill(0);
        while flow.augment() {}
    }
    DegreeBound { count: flow.chosen.iter().filter(|&&chosen| chosen).count(), chosen: flow.chosen }
}

const FAR: u32 = u32::MAX;

/// Vertices: source leaves, then destination leaves. A path runs down along connections not chosen
/// and back up along chosen ones.
struct Flow<'a> {
    connections: &'a [(usize, usize)],
    sources: usize,
    /// Links left at each vertex.
    room: Vec<usize>,
    at: Vec<Vec<u32>>,
    chosen: Vec<bool>,
    distance: Vec<u32>,
    /// For each vertex the first of its connections that is not known to lead nowhere.
    next: Vec<usize>,
}

impl<'a> Flow<'a> {
    fn new(up: &[usize], down: &[usize], connections: &'a [(usize, usize)]) -> Self {
        let vertices = up.len() + down.len();
        let mut at = vec![Vec::new(); vertices];
        for (edge, &(source, destination)) in connections.iter().enumerate() {
            at[source].push(edge as u32);
            at[up.len() + destination].push(edge as u32);
        }
        Self {
            connections,
            sources: up.len(),
            room: [up, down].concat(),
            at,
            chosen: vec![false; connections.len()],
            distance: vec![FAR; vertices],
            next: vec![0; vertices],
        }
    }

    fn choose_greedily(&mut self) {
        for (edge, &(source, destination)) in self.connections.iter().enumerate() {
            let destination = self.sources + destination;
            if self.room[source] > 0 && self.room[destination] > 0 {
                self.room[source] -= 1;
                self.room[destination] -= 1;
                self.chosen[edge] = true;
            }
        }
    }

    /// The other end of a connection, if a path may go there from `vertex`.
    fn step(&self, vertex: usize, edge: usize) -> Option<usize> {
        let (source, destination) = self.connections[edge];
        let down = vertex < self.sources;
        (self.chosen[edge] != down).then_some(if down {
            self.sources + destination
        } else {
            source
        })
    }

    /// Distances from source leaves with room; false where no destination leaf with room is reached.
    fn measure(&mut self) -> bool {
        self.distance.fill(FAR);
        let mut queue: VecDeque<usize> =
            (0..self.sources).filter(|&leaf| self.room[leaf] > 0).collect();
        queue.iter().for_each(|&leaf| self.distance[leaf] = 0);
        let mut found = false;
        while let Some(vertex) = queue.pop_front() {
            found |= vertex >= self.sources && self.room[vertex] > 0;
            for at in 0..self.at[vertex].len() {
                let edge = self.at[vertex][at] as usize;
                if let Some(other) = self.step(vertex, edge).filter(|&v| self.distance[v] == FAR) {
                    self.distance[other] = self.distance[vertex] + 1;
                    queue.push_back(other);
                }
            }
        }
        found
    }

    /// One path along growing distances from a source leaf with room to a destination leaf with room.
    fn augment(&mut self) -> bool {
        for start in 0..self.sources {
            if self.room[start] > 0 && self.augment_from(start) {
                return true;
            }
        }
        false
    }

    fn augment_from(&mut self, start: usize) -> bool {
        let mut path: Vec<usize> = Vec::new();
        let mut vertex = start;
        loop {
            if vertex >= self.sources && self.room[vertex] > 0 {
                self.room[start] -= 1;
                self.room[vertex] -= 1;
                path.into_iter().for_each(|edge| self.chosen[edge] = !self.chosen[edge]);
                return true;
            }
            if let Some(&edge) = self.at[vertex].get(self.next[vertex]) {
                let edge = edge as usize;
                let further = |&other: &usize| self.distance[other] == self.distance[vertex] + 1;
                match self.step(vertex, edge).filter(further) {
                    Some(other) => {
                        path.push(edge);
                        vertex = other;
                    }
                    None => self.next[vertex] += 1,
                }
            } else {
                let Some(edge) = path.pop() else {
                    return false;
                };
                let (source, destination) = self.connections[edge];
                vertex = if vertex < self.sources { self.sources + destination } else { source };
                self.next[vertex] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn full_leaves_bound_the_count() {
        let all_to_one = [(0, 3), (1, 3), (2, 3)];
        assert_eq!(degree_bound(&[2; 4], &[2; 4], &all_to_one).chosen, [true, true, false]);
        assert_eq!(degree_bound(&[0, 2, 2, 2], &[2; 4], &all_to_one).count, 2);
        assert_eq!(degree_bound(&[2; 4], &[0; 4], &all_to_one).count, 0);
    }

    #[test]
    fn an_early_choice_gives_way_to_a_larger_one() {
        // Taking 0 -> 1 first leaves no room for either of the others.
        let bound = degree_bound(&[1; 3], &[1; 3], &[(0, 1), (0, 2), (2, 1)]);
        assert_eq!(bound.chosen, [false, true, true]);
    }

    #[test]
    fn no_larger_choice_exists() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..2000 {
            let mut links = || (0..4).map(|_| rng.random_range(0..3)).collect::<Vec<usize>>();
            let (up, down) = (links(), links());
            let count = rng.random_range(0..9);
            let connections: Vec<_> =
                (0..count).map(|_| (rng.random_range(0..4), rng.random_range(0..4))).collect();
            let fits = |choice: u32| {
                let of = |leaf, end: fn(&(usize, usize)) -> usize| {
                    let taken = |&e: &usize| choice >> e & 1 != 0 && end(&connections[e]) == leaf;
                    (0..count).filter(taken).count()
                };
                (0..4).all(|l| of(l, |c| c.0) <= up[l] && of(l, |c| c.1) <= down[l])
            };
            let best = (0..1 << count).filter(|&choice| fits(choice)).map(u32::count_ones).max();
            let bound = degree_bound(&up, &down, &connections);
            assert_eq!(Some(bound.count as u32), best, "{up:?} {down:?} {connections:?}");
            let choice = (0..count).filter(|&e| bound.chosen[e]).fold(0, |c, e| c | 1 << e);
            assert!(fits(choice));
        }
    }
}
