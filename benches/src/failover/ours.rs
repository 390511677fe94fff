//! Two of our managers, killed in turn.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use snin_daemon::control::Connection;
use snin_daemon::pki::{Pair, Pki};
use snin_fabric::{Lid, Topology, ibnet};
use snin_judges::{JudgeError, Running, Simulator};
use snin_protocol::identity::{Identity, Role};
use snin_protocol::operator::manager::{
    GetDatabase, GetEvents, GetManagers, GetStatus, Mirror, State,
};
use snin_protocol::operator::{Event, Operation};

use super::host::Host;
use super::{Failover, PATIENCE, hosts, kill};
use crate::built;

/// A manager, as a process.
pub(crate) struct Manager {
    pub(crate) running: Running,
    socket: PathBuf,
}

impl Manager {
    /// One of a pair, at its host.
    fn start(
        simulator: &Simulator,
        host: &str,
        number: usize,
        ports: [u16; 2],
    ) -> Result<Self, JudgeError> {
        let folder = simulator.folder();
        let (pki, pair) = certified(folder, number);
        let sessions = |number: usize| format!("tls://127.0.0.1:{}", ports[number]);
        let text = format!(
            "lmc = 0\nsm_priority = {}\nmirror_listen = [{:?}]\nmirror_of = [{:?}]\n\
             certificate = {:?}\nkey = {:?}\nca_certificate = {:?}\n",
            5 - number,
            sessions(number),
            sessions(1 - number),
            pair.certificate,
            pair.key,
            pki.file("ca.crt"),
        );
        Self::begin(simulator, host, number, &text)
    }

    /// One of several, with these settings.
    pub(crate) fn begin(
        simulator: &Simulator,
        host: &str,
        number: usize,
        text: &str,
    ) -> Result<Self, JudgeError> {
        let folder = simulator.folder();
        let name = |what: &str| folder.join(format!("{what}-{number}"));
        let (file, socket) = (name("config"), name("control"));
        fs::write(&file, text).map_err(JudgeError::file(&file))?;
        let mut command = Command::new(built("snin-sm"));
        command.args(["--ibsim", simulator.name(), "--ibsim-host", host]).arg("--config");
        command.arg(file).arg("--control").arg(&socket).current_dir(folder);
        command.env_remove("STATE_DIRECTORY").env("MALLOC_ARENA_MAX", "1");
        let running = Running::start(&mut command, folder, &format!("snin-sm-{number}"))?;
        Ok(Self { running, socket })
    }

    /// Its answer; none where it has none.
    pub(crate) fn ask<O: Operation>(&self, operation: &O) -> Option<O::Answer> {
        let mut connection = Connection::open(&self.socket, Some(PATIENCE)).ok()?;
        Some(connection.request(operation).ok()?.answer)
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < PATIENCE, "not {what}: {}", self.running.tail());
            sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.ask(&GetStatus {}).is_some_and(|status| {
            status.state == state && (state != State::Master || status.healthy)
        })
    }

    /// Whether another manager has a copy of all that it knows.
    fn is_mirrored(&self) -> bool {
        let mirrors = |mirror: &Mirror| mirror.follows && mirror.whole && mirror.behind == 0;
        let said = self.ask(&GetManagers {});
        said.is_some_and(|said| {
            said.managers.iter().any(|manager| manager.mirror.as_ref().is_some_and(mirrors))
        })
    }

    /// When it last said so, in seconds of the day.
    fn last(&self, is_it: impl Fn(&Event) -> bool) -> Option<f64> {
        let events = self.ask(&GetEvents::default())?.events;
        let Event(keys) = events.iter().rfind(|event| is_it(event))?;
        // 2026-11-21T07:05:03.123456Z
        let time = keys.get("time")?.as_str()?.split_once('T')?.1.trim_end_matches('Z');
        time.split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
    }
}

/// The site's CA, and a manager's certificate; it keeps the one that it has.
fn certified(folder: &Path, number: usize) -> (Pki, Pair) {
    let pki = Pki::at(&folder.join("pki"));
    if !pki.file("ca.crt").exists() {
        pki.init("a site", 30).expect("a CA");
    }
    let who = Identity::new(Role::Manager, &format!("sm{number}")).expect("a name");
    let to = folder.join(format!("manager-{number}"));
    fs::create_dir_all(&to).expect("a folder");
    let pair = pki.renew(&who, 30, Some(&to)).or_else(|_| pki.issue(&who, 30, Some(&to)));
    (pki, pair.expect("a certificate"))
}

