//! One cable cut, and put back: how long, and how many SMPs, from the first trap to the last table written.
//!
//! Our side by what the daemon itself captures: every MAD with its time. OpenSM's by its log, from the first
//! notice to the last time that it calls the subnet up, and ibsim's count of what it was asked.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use snin_judges::{JudgeError, Running};
use snin_mad::capture::RECORD;
use snin_mad::{Attribute, LinearForwarding, Mad, Method};

use super::{Case, a_cable, manager};
use crate::Outcome;

/// Nothing for so long: it is done. The daemon asks again after a tenth of it.
const QUIET: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a capture's record: where the MAD begins.
const MAD: usize = 60;

/// Milliseconds and SMPs.
#[derive(Clone, Copy, Default)]
struct Cost {
    time: f64,
    smps: f64,
}

pub(super) fn run(case: &Case) -> Result<Vec<Outcome>, JudgeError> {
    let port = a_cable(&case.topology);
    let node = case.topology.node(case.topology.port(port).node);
    let at = (format!("S-{:016x}", node.guid.0), Some(case.topology.num(port).0));
    let (ours, theirs) = (ours(case, &at)?, theirs(case, &at)?);
    let mut outcomes = Vec::new();
    for (what, ours, theirs) in
        [("cable cut", ours[0], theirs[0]), ("cable back", ours[1], theirs[1])]
    {
        outcomes.push(case.outcome(what, "ms", ours.time, ("opensm", theirs.time), 0));
        outcomes.push(case.outcome(what, "SMPs", ours.smps, ("opensm", theirs.smps), 0));
    }
    Ok(outcomes)
}

type At = (String, Option<u8>);

fn ours(case: &Case, (node, port): &At) -> Result<[Cost; 2], JudgeError> {
    let simulator = case.fabric()?;
    let capture = simulator.folder().join("capture");
    let mut command = manager(case, &simulator);
    command.arg("--capture").arg(&capture);
    let running = Running::start(&mut command, simulator.folder(), "snin-sm")?;
    let up = quiet(&capture, 1, &running)?;
    simulator.unlink(node, *port)?;
    let cut = quiet(&capture, up + 1, &running)?;
    simulator.relink(node, *port)?;
    quiet(&capture, cut + 1, &running)?;
    let bytes = fs::read(&capture).map_err(JudgeError::file(&capture))?;
    Ok([cost(&bytes[up..cut]), cost(&bytes[cut..])])
}

/// Waits until the file is at least so long and then grows no more: its length.
fn quiet(file: &Path, least: usize, running: &Running) -> Result<usize, JudgeError> {
    let (begin, mut length, mut since) = (Instant::now(), 0, Instant::now());
    while length < least || since.elapsed() < QUIET {
        sleep(Duration::from_millis(20));
        let now = fs::metadata(file).map_or(0, |file| file.len() as usize);
        if now != length {
            (length, since) = (now, Instant::now());
        }
        if begin.elapsed() > PATIENCE {
            let (program, tail) = ("snin-sm".to_owned(), running.tail());
            return Err(JudgeError::TooLong { program, limit: PATIENCE, tail });
        }
    }
    Ok(length)
}

/// What was captured: from the first trap to the answer to the last write of a table.
fn cost(records: &[u8]) -> Cost {
    let record = |bytes: &[u8]| {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let time = f64::from(number(0)) * 1e3 + f64::from(number(4)) / 1e6;
        (time, Mad::from_slice(&bytes[MAD..MAD + 256]).expect("256 bytes"))
    };
    let mads: Vec<(f64, Mad)> = records.chunks_exact(RECORD).map(record).collect();
    let is = |mad: &Mad, method: Method| mad.header().method() == method;
    let is_table = |mad: &Mad| mad.header().attribute() == LinearForwarding::ID;
    let trap = mads.iter().position(|(_, mad)| is(mad, Method::Trap)).expect("a trap");
    let written = mads.iter().rposition(|(_, mad)| is(mad, Method::Set) && is_table(mad));
    let written = written.expect("a table is written");
    let id = |mad: &Mad| mad.header().transaction_id().0 as u32;
    let answers =
        |(_, mad): &&(f64, Mad)| is(mad, Method::GetResp) && id(mad) == id(&mads[written].1);
    let answer = mads[written..].iter().find(answers).expect("the write is answered");
    let asked =
        mads[trap..=written].iter().filter(|(_, mad)| is(mad, Method::Get) || is(mad, Method::Set));
    Cost { time: answer.0 - mads[trap].0, smps: asked.count() as f64 }
}

fn theirs(case: &Case, (node, port): &At) -> Result<[Cost; 2], JudgeError> {
    let mut costs = [Cost::default(); 2];
    // Counting slows ibsim down, so the time is another run's.
    for counted in [false, true] {
        let simulator = case.fabric()?;
        let mut opensm = case.opensm(None, None).keep(&simulator)?;
        for (cost, cut) in costs.iter_mut().zip([true, false]) {
            let before = opensm.ups()?;
            let mut change = || -> Result<(), JudgeError> {
                match cut {
                    true => simulator.unlink(node, *port)?,
                    false => simulator.relink(node, *port)?,
                }
                opensm.wait_up(before + 1)?;
                // Each end of a cable that is back sends a trap: there may be another sweep.
                sleep(2 * QUIET);
                Ok(())
            };
            if counted {
                let (asked, done) = simulator.count(change)?;
                done?;
                cost.smps = asked as f64;
            } else {
                change()?;
                cost.time = opensm.reaction(before)?.as_secs_f64() * 1e3;
            }
        }
    }
    Ok(costs)
}
