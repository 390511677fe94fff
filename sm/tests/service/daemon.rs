//! A daemon that runs, asked and signalled as an administrator does.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};
use snin_judges::{JudgeError, Running, Simulator};

pub(crate) const SNIN_SM: &str = env!("CARGO_BIN_EXE_snin-sm");
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Hosts by their names in the netlist.
pub(crate) fn hosts(topology: &Topology) -> Vec<String> {
    let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    hosts.map(|node| format!("H-{:016x}", topology.node(node).guid.0)).collect()
}

pub(crate) fn signal(running: &Running, name: &str) {
    let id = running.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// A running `snin-sm`; it is killed with the value.
pub(crate) struct Daemon {
    pub(crate) running: Running,
    socket: PathBuf,
}

impl Daemon {
    /// Starts it at a node, with a configuration of these lines, and waits until the first sweep is done.
    pub(crate) fn start(simulator: &Simulator, host: Option<&str>, config: &str) -> Self {
        let mut daemon = Self::begin(simulator, "snin-sm", host, config);
        daemon.until("the first sweep is done", |daemon| {
            daemon.socket.exists()
                && daemon.events().iter().any(|event| event["event"] == "SWEEP_DONE")
        });
        daemon
    }

    /// Starts one of several, and waits for nothing.
    pub(crate) fn begin(
        simulator: &Simulator,
        name: &str,
        host: Option<&str>,
        config: &str,
    ) -> Self {
        let folder = simulator.folder();
        let (file, socket) =
            (folder.join(format!("{name}.toml")), folder.join(format!("{name}.sock")));
        fs::write(&file, config).unwrap();
        let mut command = Command::new(SNIN_SM);
        command.env_remove("STATE_DIRECTORY").args(["--ibsim", simulator.name()]);
        command.arg("--config").arg(&file).arg("--control").arg(&socket);
        if let Some(host) = host {
            command.args(["--ibsim-host", host]);
        }
        let running = Running::start(&mut command, folder, name).unwrap();
        Self { running, socket }
    }

    pub(crate) fn ask(&self, request: &Value) -> Result<Value, String> {
        let connection = Connection::open(&self.socket, Some(PATIENCE));
        connection.and_then(|mut open| open.ask(request)).map_err(|error| error.to_string())
    }

    pub(crate) fn status(&self) -> Value {
        self.ask(&json!({ "command": "status" })).unwrap()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let said = self.ask(&json!({ "command": "events" }));
        said.map_or_else(|_| Vec::new(), |said| said["events"].as_array().unwrap().clone())
    }

    /// How many events of this name there were.
    pub(crate) fn told(&self, name: &str) -> usize {
        self.events().iter().filter(|event| event["event"] == name).count()
    }

    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(self.running.ended().unwrap().is_none(), "{}", self.running.tail());
            assert!(begin.elapsed() < PATIENCE, "not {what}: {}", self.running.tail());
            sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.running, name);
    }

    /// Ends it well.
    pub(crate) fn end(mut self) {
        self.signal("TERM");
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.running.ended().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end");
            sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}: {}", self.running.tail());
        assert!(!self.socket.exists(), "the socket is left behind");
    }
}

