//! A store that controllers share, as etcd is one: a leader's key with a lease, and what a leader wrote.

use snin_controller_core::leadership::{Answer, Question};
use snin_protocol::{Term, Time};

/// What an elected controller begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Elected {
    pub(super) term: Term,
    /// For how long grants of those before it may be in force; `None`: there were none.
    pub(super) predecessor: Option<Time>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Store {
    time_to_live: Time,
    /// The controller that leads, which of its lives that is, and until when its lease lasts.
    leader: Option<((usize, u32), Time)>,
    term: u64,
    longest: Option<Time>,
    /// No controller gets an answer.
    pub(super) is_away: bool,
}

impl Store {
    pub(super) const fn new(time_to_live: Time) -> Self {
        Self { time_to_live, leader: None, term: 0, longest: None, is_away: false }
    }

    /// Does what a controller asks. `longest`: the longest from the decision of one of its grants to the end of
    /// its guard. An elected one has begun its term before it hears of that.
    pub(super) fn answer(
        &mut self,
        by: (usize, u32),
        question: Question,
        longest: Time,
        now: Time,
    ) -> (Answer, Option<Elected>) {
        self.leader.take_if(|(_, until)| *until <= now);
        match question {
            Question::Stand => {
                // Who stands resigns first.
                self.resign(by);
                if let Some(((leader, _), _)) = self.leader {
                    return (Answer::Follows(Some(format!("controller{leader}"))), None);
                }
                self.leader = Some((by, now + self.time_to_live));
                self.term += 1;
                let predecessor = self.longest.map(|before| before.max(longest));
                self.longest = Some(predecessor.unwrap_or(longest));
                (Answer::Leads, Some(Elected { term: Term(self.term), predecessor }))
            }
            Question::Renew => match &mut self.leader {
                Some((leader, until)) if *leader == by => {
                    *until = now + self.time_to_live;
                    (Answer::Leads, None)
                }
                _ => (Answer::Follows(None), None),
            },
        }
    }

    /// The controller does not lead.
    pub(super) fn resign(&mut self, by: (usize, u32)) {
        self.leader.take_if(|(leader, _)| *leader == by);
    }
}
