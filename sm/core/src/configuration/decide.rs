//! The next step of each port, in this order: disable; enable; test; miswire.

use std::collections::BTreeSet;

use snin_protocol::Time;

use super::compare::{is_own, miswired, own_ports};
use super::expected::{Expected, ExpectedPort, Mode};
use super::reason::{Action, Reason};
use super::seen::{LinkState, Seen, SeenPort};
use super::trial::Trial;
use super::{Configuration, Judgement, LinkOrder, Mark};
use crate::database::Place;

/// The longest pause before a link is told again what it did not do.
const LONGEST_PAUSE: Time = Time::secs(300);
const SECOND: Time = Time::secs(1);

impl Configuration {
    /// What follows from what discovery sees.
    pub fn judge(&mut self, seen: &Seen, now: Time) -> Judgement {
        let Some(expected) = self.expected.clone().filter(|_| self.enforces(now)) else {
            return Judgement::default();
        };
        self.metrics.judged += 1;
        let judgement = Judgement::default();
        let mut judging = Judging { judgement, disable: Vec::new(), own: own_ports(seen) };
        for (&guid, switch) in &expected.switches {
            let Some(there) = seen.switches.get(&guid) else { continue };
            for (&num, want) in &switch.ports {
                if let Some(port) = there.port(num) {
                    self.decide(&expected, (guid, num), want, port, &mut judging, now);
                }
            }
        }
        let Judging { mut judgement, mut disable, .. } = judging;
        // The farthest first: ways to others may lead over what is disabled.
        let hops = |place: &Place| seen.switches.get(&place.0).map_or(0, |switch| switch.hops);
        disable.sort_by_key(|(place, _)| std::cmp::Reverse(hops(place)));
        judgement.orders.sort_by_key(|(place, _)| std::cmp::Reverse(hops(place)));
        self.guard(&expected, seen, disable, &mut judgement);
        self.unjudged = false;
        if self.limits.dry_run {
            for (place, order) in judgement.orders {
                if order == LinkOrder::Enable {
                    self.tell(place, Action::Enable, Reason::Expected);
                }
            }
            return Judgement::default();
        }
        self.restrain(&mut judgement, now);
        judgement
    }

    fn decide(
        &mut self,
        expected: &Expected,
        place: Place,
        want: &ExpectedPort,
        port: &SeenPort,
        judging: &mut Judging,
        now: Time,
    ) {
        let is_disabled = port.link == LinkState::Disabled;
        let took = |(order, ..): &mut (LinkOrder, u32, Time)| {
            (*order == LinkOrder::Disable) == is_disabled
        };
        if self.written.get_mut(&place).is_some_and(took) {
            self.written.remove(&place);
        }
        if want.mode == Mode::Disabled {
            self.end_trial(place);
            if port.link != LinkState::Disabled {
                judging.disable.push((place, Reason::Expected));
            }
            return;
        }
        match self.marks.get(&place) {
            Some(Mark::Failed(reason)) => return judging.refuse(place, port, reason.clone()),
            Some(Mark::Quarantined(why)) => {
                return judging.refuse(place, port, Reason::Operator(why.clone()));
            }
            _ => {}
        }
        if port.link == LinkState::Disabled {
            if want.mode == Mode::Test || self.wanted.contains(&place) {
                self.test(expected, place, want, port, judging, now);
            }
            judging.judgement.orders.push((place, LinkOrder::Enable));
            return;
        }
        if want.mode == Mode::Test || self.wanted.contains(&place) {
            self.test(expected, place, want, port, judging, now);
            return;
        }
        if let Some(reason) = miswired(want, port) {
            if !self.limits.dry_run {
                self.fail(place, reason.clone());
            }
            judging.refuse(place, port, reason);
        } else if port.link == LinkState::Up {
            // All is well: what is wrong the next time is said again.
            self.told.remove(&place);
        }
    }

