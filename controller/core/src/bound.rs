//! The most connections that the leaves' links can carry at all: every connection takes one uplink of
//! its source leaf and one down link of its destination leaf, along any tree. A maximum flow
//! (Dinic) through the bipartite graph of leaves.

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
    let mut flow = Flow::with_capacity(up.len(), connections.len());
    flow.load(up.len(), up.iter().chain(down).copied(), connections.iter().copied());
    let count = flow.choose();
    DegreeBound { count, chosen: flow.chosen }
}

const FAR: u32 = u32::MAX;

/// The flow; its buffers are kept. Vertices: source leaves, then destination leaves. A path runs down
/// along connections not chosen and back up along chosen ones.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    sources: usize,
    /// The two vertices of each connection.
    connections: Vec<[u32; 2]>,
    chosen: Vec<bool>,
    /// Links left at each vertex.
    room: Vec<u32>,
    /// Connections by vertex, and where those of each begin.
    at: Vec<u32>,
    first: Vec<u32>,
    distance: Vec<u32>,
    /// For each vertex the first of its connections that is not known to lead nowhere.
    next: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<u32>,
}

impl Flow {
    /// With room for so many leaves and connections.
    pub(crate) fn with_capacity(leaves: usize, connections: usize) -> Self {
        let by_vertex = || Vec::with_capacity(2 * leaves + 1);
        Self {
            sources: 0,
            connections: Vec::with_capacity(connections),
            chosen: Vec::with_capacity(connections),
            room: by_vertex(),
            at: Vec::with_capacity(2 * connections),
            first: by_vertex(),
            distance: by_vertex(),
            next: by_vertex(),
            queue: by_vertex(),
            path: by_vertex(),
        }
    }

    /// Takes connections between `leaves` leaves; `room` has the links up of every leaf, then those down.
    pub(crate) fn load(
        &mut self,
        leaves: usize,
        room: impl Iterator<Item = usize>,
        connections: impl Iterator<Item = (usize, usize)>,
    ) {
        self.sources = leaves;
        self.room.clear();
        self.room.extend(room.map(|links| links as u32));
        self.connections.clear();
        self.connections.extend(connections.map(|(up, down)| [up as u32, (leaves + down) as u32]));
        self.chosen.clear();
        self.chosen.resize(self.connections.len(), false);
        for table in [&mut self.distance, &mut self.next] {
            table.clear();
            table.resize(self.room.len(), 0);
        }
        self.sort();
    }

    /// Another link at both leaves of a connection.
    pub(crate) fn add_room(&mut self, (up, down): (usize, usize)) {
        self.room[up] += 1;
        self.room[self.sources + down] += 1;
    }

    /// Brings the connections of each vertex together, in their order.
    fn sort(&mut self) {
        let Self { connections, room, first, next, at, .. } = self;
        first.clear();
        first.resize(room.len() + 1, 0);
        connections.iter().flatten().for_each(|&vertex| first[vertex as usize + 1] += 1);
        for vertex in 1..first.len() {
            first[vertex] += first[vertex - 1];
        }
        next.copy_from_slice(&first[..room.len()]);
        at.clear();
        at.resize(2 * connections.len(), 0);
        for (edge, vertices) in (0..).zip(&*connections) {
            for &vertex in vertices {
                at[next[vertex as usize] as usize] = edge;
                next[vertex as usize] += 1;
            }
        }
    }

    /// Makes a largest choice; how many there are in it.
    pub(crate) fn choose(&mut self) -> usize {
        self.choose_greedily();
        while self.measure() {
            self.next.copy_from_slice(&self.first[..self.room.len()]);
            while self.augment() {}
        }
        self.chosen.iter().filter(|&&chosen| chosen).count()
    }

    /// For each connection whether it was chosen.
    pub(crate) fn chosen(&self) -> &[bool] {
        &self.chosen
    }

    fn choose_greedily(&mut self) {
        for (ends, chosen) in self.connections.iter().zip(&mut self.chosen) {
            if ends.iter().all(|&vertex| self.room[vertex as usize] > 0) {
                ends.iter().for_each(|&vertex| self.room[vertex as usize] -= 1);
                *chosen = true;
            }
        }
    }

    fn is_source(&self, vertex: u32) -> bool {
        (vertex as usize) < self.sources
    }

    /// The other end of a connection, if a path may go there from `vertex`.
    fn step(&self, vertex: u32, edge: u32) -> Option<u32> {
        let [source, destination] = self.connections[edge as usize];
        let down = self.is_source(vertex);
        let other = if down { destination } else { source };
        (self.chosen[edge as usize] != down).then_some(other)
    }

    /// Distances from source leaves with room; false where no destination leaf with room is reached.
    fn measure(&mut self) -> bool {
        self.distance.fill(FAR);
        self.queue.clear();
        for leaf in (0..self.sources).filter(|&leaf| self.room[leaf] > 0) {
            self.distance[leaf] = 0;
            self.queue.push(leaf as u32);
        }
        let (mut found, mut next) = (false, 0);
        while let Some(&vertex) = self.queue.get(next) {
            next += 1;
            found |= !self.is_source(vertex) && self.room[vertex as usize] > 0;
            for at in self.first[vertex as usize]..self.first[vertex as usize + 1] {
                let other = self.step(vertex, self.at[at as usize]);
                if let Some(other) = other.filter(|&other| self.distance[other as usize] == FAR) {
                    self.distance[other as usize] = self.distance[vertex as usize] + 1;
                    self.queue.push(other);
                }
            }
        }
        found
    }

    /// One path along growing distances from a source leaf with room to a destination leaf with room.
    fn augment(&mut self) -> bool {
        (0..self.sources as u32)
            .any(|start| self.room[start as usize] > 0 && self.augment_from(start))
    }

    fn augment_from(&mut self, start: u32) -> bool {
        self.path.clear();
        let mut vertex = start;
        loop {
            if !self.is_source(vertex) && self.room[vertex as usize] > 0 {
                self.room[start as usize] -= 1;
                self.room[vertex as usize] -= 1;
                let Self { path, chosen, .. } = self;
                path.iter().for_each(|&edge| chosen[edge as usize] ^= true);
                return true;
            }
            let next = self.next[vertex as usize];
            if next < self.first[vertex as usize + 1] {
                let edge = self.at[next as usize];
                let beyond = self.distance[vertex as usize] + 1;
                let further = |&other: &u32| self.distance[other as usize] == beyond;
                match self.step(vertex, edge).filter(further) {
                    Some(other) => {
                        self.path.push(edge);
                        vertex = other;
                    }
                    None => self.next[vertex as usize] += 1,
                }
            } else {
                let Some(edge) = self.path.pop() else {
                    return false;
                };
                let [source, destination] = self.connections[edge as usize];
                vertex = if self.is_source(vertex) { destination } else { source };
                self.next[vertex as usize] += 1;
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
