//! The core of configuration: what it is told, what it says, and the tests of ports as they go on.

mod decide;
mod judging;
mod leave;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use snin_protocol::Time;
use snin_protocol::operator::manager::PortState;
use snin_sm_database::judgement::{Consent, LinkOrder, TestRequest};
use snin_sm_database::records::Place;

use crate::expected::{Expected, Mode};
use crate::instruction::{Instruction, Limits};
use crate::leaving::Leaving;
use crate::reason::{Action, PortReport, Reason};
use crate::trial::{Progress, Trial};

/// What is remembered of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It passed its test; whether it has been ACTIVE since.
    Passed {
        /// It was seen ACTIVE.
        active: bool,
    },
    /// It failed: it stays disabled until it is released.
    Failed(Reason),
    /// An operator took it out of use.
    Quarantined(String),
    /// An operator had traffic moved away from it; why.
    PhasedOut(String),
}

/// How a port is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The port.
    pub place: Place,
    /// `leaf3/20`.
    pub at: String,
    /// How it shall be.
    pub mode: Mode,
    /// How it is.
    pub state: PortState,
    /// Why.
    pub why: String,
}

/// What was done. All only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationMetrics {
    /// Discoveries that were judged.
    pub judged: u64,
    /// Links that were told something.
    pub orders: u64,
    /// Tests by how they ended: passed, failed.
    pub tests: [u64; 2],
    /// Links that were reset.
    pub resets: u64,
    /// Judgements that left orders for later, since there were too many.
    pub deferred: u64,
}

/// Reports that wait; further ones are dropped uncounted, since every one is of a port whose state says the same.
const MOST_REPORTS: usize = 65_536;

/// The core of configuration.
#[derive(Debug, Default)]
pub struct Configuration {
    expected: Option<Arc<Expected>>,
    forced: bool,
    consent: Consent,
    limits: Limits,
    marks: BTreeMap<Place, Mark>,
    trials: BTreeMap<Place, Trial>,
    /// When a test goes on by itself.
    due: BTreeSet<(Time, Place)>,
    due_of: BTreeMap<Place, Time>,
    /// Ports that an operator wants to have tested.
    wanted: BTreeSet<Place>,
    /// Ports of which an operator wants that they come into use together.
    entering: BTreeSet<Place>,
    /// Ports that traffic leaves, or has left.
    leaving: BTreeMap<Place, Leaving>,
    /// What was last said of a port: it is said once.
    told: BTreeMap<Place, (Action, Reason)>,
    /// How often in a row a port's link was reset; until it passes, or an operator says something of it.
    resets: BTreeMap<Place, u32>,
    /// Links that are to be reset.
    resetting: BTreeSet<Place>,
    /// The ports behind which the manager sits, as they were last seen.
    own: BTreeSet<Place>,
    /// Orders that were written, how often in a row, and when they may be written again.
    written: BTreeMap<Place, (LinkOrder, u32, Time)>,
    /// Orders of this second.
    spent: (Time, u32),
    reports: VecDeque<PortReport>,
    asks: VecDeque<(Place, TestRequest)>,
    /// Something has changed that the next judgement depends on.
    unjudged: bool,
    judge_at: Option<Time>,
    /// Ports have passed that may be ACTIVE by now.
    passed: bool,
    metrics: ConfigurationMetrics,
}

impl Configuration {
    /// Nothing is expected yet.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What is expected.
    pub const fn expected(&self) -> Option<&Arc<Expected>> {
        self.expected.as_ref()
    }

    /// Whether it may enforce.
    pub const fn consent(&self) -> &Consent {
        &self.consent
    }

    /// The counters.
    pub const fn metrics(&self) -> &ConfigurationMetrics {
        &self.metrics
    }

    /// Whether what is expected is enforced at this time.
    pub fn is_enforced(&self, now: Time) -> bool {
        let consents = match &self.consent {
            Consent::Granted { until, .. } => until.is_none_or(|until| now < until),
            Consent::Absent => false,
        };
        consents && self.expected.is_some()
    }

