//! A cable or a switch taken away, and put back: how long, and how many SMPs, from the first trap to the last
//! table written.
//!
//! Our side by what the daemon itself captures: every MAD with its time. OpenSM's by its log: from the first
//! notice to the last time that it calls its tables configured (it says so once all writes are sent, so their
//! answers are not in it), and to the last time that it calls the subnet up; its SMPs by ibsim's count of what
//! it was asked.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use snin_fabric::{NodeIndex, PortIndex, Topology};
use snin_judges::{JudgeError, Running, Simulator};
use snin_mad::capture::RECORD;
use snin_mad::{Attribute, LinearForwarding, Mad, Method};

use super::{Case, manager};
use crate::Outcome;

/// Nothing for so long: it is done. The daemon asks again after a tenth of it.
const QUIET: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a capture's record: where the MAD begins.
const MAD: usize = 60;

/// What is taken away, and comes back.
pub(crate) struct Piece {
    /// As results call it.
    what: &'static str,
    /// The node in the netlist.
    node: String,
    /// One port of it; `None`: all.
    port: Option<u8>,
}

impl Piece {
    pub(crate) fn cable(topology: &Topology, port: PortIndex) -> Self {
        let node = name(topology, topology.port(port).node);
        Self { what: "cable", node, port: Some(topology.num(port).0) }
    }

    pub(crate) fn switch(topology: &Topology, switch: NodeIndex) -> Self {
        Self { what: "switch", node: name(topology, switch), port: None }
    }

    fn change(&self, simulator: &Simulator, away: bool) -> Result<(), JudgeError> {
        match away {
            true => simulator.unlink(&self.node, self.port),
            false => simulator.relink(&self.node, self.port),
        }
    }
}

fn name(topology: &Topology, switch: NodeIndex) -> String {
    format!("S-{:016x}", topology.node(switch).guid.0)
}

/// Milliseconds to the last table and to the last write, and SMPs.
#[derive(Clone, Copy, Default)]
struct Cost {
    tables: f64,
    up: f64,
    smps: f64,
}

/// Away and back, each by the two times and the SMPs; the medians of `runs` runs.
pub(crate) fn run(case: &Case, piece: &Piece, runs: usize) -> Result<Vec<Outcome>, JudgeError> {
    let mut all: [Vec<[Cost; 2]>; 2] = Default::default();
    for _ in 0..runs {
        all[0].push(ours(case, piece)?);
        all[1].push(theirs(case, piece)?);
    }
    let mut outcomes = Vec::new();
    for (change, word) in ["away", "back"].into_iter().enumerate() {
        let median = |of: fn(&Cost) -> f64| {
            all.each_ref().map(|costs| {
                let mut values: Vec<f64> = costs.iter().map(|cost| of(&cost[change])).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            })
        };
        type Figure = fn(&Cost) -> f64;
        let figures: [(&str, &str, Figure); 3] = [
            ("last table", "ms", |cost| cost.tables),
            ("up", "ms", |cost| cost.up),
            ("asked", "SMPs", |cost| cost.smps),
        ];
        for (figure, unit, of) in figures {
            let what = format!("{} {word}, {figure}", piece.what);
            let [ours, theirs] = median(of);
            outcomes.push(case.outcome(&what, unit, ours, ("opensm", theirs), 0));
        }
    }
    Ok(outcomes)
}

fn ours(case: &Case, piece: &Piece) -> Result<[Cost; 2], JudgeError> {
    let simulator = case.fabric()?;
    let capture = simulator.folder().join("capture");
    let mut command = manager(case, &simulator)?;
    command.arg("--capture").arg(&capture);
    let running = Running::start(&mut command, simulator.folder(), "snin-sm")?;
    let up = quiet(&capture, 1, &running)?;
    piece.change(&simulator, true)?;
    let cut = quiet(&capture, up + 1, &running)?;
    piece.change(&simulator, false)?;
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

/// What was captured: from the first trap to the answer to the last write of a table, and to that of the last
/// write.
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
    let id = |mad: &Mad| mad.header().transaction_id().0 as u32;
    let answered = |written: usize| {
        let answers =
            |(_, mad): &&(f64, Mad)| is(mad, Method::GetResp) && id(mad) == id(&mads[written].1);
        mads[written..].iter().find(answers).expect("the write is answered").0 - mads[trap].0
    };
    let table = mads.iter().rposition(|(_, mad)| is(mad, Method::Set) && is_table(mad));
    let last = mads.iter().rposition(|(_, mad)| is(mad, Method::Set)).expect("a write");
    let asked =
        mads[trap..=last].iter().filter(|(_, mad)| is(mad, Method::Get) || is(mad, Method::Set));
    Cost {
        tables: answered(table.expect("a table is written")),
        up: answered(last),
        smps: asked.count() as f64,
    }
}

fn theirs(case: &Case, piece: &Piece) -> Result<[Cost; 2], JudgeError> {
    let mut costs = [Cost::default(); 2];
    // Counting slows ibsim down, so the time is another run's.
    for counted in [false, true] {
        let simulator = case.fabric()?;
        let mut opensm = case.opensm(None, None).keep(&simulator)?;
        for (cost, away) in costs.iter_mut().zip([true, false]) {
            let before = opensm.ups()?;
            let mut change = || -> Result<(), JudgeError> {
                piece.change(&simulator, away)?;
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
                let took = opensm.reaction(before)?;
                cost.tables = took.tables.as_secs_f64() * 1e3;
                cost.up = took.up.as_secs_f64() * 1e3;
            }
        }
    }
    Ok(costs)
}
