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

/// A bipartite multigraph: the ends of each edge.
pub(super) struct Multigraph<'a> {
    /// Vertices on each side.
    pub(super) vertices: usize,
    /// (upper end, lower end).
    pub(super) edges: &'a [(usize, usize)],
}

const NONE: usize = usize::MAX;

impl Multigraph<'_> {
    /// The degrees of both sides, counting the edges that `counts`.
    fn degrees(&self, counts: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<usize>) {
        let (mut upper, mut lower) = (vec![0; self.vertices], vec![0; self.vertices]);
        for (edge, &(x, y)) in self.edges.iter().enumerate() {
            if counts(edge) {
                upper[x] += 1;
                lower[y] += 1;
            }
        }
        (upper, lower)
    }

    /// Whether every list is long enough for the theorem.
    pub(super) fn is_choosable(&self, list_length: impl Fn(usize) -> usize) -> bool {
        let (upper, lower) = self.degrees(|_| true);
        let long =
            |(edge, &(x, y)): (usize, &_)| list_length(edge) >= usize::max(upper[x], lower[y]);
        self.edges.iter().enumerate().all(long)
    }

    /// A colour for every edge, where the lists are long enough; `None` for edges that got none.
    pub(super) fn colour(
        &self,
        colours: usize,
        has: impl Fn(usize, usize) -> bool,
    ) -> Vec<Option<usize>> {
        let round = self.peel();
        // For each upper vertex its edges, those it prefers first.
        let mut preferred = vec![Vec::new(); self.vertices];
        let mut order: Vec<usize> = (0..self.edges.len()).collect();
        order.sort_by_key(|&edge| round[edge]);
        order.iter().for_each(|&edge| preferred[self.edges[edge].0].push(edge));
        let mut colour_of = vec![None; self.edges.len()];
        for colour in 0..colours {
            let candidates: Vec<Vec<usize>> = preferred
                .iter()
                .map(|edges| {
                    let open = |&&edge: &&usize| colour_of[edge].is_none() && has(edge, colour);
                    edges.iter().filter(open).copied().collect()
                })
                .collect();
            for edge in self.stable_matching(&candidates, &round) {
                colour_of[edge] = Some(colour);
            }
        }
        colour_of
    }

    /// Gale and Shapley: upper vertices propose along their candidates in order; a lower vertex holds
    /// on to the edge of the latest round.
    fn stable_matching(&self, candidates: &[Vec<usize>], round: &[usize]) -> Vec<usize> {
        let mut held = vec![NONE; self.vertices];
        let mut next = vec![0; self.vertices];
        let mut free: Vec<usize> = (0..self.vertices).rev().collect();
        while let Some(x) = free.pop() {
            let Some(&edge) = candidates[x].get(next[x]) else {
                continue;
            };
            next[x] += 1;
            let holds = &mut held[self.edges[edge].1];
            if *holds == NONE || round[edge] > round[*holds] {
                let before = std::mem::replace(holds, edge);
                if before != NONE {
                    free.push(self.edges[before].0);
                }
            } else {
                free.push(x);
            }
        }
        held.retain(|&edge| edge != NONE);
        held
    }

    /// The round in which each edge is peeled off.
    fn peel(&self) -> Vec<usize> {
        let mut round = vec![NONE; self.edges.len()];
        let mut left = self.edges.len();
        for now in 0.. {
            if left == 0 {
                break;
            }
            let matching = self.round(|edge| round[edge] == NONE);
            left -= matching.len();
            matching.into_iter().for_each(|edge| round[edge] = now);
        }
        round
    }

    /// A non-empty matching as the proof needs it, among the edges that are `left`.
    fn round(&self, left: impl Fn(usize) -> bool) -> Vec<usize> {
        let (upper, lower) = self.degrees(&left);
        let least = self.least_degree(&upper, &lower, &left);
        // The edges that matter to an upper vertex: to lower vertices of no smaller degree.
        let mut weighty = vec![Vec::new(); self.vertices];
        for (edge, &(x, y)) in self.edges.iter().enumerate() {
            if left(edge) && upper[x] >= least && lower[y] >= upper[x] {
                weighty[x].push(edge);
            }
        }
        let mut matched = vec![NONE; self.vertices];
        for x in (0..self.vertices).filter(|&x| upper[x] >= least) {
            let mut seen = vec![false; self.vertices];
            if !self.augment(x, &weighty, &mut matched, &mut seen) {
                // Everything reached is matched into x's component: that part alone is enough.
                let part = (0..self.vertices).filter(|&y| seen[y]).map(|y| matched[y]);
                let part: Vec<usize> = part.collect();
                if !part.is_empty() {
                    return part;
                }
                // No neighbour matters to x, so any one edge of it will do.
                let own = |&edge: &usize| left(edge) && self.edges[edge].0 == x;
                return (0..self.edges.len()).find(own).into_iter().collect();
            }
        }
        matched.retain(|&edge| edge != NONE);
        matched
    }

    /// The least k for which at least as many upper vertices have degree k or more as there are lower
    /// vertices that matter to one of them.
    fn least_degree(
        &self,
        upper: &[usize],
        lower: &[usize],
        left: impl Fn(usize) -> bool,
    ) -> usize {
        let most = upper.iter().copied().max().unwrap_or(0);
        let mut reach = vec![0; self.vertices];
        for (edge, &(x, y)) in self.edges.iter().enumerate() {
            if left(edge) && upper[x] <= lower[y] {
                reach[y] = usize::max(reach[y], upper[x]);
            }
        }
        let count = |degrees: &[usize], k| degrees.iter().filter(|&&degree| degree >= k).count();
        (1..=most).find(|&k| count(upper, k) >= count(&reach, k)).unwrap_or(most)
    }

    /// One augmenting path of a matching (Kuhn); `seen` are the lower vertices reached.
    fn augment(
        &self,
        x: usize,
        weighty: &[Vec<usize>],
        matched: &mut [usize],
        seen: &mut [bool],
    ) -> bool {
        for &edge in &weighty[x] {
            let y = self.edges[edge].1;
            if std::mem::replace(&mut seen[y], true) {
                continue;
            }
            let free = match matched[y] {
                NONE => true,
                other => self.augment(self.edges[other].0, weighty, matched, seen),
            };
            if free {
                matched[y] = edge;
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

    /// What the proof rests on: an edge yields to fewer edges than the larger degree of its ends.
    #[test]
    fn every_edge_yields_to_fewer_edges_than_its_larger_degree() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2000 {
            let vertices = rng.random_range(1..7);
            let count = rng.random_range(0..20);
            let mut end = || rng.random_range(0..vertices);
            let edges: Vec<_> = (0..count).map(|_| (end(), end())).collect();
            let graph = Multigraph { vertices, edges: &edges };
            let (upper, lower) = graph.degrees(|_| true);
            let round = graph.peel();
            for (e, &(x, y)) in edges.iter().enumerate() {
                let yields = |f: usize| {
                    let (fx, fy) = edges[f];
                    usize::from(fx == x && round[f] < round[e])
                        + usize::from(fy == y && round[f] > round[e])
                };
                let out: usize = (0..count).map(yields).sum();
                assert!(out < usize::max(upper[x], lower[y]), "edge {e} of {edges:?}");
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
            let edges: Vec<_> = (0..count).map(|_| (end(), end())).collect();
            let graph = Multigraph { vertices, edges: &edges };
            let (upper, lower) = graph.degrees(|_| true);
            let lengths = edges.iter().map(|&(x, y)| usize::max(upper[x], lower[y]));
            let colours = lengths.clone().max().unwrap() + rng.random_range(0..4);
            let list = |length| sample(&mut rng, colours, length).into_vec();
            let lists: Vec<Vec<usize>> = lengths.map(list).collect();
            assert!(graph.is_choosable(|edge| lists[edge].len()));
            let coloured = graph.colour(colours, |edge, colour| lists[edge].contains(&colour));
            for (e, &(x, y)) in edges.iter().enumerate() {
                let colour =
                    coloured[e].unwrap_or_else(|| panic!("no colour for {e} of {edges:?}"));
                assert!(lists[e].contains(&colour));
                let same = |f: usize| coloured[f] == Some(colour) && f != e;
                assert!(!(0..count).any(|f| same(f) && (edges[f].0 == x || edges[f].1 == y)));
            }
        }
    }
}
