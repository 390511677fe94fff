//! Whether this controller leads, where several share a store: until when it may grant, and what the store is
//! asked next.
//!
//! A leader holds a lease in the store, which ends a time to live after the store has heard of it. What this
//! controller asked at `t` the store heard later, so until `t` + time to live no other controller leads. This
//! one stops a margin before, by its own clock: clocks do not run alike. Nothing else ends its grants in time:
//! it may stand still, and go on in the belief that it leads.

use std::collections::VecDeque;

use snin_protocol::Time;

/// A leader asks to keep its lease so often while it lasts.
const RENEWALS: u64 = 5;
/// A standby looks so often, while a lease lasts, whether anybody leads.
const LOOKS: u64 = 20;
/// The margin's part of the lease.
const MARGIN: u64 = 10;

/// What the store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Who leads? If no controller does, this one does from now on.
    Stand,
    /// Does this controller lead still? Then its lease begins anew.
    Renew,
}

/// What the store answers to the question before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// This controller leads.
    Leads,
    /// It does not. Who does, as far as that is known.
    Follows(Option<String>),
    /// The store does not say, for this reason.
    Failed(String),
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The store is asked. It answers, however late.
    Ask(Question),
    /// The store is told that this controller does not lead, so that another may.
    Resign,
    /// This controller leads.
    Lead,
    /// It does not lead any more, for this reason.
    StandDown(String),
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Leadership {
    time_to_live: Time,
    /// This controller leads until then, if it does.
    until: Option<Time>,
    /// Who leads, as far as a standby knows.
    leader: Option<String>,
    /// Why the store did not answer last, if it did not.
    trouble: Option<String>,
    /// What was asked and is not answered, and when.
    asked: Option<(Question, Time)>,
    /// When the store is asked next.
    ask_at: Time,
    steps: VecDeque<Step>,
}

impl Leadership {
    /// A standby, which asks at once.
    pub const fn new(time_to_live: Time, now: Time) -> Self {
        Self {
            time_to_live,
            until: None,
            leader: None,
            trouble: None,
            asked: None,
            ask_at: now,
            steps: VecDeque::new(),
        }
    }

    /// The store answers.
    pub fn handle(&mut self, answer: Answer, now: Time) {
        let Some((question, at)) = self.asked.take() else { return };
        self.trouble = None;
        match answer {
            Answer::Leads => self.confirmed(question, at, now),
            Answer::Follows(leader) => {
                if self.until.is_some() {
                    self.stand_down("another controller leads, or the lease is gone", now);
                }
                self.leader = leader;
                self.ask_at = now + self.time_to_live / LOOKS;
            }
            Answer::Failed(why) => {
                self.trouble = Some(why);
                self.ask_at = now + self.time_to_live / LOOKS;
                if self.until.is_none() {
                    // It may have been elected, and not heard of it.
                    self.steps.push_back(Step::Resign);
                }
            }
        }
        self.handle_deadline(now);
    }

    fn confirmed(&mut self, question: Question, at: Time, now: Time) {
        let until = at + (self.time_to_live - self.time_to_live / MARGIN);
        if until <= now {
            // It took so long that others may lead by now.
            return match self.until {
                Some(_) => self.stand_down("the store took too long to keep the lease", now),
                None => {
                    self.steps.push_back(Step::Resign);
                    self.ask_at = now;
                }
            };
        }
        self.ask_at = (at + self.time_to_live / RENEWALS).max(now);
        match (question, self.until) {
            (Question::Stand, None) => {
                self.until = Some(until);
                self.leader = None;
                self.steps.push_back(Step::Lead);
            }
            (Question::Renew, Some(before)) => self.until = Some(until.max(before)),
            // It stood down meanwhile, and has resigned.
            (Question::Renew, None) | (Question::Stand, Some(_)) => {}
        }
    }

    fn stand_down(&mut self, why: &str, now: Time) {
        self.until = None;
        self.ask_at = now;
        self.steps.push_back(Step::StandDown(why.to_owned()));
        self.steps.push_back(Step::Resign);
    }

    /// What is to be done next; to be asked until there is nothing.
    pub fn poll_output(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        let ask = self.asked.is_none().then_some(self.ask_at);
        [ask, self.until].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.until.is_some_and(|until| until <= now) {
            self.stand_down("the lease was not renewed in time", now);
        }
        if self.asked.is_none() && self.ask_at <= now {
            let question = if self.until.is_some() { Question::Renew } else { Question::Stand };
            self.asked = Some((question, now));
            self.steps.push_back(Step::Ask(question));
        }
    }

    /// Until when this controller may grant; `None`: it does not lead.
    pub const fn until(&self) -> Option<Time> {
        self.until
    }

    /// Who leads, as far as a standby knows.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    /// Why the store did not answer last, if it did not.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Time = Time::secs(10);

