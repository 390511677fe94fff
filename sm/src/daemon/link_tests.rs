//! Tests of hosts' links that controllers are asked for: only the controller that a host's agent has a session
//! with can have it send.

use std::collections::{BTreeMap, VecDeque};

use snin_protocol::view::PortTested;

/// Tests at one time: beyond them the oldest is forgotten.
const MOST: usize = 65_536;

/// Puts the answers of several controllers together: the first that has the agent says what came of a test, and
/// where none has it the last one does. A test is removed then; the core waits for it a bounded time.
#[derive(Debug)]
pub struct LinkTests<P> {
    /// By number: the controllers that have not answered.
    waiting: BTreeMap<u32, Vec<P>>,
    done: VecDeque<PortTested>,
}

impl<P> Default for LinkTests<P> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), done: VecDeque::new() }
    }
}

impl<P: Clone + PartialEq> LinkTests<P> {
    /// These controllers are asked for a test.
    pub fn ask(&mut self, number: u32, controllers: &[P]) {
        if self.waiting.len() >= MOST {
            self.waiting.pop_first();
        }
        self.waiting.insert(number, controllers.to_vec());
    }

    /// A controller answers; one that was not asked, or has answered, is not heard.
    pub fn answered(&mut self, from: &P, tested: PortTested) {
        let Some(waiting) = self.waiting.get_mut(&tested.number) else { return };
        let Some(at) = waiting.iter().position(|asked| asked == from) else { return };
        waiting.swap_remove(at);
        if tested.arrived.is_some() || waiting.is_empty() {
            self.waiting.remove(&tested.number);
            self.done.push_back(tested);
        }
    }

    /// A controller is gone: its agents call another one, which was asked too if it was there.
    pub fn gone(&mut self, controller: &P) {
        let left = self.waiting.extract_if(.., |_, waiting| {
            waiting.retain(|asked| asked != controller);
            waiting.is_empty()
        });
        self.done.extend(left.map(|(number, _)| PortTested { number, arrived: None }));
    }

    /// What came of a test.
    pub fn take_done(&mut self) -> Option<PortTested> {
        self.done.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Option<u32> = None;

    fn asked() -> LinkTests<&'static str> {
        let mut link_tests = LinkTests::default();
        link_tests.ask(7, &["serves", "stands by"]);
        link_tests
    }

    fn says(link_tests: &mut LinkTests<&'static str>, from: &'static str, arrived: Option<u32>) {
        link_tests.answered(&from, PortTested { number: 7, arrived });
    }

    #[test]
    fn the_controller_with_the_agent_is_heard_and_a_standby_is_not() {
        for standby_first in [true, false] {
            let mut link_tests = asked();
            if standby_first {
                says(&mut link_tests, "stands by", NONE);
                assert_eq!(link_tests.take_done(), None, "the other one may have the agent");
            }
            says(&mut link_tests, "serves", Some(500));
            says(&mut link_tests, "stands by", NONE);
            says(&mut link_tests, "serves", Some(3));
            assert_eq!(link_tests.take_done(), Some(PortTested { number: 7, arrived: Some(500) }));
            assert_eq!((link_tests.take_done(), link_tests.waiting.len()), (None, 0));
        }
    }

    #[test]
    fn no_agent_is_there_only_by_the_word_of_all() {
        let mut link_tests = asked();
        for _ in 0..3 {
            says(&mut link_tests, "stands by", NONE);
        }
        says(&mut link_tests, "a stranger", Some(500));
        link_tests.answered(&"serves", PortTested { number: 8, arrived: Some(500) });
        assert_eq!(link_tests.take_done(), None);
        says(&mut link_tests, "serves", NONE);
        assert_eq!(link_tests.take_done(), Some(PortTested { number: 7, arrived: None }));
    }

    #[test]
    fn one_that_is_gone_is_not_waited_for() {
        let mut link_tests = asked();
        link_tests.gone(&"serves");
        assert_eq!(link_tests.take_done(), None);
        says(&mut link_tests, "stands by", Some(500));
        assert_eq!(link_tests.take_done(), Some(PortTested { number: 7, arrived: Some(500) }));
        let mut link_tests = asked();
        says(&mut link_tests, "stands by", NONE);
        link_tests.gone(&"serves");
        assert_eq!(link_tests.take_done(), Some(PortTested { number: 7, arrived: None }));
    }

    #[test]
    fn the_oldest_is_forgotten_where_there_are_too_many() {
        let mut link_tests = asked();
        (8..8 + MOST as u32).for_each(|number| link_tests.ask(number, &["serves"]));
        assert_eq!(link_tests.waiting.len(), MOST);
        says(&mut link_tests, "serves", Some(1));
        assert_eq!(link_tests.take_done(), None);
    }
}
