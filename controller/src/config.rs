//! The controller's settings, by the file that an admin writes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use snin_controller_core::config::Config;
use snin_controller_core::error::ConfigError;
use snin_daemon::group::{self, GroupName, SocketGroup};
use snin_daemon::session::{Address, Credentials, CredentialsError, Files, Limits, SessionEnd};
use snin_daemon::settings::{Loaded, SettingsError};
use snin_fabric::Lmc;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::view::Policy;
use snin_protocol::{Term, Time};

/// The longest lease of a leader, in seconds.
const LONGEST_LEASE: u32 = 60;

snin_daemon::settings! {
    /// Every key of `controller.toml`.
    pub struct Settings {
        /// Where agents call: tls://host:port, unix:///path, or, on this machine only, plain://127.0.0.1:port.
        listen: Vec<String> = vec!["unix:///run/snin/controller-sessions.sock".to_owned()],
        /// Users (by number) whose agents may call over Unix sockets, beside root and the controller's own.
        agent_users: Vec<u32> = Vec::new(),
        /// The subnet manager's sessions, for the fabric as it is; of several managers all, separated by commas:
        /// the master has them. One of manager and topology is needed.
        manager: Option<String> = None,
        /// The fabric as a file instead, as ibnetdiscover prints it; its tables have to be those that
        /// `snin plan` computes, with policy strict those of `snin plan --unmanaged-trees 1`. SIGHUP has
        /// it read again.
        topology: Option<PathBuf> = None,
        /// With topology, whose addresses are those that it reports: the tables that another manager wrote, as
        /// dump_fts or OpenSM's opensm-lfts.dump has them. They are granted on as they are. SIGHUP has them read
        /// again.
        tables: Option<PathBuf> = None,
        /// With topology: 2^lmc addresses a host port. Default: the least that gives every tree one.
        lmc: Option<u8> = None,
        /// This controller's name. Default: the certificate's, else the host's.
        name: Option<String> = None,
        /// The certificate (PEM), for tls://. `snin pki issue controller/NAME` makes one.
        certificate: Option<PathBuf> = None,
        /// Its key.
        key: Option<PathBuf> = None,
        /// The CA's certificate.
        ca_certificate: Option<PathBuf> = None,
        /// The CA's list of revoked certificates.
        revoked: Option<PathBuf> = None,
        /// Where term, pinned grants, slices and requests are kept.
        state_dir: PathBuf = PathBuf::from("/var/lib/snin/controller"),
        /// Where they are kept instead by two or more controllers, one of which leads while the others stand by:
        /// etcd://host:port,host:port,host:port, or etcds:// with this controller's certificate. A /FOLDER behind
        /// says below which key; default: /snin-controller.
        store: Option<String> = None,
        /// With store: for so many seconds a leader that is not heard may lead on. Another one leads after that.
        leader_lease_s: u32 = 5,
        /// The term is at least this: for a controller that lost its state, greater than any that agents
        /// have heard of.
        least_term: u64 = 1,
        /// Is non-interference in effect? strict (the trees of ordinary traffic are never granted), shared (all
        /// trees are), off (nothing is). With manager its policy counts.
        policy: String = "shared".to_owned(),
        /// A window's length in microseconds.
        window_us: u64 = 16_667,
        /// How long before a window its grants are decided.
        lead_us: u64 = 2_000,
        /// For how many windows a connection is granted at once when no other connection wants its ports.
        lease: u32 = 6,
        /// The furthest that an agent's clock may be from the controller's, in microseconds.
        clock_error_us: u64 = 500,
        /// The longest that what has left a port is under way.
        drain_us: u64 = 100,
        /// Nothing is sent in the last so many microseconds of a grant. Default: clock_error_us + drain_us.
        guard_us: Option<u64> = None,
        /// What was not confirmed is said again after so many microseconds.
        repeat_us: u64 = 5_000,
        /// An agent that was silent for so many windows is lost.
        silence: u32 = 60,
        /// A request that has waited for so many windows goes before all others at its ports.
        overdue_after: u64 = 3_600,
        /// After so many windows without a tree a connection takes turns with those that have one.
        patience: u32 = 8,
        /// The most agents.
        agents: u32 = 4_096,
        /// The most connections.
        connections: u32 = 1 << 20,
        /// The most connections of one agent.
        connections_per_agent: u32 = 1 << 12,
        /// Frames of an agent in a second; more have to wait.
        agent_rate: u32 = 2_000,
        /// Users (by number) who may do everything at the control socket, beside root and the controller's own;
        /// anybody else who may open it only looks.
        operators: Vec<u32> = Vec::new(),
        /// Job launchers: users (by number) and owners of certificates who may have requests of their own, and
        /// change the slices whose names begin so: { 990 = "slurm/", "launcher/pbs" = "pbs/" }.
        launchers: BTreeMap<String, String> = BTreeMap::new(),
        /// Where `snin controller` asks.
        control_socket: PathBuf = PathBuf::from("/run/snin/controller.sock"),
        /// The group, by name or number, whose members may open the controller's Unix sockets, beside root and its
        /// own user: "slurm" where Slurm's hooks ask. What each of them may do is said by operators, launchers and
        /// agent_users. Unset: the controller's own group.
        socket_group: Option<GroupName> = None,
        /// Where /metrics and /healthz are served, such as "127.0.0.1:9406". Unset: nowhere.
        metrics_listen: Option<String> = None,
        /// Where the API is offered: unix:///path (users as at the control socket), tls://host:port (operators,
        /// launchers and agents by certificate), or plain://127.0.0.1:port (programs of this machine only look).
        api: Vec<String> = Vec::new(),
        /// The most requests of one user of a host, that come through its agent.
        requests_per_user: u32 = 16,
        /// Events go to the end of this file too, as JSON lines.
        events_file: Option<PathBuf> = None,
        /// Messages go to stderr, journald, or a file.
        log_file: String = "stderr".to_owned(),
        /// Files of log and events are moved to NAME.1, in place of the one before, and begun anew when they would
        /// be larger than this, in MiB. 0: never, then logrotate may (SIGUSR1 opens them anew).
        log_max_size: u64 = 64,
        /// error, warn, info, debug or trace.
        log_level: String = "info".to_owned(),
    }
}

