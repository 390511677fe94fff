//! A cluster of etcd on this machine: members that are started, killed and asked.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::{JudgeError, Program, Running, finish};

/// A busy machine takes its time.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);

/// The files of the certificates that members and clients show.
#[derive(Clone, Debug)]
pub struct EtcdFiles {
    /// The members' certificate, of 127.0.0.1.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The CA of members and clients.
    pub ca: PathBuf,
}

/// Members of one cluster; they end with the value.
pub struct Etcd {
    folder: PathBuf,
    /// Ports for clients and for other members.
    ports: Vec<(u16, u16)>,
    members: Vec<Option<Running>>,
    files: Option<EtcdFiles>,
}

impl Etcd {
    /// Members that are not started yet. `files`: they speak TLS, and want a certificate of who asks.
    ///
    /// # Errors
    /// When the system has no free ports.
    pub fn new(
        folder: &Path,
        members: usize,
        files: Option<EtcdFiles>,
    ) -> Result<Self, JudgeError> {
        // All at once, so that no port is given twice.
        let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let bound: Vec<_> = (0..2 * members)
            .map(bind)
            .collect::<Result<_, _>>()
            .map_err(JudgeError::file(folder))?;
        let ports: Vec<u16> =
            bound.iter().filter_map(|bound| Some(bound.local_addr().ok()?.port())).collect();
        let ports: Vec<(u16, u16)> = ports.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let members = ports.iter().map(|_| None).collect();
        Ok(Self { folder: folder.to_owned(), ports, members, files })
    }

    /// The address as `snin-sm` takes it.
    pub fn address(&self) -> String {
        let scheme = if self.files.is_some() { "etcds" } else { "etcd" };
        format!("{scheme}://{}", self.hosts())
    }

    fn hosts(&self) -> String {
        let hosts = self.ports.iter().map(|(port, _)| format!("127.0.0.1:{port}"));
        hosts.collect::<Vec<_>>().join(",")
    }

    /// Starts all members and waits until they answer.
    ///
    /// # Errors
    /// When etcd is missing, or does not answer.
    pub fn start(&mut self) -> Result<(), JudgeError> {
        (0..self.ports.len()).try_for_each(|member| self.start_member(member))?;
        self.repeat(&["endpoint", "health"]).map(drop)
    }

    /// Starts one of them, for the first time or after its end.
    ///
    /// # Errors
    /// When etcd is missing.
    pub fn start_member(&mut self, member: usize) -> Result<(), JudgeError> {
        let scheme = if self.files.is_some() { "https" } else { "http" };
        let at = |port: u16| format!("{scheme}://127.0.0.1:{port}");
        let (clients, peers) = self.ports[member];
        let all = self.ports.iter().enumerate();
        let all: Vec<String> =
            all.map(|(number, (_, peers))| format!("m{number}=http://127.0.0.1:{peers}")).collect();
        let mut command = Command::new(Program::ETCD.find()?);
        command.env_clear().args(["--name", &format!("m{member}")]);
        command.arg("--data-dir").arg(self.folder.join(format!("etcd-{member}")));
        command.args([
            "--listen-client-urls",
            &at(clients),
            "--advertise-client-urls",
            &at(clients),
        ]);
        let peers = format!("http://127.0.0.1:{peers}");
        command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        command.args(["--initial-cluster", &all.join(","), "--initial-cluster-token", "snin"]);
        command.args(["--heartbeat-interval", "50", "--election-timeout", "500"]);
        command.args(["--logger", "zap", "--log-level", "error", "--log-outputs", "stderr"]);
        if let Some(files) = &self.files {
            command.arg("--cert-file").arg(&files.certificate).arg("--key-file").arg(&files.key);
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(&files.ca);
        }
        let running = Running::start(&mut command, &self.folder, &format!("etcd-{member}"))?;
        self.members[member] = Some(running);
        Ok(())
    }

    /// Kills one of them.
    pub fn kill(&mut self, member: usize) {
        self.members[member] = None;
    }

    /// Sets a key below `snin/`.
    ///
    /// # Errors
    /// When the cluster does not take it.
    pub fn put(&self, key: &str, value: &str) -> Result<(), JudgeError> {
        self.repeat(&["put", &format!("snin/{key}"), value]).map(drop)
    }

    /// Removes a key below `snin/`.
    ///
    /// # Errors
    /// When the cluster does not take it.
    pub fn delete(&self, key: &str) -> Result<(), JudgeError> {
        self.repeat(&["del", &format!("snin/{key}")]).map(drop)
    }

    /// What a key below `snin/` holds; empty where there is none.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub fn get(&self, key: &str) -> Result<String, JudgeError> {
        let said = self.repeat(&["get", "--print-value-only", &format!("snin/{key}")])?;
        Ok(said.trim().to_owned())
    }

    /// Asks until it is answered: members refuse what comes while they elect a leader. Every command may be said
    /// twice.
    fn repeat(&self, arguments: &[&str]) -> Result<String, JudgeError> {
        let begin = Instant::now();
        loop {
            match self.ctl(arguments) {
                Err(_) if begin.elapsed() < LIMIT => sleep(LOOK),
                said => return said,
            }
        }
    }

    fn ctl(&self, arguments: &[&str]) -> Result<String, JudgeError> {
        let mut command = Command::new(Program::ETCDCTL.find()?);
        command.env_clear().env("ETCDCTL_API", "3");
        let scheme = if self.files.is_some() { "https://" } else { "" };
        let hosts =
            self.hosts().split(',').map(|host| format!("{scheme}{host}")).collect::<Vec<_>>();
        command.arg(format!("--endpoints={}", hosts.join(",")));
        if let Some(files) = &self.files {
            command.arg("--cert").arg(&files.certificate).arg("--key").arg(&files.key);
            command.arg("--cacert").arg(&files.ca);
        }
        command.args(arguments);
        let said = finish(&mut command, &self.folder, LIMIT)?;
        Ok(String::from_utf8_lossy(&said.out).into_owned())
    }
}
