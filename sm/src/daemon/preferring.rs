//! Addresses with which paths are answered first, as a controller says them: a set, in parts.

use snin_protocol::message::{PinnedPath, Preferred, SliceMember};
use snin_sm_core::Preferences;
use snin_sm_database::records::Slice;

/// The most pairs, and ports in slices, of a set: what comes beyond is left out.
const MOST: usize = 1 << 17;

/// Puts sets together. One is under way at a time: that of who began last.
#[derive(Debug)]
pub struct Preferring<P> {
    /// From whom, which part is next, and what came so far.
    arriving: Option<(P, u32, Box<Preferences>)>,
}

impl<P> Default for Preferring<P> {
    fn default() -> Self {
        Self { arriving: None }
    }
}

impl<P: PartialEq> Preferring<P> {
    /// Takes a part; the set, where it was the last one. A part out of turn ends the set.
    pub fn take(&mut self, from: P, part: Preferred) -> Option<Box<Preferences>> {
        let before = self.arriving.take().filter(|(whose, ..)| *whose == from);
        let (next, mut set) = match before {
            Some((_, next, set)) if part.part > 0 => (next, set),
            _ => (0, Box::default()),
        };
        if part.part != next {
            return None;
        }
        for PinnedPath { source, destination, dlid } in part.pins {
            if set.pins.len() < MOST {
                set.pins.insert((source, destination), dlid.0);
            }
        }
        for SliceMember { port, job, dlid } in part.slices {
            if set.slices.len() < MOST {
                set.slices.insert(port, Slice { job, lid: dlid.0 });
            }
        }
        if next + 1 >= part.parts {
            return Some(set);
        }
        self.arriving = Some((from, next + 1, set));
        None
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::{Dlid, Guid, Lid};

    use super::*;

    #[test]
    fn a_set_is_whole_or_nothing() {
        let pin = |n: u64| PinnedPath {
            source: Guid(n),
            destination: Guid(1),
            dlid: Dlid(Lid(n as u16)),
        };
        let member = SliceMember { port: Guid(5), job: 9, dlid: Dlid(Lid(3)) };
        let pins: Vec<PinnedPath> = (0..3_000).map(pin).collect();
        let parts = Preferred::parts(&pins, &[member]);
        assert_eq!(parts.len(), 3);
        let mut preferring = Preferring::default();
        let mut take = |from: u8, part: usize| preferring.take(from, parts[part].clone());
        assert_eq!((take(1, 0), take(1, 1)), (None, None));
        let set = take(1, 2).unwrap();
        assert_eq!((set.pins.len(), set.slices.len()), (3_000, 1));
        assert_eq!(set.pins[&(Guid(7), Guid(1))], Lid(7));
        assert_eq!(set.slices[&Guid(5)], Slice { job: 9, lid: Lid(3) });
        // Without its beginning, with a gap, and mixed with another's.
        assert_eq!((take(1, 1), take(1, 2)), (None, None));
        assert_eq!((take(1, 0), take(1, 2)), (None, None));
        assert_eq!((take(1, 0), take(2, 1), take(1, 1), take(1, 2)), (None, None, None, None));
        // A controller that begins anew, and one that says that nothing is preferred.
        assert_eq!((take(1, 0), take(1, 0), take(1, 1)), (None, None, None));
        assert!(take(1, 2).is_some());
        let nothing = Preferred::parts(&[], &[]).remove(0);
        let none = Preferring::default().take(1, nothing).unwrap();
        assert_eq!(*none, Preferences::default());
    }
}
