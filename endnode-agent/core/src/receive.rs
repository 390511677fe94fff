//! What comes in: each piece once, in order, and what is missing is counted.

use std::cmp::Ordering;

use snin_fabric::Guid;

use super::events::{Arrival, FlowId};

/// What to do with a piece that came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is the next one.
    Deliver,
    /// So many before it never came: a gap, which only UC and UD may leave.
    DeliverAfterGap(u64),
    /// It came before, or its sender is of an earlier session.
    Repeated,
    /// As many flows come in as may.
    TooMany,
}

/// A flow to here.
#[derive(Clone, Copy, Debug)]
struct Inbound {
    peer: Guid,
    flow: FlowId,
    session: u64,
    /// The next piece's number.
    next: u64,
}

/// The flows to here, sorted by sender.
#[derive(Debug)]
pub(super) struct Inbounds {
    flows: Vec<Inbound>,
    most: usize,
    /// Where the one is by which the last piece came.
    last: usize,
}

impl Inbound {
    /// Whether a piece is its next one; takes note of it then.
    #[inline(always)]
    fn takes(&mut self, arrival: &Arrival) -> bool {
        let Arrival { peer, session, piece } = arrival;
        // All numbers at once: nearly always they are the same.
        let differ = self.peer.0 ^ peer.0
            | u64::from(self.flow.0 ^ piece.flow.0)
            | self.session ^ session
            | self.next ^ piece.sequence;
        let takes = differ == 0 && piece.sequence < u64::MAX;
        self.next += u64::from(takes);
        takes
    }
}

impl Inbounds {
    pub(super) fn new(most: u32) -> Self {
        Self { flows: Vec::with_capacity(most as usize), most: most as usize, last: 0 }
    }

    /// Whether it is the next piece of a flow that was heard of, as most are, and takes note of it then. Of others
    /// [`judge`](Self::judge) says what they are.
    #[inline(always)]
    pub(super) fn follows(&mut self, arrival: &Arrival) -> bool {
        // Where they come one after the other by the same flow it need not be looked for.
        self.flows.get_mut(self.last).is_some_and(|known| known.takes(arrival))
            || self.follows_another(arrival)
    }

    /// The same of any flow.
    #[inline(never)]
    fn follows_another(&mut self, arrival: &Arrival) -> bool {
        let key = (arrival.peer, arrival.piece.flow);
        self.last = self.flows.partition_point(|known| (known.peer, known.flow) < key);
        self.flows.get_mut(self.last).is_some_and(|known| known.takes(arrival))
    }

    /// Judges a piece and takes note of it. A flow not heard of before begins with whatever piece comes:
    /// its sender may have sent others before this agent was restarted.
    pub(super) fn judge(&mut self, arrival: &Arrival) -> Verdict {
        let key = (arrival.peer, arrival.piece.flow);
        let Arrival { session, piece, .. } = *arrival;
        let next = piece.sequence.saturating_add(1);
        let at = match self.flows.binary_search_by_key(&key, |known| (known.peer, known.flow)) {
            Ok(at) => at,
            Err(_) if self.flows.len() == self.most => return Verdict::TooMany,
            Err(at) => {
                let (peer, flow) = key;
                self.flows.insert(at, Inbound { peer, flow, session, next });
                return Verdict::Deliver;
            }
        };
        let known = &mut self.flows[at];
        match (session.cmp(&known.session), piece.sequence.checked_sub(known.next)) {
            (Ordering::Less, _) | (Ordering::Equal, None) => Verdict::Repeated,
            (Ordering::Greater, _) => {
                (known.session, known.next) = (session, next);
                Verdict::Deliver
            }
            (Ordering::Equal, Some(missing)) => {
                known.next = next;
                // Whoever had the flow's number before may have sent to somebody else.
                let begins = piece.message == 0 && piece.offset == 0;
                if begins || missing == 0 {
                    Verdict::Deliver
                } else {
                    Verdict::DeliverAfterGap(missing)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::Piece;
    use super::*;

    fn arrival(session: u64, sequence: u64) -> Arrival {
        let (flow, message) = (FlowId(1), sequence);
        let piece = Piece { flow, sequence, message, offset: 0, bytes: 1, last: true };
        Arrival { peer: Guid(9), session, piece }
    }

    #[test]
    fn each_piece_counts_once() {
        let mut inbounds = Inbounds::new(1);
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
        let mut inbounds = Inbounds::new(1);
        assert_eq!(inbounds.judge(&arrival(5, 1)), Verdict::Deliver);
        let mut first = arrival(5, 7);
        first.piece.message = 0;
        assert_eq!(inbounds.judge(&first), Verdict::Deliver, "2 to 6 went to another peer");
        assert_eq!(inbounds.judge(&first), Verdict::Repeated);
        assert_eq!(inbounds.judge(&arrival(5, 9)), Verdict::DeliverAfterGap(1));
    }

    #[test]
    fn what_follows_is_judged_as_it_would_be() {
        let mut inbounds = Inbounds::new(1);
        let pieces =
            [(5, 0), (5, 1), (5, 1), (5, 3), (4, 4), (5, 4), (6, 5), (6, 6), (6, u64::MAX)];
        for (session, sequence) in pieces.into_iter().chain([(6, u64::MAX)]) {
            let mut ahead = Inbounds { flows: inbounds.flows.clone(), most: 1, last: 0 };
            let known = inbounds.flows.first().copied();
            let piece = arrival(session, sequence);
            let follows = ahead.follows(&piece);
            let verdict = inbounds.judge(&piece);
            let next = |all: &Inbounds| all.flows.first().map(|flow| (flow.session, flow.next));
            let is_next =
                known.is_some_and(|flow| (flow.session, flow.next) == (session, sequence));
            assert_eq!(follows, is_next && sequence < u64::MAX, "{session}, {sequence}");
            if follows {
                assert_eq!((verdict, next(&ahead)), (Verdict::Deliver, next(&inbounds)));
            } else {
                assert_eq!(next(&ahead), known.map(|flow| (flow.session, flow.next)));
            }
        }
    }

    #[test]
    fn flows_by_turns_are_told_apart_wherever_they_are() {
        let mut inbounds = Inbounds::new(3);
        let of = |peer, sequence| Arrival { peer: Guid(peer), ..arrival(5, sequence) };
        assert_eq!(inbounds.judge(&of(9, 0)), Verdict::Deliver);
        assert!(inbounds.follows(&of(9, 1)));
        // Sorted before the one by which the last piece came, and after it.
        assert_eq!(inbounds.judge(&of(8, 0)), Verdict::Deliver);
        assert_eq!(inbounds.judge(&of(10, 0)), Verdict::Deliver);
        for sequence in 1..4 {
            assert!(inbounds.follows(&of(8, sequence)));
            assert!(inbounds.follows(&of(9, sequence + 1)));
            assert!(inbounds.follows(&of(10, sequence)));
            assert!(!inbounds.follows(&of(8, sequence)), "it came before");
            assert!(!inbounds.follows(&of(11, sequence)), "nobody knows it");
        }
    }

    #[test]
    fn flows_to_here_are_limited() {
        let mut inbounds = Inbounds::new(1);
        assert_eq!(inbounds.judge(&arrival(0, 3)), Verdict::Deliver);
        let other = Arrival { peer: Guid(10), ..arrival(0, 0) };
        assert_eq!(inbounds.judge(&other), Verdict::TooMany);
    }
}