/// Where the fabric comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A subnet manager's sessions: at the first address, or else at one of the others.
    Manager(Address, Vec<Address>),
    /// A file.
    File(PathBuf, Option<Lmc>),
    /// Files of topology and tables that another manager wrote.
    Found(PathBuf, PathBuf),
}

/// A store that several controllers share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedStore {
    /// Its address.
    pub address: String,
    /// The seconds of the leader's lease.
    pub lease: u32,
}

/// The settings, checked but for the files that they name.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Where agents call.
    pub listen: Vec<Address>,
    /// Where the fabric comes from.
    pub source: Source,
    /// What the core has to know; its term is not the one that counts.
    pub core: Config,
    /// Where the state is, if not in `state_dir`.
    pub store: Option<SharedStore>,
    /// The certificate's files.
    pub files: Option<Files>,
    /// Where the API is.
    pub api: Vec<Address>,
    /// Launchers (`user/990`, `launcher/pbs`), and how the names of their slices begin.
    pub launchers: BTreeMap<String, String>,
    /// Whose members may open Unix sockets.
    pub socket_group: Option<SocketGroup>,
}

/// What is wrong is named by file and line.
///
/// # Errors
/// The first value that is refused.
pub fn check(loaded: &Loaded<Settings>) -> Result<Checked, SettingsError> {
    let value = &loaded.value;
    let address = |key: &str, text: &str| {
        text.parse::<Address>().map_err(|error| loaded.refuse(key, format_args!("{key}: {error}")))
    };
    let listen =
        value.listen.iter().map(|text| address("listen", text)).collect::<Result<Vec<_>, _>>()?;
    let source = match (&value.manager, &value.topology) {
        (Some(_), None) if value.tables.is_some() => {
            return Err(loaded.refuse("tables", "tables are read from a file with topology only"));
        }
        (Some(managers), None) => {
            let mut all = managers.split(',').map(|manager| address("manager", manager.trim()));
            let first = all.next().unwrap_or_else(|| address("manager", managers))?;
            Source::Manager(first, all.collect::<Result<_, _>>()?)
        }
        (None, Some(file)) => match &value.tables {
            Some(tables) => Source::Found(file.clone(), tables.clone()),
            None => Source::File(file.clone(), lmc(loaded)?),
        },
        (Some(_), Some(_)) => {
            return Err(loaded.refuse("topology", "manager and topology are both set: one of them"));
        }
        (None, None) => {
            let what = "neither manager nor topology is set: the fabric is not known";
            return Err(loaded.refuse("manager", what));
        }
    };
    let policy: Policy = value.policy.parse().map_err(|error| loaded.refuse("policy", error))?;
    let micros = Time::micros;
    let guard =
        value.guard_us.unwrap_or_else(|| value.clock_error_us.saturating_add(value.drain_us));
    let core = Config {
        term: Term(value.least_term),
        window: micros(value.window_us),
        lead: micros(value.lead_us),
        lease: value.lease,
        clock_error: micros(value.clock_error_us),
        drain: micros(value.drain_us),
        guard: micros(guard),
        repeat: micros(value.repeat_us),
        silence: value.silence,
        overdue_after: value.overdue_after,
        patience: value.patience,
        agents: value.agents,
        connections: value.connections,
        connections_per_agent: value.connections_per_agent,
        policy,
        ..Config::default()
    };
    let api = value.api.iter().map(|text| address("api", text)).collect::<Result<Vec<_>, _>>()?;
    core.check().map_err(|error| objection(loaded, &error))?;
    let files = files(loaded)?;
    let managers: Vec<&Address> = match &source {
        Source::Manager(first, others) => std::iter::once(first).chain(others).collect(),
        Source::File(..) | Source::Found(..) => Vec::new(),
    };
    let all = listen.iter().chain(&api).chain(managers);
    if files.is_none() && all.clone().any(|address| matches!(address, Address::Tls(_))) {
        return Err(loaded.refuse("certificate", SessionEnd::NoCredentials));
    }
    let socket_group = group::configured(loaded, value.socket_group.as_ref())?;
    let (store, launchers) = (shared_store(loaded)?, launchers(loaded)?);
    Ok(Checked { listen, source, core, store, files, api, launchers, socket_group })
}