/// Ports that are free just now.
fn free_ports() -> [u16; 2] {
    let taken = [0, 0].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("a free port"));
    taken.map(|listener| listener.local_addr().expect("an address").port())
}

/// Every failover, and the floor in seconds.
pub(super) fn run(topology: &Topology, kills: usize) -> Result<(Vec<Failover>, f64), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(topology))?;
    let names = hosts(topology);
    let at = [names[0].clone(), names.last().expect("hosts").clone()];
    let ports = free_ports();
    let start = |number: usize| Manager::start(&simulator, &at[number], number, ports);
    let mut managers = [start(0)?, start(1)?];
    managers[0].until("master", |manager| manager.is(State::Master));
    let mut host = Host::new(&simulator, &names[1]);
    host.find_manager(topology.node_count());
    host.register();
    let (mut all, mut successor) = (Vec::new(), None);
    for _ in 0..kills {
        all.push(failover(&managers, &mut host, topology, successor)?);
        successor = Some(host.manager);
        // The one with the higher priority is master again, before it is killed again.
        managers[0] = start(0)?;
        managers[0].until("master again", |manager| manager.is(State::Master));
        host.find_manager(topology.node_count());
    }
    let ports = addresses(&managers[0]);
    Ok((all, host.floor(&ports)))
}

/// The first is killed, the second takes over.
fn failover(
    [master, standby]: &[Manager; 2],
    host: &mut Host,
    topology: &Topology,
    successor: Option<Lid>,
) -> Result<Failover, JudgeError> {
    master.until("mirrored", Manager::is_mirrored);
    let blocks = |manager: &Manager| manager.ask(&GetStatus {}).map(|it| it.smps.lft_blocks);
    let (before, begin) = (blocks(standby), Instant::now());
    kill(master.running.id());
    // A manager that handed over a moment ago still answers, read-only: that is no failover.
    let is_master = |standby: &Manager| {
        standby.ask(&GetStatus {}).is_some_and(|status| status.state == State::Master)
    };
    standby.until("master", is_master);
    match successor {
        // It is where it was the last time.
        Some(lid) => host.wait_for(lid),
        None => host.find_manager(topology.node_count()),
    }
    let (answered, answered_at) = (begin.elapsed().as_secs_f64(), now());
    standby.until("verified", |standby| standby.is(State::Master));
    let says = |Event(keys): &Event, key: &str, value: &str| {
        keys.get(key).is_some_and(|said| said == value)
    };
    let detected = standby.last(|event| {
        says(event, "event", "STATE_CHANGE") && says(event, "state", State::Discovering.name())
    });
    let up = standby.last(|event| says(event, "event", "SUBNET_UP"));
    let (detected, up) = (detected.expect("it noticed"), up.expect("it is up"));
    let told = standby.last(|event| says(event, "event", "TOOK_OVER")).expect("ports are told");
    // Over midnight the seconds of the day begin anew.
    let since = |time: f64| (time - detected).rem_euclid(86_400.0);
    let moved = since(told).max(since(answered_at));
    let blocks = blocks(standby).unwrap_or(0) - before.unwrap_or(0);
    let held = host.read(&addresses(standby));
    let wrong = held.iter().filter(|info| info.master_sm_lid != host.manager).count() as u64;
    let (verified, lost) = (since(up), host.count_lost());
    Ok(Failover { answered, moved, verified, blocks, lost, wrong })
}

/// Seconds of the day, as events have them.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs_f64().rem_euclid(86_400.0)
}

/// The addresses of all ports that have one.
fn addresses(manager: &Manager) -> Vec<Lid> {
    let said = manager.ask(&GetDatabase::default());
    let text = said.map(|said| said.database).unwrap_or_default();
    let lids = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [kind, _, _, _, guid, range, ..] = words[..] else { return None };
        let none = guid.trim_start_matches("0x").trim_start_matches('0').is_empty();
        let (lid, _) = range.split_once('/').filter(|_| kind == "port" && !none)?;
        lid.parse().ok().map(Lid).filter(|&lid| lid != Lid::NONE)
    });
    lids.collect()
}