    fn steps(leadership: &mut Leadership) -> Vec<Step> {
        std::iter::from_fn(|| leadership.poll_output()).collect()
    }

    /// Asks at `at`, is answered at `answered`.
    fn ask(leadership: &mut Leadership, question: Question, at: u64) {
        leadership.handle_deadline(Time::millis(at));
        assert_eq!(steps(leadership), [Step::Ask(question)]);
    }

    fn elected() -> Leadership {
        let mut leadership = Leadership::new(TTL, Time::ZERO);
        ask(&mut leadership, Question::Stand, 0);
        leadership.handle(Answer::Leads, Time::millis(300));
        assert_eq!(steps(&mut leadership), [Step::Lead]);
        leadership
    }

    #[test]
    fn a_lease_counts_from_when_it_was_asked_for() {
        let mut leadership = elected();
        // Nine tenths of the lease after the question, not after its answer.
        assert_eq!(leadership.until(), Some(Time::secs(9)));
        ask(&mut leadership, Question::Renew, 2_000);
        leadership.handle(Answer::Leads, Time::millis(2_900));
        assert_eq!(leadership.until(), Some(Time::secs(11)));
        assert_eq!(leadership.next_deadline(), Some(Time::secs(4)));
    }

    #[test]
    fn who_cannot_renew_stands_down_before_the_lease_is_over() {
        let mut leadership = elected();
        ask(&mut leadership, Question::Renew, 2_000);
        leadership.handle(Answer::Failed("no member answers".to_owned()), Time::secs(3));
        assert_eq!(leadership.trouble(), Some("no member answers"));
        assert_eq!(leadership.until(), Some(Time::secs(9)), "grants go on while the lease lasts");
        ask(&mut leadership, Question::Renew, 3_500);
        leadership.handle_deadline(Time::millis(8_999));
        assert_eq!((steps(&mut leadership), leadership.until()), (vec![], Some(Time::secs(9))));
        leadership.handle_deadline(Time::secs(9));
        let done = steps(&mut leadership);
        assert!(matches!(done[..], [Step::StandDown(_), Step::Resign]), "{done:?}");
        assert_eq!(leadership.until(), None);
        // An answer that comes now is to a question of before.
        leadership.handle(Answer::Leads, Time::millis(9_100));
        assert_eq!((leadership.until(), steps(&mut leadership).len()), (None, 1));
    }

    #[test]
    fn who_stood_still_does_not_lead_when_it_goes_on() {
        let mut leadership = elected();
        ask(&mut leadership, Question::Renew, 2_000);
        // The answer waited with it, for an hour.
        leadership.handle(Answer::Leads, Time::secs(3_600));
        let done = steps(&mut leadership);
        let [Step::StandDown(_), Step::Resign, Step::Ask(Question::Stand)] = &done[..] else {
            panic!("{done:?}");
        };
        assert_eq!(leadership.until(), None);
    }

    #[test]
    fn a_candidate_that_hears_of_its_election_too_late_resigns() {
        let mut leadership = Leadership::new(TTL, Time::ZERO);
        ask(&mut leadership, Question::Stand, 0);
        leadership.handle(Answer::Leads, Time::secs(9));
        assert_eq!(steps(&mut leadership), [Step::Resign, Step::Ask(Question::Stand)]);
        leadership.handle(Answer::Failed("gone".to_owned()), Time::secs(10));
        assert_eq!(steps(&mut leadership), [Step::Resign], "it may have been elected");
    }

    #[test]
    fn a_standby_looks_again_and_again_and_names_the_leader() {
        let mut leadership = Leadership::new(TTL, Time::ZERO);
        for look in 0..3 {
            ask(&mut leadership, Question::Stand, look * 500);
            leadership.handle(Answer::Follows(Some("b".to_owned())), Time::millis(look * 500));
            assert_eq!((steps(&mut leadership).len(), leadership.leader()), (0, Some("b")));
        }
        assert_eq!(leadership.next_deadline(), Some(Time::millis(1_500)));
        ask(&mut leadership, Question::Stand, 1_500);
        leadership.handle(Answer::Leads, Time::millis(1_600));
        assert_eq!((leadership.leader(), leadership.until()), (None, Some(Time::millis(10_500))));
    }

    #[test]
    fn who_lost_its_key_stands_down_at_once() {
        let mut leadership = elected();
        ask(&mut leadership, Question::Renew, 2_000);
        leadership.handle(Answer::Follows(Some("b".to_owned())), Time::millis(2_100));
        let done = steps(&mut leadership);
        assert!(matches!(done[..], [Step::StandDown(_), Step::Resign]), "{done:?}");
        assert_eq!((leadership.until(), leadership.leader()), (None, Some("b")));
        assert_eq!(leadership.next_deadline(), Some(Time::millis(2_600)));
    }
}
