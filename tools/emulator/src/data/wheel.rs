//! A timing wheel: events in slots by time, so that planning one costs the same however many there are.
//!
//! The wheel turns slot by slot; the events of the slot it has come to are sorted, few at a time. What lies
//! beyond one turn waits in a heap until the wheel has come near.

use super::agenda::{Agenda, Event, Heap};

const SLOTS: u64 = 1 << 13;
const WORDS: usize = (SLOTS / 64) as usize;
const NONE: u32 = u32::MAX;

/// Events of a chunk: it is two lines of a processor's cache.
const CHUNK: usize = 7;

/// Some events of one slot, in the order they were planned in.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Chunk {
    events: [(u64, Event); CHUNK],
    count: u32,
    /// Of the same slot, the one that was planned before; of free ones, the next.
    before: u32,
}

const _: () = assert!(size_of::<Chunk>() == 128);

#[derive(Clone, Copy, Debug)]
struct Due {
    at: u64,
    event: Event,
    /// Of those of one time in a slot, the last planned is the first: a place that is kept by sorting.
    place: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Wheel {
    /// A slot lasts 2^shift picoseconds.
    shift: u32,
    /// Where the wheel has come to: slots are counted from the start of time, not of the turn.
    slot: u64,
    /// The events of that slot, and what was planned for earlier ones since; the last comes first.
    due: Vec<Due>,
    /// The last chunk of each slot of this turn; each knows the one before it.
    last: Vec<u32>,
    /// Which slots hold events.
    full: [u64; WORDS],
    chunks: Vec<Chunk>,
    free: u32,
    far: Heap,
}

impl Wheel {
    fn hang(&mut self, at: u64, event: Event) {
        let place = ((at >> self.shift) % SLOTS) as usize;
        let last = self.last[place];
        match self.chunks.get_mut(last as usize).filter(|chunk| (chunk.count as usize) < CHUNK) {
            Some(chunk) => {
                chunk.events[chunk.count as usize] = (at, event);
                chunk.count += 1;
            }
            None => {
                self.last[place] = self.begin_chunk(Chunk {
                    events: [(at, event); CHUNK],
                    count: 1,
                    before: last,
                });
            }
        }
        self.full[place / 64] |= 1 << (place % 64);
    }

    fn begin_chunk(&mut self, chunk: Chunk) -> u32 {
        let index = self.free;
        match self.chunks.get_mut(index as usize) {
            Some(free) => {
                self.free = free.before;
                *free = chunk;
                index
            }
            None => {
                self.chunks.push(chunk);
                (self.chunks.len() - 1) as u32
            }
        }
    }

    /// Turns to the next slot that holds events, and puts them in order.
    fn turn(&mut self) {
        let near = self.next_full();
        let far = self.far.next().map(|at| at >> self.shift);
        let Some(slot) = near.into_iter().chain(far).min() else {
            return;
        };
        self.slot = slot;
        while let Some(at) = self.far.next().filter(|at| (at >> self.shift) - slot < SLOTS) {
            if let Some(event) = self.far.pop(at) {
                self.hang(at, event);
            }
        }
        self.take_down();
        // Often all of a slot happens at one time.
        if !self.due.is_sorted_by(|a, b| a.at >= b.at) {
            self.due.sort_unstable_by(|a, b| (b.at, a.place).cmp(&(a.at, b.place)));
        }
    }

    /// Moves the events of the current slot to those due.
    fn take_down(&mut self) {
        let place = (self.slot % SLOTS) as usize;
        self.full[place / 64] &= !(1 << (place % 64));
        let mut index = std::mem::replace(&mut self.last[place], NONE);
        while let Some(chunk) = self.chunks.get_mut(index as usize) {
            for &(at, event) in chunk.events[..chunk.count as usize].iter().rev() {
                self.due.push(Due { at, event, place: self.due.len() as u32 });
            }
            let before = std::mem::replace(&mut chunk.before, self.free);
            self.free = index;
            index = before;
        }
    }

