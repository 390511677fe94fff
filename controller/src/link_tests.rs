//! Tests of hosts' links by messages of their agents: who wants one, and what came of it.
//!
//! The agent at the port sends to another one, at the same leaf if there is any, and asks for that connection as
//! for all it sends: a test shares no link with a flow that was granted. Where that one has not all, the next is
//! tried, since it may be the other's link that lost it.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use snin_controller_core::events::Event;
use snin_fabric::Guid;
use snin_fabric::names::HostNames;
use snin_protocol::Time;
use snin_protocol::message::{LinkTest, LinkTested, MAX_TEST_MESSAGES};
use snin_protocol::operator::controller::{GetLinkTest, LinkTestBegun, LinkTestResult, TestLink};
use snin_protocol::view::PortTested;

use crate::daemon::Daemon;
use crate::principal::{ApiError, Permission, Principal};
use crate::recording::Recorded;

/// Tests at one time: what is beyond is answered as if no agent were there.
const MOST: usize = 1_024;
/// Others that are sent to, one after the other.
const PEERS: usize = 3;
/// An agent answers after five seconds at most.
const PATIENCE: Time = Time::millis(5_500);
/// Results that are kept for who asks.
const KEPT: usize = 256;
/// Bytes of a message: two packets of the greatest MTU.
const BYTES: u32 = 8_192;

/// Something is to be done.
enum Step {
    /// The agent at a port is told.
    Test(Guid, LinkTest),
    /// The manager is told.
    Tell(PortTested),
    /// It becomes an event.
    Note(LinkTestResult),
}

struct Running {
    port: Guid,
    messages: u32,
    /// The manager's number, if it was the manager that asked.
    number: Option<u32>,
    peers: VecDeque<Guid>,
    /// The most that arrived at any.
    best: Option<u32>,
    until: Time,
}

/// The tests under way. Each is removed by its agent's last answer, or when that is too late.
#[derive(Default)]
pub(crate) struct LinkTests {
    next: u32,
    running: BTreeMap<u32, Running>,
    steps: VecDeque<Step>,
    done: VecDeque<LinkTestResult>,
}

impl LinkTests {
    /// Begins a test, and gives it a number. `number`: the manager's.
    pub(crate) fn begin(
        &mut self,
        port: Guid,
        messages: u32,
        number: Option<u32>,
        core: Option<&Recorded>,
        now: Time,
    ) -> u32 {
        self.next = self.next.wrapping_add(1);
        let messages = messages.min(MAX_TEST_MESSAGES);
        let core = core.filter(|core| core.has_agent(port) && self.running.len() < MOST);
        let peers: VecDeque<Guid> =
            core.map_or_else(VecDeque::new, |core| core.agents_beside(port).take(PEERS).collect());
        let running = Running { port, messages, number, peers, best: None, until: now };
        self.running.insert(self.next, running);
        self.go_on(self.next, now);
        self.next
    }

    /// The next peer, or the end.
    fn go_on(&mut self, id: u32, now: Time) {
        let Some(running) = self.running.get_mut(&id) else { return };
        let is_done = running.best.is_some_and(|arrived| arrived >= running.messages);
        if let Some(peer) = running.peers.pop_front().filter(|_| !is_done) {
            running.until = now + PATIENCE;
            let test = LinkTest { number: id, peer, messages: running.messages, bytes: BYTES };
            return self.steps.push_back(Step::Test(running.port, test));
        }
        let Some(Running { port, messages, number, best, .. }) = self.running.remove(&id) else {
            return;
        };
        if let Some(number) = number {
            self.steps.push_back(Step::Tell(PortTested { number, arrived: best }));
        }
        let done = LinkTestResult {
            number: id,
            done: true,
            port: Some(port),
            messages: Some(messages),
            arrived: best,
        };
        if self.done.len() == KEPT {
            self.done.pop_front();
        }
        self.done.push_back(done.clone());
        self.steps.push_back(Step::Note(done));
    }

