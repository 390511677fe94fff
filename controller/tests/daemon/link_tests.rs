//! Agents that are asked to test their links and say what they like: a test ends by the word of its own agent,
//! with no more than was asked for, or by its silence.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_daemon::session::{Address, Caller, Received};
use snin_fabric::Guid;
use snin_protocol::message::{
    AgentMessage, ClockQuestion, ControllerMessage, FromAgent, Hello, LinkTest, LinkTested, ToAgent,
};
use snin_protocol::{Session, Term, Time};
use tokio::runtime::Runtime;

use super::agents::call;
use super::process::{Controller, PATIENCE};
use super::watcher::Watcher;

const SESSION: Session = Session(9);
const MESSAGES: u32 = 100;

/// Agents that are there, and do what the test does.
struct Puppets {
    runtime: Runtime,
    all: Vec<(Guid, Caller<ToAgent, FromAgent>)>,
    questions: u64,
}

impl Puppets {
    fn call(at: &Address, ports: &[Guid]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let all =
            runtime.block_on(async { ports.iter().map(|&port| (port, call(at, port))).collect() });
        let mut puppets = Self { runtime, all, questions: 0 };
        for (nth, &port) in ports.iter().enumerate() {
            puppets.hear(nth, |event| matches!(event, Received::Opened(_)).then_some(()));
            puppets.say(nth, AgentMessage::Hello(Hello { port, term: Term(0) }));
            puppets.hears(nth, |body| matches!(body, ControllerMessage::Welcome(_)).then_some(()));
        }
        puppets
    }

    fn say(&mut self, nth: usize, body: AgentMessage) {
        let (_, caller) = &mut self.all[nth];
        self.runtime
            .block_on(async { caller.send(&FromAgent { session: SESSION, body }) })
            .unwrap();
    }

    fn tested(&mut self, nth: usize, number: u32, arrived: u32) {
        self.say(nth, AgentMessage::LinkTested(LinkTested { number, arrived }));
    }

    /// Until one of them hears it; all give signs of life meanwhile.
    fn hear<T>(&mut self, nth: usize, wanted: impl Fn(Received<ToAgent>) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "agent {nth} does not hear it");
            let (_, caller) = &mut self.all[nth];
            let next =
                async { tokio::time::timeout(Duration::from_millis(100), caller.next()).await };
            if let Some(heard) = self.runtime.block_on(next).ok().and_then(&wanted) {
                return heard;
            }
            self.live();
        }
    }

    fn hears<T>(&mut self, nth: usize, wanted: impl Fn(ControllerMessage) -> Option<T>) -> T {
        self.hear(nth, |event| match event {
            Received::Said(_, ToAgent { session: SESSION, body, .. }) => wanted(body),
            _ => None,
        })
    }

    fn is_asked(&mut self, nth: usize) -> LinkTest {
        self.hears(nth, |body| match body {
            ControllerMessage::LinkTest(test) => Some(test),
            _ => None,
        })
    }

    /// What was said before has been taken once that is answered.
    fn hears_the_time(&mut self, nth: usize) {
        self.questions += 1;
        let sent = Time(self.questions);
        self.say(nth, AgentMessage::Clock(ClockQuestion { sent }));
        self.hears(nth, |body| match body {
            ControllerMessage::Clock(answer) if answer.sent == sent => Some(()),
            _ => None,
        });
    }

    fn live(&mut self) {
        for nth in 0..self.all.len() {
            self.say(nth, AgentMessage::Clock(ClockQuestion { sent: Time::ZERO }));
        }
        // Sessions send and hear while the runtime runs.
        self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    }
}

#[test]
fn only_the_agent_itself_ends_its_test_and_not_with_more_than_was_asked_for() {
    let controller = Controller::of("clos:4,4,2", "agent_rate = 500\n");
    let hosts = Watcher::new(controller.topology.clone()).hosts();
    let ports = [hosts[0], hosts[1], hosts[7]];
    let mut agents = Puppets::call(&controller.sessions(), &ports);
    let name = controller.ask(&json!({ "command": "fabric" })).unwrap()["hosts"][0].clone();
    let begin = || -> u64 {
        let asked = json!({ "command": "link_test", "port": name["name"], "messages": MESSAGES });
        controller.ask(&asked).unwrap()["number"].as_u64().unwrap()
    };
    let result = |number: u64| -> Value {
        controller.ask(&json!({ "command": "link_tested", "id": number })).unwrap()
    };
    let until_done = |agents: &mut Puppets, number: u64| {
        let began = Instant::now();
        loop {
            let result = result(number);
            if result["done"] == true {
                return result;
            }
            assert!(began.elapsed() < PATIENCE, "{result}");
            agents.live();
        }
    };

    // Others' words for it, and its word for another test, are not heard; its own counts once.
    let number = begin();
    let test = agents.is_asked(0);
    assert_eq!((u64::from(test.number), test.messages), (number, MESSAGES));
    assert_eq!(test.peer, ports[1], "the other one at its leaf");
    agents.tested(1, test.number, MESSAGES);
    agents.tested(0, test.number + 7, MESSAGES);
    agents.tested(0, u32::MAX, u32::MAX);
    agents.hears_the_time(0);
    agents.hears_the_time(1);
    let under_way =
        json!({ "number": number, "done": false, "arrived": null, "schema_version": 2 });
    assert_eq!(result(number), under_way);
    agents.tested(0, test.number, u32::MAX);
    assert_eq!(until_done(&mut agents, number)["arrived"], MESSAGES);
    agents.tested(0, test.number, 0);
    agents.hears_the_time(0);
    assert_eq!(result(number)["arrived"], MESSAGES);

    // Where not all arrived the next one is tried, and the most counts.
    let number = begin();
    let test = agents.is_asked(0);
    agents.tested(0, test.number, 3);
    let next = agents.is_asked(0);
    assert_eq!((next.number, next.peer), (test.number, ports[2]));
    agents.tested(0, test.number, 1);
    assert_eq!(until_done(&mut agents, number)["arrived"], 3);

    // From one that never says anything nothing arrived.
    let number = begin();
    agents.is_asked(0);
    assert_eq!(until_done(&mut agents, number)["arrived"], 0);
    assert_eq!(controller.status()["healthy"], true);
}
