//! A whole Slurm without systemd - munged, slurmctld, a slurmd for each host of a fabric - and a controller.

use std::cell::Cell;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};

pub(super) const SNIN: &str = env!("CARGO_BIN_EXE_snin");
pub(super) const PATIENCE: Duration = Duration::from_secs(240);
/// How often an operator looks after nodes and jobs.
const RECOVERY: Duration = Duration::from_secs(4);

/// See the module's documentation. All of it ends when this is dropped.
pub(super) struct Cluster {
    folder: tempfile::TempDir,
    controller: Option<Child>,
    reconciler: Option<Child>,
    recovered: Cell<Option<Instant>>,
    pub(super) topology: Topology,
    pub(super) hosts: usize,
}

/// A program beside the command, which the tests of this crate alone have to build.
fn built(name: &str) -> PathBuf {
    let program = Path::new(SNIN).with_file_name(name);
    assert!(program.is_file(), "{} is missing: cargo build --bin {name}", program.display());
    program
}

/// The plugin, as it was built for this machine's Slurm.
pub(super) fn plugin() -> PathBuf {
    built("libsnin_spank.so")
}

/// Ports that are free now.
fn ports(count: usize) -> Vec<u16> {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let taken: Vec<TcpListener> = (0..count).map(|_| free()).collect();
    taken.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn run(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) {
    let mut command = Command::new(&program);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {said}", program.as_ref().display());
}

impl Cluster {
    pub(super) fn start(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let hosts = snin_fabric::hosts::Hosts::of(&topology).len();
        let folder = tempfile::tempdir().unwrap();
        let recovered = Cell::new(None);
        let mut cluster =
            Self { recovered, folder, controller: None, reconciler: None, topology, hosts };
        for name in ["state", "log", "munge", "hooks", "ran"] {
            fs::create_dir(cluster.path(name)).unwrap();
        }
        fs::write(cluster.path("fabric"), ibnet::write(&cluster.topology)).unwrap();
        cluster.write_configuration();
        cluster.start_controller();
        cluster.start_munge();
        let (conf, hooks, config) =
            (cluster.text("slurm.conf"), cluster.text("hooks"), cluster.text("jobs.toml"));
        let plugin = plugin().display().to_string();
        let install = ["slurm", "install", "--slurm-conf", &conf, "--hooks", &hooks];
        let more = ["--config", &config, "--plugin", &plugin, "--leaves", "--leaf-wait", "1s"];
        run(SNIN, &[&install[..], &more, &["--write"]].concat());
        cluster.start_slurmctld();
        for host in 0..hosts {
            cluster.start_slurmd(host);
        }
        cluster.wait("all nodes are idle", || {
            cluster.slurm("sinfo", &["-h", "-t", "idle", "-o", "%D"]).trim() == hosts.to_string()
        });
        let mut reconciler = Command::new(SNIN);
        reconciler.args(["job", "reconcile", "--every", "1s", "--config", &config]);
        let reconciler = reconciler.env("SLURM_CONF", &conf).stderr(Stdio::null()).spawn();
        cluster.reconciler = Some(reconciler.unwrap());
        cluster
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The hooks' settings, where no agent is; `more` are lines of TOML.
    pub(super) fn settle(&self, more: &str) {
        self.settle_with_agent("", more);
    }

    /// The same where nodes have an agent.
    pub(super) fn settle_with_agent(&self, agent: &str, more: &str) {
        let d = self.folder.path().display();
        let text = format!(
            "controller = \"{d}/control\"\nshared = \"{d}/shared\"\njobs = \"{d}/jobs\"\n\
             agent = \"{agent}\"\nlog_file = \"{d}/log/hooks\"\n\
             preload = \"/no/such/library.so\"\n{more}\n"
        );
        fs::write(self.path("jobs.toml"), text).unwrap();
    }

    fn write_configuration(&self) {
        let d = self.folder.path().display();
        let controller = format!(
            "listen = [\"unix://{d}/sessions\"]\ntopology = \"{d}/fabric\"\nname = \"ctl1\"\n\
             state_dir = \"{d}/controller\"\ncontrol_socket = \"{d}/control\"\n\
             events_file = \"{d}/log/events\"\nlog_file = \"{d}/log/controller\"\nwindow_us = 50000\n"
        );
        fs::write(self.path("controller.toml"), controller).unwrap();
        self.settle("");
        let output = Command::new("hostname").arg("-s").output().unwrap();
        let machine = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let user =
            String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let user = user.trim();
        let ports = ports(self.hosts + 1);
        let mut text = format!(
            "ClusterName=snin\nSlurmctldHost={machine}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\n\
             SlurmdUser={user}\nAuthType=auth/munge\nAuthInfo=socket={d}/munge/socket,cred_expire=10\n\
             CredType=cred/munge\nStateSaveLocation={d}/state\nSlurmdSpoolDir={d}/spool-%n\n\
             SlurmctldPidFile={d}/slurmctld.pid\nSlurmdPidFile={d}/slurmd-%n.pid\n\
             SlurmctldLogFile={d}/log/slurmctld\nSlurmdLogFile={d}/log/slurmd-%n\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             JobCompType=jobcomp/none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n\
             SchedulerType=sched/backfill\nTopologyPlugin=topology/tree\n\
             SchedulerParameters=sched_min_interval=10000,batch_sched_delay=0,bf_interval=1,sched_interval=1\n\
             ReturnToService=2\nBatchStartTimeout=3\nSlurmdTimeout=60\nMailProg=/bin/true\n\
             SlurmdParameters=config_overrides\n",
            ports[self.hosts]
        );
        for (host, port) in ports[..self.hosts].iter().enumerate() {
            text += &format!(
                "NodeName=host{host} NodeHostname={machine} NodeAddr=127.0.0.1 Port={port} CPUs=2 \
                 RealMemory=64 State=UNKNOWN\n"
            );
        }
        let last = self.hosts - 1;
        text += &format!(
            "PartitionName=all Nodes=host[0-{last}] Default=YES State=UP OverSubscribe=EXCLUSIVE\n"
        );
        fs::write(self.path("slurm.conf"), text).unwrap();
        fs::write(self.path("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let fabric = self.text("fabric");
        let topology = Command::new(SNIN).args(["slurm", "topology", &fabric]).output().unwrap();
        fs::write(self.path("topology.conf"), topology.stdout).unwrap();
    }

    fn start_munge(&self) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(self.path("munge/key"), [7; 128]).unwrap();
        let own = fs::Permissions::from_mode(0o400);
        fs::set_permissions(self.path("munge/key"), own).unwrap();
        let options = [("key-file", "key"), ("socket", "socket"), ("pid-file", "pid")];
        let options = options.into_iter().chain([("log-file", "log"), ("seed-file", "seed")]);
        let options: Vec<String> =
            options.map(|(name, file)| format!("--{name}={}/{file}", self.text("munge"))).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        run("/usr/sbin/munged", &[&["--force", "--num-threads=1"], &options[..]].concat());
    }

    pub(super) fn start_controller(&mut self) {
        let mut command = Command::new(built("snin-controller"));
        command.arg("--config").arg(self.path("controller.toml"));
        self.controller = Some(command.stdin(Stdio::null()).spawn().unwrap());
        self.wait("the controller answers", || self.asked(&["slice", "list"]).status.success());
    }

    pub(super) fn kill_controller(&mut self) {
        let mut child = self.controller.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(super) fn start_slurmctld(&self) {
        // By this name: the daemon asks its own, and runs no hooks under another.
        let log = File::options().append(true).create(true).open(self.path("log/start")).unwrap();
        let mut command = Command::new("/usr/sbin/slurmctld");
        command.arg("-f").arg(self.path("slurm.conf")).stderr(log);
        assert!(command.status().expect("slurmctld").success(), "{}", self.read("log/start"));
    }

    pub(super) fn start_slurmd(&self, host: usize) {
        let conf = self.text("slurm.conf");
        run("/usr/sbin/slurmd", &["-f", &conf, "-N", &format!("host{host}")]);
    }

    /// Kills a daemon by its pid file, and waits until it is gone.
    pub(super) fn kill_daemon(&self, pid_file: &str) {
        let pid = self.read(pid_file).trim().to_owned();
        run("/bin/kill", &["-KILL", &pid]);
        let process = PathBuf::from("/proc").join(&pid);
        let stat = || fs::read_to_string(process.join("stat")).unwrap_or_default();
        self.wait("it is gone", || stat().is_empty() || stat().contains(") Z "));
    }

    /// What a program of Slurm says.
    pub(super) fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.tried(program, arguments);
        String::from_utf8(output.stdout).unwrap()
    }

    pub(super) fn tried(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("SLURM_CONF", self.path("slurm.conf"));
        command.stdin(Stdio::null()).output().expect(program)
    }

    /// Does, every few seconds, what an operator does after a slurmctld was killed. Nodes say again which jobs
    /// they have: a slurmctld may take jobs for running that it never started. A node that Slurm drained and a
    /// job that it held, because the job was started a second time, are given back.
    pub(super) fn recover(&self) {
        let now = Instant::now();
        if self.recovered.get().is_some_and(|last| now - last <= RECOVERY) {
            return;
        }
        self.recovered.set(Some(now));
        self.tried("scontrol", &["reconfigure"]);
        for node in self.slurm("sinfo", &["-h", "-N", "-t", "drain", "-o", "%N"]).lines() {
            self.tried("scontrol", &["update", &format!("NodeName={node}"), "State=RESUME"]);
        }
        let pending = self.slurm("squeue", &["-h", "-t", "PD", "-o", "%i %r"]);
        for (job, why) in pending.lines().filter_map(|line| line.split_once(' ')) {
            if why.contains("held") {
                self.tried("scontrol", &["release", job]);
            }
        }
    }

    pub(super) fn asked(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(SNIN);
        command.args(arguments).arg("--socket").arg(self.path("control")).output().unwrap()
    }

    /// The slices that there are.
    pub(super) fn slices(&self) -> Vec<Value> {
        let output = self.asked(&["slice", "list", "--json"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        list["slices"].as_array().unwrap().clone()
    }

    pub(super) fn wait(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            if began.elapsed() > PATIENCE {
                let states = [self.slurm("squeue", &[]), self.slurm("sinfo", &["-R"])].join("\n");
                let log = [self.read("log/hooks"), self.read("log/slurmctld")].join("\n");
                let from = log.len().saturating_sub(4000);
                panic!("not after {PATIENCE:?}: {what}\n{states}\n{}", &log[from..]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What has ended already is no matter.
        for child in [&mut self.reconciler, &mut self.controller].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let slurmds = (0..self.hosts).map(|host| format!("slurmd-host{host}.pid"));
        for file in ["slurmctld.pid".to_owned(), "munge/pid".to_owned()].into_iter().chain(slurmds)
        {
            let pid = self.read(&file).trim().to_owned();
            if !pid.is_empty() {
                let _ = Command::new("/bin/kill").args(["-KILL", &pid]).output();
            }
        }
    }
}