    /// The test of a port goes on as far as this discovery takes it.
    fn test(
        &mut self,
        expected: &Expected,
        place: Place,
        want: &ExpectedPort,
        port: &SeenPort,
        judging: &mut Judging,
        now: Time,
    ) {
        if let Some(Mark::Passed { active }) = self.marks.get_mut(&place) {
            // It went down since, however short: it has to pass again.
            let again = port.link != LinkState::Up || *active && !port.active;
            if !again {
                *active |= port.active;
                return;
            }
            self.marks.remove(&place);
        }
        if !self.trials.contains_key(&place) {
            let nobody = port.link == LinkState::Down && !self.wanted.contains(&place);
            if nobody || self.trials.len() >= expected.tests.at_once as usize {
                // No neighbour is there; or there are so many that it has to wait.
                if !port.active && !judging.own.contains(&place) {
                    judging.judgement.withheld.insert(place);
                }
                return;
            }
            // Nothing can be reached without the manager's own port.
            let withheld = !port.active && !judging.own.contains(&place);
            self.trials.insert(place, Trial::begin(now, withheld));
            self.tell(place, Action::BeginTest, Reason::Expected);
        }
        let Some(trial) = self.trials.get_mut(&place) else { return };
        if trial.withheld {
            judging.judgement.withheld.insert(place);
        }
        let progress = trial.see(&expected.tests, want, port, now);
        self.follow(place, progress);
        match self.marks.get(&place) {
            Some(Mark::Passed { .. }) => {
                judging.judgement.withheld.remove(&place);
            }
            Some(Mark::Failed(reason)) => judging.refuse(place, port, reason.clone()),
            _ => {}
        }
    }

    /// Nothing is disabled that is the last way to a switch, or the manager's own port.
    fn guard(
        &mut self,
        expected: &Expected,
        seen: &Seen,
        disable: Vec<(Place, Reason)>,
        judgement: &mut Judgement,
    ) {
        let mut cut = BTreeSet::new();
        let mut reached = None;
        for (place, reason) in disable {
            let port = seen.port(place);
            let neighbour = port.and_then(|port| port.neighbour.as_ref());
            let carries = neighbour.is_some_and(|neighbour| neighbour.is_switch);
            let kept = if self.forced {
                None
            } else if is_own(seen, place) {
                Some(Reason::OwnPort)
            } else if carries {
                cut.insert(place);
                let before = reached.take().unwrap_or_else(|| seen.reached(&BTreeSet::new()));
                let after = seen.reached(&cut);
                let lost =
                    before.difference(&after).find(|guid| expected.switches.contains_key(guid));
                let name = lost.map(|guid| match seen.switches.get(guid) {
                    Some(switch) if !switch.name.is_empty() => switch.name.clone(),
                    _ => guid.to_string(),
                });
                reached = Some(if name.is_some() { before } else { after });
                if name.is_some() {
                    cut.remove(&place);
                }
                name.map(Reason::WouldCut)
            } else {
                None
            };
            match kept {
                Some(kept) => {
                    judgement.withheld.remove(&place);
                    self.tell(place, Action::Keep, kept);
                }
                None => {
                    judgement.withheld.insert(place);
                    judgement.orders.push((place, LinkOrder::Disable));
                    if self.limits.dry_run || reason == Reason::Expected {
                        self.tell(place, Action::Disable, reason);
                    }
                }
            }
        }
    }

    /// No more orders than may be given in a second; none again before its time.
    fn restrain(&mut self, judgement: &mut Judgement, now: Time) {
        if now >= self.spent.0 + SECOND {
            self.spent = (now, 0);
        }
        let mut later = None;
        let mut orders = std::mem::take(&mut judgement.orders);
        orders.retain(|&(place, order)| {
            let (times, at) = match self.written.get(&place) {
                Some(&(last, times, at)) if last == order => (times, at),
                _ => (0, Time::ZERO),
            };
            let at =
                if self.spent.1 >= self.limits.writes { at.max(self.spent.0 + SECOND) } else { at };
            if at > now {
                later = Some(later.map_or(at, |later: Time| later.min(at)));
                return false;
            }
            self.spent.1 += 1;
            if times > 0 {
                self.tell(place, Action::Keep, Reason::Refused(times));
            } else if order == LinkOrder::Enable {
                self.tell(place, Action::Enable, Reason::Expected);
            }
            let pause = Time(SECOND.nanos() << times.min(9)).min(LONGEST_PAUSE);
            self.written.insert(place, (order, times + 1, now + pause));
            true
        });
        self.metrics.orders += orders.len() as u64;
        self.metrics.deferred += u64::from(later.is_some());
        judgement.orders = orders;
        self.judge_at = later;
    }
}

struct Judging {
    judgement: Judgement,
    disable: Vec<(Place, Reason)>,
    /// The manager's own.
    own: BTreeSet<Place>,
}

impl Judging {
    /// The port is not used, and its link is disabled.
    fn refuse(&mut self, place: Place, port: &SeenPort, reason: Reason) {
        self.judgement.withheld.insert(place);
        if port.link != LinkState::Disabled {
            self.disable.push((place, reason));
        }
    }
}
