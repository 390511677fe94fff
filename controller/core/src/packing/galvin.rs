//! List edge colouring of a bipartite multigraph (Galvin; in the sharp form of Borodin, Kostochka and
//! Woodall): if every edge has at least as many colours to choose from as the larger degree of its
//! two ends, all edges can be coloured. This is the proof, run.
//!
//! Edges are peeled off in rounds, a matching a round. The upper end of an edge prefers edges of
//! early rounds, the lower end those of late rounds. Then each colour in turn is given to a stable
//! matching among the uncoloured edges that have it in their list: an edge that goes without it has
//! one adjacent edge fewer that it yields to, and it yields to fewer than its list is long.
//!
//! For that the matching M of a round must satisfy: where an edge xy has its upper end x in M and its
//! lower end y not, y has the smaller degree. Such a matching exists: let N(k) be the lower vertices
//! that have a neighbour of degree at least k and at most their own. Over all k, the |N(k)| sum up to
//! at most the number of edges, which is what the |{x: degree at least k}| sum up to; so for some k
//! N(k) is not larger, and a matching into it that leaves some x over has a part that covers all its
//! neighbours there (Hall).

const NONE: u32 = u32::MAX;

/// A bipartite multigraph and the colouring of it; all buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct ListColouring {
    /// Vertices on each side.
    vertices: usize,
    /// (upper end, lower end).
    edges: Vec<(u16, u16)>,
    /// Edges at each vertex, of those that are left while rounds are peeled off.
    upper: Vec<u32>,
    lower: Vec<u32>,
    /// The round in which each edge is peeled off.
    round: Vec<u32>,
    /// Edges by their upper end, and where those of each end begin.
    by_upper: Vec<u32>,
    first: Vec<u32>,
    colour: Vec<Option<u16>>,
    matching: Matching,
}

/// What one matching takes.
#[derive(Clone, Debug)]
struct Matching {
    /// The edge of each lower vertex.
    held: Vec<u32>,
    /// How far each upper vertex has come along its edges.
    next: Vec<u32>,
    /// Upper vertices that look for an edge.
    free: Vec<u32>,
    /// Lower vertices that a path reached.
    seen: Vec<bool>,
    /// The largest degree of the upper vertices that a lower one matters to.
    reach: Vec<u32>,
}

impl ListColouring {
    /// For up to so many edges.
    pub(super) fn new(vertices: usize, edges: usize) -> Self {
        let table = |value| vec![value; vertices];
        Self {
            vertices,
            edges: Vec::with_capacity(edges),
            upper: table(0),
            lower: table(0),
            round: Vec::with_capacity(edges),
            by_upper: Vec::with_capacity(edges),
            first: vec![0; vertices + 1],
            colour: Vec::with_capacity(edges),
            matching: Matching {
                held: table(NONE),
                next: table(0),
                free: Vec::with_capacity(vertices),
                seen: vec![false; vertices],
                reach: table(0),
            },
        }
    }

    /// Takes a graph.
    pub(super) fn load(&mut self, edges: impl Iterator<Item = (usize, usize)>) {
        self.edges.clear();
        self.edges.extend(edges.map(|(x, y)| (x as u16, y as u16)));
        self.count_degrees(|_| true);
    }

    fn ends(&self, edge: usize) -> (usize, usize) {
        let (x, y) = self.edges[edge];
        (x.into(), y.into())
    }

    /// Counts the edges that `counts` at both ends.
    fn count_degrees(&mut self, counts: impl Fn(usize) -> bool) {
        self.upper.fill(0);
        self.lower.fill(0);
        for edge in (0..self.edges.len()).filter(|&edge| counts(edge)) {
            let (x, y) = self.ends(edge);
            self.upper[x] += 1;
            self.lower[y] += 1;
        }
    }

    /// Whether every list of the graph just loaded is long enough for the theorem.
    pub(super) fn is_choosable(&self, list_length: impl Fn(usize) -> usize) -> bool {
        (0..self.edges.len()).all(|edge| {
            let (x, y) = self.ends(edge);
            list_length(edge) >= u32::max(self.upper[x], self.lower[y]) as usize
        })
    }

