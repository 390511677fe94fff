//! From a window's decision until every changed lease is confirmed: the controller's core and sessions on one
//! thread, as the daemon has them, and all agents on another, over TLS with certificates at both ends.
//!
//! In every round each agent asks for another peer, so every lease changes. Beside it, in the same run and on the
//! same connections: as many frames of the same kind that agents answer at once, with nothing decided (echo).

mod agents;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rustix::time::{ClockId, clock_gettime};
use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::events::{Event, Output};
use snin_daemon::clock::Clock;
use snin_daemon::pki::Pki;
use snin_daemon::session::{Credentials, Files, Limits, Listen, Listener, Received};
use snin_fabric::Guid;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::view::PlannedView;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{AgentMessage, ClockAnswer, ControllerMessage, FromAgent, ToAgent};
use snin_protocol::{Session, Term, Time};

use crate::{Hash, Outcome, Size};
use agents::Agents;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Leases confirmed and echoes answered, by size of the fabric.
///
/// # Panics
/// Where the sessions do not come up, or something is not granted or not confirmed.
pub fn run(size: Size) -> Vec<Outcome> {
    let cases: &[(&str, usize)] = match size {
        Size::Small => &[("clos:4,2,2", 3)],
        Size::Full => &[("clos:10,10,10", 1_000), ("clos:36,18,18", 300)],
    };
    cases.iter().flat_map(|&(recipe, rounds)| case(recipe, rounds)).collect()
}

fn case(recipe: &str, rounds: usize) -> Vec<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let measured = runtime.expect("a runtime").block_on(measure(recipe, rounds));
    let Measured { agents, windows, echoes, decided, frames, window_cpu, echo_cpu, hash } =
        measured;
    let line = |case: &str, unit, ours, peer, peer_name: &str| Outcome {
        bench: "window",
        case: format!("{agents} agents: {case}"),
        unit,
        ours,
        peer,
        peer_name: peer_name.to_owned(),
        paired: None,
        hash,
    };
    let echo = "echo of as many frames";
    let ms = |times: &[Duration], share| percentile(times, share).as_secs_f64() * 1e3;
    vec![
        line("all confirmed, p50", "ms", ms(&windows, 0.5), ms(&echoes, 0.5), echo),
        line("all confirmed, p99", "ms", ms(&windows, 0.99), ms(&echoes, 0.99), echo),
        line("all confirmed, p99.9", "ms", ms(&windows, 0.999), ms(&echoes, 0.999), echo),
        line("of that decided, p50", "ms", ms(&decided, 0.5), ms(&windows, 0.5), "the whole"),
        line("controller's processor a window", "ms", window_cpu, echo_cpu, echo),
        line("frames a window", "frames", frames, agents as f64, "one a changed lease"),
    ]
}

struct Measured {
    agents: usize,
    windows: Vec<Duration>,
    echoes: Vec<Duration>,
    /// Until the core had decided.
    decided: Vec<Duration>,
    /// Leases a window.
    frames: f64,
    /// Milliseconds a window and an echo of the controller's thread.
    window_cpu: f64,
    echo_cpu: f64,
    hash: u64,
}

fn percentile(times: &[Duration], share: f64) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// A CA and what it issued, in a folder of their own.
struct Site {
    _folder: tempfile::TempDir,
    pki: Pki,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let pki = Pki::at(folder.path());
        pki.init("bench", 30).expect("a CA");
        Self { _folder: folder, pki }
    }

    fn credentials(&self, who: &Identity) -> Arc<Credentials> {
        let pair = self.pki.issue(who, 10, None).expect("a certificate");
        let (certificate, key) = (pair.certificate.clone(), pair.key.clone());
        let files =
            Files { certificate, key, ca_certificate: self.pki.file("ca.crt"), revoked: None };
        Arc::new(Credentials::load(files).expect("credentials"))
    }
}

/// The controller's thread.
struct Bench {
    clock: Clock,
    core: Core,
    listener: Listener<FromAgent, ToAgent>,
    ports: Vec<Guid>,
    open: BTreeSet<Guid>,
    /// The lease sent last to each agent, and the one confirmed last.
    sent: BTreeMap<Guid, u64>,
    confirmed: BTreeMap<Guid, u64>,
    asked: usize,
    echoed: usize,
}

async fn measure(recipe: &str, rounds: usize) -> Measured {
    let site = Site::new();
    let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let routing = Routing::compute(&topology, Engine::Trees, None).expect("trees");
    let guid = |port| topology.port(port).guid;
    let ports: Vec<Guid> = routing.hosts.iter().map(|(_, host)| guid(host.port)).collect();
    let view = PlannedView::new(1, topology, routing);
    let clock = Clock::system();
    let config = Config {
        window: Time::millis(50),
        lead: Time::millis(20),
        // Nothing runs out or is said again meanwhile.
        lease: 10_000,
        silence: 1_000_000,
        repeat: Time::secs(3_600),
        ..Config::default()
    };
    let identity = Identity::new(Role::Controller, "bench").expect("a name");
    let limits = Limits { rate: 1 << 30, burst: 1 << 30, waiting: 4_096, ..Limits::default() };
    let listener = Listener::start(Listen {
        at: vec!["tls://127.0.0.1:0".parse().expect("an address")],
        service: Service::Grants,
        identity: identity.clone(),
        roles: vec![Role::Agent],
        users: Vec::new(),
        group: None,
        limits,
        credentials: Some(site.credentials(&identity)),
    });
    let listener = listener.expect("a listener");
    let credentials = ports.iter().map(|&port| site.credentials(&Identity::Agent(port))).collect();
    let agents = Agents::start(&ports, credentials, &listener.addresses()[0]);
    let core = Core::new(config, Arc::new(view), clock.now()).expect("a core");
    let mut bench = Bench {
        clock,
        core,
        listener,
        ports,
        open: BTreeSet::new(),
        sent: BTreeMap::new(),
        confirmed: BTreeMap::new(),
        asked: 0,
        echoed: 0,
    };
    let count = bench.ports.len();
    bench.until("all agents", |bench| bench.open.len() == count).await;
    bench.rounds(&agents, rounds).await
}

