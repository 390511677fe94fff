//! Ejection chains: where allowed sets are narrow, a Kempe chain soon meets a connection that may not
//! change to the one other column. Here each connection pushed aside may go to any allowed tree, as
//! long as at most one other has to leave for it. Breadth first, so that few move.

use super::state::State;

/// One connection that has to leave its place.
#[derive(Clone, Copy, Debug)]
struct Ejected {
    id: u32,
    /// The entry that pushes it out, and the tree that one takes instead of its own.
    by: u32,
    by_takes: u16,
}

/// Breadth-first search over ejections; its buffers are kept.
#[derive(Clone, Debug)]
pub(super) struct Ejector {
    queue: Vec<Ejected>,
    /// The search in which a connection was last reached.
    seen: Vec<u32>,
    search: u32,
    path: Vec<(u32, usize)>,
}

impl Ejector {
    /// With room for so many connections.
    pub(super) fn new(places: usize) -> Self {
        Self {
            queue: Vec::with_capacity(places + 1),
            seen: Vec::with_capacity(places),
            search: 0,
            path: Vec::with_capacity(places + 1),
        }
    }

    /// Finds a tree for an unpacked connection by pushing others along, looking at no more than
    /// `limit` of them.
    pub(super) fn insert(&mut self, state: &mut State, id: u32, limit: usize) -> bool {
        self.begin(state.numbers());
        self.reach(Ejected { id, by: 0, by_takes: 0 });
        for at in 0..limit {
            let Some(&ejected) = self.queue.get(at) else {
                return false;
            };
            if self.expand(state, at, ejected) {
                return true;
            }
        }
        false
    }

    fn begin(&mut self, connections: usize) {
        self.queue.clear();
        self.seen.resize(connections, 0);
        self.search = self.search.wrapping_add(1);
        if self.search == 0 {
            self.seen.fill(0);
            self.search = 1;
        }
    }

    /// True where it was not reached before.
    fn reach(&mut self, ejected: Ejected) -> bool {
        let before = std::mem::replace(&mut self.seen[ejected.id as usize], self.search);
        if before != self.search {
            self.queue.push(ejected);
        }
        before != self.search
    }

    /// Looks at every tree that a connection could go to; true once a whole chain was moved.
    fn expand(&mut self, state: &mut State, at: usize, ejected: Ejected) -> bool {
        let Ejected { id, by, by_takes } = ejected;
        let pusher = (at > 0).then(|| self.queue[by as usize].id);
        let (mut word, mut bits) = (0, state.nearly_free(id, pusher).next().unwrap_or(0));
        loop {
            while bits == 0 {
                word += 1;
                let Some(next) = state.nearly_free(id, pusher).nth(word) else {
                    return false;
                };
                bits = next;
            }
            let tree = state.shape.tree_at(word * 64 + bits.trailing_zeros() as usize).index();
            bits &= bits - 1;
            let collides = |by| state.collide(id, tree, by, usize::from(by_takes));
            if state.trees[id as usize] == tree as u16 || pusher.is_some_and(collides) {
                continue;
            }
            let blockers = state.blockers(id, tree);
            // The place of the one that pushes will be empty by then.
            let mut others = blockers.ids().iter().copied().filter(|&f| Some(f) != pusher);
            match (others.next(), others.next()) {
                (None, _) if self.shift(state, at, tree) => return true,
                (Some(f), None) if !state.get(f).pinned() => {
                    let new = self.reach(Ejected { id: f, by: at as u32, by_takes: tree as u16 });
                    // Most searches end here: a connection with a free way out is not expanded.
                    let free = if new { state.first_free(f) } else { None };
                    if free.is_some_and(|free| self.shift(state, self.queue.len() - 1, free)) {
                        return true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Moves a whole chain, whose last connection goes to `tree`; undone where its connections turn
    /// out to meet each other.
    fn shift(&mut self, state: &mut State, last: usize, tree: usize) -> bool {
        self.path.clear();
        let (mut at, mut tree) = (last, tree);
        loop {
            let ejected = self.queue[at];
            self.path.push((ejected.id, tree));
            if at == 0 {
                break;
            }
            (at, tree) = (ejected.by as usize, usize::from(ejected.by_takes));
        }
        let mark = state.journal.len();
        let packed = self.path.len() - 1;
        self.path[..packed].iter().for_each(|&(id, _)| state.lift(id));
        let fits = self.path.iter().all(|&(id, tree)| state.place_if_free(id, tree));
        if !fits {
            state.roll_back(mark);
        }
        fits
    }
}
