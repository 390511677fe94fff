//! In the virtual machine: who measures what, one after the other.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::Command;
use std::time::Instant;

use super::Said;
use super::sides::Sides;

/// perftest does not know that this device can copy messages when posting; so `snin lat` does not either.
const INLINE: &str = "0";
/// perftest's own, that of `snin lat`, and perftest's when it runs twice.
const PERFTEST_PORT: u16 = 18_515;
const LAT_PORT: u16 = 18_516;
const AGAIN_PORT: u16 = 18_517;
/// Each side polls on a processor of its own: on the same one they take turns of 4 ms, and where Linux puts
/// them is chance.
pub const CALLS_ON: usize = 0;
/// The side that waits for the other.
pub const WAITS_ON: usize = 1;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Half round trips of sends.
    SendLatency,
    /// Half round trips of writes.
    WriteLatency,
    /// Sends as fast as they go.
    SendBandwidth,
}

/// The program that measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The peer.
    Perftest,
    /// `snin lat`.
    Snin,
    /// Two agents: rings, mesh, histogram.
    Agent,
    /// The peer once more: the control.
    Again,
}

impl Who {
    /// In the lines of the runs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Perftest => "perftest",
            Self::Snin => "snin",
            Self::Agent => "agent",
            Self::Again => "again",
        }
    }

    /// In a result.
    pub fn title(self, case: &Case) -> String {
        match self {
            Self::Snin => "snin lat".to_owned(),
            Self::Agent => "snin's whole agent".to_owned(),
            Self::Perftest | Self::Again => format!("{} again (control)", case.perftest()),
        }
    }
}

/// Messages of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    kind: Kind,
    length: usize,
    iterations: u32,
}

/// The cases of a size.
pub fn cases(size: &str) -> Vec<Case> {
    let is_small = size == "small";
    let lengths: &[usize] = if is_small { &[64] } else { &[2, 64, 4096, 65_536] };
    let iterations = |length| match length {
        ..=4096 if is_small => 400,
        ..=64 => 8_000,
        65..=4096 => 4_000,
        _ => 100,
    };
    let mut cases = Vec::new();
    for kind in [Kind::SendLatency, Kind::WriteLatency] {
        let case = |&length: &usize| Case { kind, length, iterations: iterations(length) };
        cases.extend(lengths.iter().map(case));
    }
    let iterations = if is_small { 130 } else { 300 };
    cases.push(Case { kind: Kind::SendBandwidth, length: 65_536, iterations });
    cases
}