fn shared_store(loaded: &Loaded<Settings>) -> Result<Option<SharedStore>, SettingsError> {
    let lease = loaded.value.leader_lease_s;
    if !(1..=LONGEST_LEASE).contains(&lease) {
        let what = format_args!("leader_lease_s is {lease}: 1 to {LONGEST_LEASE}");
        return Err(loaded.refuse("leader_lease_s", what));
    }
    let Some(address) = loaded.value.store.clone() else { return Ok(None) };
    if !["etcd://", "etcds://"].iter().any(|scheme| address.starts_with(scheme)) {
        let what = format_args!("store: `{address:.120}`: etcd://HOST:PORT,... or etcds://");
        return Err(loaded.refuse("store", what));
    }
    Ok(Some(SharedStore { address, lease }))
}

fn launchers(loaded: &Loaded<Settings>) -> Result<BTreeMap<String, String>, SettingsError> {
    let launcher = |(name, slices): (&String, &String)| {
        let certified =
            || name.parse().ok().filter(|named: &Identity| named.role() == Role::Launcher);
        let known = match name.parse::<u32>() {
            Ok(user) => Some(format!("user/{user}")),
            Err(_) => certified().map(|named| named.to_string()),
        };
        let known = known.ok_or_else(|| {
            let what = "a user is given by number, the owner of a certificate as launcher/NAME";
            loaded.refuse("launchers", format_args!("`{name}`: {what}"))
        })?;
        Ok((known, slices.clone()))
    };
    loaded.value.launchers.iter().map(launcher).collect()
}