    /// Does what it is told, as far as it can be done before the next judgement.
    pub fn instruct(&mut self, instruction: Instruction) {
        // A consent that is prolonged changes nothing.
        let prolongs = matches!(
            (&instruction, &self.consent),
            (Instruction::Consent(Consent::Granted { .. }), Consent::Granted { .. })
        );
        self.unjudged |= !prolongs;
        match instruction {
            Instruction::Expect { expected, forced } => {
                (self.expected, self.forced) = (expected, forced);
                let expected = self.expected.clone().unwrap_or_default();
                let is_expected = |place: &Place| expected.port(*place).is_some();
                self.marks.retain(|place, _| is_expected(place));
                self.wanted.retain(is_expected);
                self.entering.retain(is_expected);
                self.resets.clear();
                self.resetting.clear();
                let gone = self.trials.keys().filter(|place| !is_expected(place));
                for place in gone.copied().collect::<Vec<_>>() {
                    self.end_trial(place);
                }
                self.told.clear();
                self.written.clear();
            }
            Instruction::Consent(consent) => {
                self.consent = consent;
                if self.consent == Consent::Absent {
                    self.end_trials();
                }
            }
            Instruction::Limit(limits) => self.limits = limits,
            Instruction::Release(place) => {
                self.end_trial(place);
                self.marks.remove(&place);
                self.resets.remove(&place);
                self.written.remove(&place);
                self.tell(place, Action::Release, Reason::Operator(String::new()));
            }
            Instruction::Quarantine(place, why) => {
                self.end_trial(place);
                self.written.remove(&place);
                self.marks.insert(place, Mark::Quarantined(why.clone()));
                self.tell(place, Action::Quarantine, Reason::Operator(why));
            }
            Instruction::Remember(place, why) => {
                self.marks.insert(place, Mark::Failed(Reason::Remembered(why)));
            }
            Instruction::PhaseOut(place, why) => {
                self.end_trial(place);
                self.written.remove(&place);
                self.entering.remove(&place);
                self.marks.insert(place, Mark::PhasedOut(why));
            }
            Instruction::PhaseIn(place) => {
                self.want(place);
                self.entering.insert(place);
                self.tell(place, Action::PhaseIn, Reason::Operator(String::new()));
            }
            Instruction::Test(place) => self.want(place),
        }
    }

    /// An operator wants the port tested.
    fn want(&mut self, place: Place) {
        self.end_trial(place);
        self.marks.remove(&place);
        self.written.remove(&place);
        self.resets.remove(&place);
        self.wanted.insert(place);
    }