impl Case {
    /// One word.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            Kind::SendLatency => "send",
            Kind::WriteLatency => "write",
            Kind::SendBandwidth => "bandwidth",
        };
        format!("{kind}-{}B", self.length)
    }

    /// The peer's program.
    pub const fn perftest(&self) -> &'static str {
        match self.kind {
            Kind::SendLatency => "ib_send_lat",
            Kind::WriteLatency => "ib_write_lat",
            Kind::SendBandwidth => "ib_send_bw",
        }
    }

    /// Whether microseconds are told.
    pub fn is_latency(&self) -> bool {
        self.kind != Kind::SendBandwidth
    }

    /// The programs that measure it in a round; the peer first.
    pub const fn who(&self) -> &'static [Who] {
        match self.kind {
            Kind::SendLatency => &[Who::Perftest, Who::Snin, Who::Agent, Who::Again],
            Kind::WriteLatency | Kind::SendBandwidth => &[Who::Perftest, Who::Snin, Who::Again],
        }
    }

    /// What each says in a round, in the order of [`who`](Self::who).
    fn measure(&self, round: usize) -> Result<Vec<Said>, Box<dyn Error>> {
        let who = self.who();
        let mut said = vec![String::new(); who.len()];
        for turn in 0..who.len() {
            let at = place(round, turn, who.len());
            said[at] = self.start(who[at])?.end()?;
        }
        let read = |(who, text): (&Who, &String)| {
            self.read(text).ok_or_else(|| format!("{} says\n{text}", who.name()).into())
        };
        who.iter().zip(&said).map(read).collect()
    }

    fn start(&self, who: Who) -> Result<Sides, Box<dyn Error>> {
        let (waits, calls, port) = match who {
            Who::Perftest => self.perftest_sides(PERFTEST_PORT),
            Who::Again => self.perftest_sides(AGAIN_PORT),
            Who::Snin => self.snin_sides(),
            Who::Agent => self.agent_sides(),
        };
        Sides::start(waits, calls, port)
    }

    fn perftest_sides(&self, port: u16) -> (Command, Command, u16) {
        let side = |core: usize, device: &str| {
            let mut command = on(core, self.perftest());
            command.args(["-F", "-d", device, "-s", &self.length.to_string()]);
            command.args(["-n", &self.iterations.to_string(), "-p", &port.to_string()]);
            command
        };
        let mut calls = side(CALLS_ON, "rxe0");
        calls.arg("127.0.0.1");
        (side(WAITS_ON, "rxe1"), calls, port)
    }

    fn snin_sides(&self) -> (Command, Command, u16) {
        let side = |core: usize, device: &str| {
            let mut command = on(core, "snin");
            command.args(["lat", "--device", device]);
            command
        };
        let mut calls = side(CALLS_ON, "rxe0");
        calls.args(["--peer", "127.0.0.1", "--size", &self.length.to_string(), "--warm-up", "0"]);
        calls.args(["--iterations", &self.iterations.to_string()]);
        calls.args(["--inline", INLINE]);
        match self.kind {
            Kind::SendLatency => {}
            Kind::WriteLatency => _ = calls.args(["--operation", "write"]),
            Kind::SendBandwidth => _ = calls.arg("--bandwidth"),
        }
        (side(WAITS_ON, "rxe1"), calls, LAT_PORT)
    }

    fn agent_sides(&self) -> (Command, Command, u16) {
        let mut waits = Command::new("verbs");
        waits.args(["answer", &self.length.to_string()]);
        let mut calls = Command::new("verbs");
        calls.args(["ask", &self.length.to_string(), &self.iterations.to_string()]);
        (waits, calls, super::agents::ANSWERS_AT)
    }

    /// The one line of figures: its columns are perftest's.
    fn read(&self, text: &str) -> Option<Said> {
        let figures = |line: &str| {
            let all = line.split_whitespace().map(|word| word.parse::<f64>().ok());
            all.collect::<Option<Vec<f64>>>().filter(|all| !all.is_empty())
        };
        let line = text.lines().find_map(figures)?;
        let (typical, tail) = if self.is_latency() { (4, 7) } else { (3, 4) };
        if *line.first()? as usize != self.length || *line.get(1)? as u32 > self.iterations {
            return None;
        }
        Some(Said { typical: *line.get(typical)?, tail: *line.get(tail)? })
    }
}

/// A program on one processor only.
fn on(core: usize, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

/// Who of `count` has that turn of a round: each begins two rounds, and the second goes the other way round.
const fn place(round: usize, turn: usize, count: usize) -> usize {
    let begins = round / 2 % count;
    if round.is_multiple_of(2) { (begins + turn) % count } else { (begins + count - turn) % count }
}

/// Takes that many rounds of all cases, and leaves a line a run in `$OUT/runs`.
///
/// # Errors
/// The first program that fails, with what it said.
pub fn take(size: &str, rounds: &str) -> Result<(), Box<dyn Error>> {
    let (rounds, begin) = (rounds.parse::<usize>()?, Instant::now());
    let mut runs = String::new();
    for round in 0..rounds {
        for case in cases(size) {
            for (who, Said { typical, tail }) in case.who().iter().zip(case.measure(round)?) {
                writeln!(runs, "{} {} {typical} {tail}", case.name(), who.name())?;
            }
        }
        let seconds = begin.elapsed().as_secs();
        writeln!(std::io::stderr(), "round {} of {rounds}, {seconds} s", round + 1)?;
    }
    Ok(fs::write(std::env::var("OUT")? + "/runs", runs)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_have_their_turn_and_nobody_always_follows_the_same_one() {
        for count in [3, 4] {
            let mut follows = BTreeSet::new();
            for round in 0..2 * count {
                let order: Vec<usize> = (0..count).map(|turn| place(round, turn, count)).collect();
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), count, "{order:?}");
                follows.extend(order.windows(2).map(|two| (two[1], two[0])));
            }
            for one in 0..count {
                assert_eq!(follows.range((one, 0)..(one + 1, 0)).count(), 2, "{follows:?}");
            }
        }
    }
}
