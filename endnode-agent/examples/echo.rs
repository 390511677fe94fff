//! Answers messages, or asks and says how long the answers took:
//!
//!     echo agent.toml                         # on one host
//!     echo agent.toml 0x0002c90300a1b2c3 100  # on another: the first one's GUID, how many messages
//!
//! The agent's settings name the peers; see `snin-agent --dump-config`.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use snin_agent::{Agent, Settings};
use snin_daemon::settings::load;
use snin_fabric::Guid;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [settings] => answer(&start(settings)?),
        [settings, peer, count] => ask(&start(settings)?, peer.parse()?, count.parse()?),
        _ => Err("echo SETTINGS [PEER COUNT]".into()),
    }
}

fn start(settings: &str) -> Result<Agent, Box<dyn Error>> {
    Ok(Agent::start(&load::<Settings>(Path::new(settings))?)?)
}

/// Sends every message back to its sender.
fn answer(agent: &Agent) -> Result<(), Box<dyn Error>> {
    let mut flows = Vec::new();
    loop {
        let message = agent.recv()?;
        let known = flows.iter().position(|flow: &snin_agent::Flow| flow.peer() == message.peer());
        let at = known.map_or_else(
            || {
                agent.connect(message.peer()).map(|flow| {
                    flows.push(flow);
                    flows.len() - 1
                })
            },
            Ok,
        )?;
        flows[at].send(&message)?;
    }
}

/// Sends so many messages, the next when the answer to the last has come.
fn ask(agent: &Agent, peer: Guid, count: u64) -> Result<(), Box<dyn Error>> {
    let mut flow = agent.connect(peer)?;
    let mut longest = Duration::ZERO;
    let begin = Instant::now();
    for number in 0..count {
        let sent = Instant::now();
        flow.send(&number.to_be_bytes())?;
        let answer = agent.recv_timeout(PATIENCE)?;
        if answer[..] != number.to_be_bytes() {
            return Err(format!("the answer to message {number} is another").into());
        }
        longest = longest.max(sent.elapsed());
    }
    let mean = begin.elapsed() / u32::try_from(count.max(1))?;
    writeln!(std::io::stdout(), "{count} answers, {mean:?} each, {longest:?} the longest")?;
    Ok(())
}