    /// A colour for every edge, where the lists are long enough; `None` for edges that got none.
    pub(super) fn colour(
        &mut self,
        colours: usize,
        has: impl Fn(usize, usize) -> bool,
    ) -> &[Option<u16>] {
        self.sort();
        self.peel();
        // Each upper vertex prefers the edges of early rounds.
        let Self { by_upper, edges, round, .. } = self;
        by_upper.sort_unstable_by_key(|&edge| (edges[edge as usize].0, round[edge as usize], edge));
        self.colour.clear();
        self.colour.resize(self.edges.len(), None);
        for colour in 0..colours {
            self.match_stably(|edge| has(edge, colour));
            for &edge in self.matching.held.iter().filter(|&&edge| edge != NONE) {
                self.colour[edge as usize] = Some(colour as u16);
            }
        }
        &self.colour
    }

    /// Brings the edges of each upper vertex together.
    fn sort(&mut self) {
        let Self { by_upper, edges, first, .. } = self;
        by_upper.clear();
        by_upper.extend(0..edges.len() as u32);
        by_upper.sort_unstable_by_key(|&edge| (edges[edge as usize].0, edge));
        first.fill(0);
        edges.iter().for_each(|&(x, _)| first[usize::from(x) + 1] += 1);
        for x in 1..first.len() {
            first[x] += first[x - 1];
        }
    }

    /// Gale and Shapley, over the edges that have no colour yet and may have this one: upper vertices
    /// propose along their edges in order; a lower vertex holds on to the edge of the latest round.
    fn match_stably(&mut self, may_have: impl Fn(usize) -> bool) {
        let Self { vertices, edges, round, by_upper, first, colour, matching, .. } = self;
        let Matching { held, next, free, .. } = matching;
        held.fill(NONE);
        next.copy_from_slice(&first[..*vertices]);
        free.clear();
        free.extend((0..*vertices as u32).rev());
        while let Some(x) = free.pop() {
            let own = &by_upper[next[x as usize] as usize..first[x as usize + 1] as usize];
            let open = |&&edge: &&u32| colour[edge as usize].is_none() && may_have(edge as usize);
            let Some(passed) = own.iter().position(|edge| open(&edge)) else {
                continue;
            };
            let edge = own[passed];
            next[x as usize] += passed as u32 + 1;
            let holds = &mut held[usize::from(edges[edge as usize].1)];
            if *holds == NONE || round[edge as usize] > round[*holds as usize] {
                let before = std::mem::replace(holds, edge);
                if before != NONE {
                    free.push(edges[before as usize].0.into());
                }
            } else {
                free.push(x);
            }
        }
    }

    /// Finds the round in which each edge is peeled off.
    fn peel(&mut self) {
        self.round.clear();
        self.round.resize(self.edges.len(), NONE);
        let mut left = self.edges.len();
        for now in 0.. {
            if left == 0 {
                break;
            }
            self.match_as_the_proof_needs();
            for &edge in self.matching.held.iter().filter(|&&edge| edge != NONE) {
                self.round[edge as usize] = now;
                left -= 1;
            }
        }
    }

    /// A non-empty matching as the proof needs it, among the edges that are left.
    fn match_as_the_proof_needs(&mut self) {
        let round = std::mem::take(&mut self.round);
        self.count_degrees(|edge| round[edge] == NONE);
        self.round = round;
        let least = self.least_degree();
        self.matching.held.fill(NONE);
        for x in 0..self.vertices {
            self.matching.seen.fill(false);
            if self.upper[x] < least || self.augment(x) {
                continue;
            }
            // Everything reached is matched into x's component: that part alone is enough.
            let Matching { held, seen, .. } = &mut self.matching;
            held.iter_mut().zip(seen).filter(|(_, seen)| !**seen).for_each(|(y, _)| *y = NONE);
            if held.iter().all(|&edge| edge == NONE) {
                // No neighbour matters to x, so any one edge of it will do.
                let own = &self.by_upper[self.first[x] as usize..self.first[x + 1] as usize];
                let one = own.iter().copied().find(|&edge| self.round[edge as usize] == NONE);
                if let Some(edge) = one {
                    let (_, y) = self.ends(edge as usize);
                    self.matching.held[y] = edge;
                }
            }
            return;
        }
    }