    /// The first slot after the current one that holds events of this turn.
    fn next_full(&self) -> Option<u64> {
        let start = ((self.slot + 1) % SLOTS) as usize;
        let (word, bit) = (start / 64, start % 64);
        let place = |word: usize, bits: u64| (word * 64) as u64 + u64::from(bits.trailing_zeros());
        let ahead = self.full[word] & (u64::MAX << bit);
        let found = if ahead != 0 {
            place(word, ahead)
        } else {
            // The first word again at the end: its slots before `start` are the last of the turn.
            let word = (1..=WORDS).map(|n| (word + n) % WORDS).find(|&w| self.full[w] != 0)?;
            place(word, self.full[word])
        };
        Some(self.slot + 1 + (found + SLOTS - start as u64) % SLOTS)
    }
}

impl Agenda for Wheel {
    /// A turn of at least four times the span: events hardly ever go to the heap.
    fn with_span(span: u64) -> Self {
        let slot = (span.saturating_mul(4) / SLOTS).clamp(1, 1 << 40);
        Self {
            shift: slot.next_power_of_two().trailing_zeros(),
            slot: 0,
            due: Vec::new(),
            last: vec![NONE; SLOTS as usize],
            full: [0; WORDS],
            chunks: Vec::new(),
            free: NONE,
            far: Heap::default(),
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        let slot = at >> self.shift;
        if slot <= self.slot {
            // After all that is planned for the same time.
            let place = self.due.partition_point(|due| due.at > at);
            self.due.insert(place, Due { at, event, place: 0 });
        } else if slot - self.slot < SLOTS {
            self.hang(at, event);
        } else {
            self.far.push(at, event);
        }
    }

    fn next(&mut self) -> Option<u64> {
        if self.due.is_empty() {
            self.turn();
        }
        self.due.last().map(|due| due.at)
    }

    fn coming(&self) -> impl Iterator<Item = Event> {
        self.due.iter().rev().map(|due| due.event)
    }

    fn pop(&mut self, at: u64) -> Option<Event> {
        self.due.pop_if(|due| due.at <= at).map(|due| due.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Events planned at once and while others happen, near, far and at the same time.
        #[test]
        fn the_wheel_is_a_heap(
            span in 1_u64..1_000_000,
            steps in prop::collection::vec((0_u64..100_000_000, 0_u32..9, 0..4_u8, any::<bool>()), 1..400),
        ) {
            let (mut wheel, mut heap) = (Wheel::with_span(span), Heap::with_span(span));
            let mut now = 0;
            for (ahead, number, near, take) in steps {
                let at = now + (ahead >> (8 * near));
                let event = if number < 5 { Event::Sent(number) } else { Event::Wake(number) };
                wheel.push(at, event);
                heap.push(at, event);
                if take {
                    prop_assert_eq!(wheel.next(), heap.next());
                    now = heap.next().unwrap_or(now);
                    prop_assert_eq!(wheel.pop(now), heap.pop(now));
                }
            }
            while let Some(at) = heap.next() {
                prop_assert_eq!(wheel.next(), Some(at));
                prop_assert_eq!(wheel.coming().next(), heap.coming().next());
                prop_assert_eq!(wheel.pop(at), heap.pop(at));
            }
            prop_assert_eq!(wheel.next(), None);
        }
    }

    #[test]
    fn what_was_planned_before_the_slot_the_wheel_looked_ahead_to_comes_first() {
        let mut wheel = Wheel::with_span(1_000);
        wheel.push(1_000_000, Event::Begin(1));
        assert_eq!(wheel.next(), Some(1_000_000));
        assert_eq!(wheel.pop(999_999), None);
        wheel.push(5, Event::Begin(2));
        assert_eq!(wheel.next(), Some(5));
        assert_eq!(wheel.pop(5), Some(Event::Begin(2)));
        assert_eq!(wheel.next(), Some(1_000_000));
    }
}
