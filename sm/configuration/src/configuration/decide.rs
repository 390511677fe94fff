//! The next step of each port, in this order: disable; leave; enable; test; miswire.

use std::collections::BTreeSet;

use snin_fabric::Guid;
use snin_protocol::Time;

use super::leave::Exits;
use super::{Configuration, Mark};
use crate::compare::miswired;
use crate::expected::{Expected, ExpectedPort, Mode};
use crate::reason::{Action, Reason};
use crate::trial::Trial;
use snin_sm_database::judgement::{Judgement, LinkOrder};
use snin_sm_database::records::Place;
use snin_sm_database::seen::{LinkState, Seen, SeenPort};

/// The longest pause before a link is told again what it did not do.
const LONGEST_PAUSE: Time = Time::secs(300);
const SECOND: Time = Time::secs(1);

impl Configuration {
    /// What follows from what discovery sees.
    pub(super) fn judged(&mut self, seen: &Seen, now: Time) -> Judgement {
        let Some(expected) = self.expected.clone().filter(|_| self.is_enforced(now)) else {
            return Judgement::default();
        };
        self.metrics.judged += 1;
        let judgement = Judgement::default();
        let exits = self.leave(&expected, seen);
        let (disable, undecided) = (Vec::new(), BTreeSet::new());
        self.own = seen.own_ports();
        let under_test = self.trials.values().filter(|trial| !trial.is_held()).count();
        let mut judging = Judging { judgement, disable, exits, undecided, under_test };
        for (&guid, switch) in &expected.switches {
            let Some(there) = seen.switches.get(&guid) else { continue };
            for (&num, want) in &switch.ports {
                if let Some(port) = there.port(num) {
                    self.decide(&expected, (guid, num), want, port, &mut judging, now);
                }
            }
        }
        self.hold_back(&expected, seen, &mut judging);
        // The farthest first: ways to others may lead over what is disabled.
        let hops = |place: &Place| seen.switches.get(&place.0).map_or(0, |switch| switch.hops);
        judging.disable.sort_by_key(|it| std::cmp::Reverse(hops(&it.place)));
        judging.judgement.orders.sort_by_key(|(place, _)| std::cmp::Reverse(hops(place)));
        let mut judgement = self.guard(&expected, seen, judging);
        self.unjudged = false;
        if self.limits.dry_run {
            for (place, order) in judgement.orders {
                if order.is_up() {
                    self.tell(place, Action::Enable, Reason::Expected);
                }
            }
            return Judgement::default();
        }
        self.restrain(&mut judgement, now);
        self.begin_anew_behind_resets(seen, &judgement.orders);
        self.hold(seen, &judgement.withheld, now);
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
        let took = |(order, ..): &mut (LinkOrder, u32, Time)| order.is_up() != is_disabled;
        if self.written.get_mut(&place).is_some_and(took) {
            self.written.remove(&place);
        }
        if want.mode == Mode::Disabled {
            self.end_trial(place);
            if port.link != LinkState::Disabled {
                judging.disable(place, Reason::Expected);
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
        if let Some(exit) = judging.exits.ends.get(&place).copied() {
            self.end_trial(place);
            if matches!(self.marks.get(&place), Some(Mark::Passed { .. })) {
                self.marks.remove(&place);
            }
            if port.link != LinkState::Disabled {
                let order = exit.due(port.link, now);
                judging.disable.push(Disable { place, reason: Reason::Empty, order });
            }
            return;
        }
        let is_tested = want.mode.is_tested() || self.wanted.contains(&place);
        if self.resetting.contains(&place) {
            if !port.active {
                judging.judgement.withheld.insert(place);
            }
            return judging.judgement.orders.push((place, LinkOrder::Reset));
        }
        if is_tested {
            self.test(expected, place, want, port, judging, now);
        }
        if port.link == LinkState::Disabled {
            judging.judgement.orders.push((place, LinkOrder::Enable));
        }
        if is_tested || port.link == LinkState::Disabled {
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
            if nobody || judging.under_test >= expected.tests.at_once as usize {
                // No neighbour is there; or there are so many that it has to wait.
                if !port.active && !self.own.contains(&place) {
                    judging.judgement.withheld.insert(place);
                }
                return;
            }
            // Nothing can be reached without the manager's own port.
            let withheld = !port.active && !self.own.contains(&place);
            self.trials.insert(place, Trial::begin(now, withheld));
            judging.under_test += 1;
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

    /// The ports of a switch that come into use together wait for the last of them.
    fn hold_back(&mut self, expected: &Expected, seen: &Seen, judging: &mut Judging) {
        let mut ready: Vec<Place> = Vec::new();
        for (&guid, switch) in &expected.switches {
            for (&num, want) in &switch.ports {
                let place = (guid, num);
                let enters = (want.mode == Mode::PhaseIn || self.entering.contains(&place))
                    && !judging.exits.ends.contains_key(&place);
                let Some(port) = seen.port(place).filter(|_| enters) else { continue };
                match (self.trials.get(&place), self.marks.get(&place)) {
                    (Some(trial), _) if trial.awaits_use() && !port.active => ready.push(place),
                    (Some(trial), _) if trial.withheld => {
                        judging.undecided.insert(guid);
                    }
                    (Some(_), _) => {}
                    (None, Some(Mark::Passed { active: false })) if !port.active => {
                        ready.push(place);
                    }
                    (None, Some(_)) => {
                        self.entering.remove(&place);
                    }
                    // Its test is still to begin, or its link to be told to come up.
                    (None, None) if port.link != LinkState::Down => {
                        judging.undecided.insert(guid);
                    }
                    (None, None) => {}
                }
            }
        }
        ready.retain(|place| judging.undecided.contains(&place.0));
        judging.judgement.withheld.extend(ready);
    }

    /// Tests wait that need an ACTIVE link, as long as either of its ends is not to be used yet.
    fn hold(&mut self, seen: &Seen, withheld: &BTreeSet<Place>, now: Time) {
        let waiting = self.trials.iter().filter(|(_, trial)| trial.awaits_use() || trial.is_held());
        let places: Vec<Place> = waiting.map(|(&place, _)| place).collect();
        for place in places {
            let behind = seen.behind(place);
            let held = withheld.contains(&place) || behind.is_some_and(|at| withheld.contains(&at));
            let is_new = self.trials.get_mut(&place).is_some_and(|trial| trial.hold(held, now));
            if is_new {
                self.passed |= !held;
                self.go_on(place, now);
            }
        }
    }

    /// A link that is reset goes down at both ends: the other end's test begins anew, and its own reset is off.
    fn begin_anew_behind_resets(&mut self, seen: &Seen, orders: &[(Place, LinkOrder)]) {
        for &(place, _) in orders.iter().filter(|(_, order)| *order == LinkOrder::Reset) {
            if let Some(behind) = seen.behind(place) {
                self.end_trial(behind);
            }
        }
    }

    /// Nothing is disabled, or left by traffic, that is the last way to a switch, or the manager's own port.
    fn guard(&mut self, expected: &Expected, seen: &Seen, judging: Judging) -> Judgement {
        let Judging { mut judgement, disable, exits, .. } = judging;
        let mut cut = BTreeSet::new();
        let mut reached = None;
        for Disable { place, reason, order } in disable {
            let port = seen.port(place);
            let neighbour = port.and_then(|port| port.neighbour.as_ref());
            let carries = neighbour.is_some_and(|neighbour| neighbour.is_switch);
            let kept = if self.forced {
                None
            } else if seen.is_own(place) {
                Some(Reason::OwnPort)
            } else if carries {
                cut.insert(place);
                let before = reached.take().unwrap_or_else(|| seen.reached(&BTreeSet::new()));
                let after = seen.reached(&cut);
                // A switch that keeps no link is meant to go.
                let matters = |guid: &&Guid| {
                    expected.switches.contains_key(*guid) && !exits.whole.contains(*guid)
                };
                let lost = before.difference(&after).find(matters);
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
                    let Some(order) = order else { continue };
                    judgement.orders.push((place, order));
                    let is_news = matches!(reason, Reason::Expected | Reason::Empty);
                    if self.limits.dry_run || is_news {
                        self.tell(place, Action::Disable, reason);
                    }
                }
            }
        }
        judgement
    }

    /// No more orders than may be given in a second; none again before its time.
    fn restrain(&mut self, judgement: &mut Judgement, now: Time) {
        if now >= self.spent.0 + SECOND {
            self.spent = (now, 0);
        }
        let (mut later, mut waits) = (None, false);
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
                // Its test begins when its link is told to come up, not while that waits for its turn.
                if times == 0 && order == LinkOrder::Enable {
                    self.end_trial(place);
                    waits = true;
                }
                return false;
            }
            self.spent.1 += 1;
            if order == LinkOrder::Reset {
                self.resetting.remove(&place);
                self.metrics.resets += 1;
            } else if times > 0 {
                self.tell(place, Action::Keep, Reason::Refused(times));
            } else if order.is_up() {
                self.tell(place, Action::Enable, Reason::Expected);
            }
            let pause = Time(SECOND.nanos() << times.min(9)).min(LONGEST_PAUSE);
            self.written.insert(place, (order, times + 1, now + pause));
            true
        });
        if waits {
            // One of them may be the other end of a link whose presence is tested.
            self.trials.values_mut().for_each(|trial| trial.begin_presence_anew(now));
        }
        self.metrics.orders += orders.len() as u64;
        self.metrics.deferred += u64::from(later.is_some());
        judgement.orders = orders;
        self.judge_at = later.into_iter().chain(self.next_empty(now)).min();
    }
}

/// A link that is to be down.
struct Disable {
    place: Place,
    reason: Reason,
    /// What it is told now; none: traffic has not left it yet, or the other end is told.
    order: Option<LinkOrder>,
}

struct Judging {
    judgement: Judgement,
    disable: Vec<Disable>,
    exits: Exits,
    /// Switches with ports that come into use together, of which some are not tested yet.
    undecided: BTreeSet<Guid>,
    /// Tests under way, but for those that wait for others.
    under_test: usize,
}

impl Judging {
    fn disable(&mut self, place: Place, reason: Reason) {
        self.disable.push(Disable { place, reason, order: Some(LinkOrder::Disable) });
    }

    /// The port is not used, and its link is disabled.
    fn refuse(&mut self, place: Place, port: &SeenPort, reason: Reason) {
        self.judgement.withheld.insert(place);
        if port.link != LinkState::Disabled {
            self.disable(place, reason);
        }
    }
}
