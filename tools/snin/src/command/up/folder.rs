//! The folder of a run: configurations, sockets, logs, state.

use std::fs;
use std::path::{Path, PathBuf};

use snin_fabric::{Guid, Topology, ibnet};

use super::members::Members;
use super::sessions::Sessions;
use super::{controllers, environment, opensm};
use crate::cli;
use crate::failure::Failure;

/// The lease of a controller that leads, in seconds: a machine that all of this runs on keeps etcd waiting.
const LEASE: u32 = 3;
/// Hosts of one process of agents, where nothing else is wanted.
const HOSTS: usize = 108;

/// See the module's documentation.
pub(super) struct Folder {
    path: PathBuf,
    /// The user wants it to stay.
    kept: bool,
    fabric: String,
    /// The hosts of each process of agents.
    agents: Vec<Vec<Guid>>,
    window_us: u64,
    latency_us: u64,
    sessions: Sessions,
    members: Members,
    /// Further lines of the manager's settings.
    manager: String,
}

impl Folder {
    /// A new folder, empty but for what a run before left there.
    pub(super) fn new(args: &cli::Up, ports: &[Guid]) -> Result<Self, Failure> {
        let number = std::process::id();
        let path = args.folder.clone().unwrap_or_else(|| {
            let base =
                std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, Into::into);
            base.join(format!("snin-up-{number}"))
        });
        fs::create_dir_all(&path).map_err(Failure::file(&path))?;
        let path = path.canonicalize().map_err(Failure::file(&path))?;
        let processes = args.agent_processes.unwrap_or_else(|| match ports.len() {
            // An agent a process, as on real hosts, while that is few.
            few @ 0..=16 => few,
            many => many.div_ceil(HOSTS),
        });
        let each = ports.len().div_ceil(processes.max(1)).max(1);
        let sessions =
            Sessions::new(args.sessions, &path, args.controllers.into(), ports.iter().copied())?;
        let members = Members::new(args.etcd.into());
        let members = members.map_err(Failure::file(Path::new("127.0.0.1")))?;
        Ok(Self {
            kept: args.folder.is_some(),
            fabric: format!("snin-up-{number}"),
            agents: ports.chunks(each).map(<[Guid]>::to_vec).collect(),
            window_us: args.window.nanos() / 1000,
            latency_us: args.latency.nanos() / 1000,
            sessions,
            members,
            manager: format!(
                "{}unmanaged_share = {}\n",
                opensm::settings(args),
                args.unmanaged_share
            ),
            path,
        })
    }

    /// Of etcd.
    pub(super) const fn members(&self) -> &Members {
        &self.members
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What the emulated fabric is called.
    pub(super) fn fabric(&self) -> &str {
        &self.fabric
    }

    /// Processes of agents.
    pub(super) fn agents(&self) -> usize {
        self.agents.len()
    }

    /// The process that each host's agent is in.
    pub(super) fn process_of(&self, host: usize) -> usize {
        let each = self.agents.first().map_or(1, Vec::len);
        host / each.max(1)
    }

    /// Writes the fabric and the configuration of every daemon.
    pub(super) fn write(&mut self, topology: &Topology) -> Result<(), Failure> {
        self.put("fabric.ibnetdiscover", &ibnet::write(topology))?;
        self.put(environment::FABRIC, &format!("{}\n", self.fabric))?;
        let path = |name: &str| toml_text(&self.path.join(name).display().to_string());
        let sessions = &self.sessions;
        let sm = format!(
            "state_dir = {}\ncontrol_socket = {}\nsession_listen = [{}]\nevents_file = {}\nsweep_interval = 1\n\
             consent = \"static\"\n{}{}",
            path("sm"),
            path("sm.sock"),
            toml_text(&sessions.manager),
            path("sm.events"),
            self.manager,
            sessions.certificate("manager-sm"),
        );
        self.put("sm.toml", &sm)?;
        let (window, latency) = (self.window_us, self.latency_us);
        let store = self.members.address().map_or_else(String::new, |address| {
            format!("store = {}\nleader_lease_s = {LEASE}\n", toml_text(&address))
        });
        for (number, at) in sessions.controllers.iter().enumerate() {
            let name = controllers::name(number);
            let controller = format!(
                "name = {}\nlisten = [{}]\ncontrol_socket = {}\nstate_dir = {}\nmanager = {}\n\
                 events_file = {}\nwindow_us = {window}\nlead_us = {}\nclock_error_us = {latency}\n\
                 drain_us = 1000\nrepeat_us = {latency}\n{store}{}",
                toml_text(&name),
                toml_text(at),
                path(&format!("{name}.sock")),
                path(&name),
                toml_text(&sessions.manager),
                path(&format!("{name}.events")),
                window / 4,
                sessions.certificate(&format!("controller-{name}")),
            );
            self.put(&format!("{name}.toml"), &controller)?;
        }
        let called = toml_text(&sessions.controllers.join(","));
        // A host may send to every other one at a time.
        let hosts: usize = self.agents.iter().map(Vec::len).sum();
        let (flows, pairs) = (hosts.clamp(16, 128), hosts.clamp(64, 192));
        for (number, ports) in self.agents.iter().enumerate() {
            let ports: Vec<String> =
                ports.iter().map(|port| toml_text(&port.to_string())).collect();
            let agents = format!(
                "software_port = {}\nguids = [{}]\ncontroller = {}\ncontrol_socket = {}\n\
                 acknowledgement_us = {latency}\nflows = {flows}\npairs = {pairs}\n\
                 stall_ms = 5000\nsilence_ms = 2000\n{}",
                toml_text(&self.fabric),
                ports.join(", "),
                called,
                path(&format!("agents-{number}.sock")),
                sessions.certificate("agent-{guid}"),
            );
            self.put(&format!("agents-{number}.toml"), &agents)?;
        }
        Ok(())
    }

    fn put(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(Failure::file(&path))
    }

    /// A run that ended well leaves nothing, unless the user named a folder; another leaves its logs.
    pub(super) fn leave(&self, well: bool) {
        if self.kept {
            return;
        }
        if well {
            // What cannot be removed does no harm.
            let _ = fs::remove_dir_all(&self.path);
        } else {
            crate::output::note(format_args!("logs are in {}", self.path.display()));
        }
    }
}

pub(super) fn toml_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