/// A page, by HTTP.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn it_answers_and_tells_what_happens() -> Result<(), JudgeError> {
    let topology = fabric("clos:4,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let folder = simulator.folder().to_owned();
    let (log, events) = (folder.join("sm.log"), folder.join("events"));
    let partitions = folder.join("partitions.conf");
    let config = format!(
        "log_file = {log:?}\nevents_file = {events:?}\nmetrics_listen = \"127.0.0.1:0\"\n\
         dump_files_dir = {:?}\nsweep_interval = 1\npartition_config_file = {partitions:?}\n",
        folder.join("dumps")
    );
    fs::write(&partitions, "Default=0x7fff : ALL=full;\n").unwrap();
    let mut daemon = Daemon::start(&simulator, None, &config);
    let status = daemon.status();
    assert_eq!((&status["healthy"], &status["state"]), (&json!(true), &json!("master")));
    assert_eq!(status["subnet"]["switches"], 6);

    // What the daemon says it holds is what it dumps, and the topology is the one that there is.
    let dumped = daemon.ask(&json!({ "command": "dump" })).unwrap();
    let read = ibnet::parse(dumped["topology"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(
        (read.node_count(), read.cable_count()),
        (topology.node_count(), topology.cable_count())
    );
    // With the addresses that it gave, as ibnetdiscover prints them.
    let given = dumped["guid2lid"].as_str().unwrap().as_bytes();
    let given = snin_fabric::dump::guid2lid::entries(given).unwrap();
    let printed = read.ports().map(|port| read.port(port)).filter(|port| port.lid.0 != 0);
    let printed: BTreeMap<_, _> = printed.map(|port| (port.guid, (port.lid, port.lmc))).collect();
    assert_eq!(printed, given);
    let switches = daemon.ask(&json!({ "command": "lfts" })).unwrap();
    let mut text = String::new();
    for switch in switches["switches"].as_array().unwrap() {
        let asked = json!({ "command": "lfts", "switch": switch["guid"] });
        text += daemon.ask(&asked).unwrap()["text"].as_str().unwrap();
    }
    daemon.until("dumped", |_| folder.join("dumps/guid2lid").exists());
    assert_eq!(text, fs::read_to_string(folder.join("dumps/opensm-lfts.dump")).unwrap());
    let refused = daemon.ask(&json!({ "command": "lfts", "switch": "0x1" })).unwrap_err();
    assert_eq!(refused, "no switch has GUID 0x0000000000000001");

    // A cable is cut and comes back: the switches at its ends say so, and tables change twice.
    let leaf = topology.switches().next().unwrap();
    let (port, _) = topology
        .cables(leaf)
        .find(|&(_, peer)| topology.is_switch(topology.port(peer).node))
        .unwrap();
    let name = format!("S-{:016x}", topology.node(leaf).guid.0);
    let number = topology.num(port).0;
    let (traps, changes) = (daemon.told("TRAP"), daemon.told("LFT_CHANGE"));
    simulator.unlink(&name, Some(number))?;
    daemon.until("cut", |daemon| daemon.told("LFT_CHANGE") > changes);
    assert!(daemon.told("TRAP") > traps, "{:?}", daemon.events());
    // The fabric does without it, and somebody may miss it.
    daemon.until("named", |daemon| {
        let status = daemon.status();
        let gone = status["gone"].as_array().is_some_and(|gone| gone.len() == 1);
        gone && status["healthy"] == false && status["missing"] == json!([])
    });
    // What lasts is an event when it begins, and one when it is over.
    let faults = |daemon: &Daemon, event: &str, kind: &str| {
        let is_it = |told: &&Value| told["event"] == event && told["kind"] == kind;
        daemon.events().iter().filter(is_it).count()
    };
    daemon.until("told", |daemon| faults(daemon, "FAULT", "gone") == 1);
    simulator.relink(&name, Some(number))?;
    daemon.until("restored", |daemon| {
        daemon.told("LFT_CHANGE") > changes + 1 && daemon.status()["healthy"] == true
    });
    daemon.until("over", |daemon| faults(daemon, "FAULT_OVER", "gone") == 1);
    let swept = daemon.ask(&json!({ "command": "sweep" })).unwrap();
    assert_eq!((&swept["kind"], &swept["sets"]), (&json!("full"), &json!(0)));

    // The page, by what it says and where it says it.
    let text = fs::read_to_string(&log).unwrap();
    let address = text.lines().find_map(|line| line.split_once("metrics at http://")).unwrap().1;
    let address = address.split('/').next().unwrap();
    let page = get(address, "/metrics");
    for line in [
        "snin_sm_up 1.0",
        "snin_sm_state{state=\"master\"} 1.0",
        "snin_sm_switches 6.0",
        "snin_sm_sweeps_total{kind=\"full\"} 2",
    ] {
        assert!(page.contains(line), "{line} is not in {page}");
    }
    assert!(
        page.contains("snin_sm_smps_total{attribute=\"LinearForwardingTable\",method=\"Set\"}")
    );
    assert!(get(address, "/healthz").starts_with("HTTP/1.1 200 OK"));

    // A file that cannot be taken is named for as long as it is so.
    fs::write(&partitions, "Default=0x7fff : ALL=full;\nwhat is this\n").unwrap();
    let refused = daemon.ask(&json!({ "command": "sweep" })).unwrap_err();
    assert!(refused.contains("partitions.conf"), "{refused}");
    assert_eq!(daemon.status()["healthy"], false);
    assert!(get(address, "/healthz").contains("partitions.conf"));
    assert!(get(address, "/metrics").contains("snin_sm_faults{kind=\"refused\"} 1.0"));
    daemon.until("told", |daemon| faults(daemon, "FAULT", "refused") == 1);
    fs::remove_file(&partitions).unwrap();
    fs::write(&partitions, "Default=0x7fff : ALL=full;\n").unwrap();
    daemon.ask(&json!({ "command": "sweep" })).unwrap();
    daemon.until("taken", |daemon| daemon.status()["healthy"] == true);
    daemon.until("over", |daemon| faults(daemon, "FAULT_OVER", "refused") == 1);
    assert!(get(address, "/metrics").contains("snin_sm_faults{kind=\"refused\"} 0.0"));

    // Files that were moved away are begun anew.
    for path in [&log, &events] {
        fs::rename(path, path.with_extension("1")).unwrap();
    }
    daemon.signal("USR1");
    daemon.until("reopened", |_| log.exists() && events.exists());
    daemon.ask(&json!({ "command": "sweep" })).unwrap();
    let before = lines(&events.with_extension("1"));
    let after = lines(&events);
    assert_eq!(before[0]["event"], "STATE_CHANGE");
    let names: Vec<&str> = before.iter().filter_map(|event| event["event"].as_str()).collect();
    for name in ["SUBNET_UP", "SWEEP_DONE", "LFT_CHANGE", "TRAP"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let numbers = before.iter().chain(&after).map(|event| event["seq"].as_u64().unwrap());
    assert!(numbers.eq(1..=(before.len() + after.len()) as u64));
    assert!(fs::read_to_string(&log).unwrap().contains("full sweep"));
    daemon.end();
    assert_eq!(simulator.clients()?, []);
    Ok(())
}

#[test]
fn nothing_is_written_where_nothing_has_changed() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:6,3,3")))?;
    let state = simulator.folder().join("state");
    let config = format!("state_dir = {state:?}\nlmc = 2\nsweep_interval = 0\n");
    let mut daemon = Daemon::start(&simulator, None, &config);
    let addresses = fs::read_to_string(state.join("guid2lid")).unwrap();

    let sweeps = daemon.told("SWEEP_DONE");
    let (heard, ()) = simulator.receive(|| {
        daemon.signal("HUP");
        daemon.until("swept", |daemon| daemon.told("SWEEP_DONE") > sweeps);
    })?;
    assert!(heard.total() > 100, "{heard:?}");
    assert_eq!((heard.table_writes(), heard.writes()), (0, 0), "{heard:?}");

    daemon.end();
    let (heard, daemon) = simulator.receive(|| Daemon::start(&simulator, None, &config))?;
    assert!(heard.total() > 100, "{heard:?}");
    assert_eq!(heard.table_writes(), 0, "{heard:?}");
    assert_eq!(daemon.status()["healthy"], true);
    assert_eq!(fs::read_to_string(state.join("guid2lid")).unwrap(), addresses);
    daemon.end();
    Ok(())
}