fn lmc(loaded: &Loaded<Settings>) -> Result<Option<Lmc>, SettingsError> {
    let Some(bits) = loaded.value.lmc else { return Ok(None) };
    let lmc = Lmc::new(bits)
        .ok_or_else(|| loaded.refuse("lmc", format_args!("lmc is {bits}: 0 to 7")))?;
    Ok(Some(lmc))
}

fn files(loaded: &Loaded<Settings>) -> Result<Option<Files>, SettingsError> {
    let value = &loaded.value;
    let files = Files::configured(
        value.certificate.as_deref(),
        value.key.as_deref(),
        value.ca_certificate.as_deref(),
        value.revoked.as_deref(),
    );
    files.map_err(|error| loaded.refuse(error.0, error))
}

/// The core's objection, at the line where the value was set, under the key's name in the file.
fn objection(loaded: &Loaded<Settings>, error: &ConfigError) -> SettingsError {
    let key = match error {
        ConfigError::Zero("repeat") => "repeat_us",
        ConfigError::Zero(key) => key,
        ConfigError::Guard { .. } => "guard_us",
        ConfigError::Window { .. } => "window_us",
    };
    loaded.refuse(key, error)
}

impl Checked {
    /// The certificate and what goes with it, if there is one.
    ///
    /// # Errors
    /// What is wrong with one of the files.
    pub fn credentials(&self) -> Result<Option<Credentials>, CredentialsError> {
        self.files.clone().map(Credentials::load).transpose()
    }
}

impl Settings {
    /// What a session may cost.
    pub fn limits(&self) -> Limits {
        Limits {
            sessions: self.agents as usize,
            rate: self.agent_rate,
            burst: self.agent_rate,
            ..Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use snin_daemon::settings::{parse, template};

    use super::*;

    fn refused(text: &str) -> String {
        check(&parse(text, "controller.toml").unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_refused_is_named_with_its_line() {
        let good = "topology = \"fabric\"\n";
        assert!(check(&parse(good, "controller.toml").unwrap()).is_ok());
        for (text, told) in [
            ("", "controller.toml: neither manager nor topology is set: the fabric is not known"),
            ("topology = \"f\"\nlmc = 8", "controller.toml:2: lmc is 8: 0 to 7"),
            (
                "topology = \"f\"\npolicy = \"loud\"",
                "controller.toml:2: `loud` is no policy: strict, shared or off",
            ),
            (
                "topology = \"f\"\nlisten = [\"plain://10.0.0.1:7\"]",
                "controller.toml:2: listen: `plain://10.0.0.1:7`: plain sessions are for this machine only \
                 (127.0.0.1 or [::1]): use tls://",
            ),
            (
                "topology = \"f\"\nlisten = [\"tls://ctl1:7\"]",
                "controller.toml: tls:// needs certificate, key and ca_certificate in the configuration",
            ),
            (
                "topology = \"f\"\nstore = \"redis://a:1\"",
                "controller.toml:2: store: `redis://a:1`: etcd://HOST:PORT,... or etcds://",
            ),
            (
                "topology = \"f\"\nleader_lease_s = 0",
                "controller.toml:2: leader_lease_s is 0: 1 to 60",
            ),
        ] {
            assert_eq!(refused(text), told);
        }
        assert!(
            refused("topology = \"f\"\nguard_us = 1")
                .starts_with("controller.toml:2: `guard` is 1us")
        );
    }

    #[test]
    fn the_example_holds_every_key() {
        let example = include_str!("../snin-controller.toml");
        let hint = "snin-controller --dump-config > controller/snin-controller.toml";
        assert_eq!(example, template::<Settings>(), "{hint}");
    }
}
