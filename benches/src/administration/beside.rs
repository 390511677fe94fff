//! snin-sm beside OpenSM, both as processes on the same fabric, which ibsim simulates: Get(PathRecord) with one
//! and with many outstanding, and what either holds in memory.
//!
//! Every request and every answer passes ibsim, which is one thread: what the two managers have in common.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, NodeKind, Topology, ibnet};
use snin_judges::{JudgeError, OpenSm, Running, Simulator, ibnetdiscover};
use snin_mad::sa::{PathRecord, SaRequest};
use snin_mad::{Mad, Method, QKey};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

use super::path;
use crate::{Outcome, Size, built};

const PATIENCE: Duration = Duration::from_secs(60);
/// Requests outstanding.
const OUTSTANDING: [usize; 2] = [1, 64];

pub(super) fn run(size: Size) -> Result<Vec<Outcome>, JudgeError> {
    let (recipe, requests, rounds) = match size {
        Size::Small => ("clos:4,2,3", 200, 1),
        Size::Full => ("clos:36,18,18", 20_000, 5),
    };
    let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let (ours, theirs) = (Ask::ours(&topology)?, Ask::opensm(&topology)?);
    let (mut ours, mut theirs) = (ours, theirs);
    let hosts = ours.guids.len();
    let line = |case: String, unit, ours, peer| Outcome {
        bench: "sa",
        case: format!("{hosts} hosts on ibsim: {case}"),
        unit,
        ours,
        peer,
        peer_name: "opensm".to_owned(),
        paired: None,
        hash: 0,
    };
    let mut outcomes = Vec::new();
    for outstanding in OUTSTANDING {
        // They take turns.
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            a.push(ours.rate(requests, outstanding));
            b.push(theirs.rate(requests, outstanding));
        }
        let case = format!("Get(PathRecord), {outstanding} outstanding");
        outcomes.push(line(case, "1/s", median(a), median(b)));
    }
    let memory = [&ours, &theirs].map(|asked| asked.memory() as f64 / 1024.0 / 1024.0);
    outcomes.push(line("memory of the whole process".to_owned(), "MiB", memory[0], memory[1]));
    Ok(outcomes)
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A manager that keeps a fabric, and a host of it.
struct Ask {
    port: IbsimPort,
    manager: Lid,
    guids: Vec<Guid>,
    count: u64,
    process: u32,
    // Ended before the fabric that it manages.
    _running: Manager,
    _simulator: Simulator,
}

/// A process that ends with the value.
enum Manager {
    Ours(#[expect(dead_code, reason = "it ends with the value")] Running),
    OpenSm(#[expect(dead_code, reason = "it ends with the value")] snin_judges::Keeper),
}

impl Ask {
    fn ours(topology: &Topology) -> Result<Self, JudgeError> {
        let simulator = Simulator::start(&ibnet::write(topology))?;
        let mut command = Command::new(built("snin-sm"));
        command.args(["--ibsim", simulator.name(), "--lmc", "0"]);
        // As its unit has it: a heap, not one a thread.
        command.current_dir(simulator.folder()).env("MALLOC_ARENA_MAX", "1");
        let running = Running::start(&mut command, simulator.folder(), "snin-sm")?;
        let process = running.id();
        Self::at(simulator, Manager::Ours(running), process)
    }

    fn opensm(topology: &Topology) -> Result<Self, JudgeError> {
        let simulator = Simulator::start(&ibnet::write(topology))?;
        let keeper = OpenSm::default().keep(&simulator)?;
        let process = keeper.id();
        Self::at(simulator, Manager::OpenSm(keeper), process)
    }

    /// As soon as it answers.
    fn at(simulator: Simulator, running: Manager, process: u32) -> Result<Self, JudgeError> {
        // With port GUIDs as ibsim gives them; the first host is the manager's.
        let found = ibnet::parse(&ibnetdiscover(&simulator)?).expect("ibnetdiscover's text");
        let adapters = found.nodes().filter(|&node| found.node(node).kind == NodeKind::Adapter);
        let hosts: Vec<_> = adapters.filter(|&n| found.cables(n).next().is_some()).collect();
        let guid = |&node: &_| found.port(found.cables(node).next().expect("a cable").0).guid;
        let guids: Vec<Guid> = hosts.iter().map(guid).collect();
        let name = format!("H-{:016x}", found.node(hosts[1]).guid.0);
        let port = IbsimPort::attach(simulator.name(), Some(&name)).expect("a free host");
        let mut asked = Self {
            port,
            manager: Lid::NONE,
            guids,
            count: 1 << 20,
            process,
            _running: running,
            _simulator: simulator,
        };
        asked.find_manager();
        Ok(asked)
    }

    /// The manager's address: the one that answers.
    fn find_manager(&mut self) {
        let begin = Instant::now();
        let request = path(self.guids[1], self.guids[1]);
        loop {
            for lid in (1..=self.guids.len() as u16 * 2).map(Lid) {
                self.manager = lid;
                self.count += 1;
                self.send(&request.clone().transaction(self.count).mad());
                let sent = Instant::now();
                while sent.elapsed() < Duration::from_millis(if lid.0 < 4 { 200 } else { 20 }) {
                    if self.receive().is_some_and(|answer| answer.status.is_ok()) {
                        return;
                    }
                }
            }
            assert!(begin.elapsed() < PATIENCE, "no manager answers");
        }
    }

    fn send(&mut self, mad: &Mad) {
        let to =
            Address { lid: self.manager, qp: 1, sl: 0, q_key: QKey(0x8001_0000), p_key_index: 0 };
        while self.port.send(mad, &to).expect("ibsim") == Sent::Full {
            self.wait();
        }
    }

    fn wait(&self) {
        let wait = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let readable = self.port.readable();
        poll(&mut [PollFd::from_borrowed_fd(readable, PollFlags::IN)], Some(&wait)).expect("poll");
    }

    /// The next answer to one of our requests, if it comes soon.
    fn receive(&mut self) -> Option<SaRequest> {
        let received = match self.port.receive().expect("ibsim") {
            Some(received) => received,
            None => {
                self.wait();
                self.port.receive().expect("ibsim")?
            }
        };
        let answer = SaRequest::parse(&received.mad).ok()?;
        (answer.method == Method::GetResp && received.mad.header().status().0 != 110)
            .then_some(answer)
    }

    /// Requests a second.
    fn rate(&mut self, requests: usize, outstanding: usize) -> f64 {
        let hosts = self.guids.len();
        let (first, begin) = (self.count as u32, Instant::now());
        let (mut asked, mut answered) = (0, 0);
        while answered < requests {
            while asked < requests && asked - answered < outstanding {
                let to = (asked * 7 + 2) % hosts;
                self.count += 1;
                let request = path(self.guids[1], self.guids[to]);
                self.send(&request.transaction(self.count).mad());
                asked += 1;
            }
            if let Some(answer) = self.receive()
                && answer.transaction_id.0 as u32 > first
            {
                let record: PathRecord = answer.record().expect("a path");
                assert!(answer.status.is_ok() && record.dlid != Lid::NONE, "{answer:?}");
                answered += 1;
            }
            assert!(begin.elapsed() < 4 * PATIENCE, "{answered} of {requests} answered");
        }
        requests as f64 / begin.elapsed().as_secs_f64()
    }

    /// Bytes of memory that the process has.
    fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process));
        let text = text.expect("the manager's status");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024)
    }
}
