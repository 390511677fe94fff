//! Two agents whose program is its own data thread: a message goes through ring, mesh and device, is answered
//! by the other agent, and comes back the same way.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use snin_agent::{Agent, Driver, Flow, Incoming, Settings};
use snin_daemon::settings::parse;
use snin_fabric::Guid;
use snin_protocol::Time;

use super::turns::{CALLS_ON, WAITS_ON};

/// The TCP ports of the two agents.
pub const ANSWERS_AT: u16 = 18_521;
const ASKS_AT: u16 = 18_522;
const ANSWERER: Guid = Guid(1);
const ASKER: Guid = Guid(2);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long word of the end may take to get there.
const FAREWELL: Duration = Duration::from_secs(1);
const NOTHING: &str = "nothing came for 20 s";
/// Before what is measured: the queue pairs are made on the first.
const WARM_UP: usize = 10;

/// A side: an agent and a flow to the other one.
struct Side<'a> {
    agent: &'a Agent,
    driver: Driver,
    flow: Flow,
}

/// An agent of its own, and what drives it.
fn start(
    own: Guid,
    peer: Guid,
    device: &str,
    length: &str,
) -> Result<(Agent, Driver), Box<dyn Error>> {
    let at = |guid| if guid == ANSWERER { ANSWERS_AT } else { ASKS_AT };
    // One message at a time: as few receives as `snin lat` has then.
    let text = format!(
        "guid = \"{own}\"\ndevice = \"{device}\"\nlisten = \"plain://127.0.0.1:{}\"\n\
         peers = {{ \"{peer}\" = \"plain://127.0.0.1:{}\" }}\npolicy = \"besteffort\"\n\
         message = {}\nbuffers = 16\nreceives = 4\npairs = 4\nflows = 4\n\
         acknowledgement_us = 500000\nheartbeat_ms = 3000\n",
        at(own),
        at(peer),
        length.parse::<u32>()?.max(64)
    );
    let started = Agent::start_driven(&parse::<Settings>(&text, "agent.toml")?)?;
    // Only this thread polls; the agent's other one is where there is time.
    let mut core = CpuSet::new();
    core.set(if own == ANSWERER { WAITS_ON } else { CALLS_ON });
    sched_setaffinity(None, &core)?;
    Ok(started)
}

impl<'a> Side<'a> {
    /// That agent's, with messages to this peer.
    fn new(agent: &'a Agent, driver: Driver, peer: Guid) -> Result<Self, Box<dyn Error>> {
        Ok(Self { agent, driver, flow: agent.connect(peer)? })
    }

    /// Sends a message with this first byte.
    fn send(&mut self, first: u8, pattern: &[u8], due: Time) -> Result<(), Box<dyn Error>> {
        let mut message = self.agent.reserve(pattern.len())?;
        message.copy_from_slice(pattern);
        message[0] = first;
        self.flow.commit_due(message, due).map_err(|refused| refused.error)?;
        self.driver.poll();
        Ok(())
    }

    /// Polls until a message came; none if none does for too long.
    fn receive(&mut self) -> Option<Incoming<'a>> {
        let mut deadline = None;
        loop {
            for _ in 0..1000 {
                if self.driver.poll()
                    && let Some(message) = self.agent.try_recv()
                {
                    return Some(message);
                }
            }
            if Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + PATIENCE) {
                return None;
            }
        }
    }
}

/// Answers every message with one of the same bytes, until one of another length comes.
///
/// # Errors
/// When the agent cannot start, nothing comes, or what comes is another message.
pub fn answer(length: &str) -> Result<(), Box<dyn Error>> {
    let expected = pattern(length.parse()?);
    let (agent, driver) = start(ANSWERER, ASKER, "rxe1", length)?;
    let mut side = Side::new(&agent, driver, ASKER)?;
    loop {
        let Some(message) = side.receive() else { return Err(NOTHING.into()) };
        if message.len() != expected.len() {
            return Ok(());
        }
        // The answer goes out before the message's memory is given back.
        side.send(message[0], &expected, side.agent.now())?;
        // It is looked at while the answer is under way.
        if !is_message(&message, message.number() as usize, &expected) {
            return Err(format!("message {} is another", message.number()).into());
        }
    }
}

/// Sends so many messages, the next when the last was answered, and says in perftest's columns how long half
/// of that took.
///
/// # Errors
/// When the agent cannot start, an answer does not come, or is another.
pub fn ask(length: &str, count: &str) -> Result<(), Box<dyn Error>> {
    let (expected, count) = (pattern(length.parse()?), count.parse::<usize>()?);
    let (agent, driver) = start(ASKER, ANSWERER, "rxe0", length)?;
    let mut side = Side::new(&agent, driver, ANSWERER)?;
    let mut sent = Vec::with_capacity(WARM_UP + count + 1);
    let mut answer: Option<Incoming<'_>> = None;
    for number in 0..=WARM_UP + count {
        let now = side.agent.now();
        side.send(number as u8, &expected, now)?;
        sent.push(now);
        // The last answer is looked at while the next is under way.
        if let Some(answer) = answer.take()
            && !is_message(&answer, number - 1, &expected)
        {
            return Err(format!("the answer to message {} is another", number - 1).into());
        }
        let Some(came) = side.receive() else { return Err(NOTHING.into()) };
        answer = Some(came);
    }
    side.flow.try_send(b"")?;
    // A peer that has heard the last message may end before its acknowledgement has left, and then none comes.
    let last = Instant::now() + FAREWELL;
    while side.flow.waiting() > 0 && Instant::now() < last {
        side.driver.poll();
    }
    let took = sent[WARM_UP..].windows(2).map(|sent| (sent[1] - sent[0]).nanos() as f64 / 2e3);
    let mut took: Vec<f64> = took.collect();
    took.sort_unstable_by(f64::total_cmp);
    let at = |quantile: usize| took[(count * quantile / 1000).min(count - 1)];
    let mean = took.iter().sum::<f64>() / count as f64;
    let deviation = took.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count as f64;
    let line = [at(0), at(1000), at(500), mean, deviation.sqrt(), at(990), at(999)];
    let line = line.map(|figure| format!("{figure:.2}")).join(" ");
    writeln!(io::stdout(), "{length} {count} {line}")?;
    Ok(())
}

/// Whether something that came is the message of that number; all messages end alike. Every byte is looked at in
/// one of so many that what it takes is no 99th percentile: perftest and `snin lat` look at none.
fn is_message(came: &[u8], number: usize, expected: &[u8]) -> bool {
    came.len() == expected.len()
        && came[0] == number as u8
        && (came.len() == 1 || came.last() == expected.last())
        && (!number.is_multiple_of(256) || came[1..] == expected[1..])
}

/// What messages are but for their first byte.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}
