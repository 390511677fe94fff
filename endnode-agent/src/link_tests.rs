//! Tests of this port's link that the controller wants: messages to a peer, sent as all others are.

use std::time::{Duration, Instant};

use snin_protocol::message::{LinkTest, LinkTested, MAX_TEST_MESSAGES};
use tracing::warn;

use crate::agent::Agent;
use crate::flow::Flow;

/// Tests at one time: what is beyond is answered at once, with nothing that arrived.
const MOST: usize = 4;
/// What has not arrived by then has not.
const PATIENCE: Duration = Duration::from_secs(5);

/// The tests under way. Each ends when all has arrived, or its patience does.
#[derive(Default)]
pub(crate) struct LinkTests {
    running: Vec<Running>,
}

struct Running {
    number: u32,
    flow: Flow,
    message: Vec<u8>,
    left: u32,
    sent: u32,
    until: Instant,
}

impl Running {
    fn arrived(&self) -> u32 {
        self.sent - u32::try_from(self.flow.waiting()).unwrap_or(self.sent).min(self.sent)
    }
}

impl LinkTests {
    /// Begins a test; one that cannot be begun has ended.
    pub(crate) fn begin(&mut self, agent: &Agent, test: LinkTest) {
        let LinkTest { number, peer, messages, bytes } = test;
        let left = messages.min(MAX_TEST_MESSAGES);
        let opened = match left {
            0 => None,
            _ if self.running.len() >= MOST => None,
            _ => agent.connect(peer).inspect_err(|why| warn!("a test of the link: {why}")).ok(),
        };
        let Some(flow) = opened else {
            return agent.link_tested(LinkTested { number, arrived: 0 });
        };
        let length = bytes as usize;
        let message = vec![0; if agent.check_length(length).is_ok() { length } else { 64 }];
        let until = Instant::now() + PATIENCE;
        self.running.push(Running { number, flow, message, left, sent: 0, until });
    }

    /// Sends as far as there is room, and answers for what has ended.
    pub(crate) fn work(&mut self, agent: &Agent) {
        let now = Instant::now();
        self.running.retain_mut(|running| {
            while running.left > 0 && running.flow.try_send(&running.message).is_ok() {
                running.left -= 1;
                running.sent += 1;
            }
            let is_done = running.left == 0 && running.flow.waiting() == 0;
            let ends = is_done || running.until <= now;
            if ends {
                let (number, arrived) = (running.number, running.arrived());
                agent.link_tested(LinkTested { number, arrived });
            }
            !ends
        });
    }

    /// Whether none is under way.
    pub(crate) const fn is_idle(&self) -> bool {
        self.running.is_empty()
    }
}