    /// The least k for which at least as many upper vertices have degree k or more as there are lower
    /// vertices that matter to one of them.
    fn least_degree(&mut self) -> u32 {
        let Self { edges, upper, lower, round, matching, .. } = self;
        let (most, reach) = (upper.iter().copied().max().unwrap_or(0), &mut matching.reach);
        reach.fill(0);
        for (&(x, y), _) in edges.iter().zip(round).filter(|(_, round)| **round == NONE) {
            let (x, y) = (usize::from(x), usize::from(y));
            if upper[x] <= lower[y] {
                reach[y] = u32::max(reach[y], upper[x]);
            }
        }
        let count = |degrees: &[u32], k| degrees.iter().filter(|&&degree| degree >= k).count();
        (1..=most).find(|&k| count(upper, k) >= count(reach, k)).unwrap_or(most)
    }

    /// One augmenting path of a matching (Kuhn), along the edges that matter to an upper vertex: those
    /// to lower vertices of no smaller degree.
    fn augment(&mut self, x: usize) -> bool {
        for at in self.first[x] as usize..self.first[x + 1] as usize {
            let edge = self.by_upper[at];
            let (_, y) = self.ends(edge as usize);
            let matters = self.round[edge as usize] == NONE && self.lower[y] >= self.upper[x];
            if !matters || std::mem::replace(&mut self.matching.seen[y], true) {
                continue;
            }
            let other = self.matching.held[y];
            if other == NONE || self.augment(self.ends(other as usize).0) {
                self.matching.held[y] = edge;
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::seq::index::sample;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    type Edges = Vec<(usize, usize)>;

    fn load(vertices: usize, edges: &Edges) -> ListColouring {
        let mut graph = ListColouring::new(vertices, edges.len());
        graph.load(edges.iter().copied());
        graph
    }

    /// The larger degree of each edge's ends.
    fn larger_degrees(edges: &Edges) -> Vec<usize> {
        let at = |end: fn(&(usize, usize)) -> usize, vertex| {
            edges.iter().filter(|edge| end(edge) == vertex).count()
        };
        edges.iter().map(|&(x, y)| usize::max(at(|e| e.0, x), at(|e| e.1, y))).collect()
    }

    /// What the proof rests on: an edge yields to fewer edges than the larger degree of its ends.
    #[test]
    fn every_edge_yields_to_fewer_edges_than_its_larger_degree() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2000 {
            let vertices = rng.random_range(1..7);
            let count = rng.random_range(0..20);
            let mut end = || rng.random_range(0..vertices);
            let edges: Edges = (0..count).map(|_| (end(), end())).collect();
            let mut graph = load(vertices, &edges);
            graph.sort();
            graph.peel();
            let round = &graph.round;
            for (e, larger) in larger_degrees(&edges).into_iter().enumerate() {
                let yields = |f: usize| {
                    usize::from(edges[f].0 == edges[e].0 && round[f] < round[e])
                        + usize::from(edges[f].1 == edges[e].1 && round[f] > round[e])
                };
                let out: usize = (0..count).map(yields).sum();
                assert!(out < larger, "edge {e} of {edges:?}");
            }
        }
    }

    /// The theorem itself, with lists no longer than it needs.
    #[test]
    fn every_edge_is_coloured_from_its_list() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for _ in 0..2000 {
            let vertices = rng.random_range(1..7);
            let count = rng.random_range(1..25);
            let mut end = || rng.random_range(0..vertices);
            let edges: Edges = (0..count).map(|_| (end(), end())).collect();
            let mut graph = load(vertices, &edges);
            let lengths = larger_degrees(&edges);
            let colours = lengths.iter().max().unwrap() + rng.random_range(0..4);
            let list = |length| sample(&mut rng, colours, length).into_vec();
            let lists: Vec<Vec<usize>> = lengths.into_iter().map(list).collect();
            assert!(graph.is_choosable(|edge| lists[edge].len()));
            let coloured = graph.colour(colours, |edge, colour| lists[edge].contains(&colour));
            for (e, &(x, y)) in edges.iter().enumerate() {
                let colour =
                    coloured[e].unwrap_or_else(|| panic!("no colour for {e} of {edges:?}"));
                assert!(lists[e].contains(&usize::from(colour)));
                let same = |f: usize| coloured[f] == Some(colour) && f != e;
                assert!(!(0..count).any(|f| same(f) && (edges[f].0 == x || edges[f].1 == y)));
            }
        }
    }
}
