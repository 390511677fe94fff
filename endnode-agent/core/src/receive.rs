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
}

impl Inbounds {
    pub(super) fn new(most: u32) -> Self {
        Self { flows: Vec::with_capacity(most as usize), most: most as usize }
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
    fn flows_to_here_are_limited() {
        let mut inbounds = Inbounds::new(1);
        assert_eq!(inbounds.judge(&arrival(0, 3)), Verdict::Deliver);
        let other = Arrival { peer: Guid(10), ..arrival(0, 0) };
        assert_eq!(inbounds.judge(&other), Verdict::TooMany);
    }
}
