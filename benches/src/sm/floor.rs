//! The floor under a bring-up: its MADs, recorded, and sent again by a loop that only counts.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_judges::JudgeError;
use snin_mad::{Attribute, LinearForwarding, Mad, Method};
use snin_protocol::Time;
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port, Sent};
use snin_sm_database::config::Config;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::saved::Saved;
use snin_sweep::{Event, Output, Report, Sweep};

use super::{Case, lmc};
use crate::Hash;

/// As many in flight as snin-sm has.
const WINDOW: u64 = 128;
/// After this long without an answer something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it takes, and a hash of the tables that are written.
pub(super) fn run(case: &Case) -> Result<(Duration, u64), JudgeError> {
    let mads = record(case)?;
    let mut blocks: Vec<&[u8]> = Vec::new();
    for mad in &mads {
        let header = mad.header();
        if (header.method(), header.attribute()) == (Method::Set, LinearForwarding::ID) {
            blocks.push(&mad.0[20..128]);
        }
    }
    blocks.sort_unstable();
    let mut hash = Hash::default();
    blocks.into_iter().for_each(|block| hash.bytes(block));
    Ok((replay(case, &mads)?, hash.0))
}

fn attached(case: &Case) -> Result<(snin_judges::Simulator, IbsimPort), JudgeError> {
    let simulator = case.fabric()?;
    let port = IbsimPort::attach(simulator.name(), None).expect("ibsim takes a client");
    Ok((simulator, port))
}

/// The core's own bring-up, driven by the least that drives it.
fn record(case: &Case) -> Result<Vec<Mad>, JudgeError> {
    let (_simulator, mut port) = attached(case)?;
    let config = Config { lmc: lmc(case), ..Config::default() };
    let mut sweep = Sweep::new(config, Saved::default()).expect("a configuration");
    let begin = Instant::now();
    let now = || Time(begin.elapsed().as_nanos() as u64);
    let (mut sent, mut waiting) = (Vec::new(), VecDeque::new());
    let mut up = false;
    sweep.handle(Event::Start, now());
    while !(up && sweep.is_idle()) {
        while let Some(output) = sweep.poll_output() {
            match output {
                Output::Send { mad, .. } => waiting.push_back(mad),
                Output::Compute(job) => sweep.handle(Event::Computed(Box::new(job.run())), now()),
                Output::Report(Report::Ready { missing, .. }) => {
                    assert_eq!(missing, []);
                    up = true;
                }
                _ => {}
            }
        }
        while let Some(mad) = waiting.front()
            && send(&mut port, mad)
        {
            sent.push((**mad).clone());
            waiting.pop_front();
        }
        wait(&port);
        while let Some(received) = port.receive().expect("ibsim lives") {
            let (port, source) = (LocalPort(0), received.from.lid);
            sweep.handle(Event::Mad { port, source, bytes: &received.mad.0 }, now());
        }
        assert!(begin.elapsed() < PATIENCE, "not up: {:?}", sweep.missing());
        if sweep.next_deadline().is_some_and(|deadline| deadline <= now()) {
            sweep.handle_deadline(now());
        }
    }
    Ok(sent)
}

fn replay(case: &Case, mads: &[Mad]) -> Result<Duration, JudgeError> {
    let (_simulator, mut port) = attached(case)?;
    let begin = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < mads.len() as u64 {
        while let Some(mad) = mads.get(sent as usize)
            && sent - answered < WINDOW
            && send(&mut port, mad)
        {
            sent += 1;
        }
        wait(&port);
        while port.receive().expect("ibsim lives").is_some() {}
        let counters = port.counters();
        answered = counters.received + counters.undelivered;
        assert!(begin.elapsed() < PATIENCE, "{answered} answers to {sent} MADs");
    }
    Ok(begin.elapsed())
}

fn send(port: &mut IbsimPort, mad: &Mad) -> bool {
    port.send(mad, &Address::DIRECTED).expect("ibsim lives") == Sent::Yes
}

/// Until there is something to receive, a tenth of a second at most.
fn wait(port: &IbsimPort) {
    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    // An interrupted wait is a short one.
    let _ = poll(&mut [PollFd::from_borrowed_fd(port.readable(), PollFlags::IN)], Some(&limit));
}