    /// What happened since it was last asked.
    pub fn next_report(&mut self) -> Option<PortReport> {
        self.reports.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called.
    pub fn next_deadline(&self) -> Option<Time> {
        let until = match &self.consent {
            Consent::Granted { until, .. } => *until,
            Consent::Absent => None,
        };
        let due = self.due.first().map(|&(at, _)| at);
        due.into_iter().chain(self.judge_at).chain(until).min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, now: Time) {
        if let Consent::Granted { until: Some(until), .. } = &self.consent
            && *until <= now
        {
            self.consent = Consent::Absent;
            self.unjudged = true;
            self.end_trials();
        }
        while let Some(&(at, place)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, place));
            self.due_of.remove(&place);
            self.go_on(place, now);
        }
    }

    /// How every expected port is.
    pub fn status(&self) -> impl Iterator<Item = PortStatus> + '_ {
        let expected = self.expected.iter();
        let ports = expected.flat_map(|expected| {
            expected.switches.iter().flat_map(move |(&guid, switch)| {
                switch.ports.iter().map(move |(&num, port)| (expected, (guid, num), port.mode))
            })
        });
        ports.map(|(expected, place, mode)| {
            let (state, why) = self.state(place);
            PortStatus { place, at: expected.port_name(place), mode, state, why }
        })
    }

    /// What is to be remembered over a restart: ports that failed, are in quarantine or phased out, and why.
    pub fn kept(&self) -> impl Iterator<Item = (Place, &Mark)> {
        self.marks
            .iter()
            .filter(|(_, mark)| !matches!(mark, Mark::Passed { .. }))
            .map(|(p, m)| (*p, m))
    }

    fn state(&self, place: Place) -> (PortState, String) {
        if let Some(trial) = self.trials.get(&place) {
            return (PortState::Testing, trial.step().to_owned());
        }
        if let Some(state) = self.leaving_state(place) {
            return state;
        }
        match self.marks.get(&place) {
            Some(Mark::PhasedOut(why)) => (PortState::Leaving, why.clone()),
            Some(Mark::Passed { .. }) => (PortState::Passed, String::new()),
            Some(Mark::Failed(reason)) => (PortState::Failed, reason.to_string()),
            Some(Mark::Quarantined(why)) => (PortState::Quarantined, why.clone()),
            None => match self.told.get(&place) {
                Some((Action::Keep, reason)) => (PortState::Kept, reason.to_string()),
                _ => (PortState::Ok, String::new()),
            },
        }
    }

    /// A test goes on without a new discovery.
    fn go_on(&mut self, place: Place, now: Time) {
        let Some(expected) = self.expected.clone() else { return };
        let Some(trial) = self.trials.get_mut(&place) else { return };
        let progress = trial.go_on(&expected.tests, now);
        self.follow(place, progress);
    }

    /// What follows from how far a test came.
    fn follow(&mut self, place: Place, progress: Progress) {
        if let Some(at) = self.due_of.remove(&place) {
            self.due.remove(&(at, place));
        }
        match progress {
            Progress::Until(Time::MAX) => {}
            Progress::Until(at) => {
                self.due.insert((at, place));
                self.due_of.insert(place, at);
            }
            Progress::TestRequest(ask) => self.asks.push_back((place, ask)),
            Progress::LetIn(ends) => {
                self.due.insert((ends, place));
                self.due_of.insert(place, ends);
                self.unjudged = true;
                self.passed = true;
                if let Some(trial) = self.trials.get_mut(&place) {
                    trial.withheld = false;
                }
            }
            Progress::Passed => self.end(place, None),
            Progress::Failed(reason) => self.end(place, Some(reason)),
        }
    }

    /// A test has come to its end.
    fn end(&mut self, place: Place, failed: Option<Reason>) {
        let active = self.trials.get(&place).is_some_and(|trial| !trial.withheld);
        self.end_trial(place);
        self.unjudged = true;
        if let Some(reason) = failed.as_ref().filter(|reason| self.may_reset(place, reason)) {
            *self.resets.entry(place).or_default() += 1;
            self.resetting.insert(place);
            return self.tell(place, Action::Reset, reason.clone());
        }
        self.wanted.remove(&place);
        match failed {
            None => {
                self.resets.remove(&place);
                self.metrics.tests[0] += 1;
                self.passed = true;
                self.marks.insert(place, Mark::Passed { active });
                self.tell(place, Action::Pass, Reason::Expected);
            }
            Some(reason) => {
                self.metrics.tests[1] += 1;
                self.fail(place, reason);
            }
        }
    }

    /// Whether another reset may help, and is allowed.
    fn may_reset(&self, place: Place, reason: &Reason) -> bool {
        let most = self.expected.as_ref().map_or(0, |expected| expected.tests.resets);
        // Nothing can be reached without the manager's own port.
        let may = reason.may_heal() && !self.own.contains(&place);
        may && self.resets.get(&place).copied().unwrap_or(0) < most
    }

    fn fail(&mut self, place: Place, reason: Reason) {
        self.marks.insert(place, Mark::Failed(reason.clone()));
        self.tell(place, Action::Fail, reason);
    }

    /// Nothing is tested without consent: what is seen is not judged. With consent tests begin anew.
    fn end_trials(&mut self) {
        for place in self.trials.keys().copied().collect::<Vec<_>>() {
            self.end_trial(place);
        }
    }

    fn end_trial(&mut self, place: Place) {
        self.trials.remove(&place);
        self.resetting.remove(&place);
        self.asks.retain(|(asked, _)| *asked != place);
        if let Some(at) = self.due_of.remove(&place) {
            self.due.remove(&(at, place));
        }
    }

    /// Says it once, until something else is said of the port.
    fn tell(&mut self, place: Place, action: Action, reason: Reason) {
        let said = (action, reason);
        if self.told.get(&place) == Some(&said) {
            return;
        }
        self.told.insert(place, said.clone());
        let at = self.expected.as_ref().map_or_else(String::new, |e| e.port_name(place));
        let (action, reason) = said;
        let dry_run = self.limits.dry_run;
        if self.reports.len() < MOST_REPORTS {
            self.reports.push_back(PortReport { at, place, action, reason, dry_run });
        }
    }
}
