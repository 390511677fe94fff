//! The Euler-split packer, as Fastpass has one: connections are spread evenly over four classes of paths by
//! splitting the multigraph of leaves twice along Euler tours. No proper colouring: of a leaf's d connections
//! each class has up to d/4, and four paths are all there are.

/// Edge slots of a vertex: what fits into a word.
const SLOTS: usize = 64;
/// The number of a dummy edge.
const DUMMY: u32 = u32::MAX;

/// Where an edge slot leads.
#[derive(Clone, Copy, Default)]
struct Slot {
    vertex: u16,
    /// The slot of the same edge there.
    back: u8,
}

/// The live edges of every vertex.
type Live = Vec<u64>;

/// Splits patterns of up to 64 connections a leaf and direction; its buffers are kept.
pub(super) struct EulerSplit {
    leaves: usize,
    slots: Vec<Slot>,
    edges: Vec<u32>,
    live: [Live; 7],
}

impl EulerSplit {
    pub(super) fn new(leaves: usize) -> Self {
        let (slots, edges) =
            (vec![Slot::default(); 2 * leaves * SLOTS], vec![DUMMY; leaves * SLOTS]);
        let live = std::array::from_fn(|_| vec![0; 2 * leaves]);
        Self { leaves, slots, edges, live }
    }

    /// The class, 0 to 3, of each connection. `degree`, a multiple of four, is the most at any leaf.
    pub(super) fn pack(&mut self, ends: &[(u32, u32)], degree: u32, classes: &mut [u8]) {
        let Self { leaves, live, slots, .. } = self;
        live.iter_mut().for_each(|live| live.fill(0));
        let [all, low, high, classes_live @ ..] = live;
        for (id, &(source, destination)) in (0..).zip(ends) {
            join(slots, &mut self.edges, all, source as usize, *leaves + destination as usize, id);
        }
        // Dummy edges make all degrees the same, so that every tour comes back to where it began.
        let mut to = *leaves;
        for from in 0..*leaves {
            while all[from].count_ones() < degree {
                while all[to].count_ones() == degree {
                    to += 1;
                }
                join(slots, &mut self.edges, all, from, to, DUMMY);
            }
        }
        split(slots, *leaves, all, low, high);
        let [a, b, c, d] = classes_live;
        split(slots, *leaves, low, a, b);
        split(slots, *leaves, high, c, d);
        for (class, live) in (0..).zip([a, b, c, d]) {
            for (vertex, &slots) in live[..*leaves].iter().enumerate() {
                let mut slots = slots;
                while slots != 0 {
                    let edge = self.edges[vertex * SLOTS + slots.trailing_zeros() as usize];
                    if edge != DUMMY {
                        classes[edge as usize] = class;
                    }
                    slots &= slots - 1;
                }
            }
        }
    }
}

/// Slots are given out from 0, so the live ones say which is next.
fn join(slots: &mut [Slot], edges: &mut [u32], live: &mut Live, from: usize, to: usize, edge: u32) {
    let (here, there) = (live[from].trailing_ones() as usize, live[to].trailing_ones() as usize);
    slots[from * SLOTS + here] = Slot { vertex: to as u16, back: there as u8 };
    slots[to * SLOTS + there] = Slot { vertex: from as u16, back: here as u8 };
    edges[from * SLOTS + here] = edge;
    live[from] |= 1 << here;
    live[to] |= 1 << there;
}

/// Along tours, the ways there go to one half and the ways back to the other; `live` is empty afterwards.
fn split(slots: &[Slot], leaves: usize, live: &mut Live, there: &mut Live, back: &mut Live) {
    for begin in 0..leaves {
        let mut at = begin;
        while live[at] != 0 {
            let middle = step(slots, live, there, at);
            at = step(slots, live, back, middle);
        }
    }
}

/// Over the first live edge of a vertex, from `live` to `half`.
fn step(slots: &[Slot], live: &mut Live, half: &mut Live, at: usize) -> usize {
    let slot = live[at].trailing_zeros() as usize;
    let Slot { vertex, back } = slots[at * SLOTS + slot];
    let vertex = usize::from(vertex);
    for (vertex, slot) in [(at, slot), (vertex, usize::from(back))] {
        live[vertex] ^= 1 << slot;
        half[vertex] |= 1 << slot;
    }
    vertex
}
