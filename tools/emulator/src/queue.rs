//! Future events, in the order of time; events of one time, in the order of being planned.
//!
//! A timing wheel of wheels: a slot of the first lasts a nanosecond, a slot of each further one as long as a
//! whole turn of the one before. An event hangs in the wheel of the highest digit (of 64) in which its time
//! differs from the present, so that it moves down as its time comes near, at most ten times in 584 years and
//! once or twice in a microsecond. All events of one time are always in one slot, one behind the other: that
//! keeps their order, with nothing to compare.

use snin_protocol::Time;

/// Something that will happen. Indices are those of the emulator's tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A packet comes in by a port.
    Arrive { packet: u32, port: u32 },
    /// An agent is done with a packet.
    Serve { packet: u32, node: u32, life: u32 },
    /// An agent is done with passing on a packet: it leaves by a port.
    Relay { packet: u32, port: u32, life: u32 },
    /// Two ports have found each other.
    Trained { port: u32, attempt: u32 },
    /// A port that was told to take its link down, by that link, has answered.
    Rest { port: u32, attempt: u32 },
    /// A trap that no manager repressed is due again.
    Trap { port: u32, round: u32 },
    /// A fault that was asked for.
    Fault { fault: u32 },
    /// A node is switched on again.
    PowerOn { node: u32, life: u32 },
}

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
/// Eleven digits of six bits are more than a time has.
const WHEELS: usize = 11;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    event: Event,
    next: u32,
}

/// First and last of the entries that hang in a slot.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
}

/// See the module's documentation.
pub(crate) struct Queue {
    /// Never ahead of the emulator's time, so that nothing is planned for before it.
    now: u64,
    /// Which slots of each wheel hold entries. None of them is past.
    full: [u64; WHEELS],
    slots: [[Slot; SLOTS]; WHEELS],
    entries: Vec<Entry>,
    free: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            now: 0,
            full: [0; WHEELS],
            slots: [[Slot { first: NONE, last: NONE }; SLOTS]; WHEELS],
            entries: Vec::new(),
            free: NONE,
        }
    }
}

impl Queue {
    /// Plans an event. A time that has passed means now.
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let entry = Entry { at: at.nanos().max(self.now), event, next: NONE };
        let index = match self.free {
            NONE => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
            index => {
                self.free = self.entries[index as usize].next;
                self.entries[index as usize] = entry;
                index
            }
        };
        self.hang(index);
    }

    /// When the next event happens.
    pub(crate) fn next(&self) -> Option<Time> {
        let (wheel, slot) = self.first_full()?;
        if wheel == 0 {
            return Some(Time(self.start(wheel, slot)));
        }
        let mut index = self.slots[wheel][slot].first;
        let mut least = u64::MAX;
        while index != NONE {
            let entry = &self.entries[index as usize];
            least = least.min(entry.at);
            index = entry.next;
        }
        Some(Time(least))
    }

    /// The next event, if it is due.
    pub(crate) fn pop_until(&mut self, until: Time) -> Option<(Time, Event)> {
        loop {
            let (wheel, slot) = self.first_full()?;
            let start = self.start(wheel, slot);
            if start > until.nanos() {
                return None;
            }
            self.now = start;
            if wheel == 0 {
                return Some((Time(start), self.take_first(slot)));
            }
            self.full[wheel] &= !(1 << slot);
            let mut index = self.slots[wheel][slot].first;
            while index != NONE {
                let next = std::mem::replace(&mut self.entries[index as usize].next, NONE);
                self.hang(index);
                index = next;
            }
        }
    }

    /// Wheels further out hold what is later.
    fn first_full(&self) -> Option<(usize, usize)> {
        let wheel = self.full.iter().position(|&full| full != 0)?;
        Some((wheel, self.full[wheel].trailing_zeros() as usize))
    }

    /// When a slot begins: the present with one digit changed and those below it 0.
    const fn start(&self, wheel: usize, slot: usize) -> u64 {
        let shift = DIGIT * wheel as u32;
        let above = match u64::MAX.checked_shl(shift + DIGIT) {
            Some(mask) => self.now & mask,
            None => 0,
        };
        above | (slot as u64) << shift
    }

    fn hang(&mut self, index: u32) {
        let at = self.entries[index as usize].at;
        let wheel = (at ^ self.now).checked_ilog2().unwrap_or(0) / DIGIT;
        let slot = (at >> (DIGIT * wheel)) as usize % SLOTS;
        let wheel = wheel as usize;
        let place = &mut self.slots[wheel][slot];
        if self.full[wheel] & 1 << slot == 0 {
            self.full[wheel] |= 1 << slot;
            place.first = index;
        } else {
            self.entries[place.last as usize].next = index;
        }
        place.last = index;
    }

    fn take_first(&mut self, slot: usize) -> Event {
        let place = &mut self.slots[0][slot];
        let index = place.first;
        let entry = &mut self.entries[index as usize];
        place.first = entry.next;
        if entry.next == NONE {
            self.full[0] &= !(1 << slot);
        }
        entry.next = self.free;
        self.free = index;
        entry.event
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn event(number: u32) -> Event {
        Event::Fault { fault: number }
    }

    proptest! {
        /// The same as a list sorted by time and order of planning, for any plan.
        #[test]
        fn events_come_in_the_order_of_time_and_planning(
            steps in prop::collection::vec((any::<u64>(), 0..64_u32, 0..4_u8), 1..300),
        ) {
            let mut queue = Queue::default();
            let mut model = BTreeMap::new();
            let mut now = 0_u64;
            for (number, (ahead, shift, what)) in steps.into_iter().enumerate() {
                let ahead = ahead.checked_shr(shift).unwrap_or(0);
                if what == 0 {
                    // Time passes, up to the next event or a little.
                    let until = now.saturating_add(ahead);
                    while let Some((at, event)) = queue.pop_until(Time(until)) {
                        let ((time, _), expected) = model.pop_first().expect("as many events");
                        prop_assert_eq!((at.nanos(), event), (time, expected));
                    }
                    now = until;
                    prop_assert!(model.first_key_value().is_none_or(|((at, _), _)| *at > until));
                } else {
                    let number = number as u32;
                    let at = now.saturating_add(ahead % (1 << (16 * u32::from(what) - 1)));
                    queue.push(Time(at), event(number));
                    model.insert((at, number), event(number));
                }
                let next = model.first_key_value().map(|((at, _), _)| Time(*at));
                prop_assert_eq!(queue.next(), next);
            }
            while let Some((at, event)) = queue.pop_until(Time::MAX) {
                let ((time, _), expected) = model.pop_first().expect("as many events");
                prop_assert_eq!((at.nanos(), event), (time, expected));
            }
            prop_assert!(model.is_empty());
        }
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut queue = Queue::default();
        queue.push(Time::MAX, event(1));
        queue.push(Time(1), event(2));
        assert_eq!(queue.next(), Some(Time(1)));
        assert_eq!(queue.pop_until(Time::secs(1)), Some((Time(1), event(2))));
        assert_eq!(queue.next(), Some(Time::MAX));
        assert_eq!(queue.pop_until(Time(u64::MAX - 1)), None);
        assert_eq!(queue.pop_until(Time::MAX), Some((Time::MAX, event(1))));
        assert_eq!(queue.next(), None);
    }
}