impl Bench {
    /// Hears agents until it is so.
    async fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !so(self) {
            assert!(begin.elapsed() < PATIENCE, "{what}");
            let heard = tokio::time::timeout(PATIENCE, self.listener.next()).await;
            self.receive(heard.unwrap_or_else(|_| panic!("{what}: nobody says anything")));
            while let Some(heard) = self.listener.try_next() {
                self.receive(heard);
            }
            self.perform();
        }
    }

    fn receive(&mut self, heard: Received<FromAgent>) {
        match heard {
            Received::Opened(_) => {}
            Received::Closed(peer, end) => panic!("{peer}: {end}"),
            Received::Said(peer, message) => {
                let from = peer.port().expect("an agent");
                match &message.body {
                    AgentMessage::Hello(_) => drop(self.open.insert(from)),
                    AgentMessage::Ask(_) => self.asked += 1,
                    AgentMessage::Confirm(confirm) => {
                        self.confirmed.insert(from, confirm.sequence);
                    }
                    // No agent asks the core of this bench for the time.
                    AgentMessage::Clock(_) => {
                        self.echoed += 1;
                        return;
                    }
                    AgentMessage::LinkTested(_) => {}
                }
                self.core.handle(Event::Received { from, message }, self.clock.now());
            }
        }
    }

    /// Sends what the core wants; how many leases, and how many connections a window granted if one was decided.
    fn perform(&mut self) -> (usize, Option<u32>) {
        let (mut leases, mut granted) = (0, None);
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Send { to, message } => {
                    if let ControllerMessage::Lease(lease) = &message.body {
                        leases += 1;
                        self.sent.insert(to, lease.sequence);
                    }
                    let sent = self.listener.send(&Identity::Agent(to), &message);
                    assert!(sent.expect("a frame"), "{to} does not read");
                }
                Output::Window(report) => granted = Some(report.granted),
                Output::Note(note) => panic!("{note}"),
                Output::Clear(_) | Output::LinkTested(..) => {}
            }
        }
        (leases, granted)
    }

    /// Decides the next window when it is time.
    async fn decide(&mut self) -> (usize, Option<u32>, Instant) {
        loop {
            let due = self.core.next_deadline().expect("a window");
            let wait = due - self.clock.now();
            if wait > Time::ZERO {
                tokio::time::sleep(Duration::from_nanos(wait.nanos())).await;
            }
            let begin = Instant::now();
            self.core.handle_deadline(self.clock.now());
            let (leases, granted) = self.perform();
            if granted.is_some() {
                return (leases, granted, begin);
            }
        }
    }

    async fn rounds(&mut self, agents: &Agents, rounds: usize) -> Measured {
        let count = self.ports.len();
        let mut hash = Hash::default();
        let (mut windows, mut echoes, mut decided) = (Vec::new(), Vec::new(), Vec::new());
        let (mut frames, mut window_cpu, mut echo_cpu) = (0, 0.0, 0.0);
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for round in 1..=rounds as u64 {
            let peers = permutation(&self.ports, &mut random);
            for (from, to) in &peers {
                hash.number(from.0);
                hash.number(to.0);
            }
            self.asked = 0;
            agents.ask(round, peers);
            self.until("all ask", |b| b.asked == count && b.sent == b.confirmed).await;

            let cpu = thread_time();
            let (leases, granted, begin) = self.decide().await;
            decided.push(begin.elapsed());
            assert_eq!((granted, leases), (Some(count as u32), count), "every lease changes");
            self.until("all confirm", |bench| bench.sent == bench.confirmed).await;
            windows.push(begin.elapsed());
            window_cpu += thread_time() - cpu;
            frames += leases;

            (self.echoed, echoes) = (0, echoes);
            let cpu = thread_time();
            let begin = Instant::now();
            for &to in &self.ports {
                let body = ControllerMessage::Clock(ClockAnswer { sent: Time::ZERO });
                let at = self.clock.now();
                let message = ToAgent { session: Session(1), term: Term(1), at, body };
                let sent = self.listener.send(&Identity::Agent(to), &message);
                assert!(sent.expect("a frame"), "{to} does not read");
            }
            self.until("all echo", |bench| bench.echoed == count).await;
            echoes.push(begin.elapsed());
            echo_cpu += thread_time() - cpu;
        }
        let each = |sum: f64| sum * 1e3 / rounds as f64;
        Measured {
            agents: count,
            windows,
            echoes,
            decided,
            frames: frames as f64 / rounds as f64,
            window_cpu: each(window_cpu),
            echo_cpu: each(echo_cpu),
            hash: hash.0,
        }
    }
}

/// Seconds that this thread had a processor.
fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_nsec as f64 / 1e9 + time.tv_sec as f64
}

/// Every port sends to another port, and every port is sent to.
fn permutation(ports: &[Guid], random: &mut ChaCha8Rng) -> BTreeMap<Guid, Guid> {
    let mut order = ports.to_vec();
    order.shuffle(random);
    let next = order.iter().cycle().skip(1);
    order.iter().copied().zip(next.copied()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn small() {
        crate::assert_repeats(super::run);
    }
}
