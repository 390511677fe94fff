//! In the virtual machine: who measures what, one after the other.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Said;

/// perftest does not know that this device can copy messages when posting; so `snin lat` does not either.
const INLINE: &str = "0";
/// perftest's own, and that of `snin lat`.
const PERFTEST_PORT: u16 = 18_515;
const LAT_PORT: u16 = 18_516;
/// How long a side may take to begin, and to end.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// Who measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The peer.
    Perftest,
    /// `snin lat`.
    Snin,
    /// Two agents: ring, mesh, histogram.
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

/// The cases of a size whose names contain `only`. Of hundreds of messages both sides call the same one the 99th
/// percentile, though perftest leaves out its last one and ranks without its two slowest: of 50 it would tell the
/// second slowest, and `snin lat` the slowest.
pub fn cases(size: &str, only: &str) -> Vec<Case> {
    let small = size == "small";
    let lengths: &[usize] = if small { &[64] } else { &[2, 64, 4096, 65_536] };
    let case = |kind, length, iterations| Case { kind, length, iterations };
    let mut cases = Vec::new();
    for kind in [Kind::SendLatency, Kind::WriteLatency] {
        cases.extend(
            lengths
                .iter()
                .map(|&length| case(kind, length, if small || length > 4096 { 100 } else { 1000 })),
        );
    }
    cases.push(case(Kind::SendBandwidth, 65_536, if small { 130 } else { 300 }));
    cases.retain(|case| case.name().contains(only));
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

    /// Who measures it in a round; the peer first.
    pub const fn who(&self) -> &'static [Who] {
        match self.kind {
            Kind::SendLatency => &[Who::Perftest, Who::Snin, Who::Agent, Who::Again],
            Kind::WriteLatency | Kind::SendBandwidth => &[Who::Perftest, Who::Snin, Who::Again],
        }
    }

    fn measure(&self, who: Who) -> Result<Said, Box<dyn Error>> {
        let (mut waits, mut calls, port) = match who {
            Who::Perftest | Who::Again => self.perftest_sides(),
            Who::Snin => self.snin_sides(),
            Who::Agent => self.agent_sides(),
        };
        let mut waiting = waits.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let called = listens(port).and_then(|()| Ok(calls.output()?));
        // A side that waits for nobody must not outlive its turn.
        if !called.as_ref().is_ok_and(|output| output.status.success()) {
            waiting.kill()?;
        }
        let (waited, called) = (waiting.wait_with_output()?, called?);
        if !waited.status.success() || !called.status.success() {
            return Err(format!("{waits:?}: {waited:?}\n{calls:?}: {called:?}").into());
        }
        let text = String::from_utf8_lossy(&called.stdout);
        self.read(&text).ok_or_else(|| format!("{calls:?} says\n{text}").into())
    }

    fn perftest_sides(&self) -> (Command, Command, u16) {
        let side = |core: usize, device: &str| {
            let mut command = on(core, self.perftest());
            command.args(["-F", "-d", device, "-s", &self.length.to_string()]);
            command.args(["-n", &self.iterations.to_string()]);
            command
        };
        let mut calls = side(CALLS_ON, "rxe0");
        calls.arg("127.0.0.1");
        (side(WAITS_ON, "rxe1"), calls, PERFTEST_PORT)
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

    /// The one line of figures: its columns are perftest's, whoever wrote it.
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

/// Who of `count` has that turn of a round: any of them begins two rounds, and what goes one way about in the
/// first goes the other way in the second.
const fn place(round: usize, turn: usize, count: usize) -> usize {
    let begins = round / 2 % count;
    if round.is_multiple_of(2) { (begins + turn) % count } else { (begins + count - turn) % count }
}

/// Waits until somebody listens at a TCP port.
fn listens(port: u16) -> Result<(), Box<dyn Error>> {
    let wanted = format!(":{port:04X}");
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let table = fs::read_to_string(table)?;
            let is_there = table.lines().any(|line| {
                let mut words = line.split_whitespace().skip(1);
                let local = words.next().is_some_and(|local| local.ends_with(&wanted));
                local && words.nth(1) == Some("0A")
            });
            if is_there {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("nobody listens at {port}").into())
}

/// Takes `pairs` rounds of all cases, and leaves a line a run in `$OUT/runs`.
///
/// # Errors
/// The first program that fails, with what it said.
pub fn take(size: &str, pairs: &str, only: &str) -> Result<(), Box<dyn Error>> {
    let (pairs, begin) = (pairs.parse::<usize>()?, Instant::now());
    let mut runs = String::new();
    for round in 0..pairs {
        for case in cases(size, only) {
            let who = case.who();
            let mut said = vec![None; who.len()];
            for turn in 0..who.len() {
                let at = place(round, turn, who.len());
                said[at] = Some(case.measure(who[at])?);
            }
            for (who, Said { typical, tail }) in who.iter().zip(said.into_iter().flatten()) {
                writeln!(runs, "{} {} {typical} {tail}", case.name(), who.name())?;
            }
        }
        let seconds = begin.elapsed().as_secs();
        writeln!(std::io::stderr(), "round {} of {pairs}, {seconds} s", round + 1)?;
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

    #[test]
    fn both_sides_call_the_same_message_the_99th_percentile() {
        let cases = ["small", "full"].into_iter().flat_map(|size| cases(size, ""));
        for case in cases.filter(Case::is_latency) {
            let rank = |of: u32| (f64::from(of) * 0.99).ceil() as u32;
            // `print_report_lat`: of the sorted intervals, counted from 0, the one with this number.
            let intervals = case.iterations - 1;
            let slower_by_perftest = intervals - 1 - rank(intervals - 2);
            let slower_by_snin = case.iterations - rank(case.iterations);
            assert_eq!(slower_by_perftest, slower_by_snin, "of {}", case.iterations);
        }
    }
}
