//! Messages that come in more than one piece, as far as they have come.

use std::collections::BTreeMap;

use snin_agent_core::{Arrival, FlowId};
use snin_fabric::Guid;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Partial {
    /// The longest message.
    longest: usize,
    /// The most bytes of all, and how many there are.
    most: usize,
    bytes: usize,
    messages: BTreeMap<(Guid, FlowId), Vec<u8>>,
}

/// Bytes of so many messages of the longest length may wait for their last piece.
const MOST_MESSAGES: usize = 64;

/// A message that came in several pieces.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) peer: Guid,
    pub(crate) flow: FlowId,
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
}

/// What became of a piece.
#[derive(Debug)]
pub(crate) enum Joining {
    /// More pieces are to come.
    Waits,
    /// With it the message is whole.
    Whole(Joined),
    /// The message is lost: a piece of it did not come, or there is no room for it.
    Lost,
}

impl Partial {
    pub(crate) fn new(longest: usize) -> Self {
        let most = longest.saturating_mul(MOST_MESSAGES);
        Self { longest, most, bytes: 0, messages: BTreeMap::new() }
    }

    /// The next piece of a message.
    pub(crate) fn join(&mut self, arrival: &Arrival, bytes: &[u8]) -> Joining {
        let Arrival { peer, piece, .. } = *arrival;
        let key = (peer, piece.flow);
        if piece.offset == 0 {
            // Of a message that has begun before this one no more comes.
            self.remove(&key);
        }
        let known = self.messages.get(&key).map_or(0, Vec::len);
        let is_next = known as u64 == piece.offset && known + bytes.len() <= self.longest;
        if !is_next || self.bytes + bytes.len() > self.most {
            self.remove(&key);
            return Joining::Lost;
        }
        self.messages.entry(key).or_default().extend_from_slice(bytes);
        self.bytes += bytes.len();
        if !piece.last {
            return Joining::Waits;
        }
        let bytes = self.remove(&key);
        Joining::Whole(Joined { peer, flow: piece.flow, number: piece.message, bytes })
    }

    /// Nothing comes from a peer any more.
    pub(crate) fn forget(&mut self, peer: Guid) {
        let gone = |&(of, _): &(Guid, FlowId)| of == peer;
        let keys: Vec<_> = self.messages.keys().copied().filter(gone).collect();
        keys.iter().for_each(|key| drop(self.remove(key)));
    }

    fn remove(&mut self, key: &(Guid, FlowId)) -> Vec<u8> {
        let message = self.messages.remove(key).unwrap_or_default();
        self.bytes -= message.len();
        message
    }
}

#[cfg(test)]
mod tests {
    use snin_agent_core::Piece;

    use super::*;

    fn piece(peer: u64, flow: u32, offset: u64, bytes: u32, last: bool) -> Arrival {
        let flow = FlowId(flow);
        let piece = Piece { flow, sequence: 0, message: 3, offset, bytes, last };
        Arrival { peer: Guid(peer), session: 1, piece }
    }

    #[test]
    fn pieces_become_a_message_and_a_gap_loses_it() {
        let mut partial = Partial::new(10);
        assert!(matches!(partial.join(&piece(1, 0, 0, 4, false), b"abcd"), Joining::Waits));
        let Joining::Whole(joined) = partial.join(&piece(1, 0, 4, 2, true), b"ef") else {
            panic!()
        };
        assert_eq!((&joined.bytes[..], joined.number), (&b"abcdef"[..], 3));
        assert!(matches!(partial.join(&piece(1, 0, 4, 2, true), b"ef"), Joining::Lost));
        assert!(
            matches!(partial.join(&piece(1, 0, 0, 11, false), &[0; 11]), Joining::Lost),
            "too long"
        );
        assert_eq!((partial.bytes, partial.messages.len()), (0, 0));
    }

    #[test]
    fn messages_that_never_end_are_bounded_and_go_with_their_peer() {
        let mut partial = Partial::new(10);
        for flow in 0..1000 {
            let joining = partial.join(&piece(1, flow, 0, 10, false), &[0; 10]);
            assert_eq!(matches!(joining, Joining::Waits), flow < MOST_MESSAGES as u32);
        }
        assert_eq!((partial.bytes, partial.messages.len()), (10 * MOST_MESSAGES, MOST_MESSAGES));
        partial.forget(Guid(2));
        assert_eq!(partial.messages.len(), MOST_MESSAGES);
        partial.forget(Guid(1));
        assert_eq!((partial.bytes, partial.messages.len()), (0, 0));
    }
}