    /// An agent says what came of a test.
    pub(crate) fn answered(&mut self, port: Guid, tested: LinkTested, now: Time) {
        let Some(running) = self.running.get_mut(&tested.number).filter(|it| it.port == port)
        else {
            return;
        };
        let arrived = tested.arrived.min(running.messages);
        running.best = Some(running.best.map_or(arrived, |best| best.max(arrived)));
        self.go_on(tested.number, now);
    }

    /// Agents that do not answer are not waited for any longer.
    fn expire(&mut self, core: Option<&Recorded>, now: Time) {
        let late = self.running.iter().filter(|(_, running)| running.until <= now);
        for id in late.map(|(&id, _)| id).collect::<Vec<_>>() {
            if let Some(running) = self.running.get_mut(&id) {
                running.peers.clear();
                // One that is there and silent has nothing that arrived.
                let is_there = core.is_some_and(|core| core.has_agent(running.port));
                running.best =
                    running.best.or_else(|| (is_there && running.messages > 0).then_some(0));
            }
            self.go_on(id, now);
        }
    }

    /// What came of a test, or that it is under way; none of one that is not known.
    fn result(&self, number: u64) -> Option<LinkTestResult> {
        let number = u32::try_from(number).ok()?;
        let done = self.done.iter().find(|done| done.number == number).cloned();
        let runs = || self.running.contains_key(&number);
        let under_way =
            || LinkTestResult { number, done: false, port: None, messages: None, arrived: None };
        done.or_else(|| runs().then(under_way))
    }
}

impl Daemon {
    /// Tests of links go on: agents are told, and who asked is answered.
    pub(crate) fn test_links(&mut self) {
        let now = self.clock.now();
        self.link_tests.expire(self.core.as_ref(), now);
        while let Some(step) = self.link_tests.steps.pop_front() {
            match step {
                Step::Test(port, test) => {
                    if let Some(core) = &mut self.core {
                        core.handle(Event::TestLink(port, test), now);
                    }
                }
                Step::Tell(tested) => {
                    if let Some(manager) = &mut self.manager {
                        manager.tested(tested);
                    }
                }
                Step::Note(LinkTestResult { number, port, messages, arrived, .. }) => {
                    let fields = json!({
                        "number": number, "port": port, "messages": messages, "arrived": arrived, "done": true,
                    });
                    self.outlets.notify("LINK_TESTED", fields);
                }
            }
        }
    }

    /// An operator wants a link tested.
    pub(crate) fn test_link(
        &mut self,
        principal: &Principal,
        asked: &TestLink,
    ) -> Result<LinkTestBegun, ApiError> {
        self.permit(principal, Permission::Operator, "test links")?;
        let core = self.core()?;
        let view = core.view();
        let names = HostNames::of(view.topology(), &view.routing().hosts);
        let host = names.find(&asked.port).map_err(|error| error.to_string())?;
        let host = view.routing().hosts.get(host).ok_or("no such host")?;
        let port = view.topology().port(host.port).guid;
        if !core.has_agent(port) {
            return Err(ApiError::conflict(format!("no agent is heard at {:.80}", asked.port)));
        }
        if core.agents_beside(port).next().is_none() {
            return Err(ApiError::conflict("no other agent is heard that messages could go to"));
        }
        let messages = u32::try_from(asked.messages).ok();
        let messages = messages.filter(|n| (1..=MAX_TEST_MESSAGES).contains(n));
        let messages = messages.ok_or_else(|| format!("`messages` is 1 to {MAX_TEST_MESSAGES}"))?;
        let now = self.clock.now();
        let number = self.link_tests.begin(port, messages, None, self.core.as_ref(), now);
        Ok(LinkTestBegun { number })
    }

    /// What came of it.
    pub(crate) fn link_tested(&self, asked: &GetLinkTest) -> Result<LinkTestResult, ApiError> {
        let absent = || ApiError::absent(format!("no link test has the number {}", asked.id));
        self.link_tests.result(asked.id).ok_or_else(absent)
    }
}
