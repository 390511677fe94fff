//! The test of a port: presence, miswire, quality, application, one after the other; then the counters of both
//! ends.
//!
//! It is re-entrant: every discovery, every answer and every timer takes it as far as it goes. Presence and
//! miswire are judged from the last discovery; quality and application by SMPs that cross the link. Counters are
//! asked for at addresses (IBA 16.1), so a port that has passed all else is let in first, and the MADs cross
//! again. So do messages of the agent behind the port, which the sweep has told by a controller.

use snin_protocol::Time;

use crate::compare::{miswired, slow};
use crate::expected::{Application, ExpectedPort, Quality, Tests};
use crate::reason::Reason;
use snin_sm_database::judgement::{End, TestRequest};
use snin_sm_database::seen::{LinkState, SeenPort};

/// A port under test.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) since: Time,
    step: Step,
    /// The port is not used before it has passed all that can be tested without an address.
    pub(super) withheld: bool,
    /// It might be used, and waits for others: for the other end's test, or for ports that come into use with it.
    /// They have timers of their own, so this one stands still.
    held: bool,
    /// A MAD is under way.
    asked: bool,
    /// The errors of both ends were judged.
    counted: bool,
    /// The application answered.
    applied: bool,
    /// The counters of this end cannot be read.
    uncounted: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Presence,
    Miswire,
    Quality(Measured),
    Application { answered: bool },
    Counters(Counted),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Measured {
    since: Time,
    sent: u32,
    lost: u32,
}

/// Errors are counted at both ends while MADs cross a link that is ACTIVE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    active: bool,
    measured: Measured,
    /// The agent's messages are over: lost, of so many.
    messages: Option<(u32, u32)>,
    /// Errors so far, of the near and of the far end.
    before: [Option<u32>; 2],
    after: [Option<u32>; 2],
}

/// The place of each end in an array.
const ENDS: [End; 2] = [End::Near, End::Far];

/// How far a test came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It waits for the next discovery or an answer, until then at most.
    Until(Time),
    /// Something is to be asked now.
    TestRequest(TestRequest),
    /// It may be used; it waits until then for being so.
    LetIn(Time),
    Passed,
    Failed(Reason),
}

impl Trial {
    pub(super) const fn begin(now: Time, withheld: bool) -> Self {
        let step = Step::Presence;
        Self {
            since: now,
            step,
            withheld,
            held: false,
            asked: false,
            counted: false,
            applied: false,
            uncounted: None,
        }
    }

    /// Whether it waits for its link to be ACTIVE.
    pub(super) const fn awaits_use(&self) -> bool {
        matches!(self.step, Step::Counters(Counted { active: false, .. }))
    }

    /// Whether it waits for others.
    pub(super) const fn is_held(&self) -> bool {
        self.held
    }

    /// It waits for others, or does not any more; whether that is new. Its timer begins anew when it does not.
    pub(super) const fn hold(&mut self, held: bool, now: Time) -> bool {
        let is_new = self.held != held;
        if is_new && !held {
            self.since = now;
        }
        self.held = held;
        is_new
    }

    /// Its link cannot be expected to be up yet, so its timer begins anew.
    pub(super) const fn begin_presence_anew(&mut self, now: Time) {
        if matches!(self.step, Step::Presence) {
            self.since = now;
        }
    }

