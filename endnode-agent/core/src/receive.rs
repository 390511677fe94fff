//! Received pieces: each is delivered once, in order, and missing ones are counted.
//!
//! A peer has an entry for each flow that it may have, all made at the start. A flow that takes the number of
//! another which was closed goes on in its entry. The entries of a peer go when it is
//! [forgotten](Inbounds::forget), or begin anew when it comes with a later session.
//! [`Admission`](super::Admission) lets no more peers in than there is room for, so a piece that a device has
//! acknowledged always finds its entry.

use std::cmp::Ordering;

use snin_fabric::Guid;

use super::events::Arrival;

/// What to do with a piece that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is the next one.
    Deliver,
    /// So many before it never came: a gap, which only UC and UD may leave.
    DeliverAfterGap(u64),
    /// It came before, or its sender is of an earlier session.
    Repeated,
    /// A peer or a flow number that was not admitted.
    TooMany,
}

/// A peer that sends to here.
#[derive(Clone, Copy, Debug)]
struct Peer {
    guid: Guid,
    session: u64,
    /// Which part of the table is its own.
    part: u32,
}

/// The flows to here, by peer and number.
#[derive(Debug)]
pub(super) struct Inbounds {
    /// Sorted.
    peers: Vec<Peer>,
    /// Parts of the table that no peer has.
    free: Vec<u32>,
    /// How many flows a peer may have: the length of a part.
    flows: usize,
    /// Of each flow the number of its next piece; 0 before the first one.
    next: Vec<u64>,
}

impl Inbounds {
    /// A table for so many peers with so many flows each.
    pub(super) fn new(peers: u32, flows: u32) -> Self {
        Self {
            peers: Vec::with_capacity(peers as usize),
            free: (0..peers).rev().collect(),
            flows: flows as usize,
            next: vec![0; peers as usize * flows as usize],
        }
    }

    /// Judges a piece and takes note of it. A flow not heard of before begins with the piece that comes first:
    /// its sender may have sent others before this agent was restarted.
    pub(super) fn judge(&mut self, arrival: &Arrival) -> Verdict {
        let Arrival { peer, session, piece } = *arrival;
        if piece.flow.index() >= self.flows {
            return Verdict::TooMany;
        }
        let at = match self.peers.binary_search_by_key(&peer, |known| known.guid) {
            Ok(at) => at,
            Err(at) => {
                let Some(part) = self.free.pop() else { return Verdict::TooMany };
                self.peers.insert(at, Peer { guid: peer, session, part });
                self.entries(part).fill(0);
                at
            }
        };
        let known = &mut self.peers[at];
        let part = known.part;
        match session.cmp(&known.session) {
            Ordering::Less => return Verdict::Repeated,
            Ordering::Equal => {}
            Ordering::Greater => {
                known.session = session;
                self.entries(part).fill(0);
            }
        }
        let next = &mut self.entries(part)[piece.flow.index()];
        let Some(missing) = piece.sequence.checked_sub(*next) else { return Verdict::Repeated };
        // A flow that had the number before may have sent to another peer.
        let begins = *next == 0 || piece.message == 0 && piece.offset == 0;
        *next = piece.sequence.saturating_add(1);
        if begins || missing == 0 { Verdict::Deliver } else { Verdict::DeliverAfterGap(missing) }
    }

    /// A peer's session is over and will not come again.
    pub(super) fn forget(&mut self, peer: Guid, session: u64) {
        let found = self.peers.binary_search_by_key(&peer, |known| known.guid).ok();
        if let Some(at) = found.filter(|&at| self.peers[at].session <= session) {
            self.free.push(self.peers.remove(at).part);
        }
    }

    /// How many peers have entries.
    pub(super) fn peers(&self) -> usize {
        self.peers.len()
    }

    fn entries(&mut self, part: u32) -> &mut [u64] {
        let begin = part as usize * self.flows;
        &mut self.next[begin..begin + self.flows]
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::{FlowId, Piece};
    use super::*;

    fn arrival(session: u64, sequence: u64) -> Arrival {
        let (flow, message) = (FlowId(1), sequence);
        let piece = Piece { flow, sequence, message, offset: 0, bytes: 1, last: true };
        Arrival { peer: Guid(9), session, piece }
    }

    #[test]
    fn each_piece_counts_once() {
        let mut inbounds = Inbounds::new(1, 2);
        let mut judge = |session, sequence| inbounds.judge(&arrival(session, sequence));
        assert_eq!(judge(5, 0), Verdict::Deliver);
        assert_eq!(judge(5, 1), Verdict::Deliver);
        assert_eq!(judge(5, 1), Verdict::Repeated);
        assert_eq!(judge(5, 4), Verdict::DeliverAfterGap(2));
        assert_eq!(judge(5, 2), Verdict::Repeated);
        assert_eq!(judge(6, 0), Verdict::Deliver, "the sender was restarted");
        assert_eq!(judge(5, 5), Verdict::Repeated, "and this is from before");
    }

    #[test]
    fn a_number_that_another_flow_had_meanwhile_leaves_no_gap() {
        let mut inbounds = Inbounds::new(1, 2);
        assert_eq!(inbounds.judge(&arrival(5, 1)), Verdict::Deliver);
        let mut first = arrival(5, 7);
        first.piece.message = 0;
        assert_eq!(inbounds.judge(&first), Verdict::Deliver, "2 to 6 went to another peer");
        assert_eq!(inbounds.judge(&first), Verdict::Repeated);
        assert_eq!(inbounds.judge(&arrival(5, 9)), Verdict::DeliverAfterGap(1));
    }

    #[test]
    fn flows_by_turns_are_told_apart() {
        let mut inbounds = Inbounds::new(3, 2);
        for sequence in 0..4 {
            for peer in [9, 8, 10] {
                let piece = Arrival { peer: Guid(peer), ..arrival(5, sequence) };
                assert_eq!(inbounds.judge(&piece), Verdict::Deliver);
                assert_eq!(inbounds.judge(&piece), Verdict::Repeated);
            }
        }
    }

    #[test]
    fn peers_that_were_forgotten_make_room_and_begin_anew() {
        let mut inbounds = Inbounds::new(1, 2);
        assert_eq!(inbounds.judge(&arrival(5, 3)), Verdict::Deliver);
        let other = Arrival { peer: Guid(10), ..arrival(0, 0) };
        assert_eq!(inbounds.judge(&other), Verdict::TooMany);
        inbounds.forget(Guid(9), 4);
        assert_eq!(
            inbounds.judge(&arrival(5, 3)),
            Verdict::Repeated,
            "that was an earlier session"
        );
        inbounds.forget(Guid(9), 5);
        assert_eq!((inbounds.judge(&other), inbounds.peers()), (Verdict::Deliver, 1));
        inbounds.forget(Guid(10), 0);
        assert_eq!(inbounds.judge(&arrival(5, 3)), Verdict::Deliver, "nothing is left of it");
        let mut flow = arrival(5, 0);
        flow.piece.flow = FlowId(2);
        assert_eq!(inbounds.judge(&flow), Verdict::TooMany, "a number that it may not have");
    }
}
