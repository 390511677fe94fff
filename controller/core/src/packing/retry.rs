//! Evict and retry: where no chain finds room, a connection takes the place of others, which then
//! look for room themselves. One that was refused often is pushed aside less readily, so that the
//! search does not turn in circles; all that it tried beyond its best is taken back.

use std::collections::VecDeque;

use super::insert::Inserter;
use super::state::State;

/// Steps without getting better after which a search ends, for each connection there is.
const PATIENCE: usize = 20;
/// Steps of one search, for each connection there is.
const BUDGET: usize = 100;
/// How many connections an ejection chain may look at within the search: chains that lead anywhere
/// are short, and a step more is worth more than a longer chain.
const REACH: usize = 16;

/// Searches by eviction; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Retry {
    waiting: VecDeque<u32>,
    /// How often each connection found no room.
    failures: Vec<u32>,
    /// The step at which each was placed last.
    placed: Vec<u32>,
    /// The trees of all connections when most were packed.
    best: Vec<u16>,
}

impl Retry {
    /// With room for so many connections.
    pub(super) fn new(places: usize) -> Self {
        Self {
            waiting: VecDeque::with_capacity(places),
            failures: Vec::with_capacity(places),
            placed: Vec::with_capacity(places),
            best: Vec::with_capacity(places),
        }
    }

    /// Packs more of the connections in `failed`; those left over, among them perhaps some that were
    /// packed before, remain there.
    pub(super) fn run(
        &mut self,
        state: &mut State,
        inserter: &mut Inserter,
        failed: &mut Vec<u32>,
    ) {
        self.begin(state.numbers(), failed);
        let (mut step, mut improved) = (0, 0);
        let size = state.packed_count() + failed.len();
        while step < BUDGET * size && step - improved < PATIENCE * size {
            let Some(id) = self.waiting.pop_front() else {
                break;
            };
            step += 1;
            state.abridge();
            if !inserter.insert(state, id, REACH) {
                if step == improved + 1 {
                    self.best.clone_from(&state.trees);
                }
                self.failures[id as usize] += 1;
                self.displace(state, id, step as u32);
            }
            if self.waiting.len() < failed.len() {
                failed.clear();
                failed.extend(self.waiting.iter().copied());
                improved = step;
            }
        }
        if step > improved {
            state.restore(&self.best);
        }
    }

    fn begin(&mut self, connections: usize, failed: &[u32]) {
        self.waiting.clear();
        self.waiting.extend(failed.iter().copied());
        self.failures.clear();
        self.failures.resize(connections, 0);
        self.placed.clear();
        self.placed.resize(connections, 0);
    }

    /// Puts a connection where it costs least, in place of those that are there.
    fn displace(&mut self, state: &mut State, id: u32, step: u32) {
        let cheapest = state
            .allowed_trees(id)
            .filter_map(|tree| Some((self.cost(state, id, tree)?, tree)))
            .min();
        let Some((_, tree)) = cheapest else {
            self.waiting.push_back(id);
            return;
        };
        for &other in state.blockers(id, tree).ids() {
            state.lift(other);
            self.waiting.push_back(other);
        }
        state.place(id, tree);
        self.placed[id as usize] = step;
    }

    /// How much it costs to evict the connections in the way: how many and how often they failed, then who
    /// was left in peace longest. `None` where one of them is pinned.
    fn cost(&self, state: &State, id: u32, tree: usize) -> Option<(u32, u32)> {
        let blockers = state.blockers(id, tree);
        let ids = blockers.ids();
        let movable = ids.iter().all(|&other| !state.get(other).pinned());
        let price = |&other: &u32| 1 + self.failures[other as usize];
        let latest = ids.iter().map(|&other| self.placed[other as usize]).max().unwrap_or(0);
        movable.then(|| (ids.iter().map(price).sum(), latest))
    }
}
