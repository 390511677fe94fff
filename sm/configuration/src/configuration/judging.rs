//! Configuration as the sweep knows it: what it is asked after a discovery, and told of ports under test.

use super::Configuration;
use crate::reason::Reason;
use snin_protocol::Time;
use snin_sm_database::judgement::{End, Judge, Judgement, TestRequest};
use snin_sm_database::records::Place;
use snin_sm_database::seen::Seen;

impl Judge for Configuration {
    fn enforces(&self, now: Time) -> bool {
        self.is_enforced(now)
    }

    fn judge(&mut self, seen: &Seen, now: Time) -> Judgement {
        self.judged(seen, now)
    }

    fn take_unjudged(&mut self, now: Time) -> bool {
        let due = self.judge_at.take_if(|at| *at <= now).is_some();
        std::mem::take(&mut self.unjudged) | due
    }

    fn take_passed_when(&mut self, settled: bool) -> bool {
        settled && std::mem::replace(&mut self.passed, false)
    }

    fn next_ask(&mut self) -> Option<(Place, TestRequest)> {
        self.asks.pop_front()
    }

    fn answered(&mut self, place: Place, ask: TestRequest, well: bool, now: Time) {
        let Some(trial) = self.trials.get_mut(&place) else { return };
        trial.answered(ask, well);
        let of_application = matches!(ask, TestRequest::Application | TestRequest::Agent);
        if trial.is_refused() && of_application {
            return self.end(place, Some(Reason::Application));
        }
        self.go_on(place, now);
    }

    fn messages_arrived(&mut self, place: Place, asked: u32, arrived: Option<u32>, now: Time) {
        if let Some(trial) = self.trials.get_mut(&place) {
            trial.messages_arrived(asked, arrived);
            self.go_on(place, now);
        }
    }

    fn counted(&mut self, place: Place, end: End, errors: Option<u32>, now: Time) {
        if let Some(trial) = self.trials.get_mut(&place) {
            trial.counted(end, errors);
            self.go_on(place, now);
        }
    }

    fn awaits_empty(&self) -> bool {
        self.leaving.values().any(|leaving| leaving.empty.is_none() && !leaving.rests)
    }

    fn settled(&mut self, is_left: &dyn Fn(Place) -> bool, now: Time) {
        self.note_empty(is_left, now);
    }
}
