//! The test of a port: presence, miswire, quality, application, one after the other.
//!
//! It is re-entrant: every discovery, every answer and every timer takes it as far as it goes. Presence and
//! miswire are judged from the last discovery; quality and application by MADs that cross the link.

use snin_protocol::Time;

use super::compare::{miswired, slow};
use super::expected::{ExpectedPort, Quality, Tests};
use super::reason::Reason;
use super::seen::{LinkState, SeenPort};

/// What is asked of the node behind a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ask {
    /// NodeInfo, which has to say what it said before: a MAD of the quality test.
    Node,
    /// NodeDescription, which has to say what it said before: the application's request.
    Application,
}

/// A port under test.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) since: Time,
    step: Step,
    /// The port is not used before it has passed.
    pub(super) withheld: bool,
    /// A MAD is under way.
    asked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Presence,
    Miswire,
    Quality(Measured),
    Application { answered: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Measured {
    since: Time,
    sent: u32,
    lost: u32,
}

/// How far a test came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits for the next discovery, or an answer.
    Waits,
    /// It waits until then.
    Until(Time),
    /// Something is to be asked now.
    Ask(Ask),
    Passed,
    Failed(Reason),
}

impl Trial {
    pub(super) const fn begin(now: Time, withheld: bool) -> Self {
        Self { since: now, step: Step::Presence, withheld, asked: false }
    }

    /// The step that it is in.
    pub(super) const fn step(&self) -> &'static str {
        match self.step {
            Step::Presence => "link presence",
            Step::Miswire => "the neighbour",
            Step::Quality(_) => "link quality",
            Step::Application { .. } => "the application",
        }
    }

    /// What the last discovery says.
    pub(super) fn see(
        &mut self,
        tests: &Tests,
        want: &ExpectedPort,
        seen: &SeenPort,
        now: Time,
    ) -> Progress {
        if seen.link != LinkState::Up {
            return match self.step {
                Step::Presence | Step::Miswire => {
                    self.step = Step::Presence;
                    self.due(tests, now)
                }
                _ => Progress::Failed(Reason::WentDown),
            };
        }
        if let Some(reason) = slow(want, seen.rate) {
            return Progress::Failed(reason);
        }
        if self.step == Step::Presence {
            self.step = Step::Miswire;
        }
        if let Some(reason) = miswired(want, seen).filter(|_| tests.miswire) {
            return Progress::Failed(reason);
        }
        // No node answers yet.
        if seen.neighbour.is_none() && self.step == Step::Miswire {
            return self.due(tests, now);
        }
        if self.step == Step::Miswire {
            self.step = match tests.quality {
                Some(_) => Step::Quality(Measured { since: now, sent: 0, lost: 0 }),
                None => Step::Application { answered: false },
            };
        }
        self.go_on(tests, now)
    }

    /// An answer came, or none did.
    pub(super) fn answered(&mut self, ask: Ask, well: bool) {
        self.asked = false;
        match (&mut self.step, ask) {
            (Step::Quality(measured), Ask::Node) => measured.lost += u32::from(!well),
            (Step::Application { answered }, Ask::Application) => *answered |= well,
            _ => {}
        }
    }

    /// As far as it goes without the next discovery.
    pub(super) fn go_on(&mut self, tests: &Tests, now: Time) -> Progress {
        if let Step::Quality(measured) = self.step {
            let Some(quality) = tests.quality else { return Progress::Waits };
            let Measured { since, sent, lost } = measured;
            if lost > quality.lost {
                return Progress::Failed(Reason::Lossy { lost, sent });
            }
            if self.asked {
                return self.due(tests, now);
            }
            let at = since + spread(quality, sent);
            if sent < quality.mads && at <= now {
                self.step = Step::Quality(Measured { sent: sent + 1, ..measured });
                self.asked = true;
                return Progress::Ask(Ask::Node);
            }
            if at > now {
                return Progress::Until(at.min(self.ends(tests)));
            }
            self.step = Step::Application { answered: false };
        }
        match self.step {
            Step::Application { .. } if !tests.application => Progress::Passed,
            Step::Application { answered: true } => Progress::Passed,
            Step::Application { .. } if !self.asked => {
                self.asked = true;
                Progress::Ask(Ask::Application)
            }
            _ => self.due(tests, now),
        }
    }

    /// The application did not answer as it has to.
    pub(super) fn is_refused(&self) -> bool {
        self.step == Step::Application { answered: false } && !self.asked
    }

    fn ends(&self, tests: &Tests) -> Time {
        self.since + tests.timer
    }

    fn due(&self, tests: &Tests, now: Time) -> Progress {
        let ends = self.ends(tests);
        if ends <= now {
            return Progress::Failed(Reason::TimedOut(self.step()));
        }
        Progress::Until(ends)
    }
}

/// How long after the first MAD the next one is due: the last one when the time is over.
fn spread(quality: Quality, sent: u32) -> Time {
    Time(quality.lasts.nanos() / u64::from(quality.mads.max(1)) * u64::from(sent))
}
