//! Messages over the link of a host under test, which its agent sends: a controller tells it.

use std::collections::{BTreeMap, VecDeque};

use snin_protocol::Time;

use super::Sweep;
use crate::events::Output;
use snin_sm_database::judgement::{Judge, TestRequest};
use snin_sm_database::records::Place;

/// A controller that has not answered by then is none: it tries three peers at most, each for five seconds and a
/// half.
const PATIENCE: Time = Time::secs(20);

/// Tests under way: an answer, or the end of patience, removes each. There are never more than ports under test,
/// which are bounded.
#[derive(Default)]
pub(super) struct LinkTests {
    issued: u32,
    running: BTreeMap<u32, (Place, TestRequest, Time)>,
    done: VecDeque<(Place, TestRequest, Option<u32>)>,
}

impl LinkTests {
    /// When patience with the first ends.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.running.values().map(|&(.., until)| until).min()
    }

    /// A controller says how many messages arrived, or that no agent is there. Another test's number is dropped.
    pub(super) fn answered(&mut self, number: u32, arrived: Option<u32>) {
        if let Some((place, ask, _)) = self.running.remove(&number) {
            self.done.push_back((place, ask, arrived));
        }
    }

    /// Ends those whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        let late = self.running.extract_if(.., |_, (.., until)| *until <= now);
        self.done.extend(late.map(|(_, (place, ask, _))| (place, ask, None)));
    }

    /// Tells configuration what came of them.
    pub(super) fn report(&mut self, configuration: &mut dyn Judge, now: Time) {
        while let Some((place, ask, arrived)) = self.done.pop_front() {
            match ask {
                TestRequest::Messages(asked) => {
                    configuration.messages_arrived(place, asked, arrived, now);
                }
                _ => configuration.answered(place, ask, arrived > Some(0), now),
            }
        }
    }
}

impl Sweep {
    /// Has the agent behind a port send so many messages.
    pub(super) fn test_link(&mut self, place: Place, ask: TestRequest, messages: u32, now: Time) {
        let link = self.graph.find(place.0).and_then(|node| self.graph.link((node, place.1)));
        let far = link.map(|link| link.to).filter(|far| !self.graph.node(far.0).is_switch());
        let Some(port) = far.and_then(|far| self.graph.port(far)?.guid) else {
            return self.link_tests.done.push_back((place, ask, None));
        };
        let tests = &mut self.link_tests;
        tests.issued = tests.issued.wrapping_add(1);
        tests.running.insert(tests.issued, (place, ask, now + PATIENCE));
        self.outputs.push_back(Output::TestLink { number: tests.issued, port, messages });
    }
}
