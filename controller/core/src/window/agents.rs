//! Agents and the conversations with them.

use std::collections::{BTreeMap, VecDeque};

use snin_protocol::message::{Answer, Lease, MAX_ANSWERS};
use snin_protocol::{ConnectionNumber, Session, Term, Time};

/// The most answers that wait for a lease to take them along.
const MAX_WAITING: usize = 4 * MAX_ANSWERS;

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) session: Session,
    /// The greatest term that it has heard of, by its last greeting.
    pub(super) term: Term,
    /// When it was heard last.
    pub(super) heard_at: Time,
    /// The last ask that was taken.
    pub(super) asked: u64,
    /// The last lease, and when it was sent last.
    pub(super) lease: Lease,
    pub(super) sent_at: Time,
    /// The last lease that was confirmed.
    pub(super) confirmed: u64,
    /// Places of its connections, by its own numbers.
    pub(super) connections: BTreeMap<ConnectionNumber, u32>,
    /// Answers and the lease that took each of them along, oldest first.
    answers: VecDeque<(Answer, Option<u64>)>,
}

impl Agent {
    pub(super) fn new(session: Session, now: Time) -> Self {
        Self {
            session,
            term: Term(0),
            heard_at: now,
            asked: 0,
            lease: Lease::default(),
            sent_at: now,
            confirmed: 0,
            connections: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    }

    pub(super) const fn is_confirmed(&self) -> bool {
        self.confirmed >= self.lease.sequence
    }

    /// The number of the lease that will be sent next.
    pub(super) const fn next_sequence(&self) -> u64 {
        self.lease.sequence + 1
    }

    /// Keeps an answer until a lease takes it along; false where too many wait already.
    pub(super) fn answer(&mut self, answer: Answer) -> bool {
        let room = self.answers.len() < MAX_WAITING;
        if room {
            self.answers.push_back((answer, None));
        }
        room
    }

    /// Whether there are answers that no lease has taken along yet.
    pub(super) fn has_news(&self) -> bool {
        self.answers.back().is_some_and(|(_, sent)| sent.is_none())
    }

    /// The answers for a lease: those that are not confirmed, the oldest first.
    pub(super) fn answers_for(&mut self, sequence: u64) -> Vec<Answer> {
        let oldest = self.answers.iter_mut().take(MAX_ANSWERS);
        oldest.map(|(answer, sent)| (sent.get_or_insert(sequence), *answer).1).collect()
    }

    pub(super) fn confirm(&mut self, sequence: u64) {
        // A lease that was never sent cannot be confirmed.
        self.confirmed = self.confirmed.max(sequence.min(self.lease.sequence));
        let arrived = |sent: &Option<u64>| sent.is_some_and(|sent| sent <= self.confirmed);
        while self.answers.front().is_some_and(|(_, sent)| arrived(sent)) {
            self.answers.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_protocol::message::Verdict;

    fn answer(connection: u32) -> Answer {
        Answer { connection: ConnectionNumber(connection), verdict: Verdict::Served }
    }

    #[test]
    fn answers_go_with_leases_until_one_is_confirmed() {
        let mut agent = Agent::new(Session(1), Time::ZERO);
        for number in 0..100 {
            assert!(agent.answer(answer(number)));
        }
        agent.lease.sequence = 1;
        assert_eq!(agent.answers_for(1).len(), MAX_ANSWERS);
        assert!(agent.has_news());
        agent.lease.sequence = 2;
        assert_eq!(agent.answers_for(2)[0], answer(0), "not confirmed: said again");
        agent.confirm(1);
        assert_eq!(agent.answers_for(3), (64..100).map(answer).collect::<Vec<_>>());
        agent.confirm(99);
        assert_eq!(agent.confirmed, 2, "lease 3 was not sent");
        agent.lease.sequence = 3;
        agent.confirm(3);
        assert!(agent.answers_for(4).is_empty() && !agent.has_news());
    }

    #[test]
    fn answers_are_limited() {
        let mut agent = Agent::new(Session(1), Time::ZERO);
        let kept = (0..1000).filter(|&number| agent.answer(answer(number))).count();
        assert_eq!(kept, MAX_WAITING);
    }
}
