//! A manager that a test starts on an emulated fabric.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_fabric::{PortIndex, Topology};
use snin_judges::{JudgeError, Running, Simulated as _};

use crate::emulation::{Emulation, manager, wait};

/// `snin-sm` on an emulated fabric.
pub(crate) struct Manager {
    running: Running,
    socket: PathBuf,
}

impl Manager {
    /// Starts it, and waits until the subnet is up; `settings` are lines of its configuration.
    pub(crate) fn start(emulation: &Emulation, settings: &str) -> Result<Self, JudgeError> {
        let manager = Self::begin(emulation, "sm", "host0", settings)?;
        wait("the subnet", || manager.ask(&["status"])["healthy"] == true);
        Ok(manager)
    }

    /// Starts one of several, of this name at this host.
    pub(crate) fn begin(
        emulation: &Emulation,
        name: &str,
        host: &str,
        settings: &str,
    ) -> Result<Self, JudgeError> {
        let folder = emulation.folder();
        let socket = folder.join(format!("{name}.sock"));
        let file = folder.join(format!("{name}.toml"));
        let state = folder.join(name);
        let text = format!("control_socket = {socket:?}\nstate_dir = {state:?}\n{settings}");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(manager());
        command.args(["--ibsim", emulation.name(), "--ibsim-host", host]);
        let command = command.arg("--config").arg(file);
        let running = Running::start(command, folder, &format!("snin-{name}"))?;
        Ok(Self { running, socket })
    }

    fn said(&self, what: &[&str]) -> String {
        let said = self.run(&[what, &["--json"]].concat());
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// What a command of `snin sm` says.
    pub(crate) fn ask(&self, what: &[&str]) -> Value {
        serde_json::from_str(&self.said(what)).unwrap_or_default()
    }

    /// The number of the last event of this name; 0 where there was none.
    fn last(&self, name: &str) -> u64 {
        let events = self.said(&["events"]);
        let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let its = events.filter(|event| event["event"] == name);
        its.filter_map(|event| event["seq"].as_u64()).max().unwrap_or(0)
    }

    /// A sweep that is asked for, and how long it takes.
    pub(crate) fn sweep(&self) -> Duration {
        let begin = Instant::now();
        let told = self.ask(&["sweep"]);
        assert_eq!(told["unanswered"], 0, "{told}: {}", self.tail());
        begin.elapsed()
    }

    /// A cable is cut, then whole again: traps are heard, and the tables are repaired; how long both take.
    pub(crate) fn flap(&self, emulation: &Emulation, cable: &str) -> [Duration; 2] {
        ["cut", "restore"].map(|what| {
            let before = ["TRAP", "SUBNET_UP"].map(|name| self.last(name));
            let begin = Instant::now();
            emulation.ask(&["fault", what, cable]);
            wait("a trap, and the subnet", || {
                self.last("TRAP") > before[0] && self.last("SUBNET_UP") > before[1]
            });
            begin.elapsed()
        })
    }

    /// All of its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.running.err).unwrap()
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.running.id()
    }

    /// A command of `snin sm`, as it ends.
    pub(crate) fn run(&self, what: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("sm").args(what).arg("--socket").arg(&self.socket).output().unwrap()
    }

    /// The end of its log.
    pub(crate) fn tail(&self) -> String {
        self.running.tail()
    }
}

/// The first cable from a leaf up.
pub(crate) fn uplink(topology: &Topology) -> String {
    let leaf = topology.nodes().find(|&node| &*topology.node(node).name == "leaf1").unwrap();
    let is_up = |&(_, peer): &(PortIndex, PortIndex)| topology.is_switch(topology.port(peer).node);
    topology.port_name(topology.cables(leaf).find(is_up).unwrap().0).to_string()
}