    /// The step that it is in.
    pub(super) const fn step(&self) -> &'static str {
        match self.step {
            Step::Presence => "link presence",
            Step::Miswire => "the neighbour",
            Step::Quality(_) => "link quality",
            Step::Application { .. } => "the application",
            Step::Counters(_) => "the counters of both ends",
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
                Some(quality) if quality.errors.is_some() && !self.withheld => counting(now),
                Some(_) => Step::Quality(Measured::begin(now)),
                None => Step::Application { answered: false },
            };
        }
        if let Step::Counters(counted) = &mut self.step
            && seen.active
            && !counted.active
        {
            (counted.active, counted.measured) = (true, Measured::begin(now));
        }
        self.go_on(tests, now)
    }

    /// An answer came, or none did.
    pub(super) fn answered(&mut self, ask: TestRequest, well: bool) {
        self.asked = false;
        match (&mut self.step, ask) {
            (
                Step::Quality(measured) | Step::Counters(Counted { measured, .. }),
                TestRequest::Node,
            ) => {
                measured.lost += u32::from(!well);
            }
            (Step::Application { answered }, TestRequest::Application | TestRequest::Agent) => {
                *answered |= well;
                self.applied |= well;
            }
            _ => {}
        }
    }

    /// So many errors an end has counted so far; none: it does not say.
    pub(super) fn counted(&mut self, end: End, errors: Option<u32>) {
        self.asked = false;
        let Step::Counters(counted) = &mut self.step else { return };
        self.uncounted = errors.is_none().then_some(end);
        let (all, of_end) = (&mut counted.before, end as usize);
        match all[of_end] {
            None => all[of_end] = errors,
            Some(_) => counted.after[of_end] = errors,
        }
    }

    /// Of so many messages of the agent's so many arrived; none: no agent is there.
    pub(super) fn messages_arrived(&mut self, asked: u32, arrived: Option<u32>) {
        self.asked = false;
        if let Step::Counters(counted) = &mut self.step {
            let lost = arrived.map_or(0, |arrived| asked.saturating_sub(arrived));
            counted.messages = Some((lost, asked));
        }
    }

    /// As far as it goes without the next discovery.
    pub(super) fn go_on(&mut self, tests: &Tests, now: Time) -> Progress {
        if let Some(end) = self.uncounted {
            return Progress::Failed(Reason::Uncounted(end));
        }
        if let (Step::Quality(mut measured), Some(quality)) = (self.step, tests.quality) {
            let crosses = self.cross(&mut measured, quality, tests, now);
            self.step = Step::Quality(measured);
            if let Some(progress) = crosses {
                return progress;
            }
            self.step = Step::Application { answered: false };
        }
        if let Step::Counters(_) = self.step
            && let Some(progress) = self.count(tests, now)
        {
            return progress;
        }
        match self.step {
            Step::Application { answered } if answered || self.is_asked_later(tests) => {
                let counts = counts(tests);
                if self.counted || !counts {
                    return Progress::Passed;
                }
                (self.step, self.since) = (counting(now), now);
                Progress::LetIn(self.ends(tests))
            }
            Step::Application { .. } if !self.asked => {
                self.asked = true;
                Progress::TestRequest(match tests.application {
                    Some(Application::Agent) => TestRequest::Agent,
                    _ => TestRequest::Application,
                })
            }
            _ => self.due(tests, now),
        }
    }

    /// Whether no application is asked now: none at all, or the agent when the link is ACTIVE.
    const fn is_asked_later(&self, tests: &Tests) -> bool {
        match tests.application {
            None => true,
            Some(Application::Node) => false,
            Some(Application::Agent) => !self.counted && counts(tests),
        }
    }

    /// What is next while MADs cross the link; none: all have.
    fn cross(
        &mut self,
        measured: &mut Measured,
        quality: Quality,
        tests: &Tests,
        now: Time,
    ) -> Option<Progress> {
        let Measured { since, sent, lost } = *measured;
        if lost > quality.lost {
            return Some(Progress::Failed(Reason::Lossy { lost, sent }));
        }
        if self.asked {
            return Some(self.due(tests, now));
        }
        let at = since + spread(quality, sent);
        if sent < quality.mads && at <= now {
            measured.sent += 1;
            self.asked = true;
            return Some(Progress::TestRequest(TestRequest::Node));
        }
        (at > now).then(|| Progress::Until(at.min(self.ends(tests))))
    }

    /// What is next while errors are counted; none: they were, and were few.
    fn count(&mut self, tests: &Tests, now: Time) -> Option<Progress> {
        let Step::Counters(mut counted) = self.step else { return None };
        let quality = tests.quality?;
        if !counted.active || self.asked {
            return Some(self.due(tests, now));
        }
        let missing =
            |read: [Option<u32>; 2]| ENDS.into_iter().find(|&end| read[end as usize].is_none());
        if let Some(end) = missing(counted.before) {
            self.asked = true;
            return Some(Progress::TestRequest(TestRequest::Counters(end)));
        }
        let crosses = self.cross(&mut counted.measured, quality, tests, now);
        self.step = Step::Counters(counted);
        if crosses.is_some() {
            return crosses;
        }
        match counted.messages {
            None if quality.messages > 0 => {
                self.asked = true;
                return Some(Progress::TestRequest(TestRequest::Messages(quality.messages)));
            }
            Some((lost, sent)) if lost > quality.lost => {
                return Some(Progress::Failed(Reason::Undelivered { lost, sent }));
            }
            _ => {}
        }
        if let Some(end) = missing(counted.after) {
            self.asked = true;
            return Some(Progress::TestRequest(TestRequest::Counters(end)));
        }
        for end in ENDS {
            let [before, after] = [counted.before, counted.after].map(|read| read[end as usize]);
            let rose = after.unwrap_or(0).saturating_sub(before.unwrap_or(0));
            if rose > quality.errors.unwrap_or(u32::MAX) {
                let sent = counted.measured.sent;
                return Some(Progress::Failed(Reason::Errors { end, rose, sent }));
            }
        }
        self.counted = true;
        // A port that was tested without an address has heard its application already.
        self.step = Step::Application { answered: self.applied };
        None
    }

    /// The application did not answer as it has to.
    pub(super) fn is_refused(&self) -> bool {
        self.step == Step::Application { answered: false } && !self.asked
    }

    fn ends(&self, tests: &Tests) -> Time {
        if self.held { Time::MAX } else { self.since + tests.timer }
    }

    fn due(&self, tests: &Tests, now: Time) -> Progress {
        let ends = self.ends(tests);
        if ends <= now {
            return Progress::Failed(Reason::TimedOut(self.step()));
        }
        Progress::Until(ends)
    }
}

impl Measured {
    const fn begin(now: Time) -> Self {
        Self { since: now, sent: 0, lost: 0 }
    }
}

const fn counting(now: Time) -> Step {
    let (active, measured) = (false, Measured::begin(now));
    let (messages, before, after) = (None, [None; 2], [None; 2]);
    Step::Counters(Counted { active, measured, messages, before, after })
}

/// Whether errors are counted.
const fn counts(tests: &Tests) -> bool {
    matches!(tests.quality, Some(Quality { errors: Some(_), .. }))
}

/// How long after the first MAD the next one is due: the last one when the time is over.
fn spread(quality: Quality, sent: u32) -> Time {
    Time(quality.lasts.nanos() / u64::from(quality.mads.max(1)) * u64::from(sent))
}
