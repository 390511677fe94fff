//! The configuration file of agents on a fabric in software. A key that `agent.toml` has too means the same.

use std::path::PathBuf;

use snin_agent_core::{Config, LossPolicy};
use snin_daemon::group::{self, GroupName};
use snin_daemon::session::{Address, Files, SessionEnd};
use snin_daemon::settings::{Loaded, SettingsError};
use snin_fabric::Guid;
use snin_protocol::Time;

use crate::process::Options;

snin_daemon::settings! {
    /// Every key.
    pub struct Settings {
        /// The fabric's name: what `snin emulate --socket` says.
        software_port: String = "sim".to_owned(),
        /// The GUIDs of the ports that agents are at, such as "0x0002c90300a1b2c3".
        guids: Vec<String> = Vec::new(),
        /// Where the controller answers: tls://host:port, unix:///path, or, on this machine only,
        /// plain://127.0.0.1:port. Of several controllers all, with commas between them: the one that leads is
        /// found. Without one nothing is granted.
        controller: Option<String> = None,
        /// Each port's certificate (PEM), for tls://; {guid} in the path stands for the port's GUID, as in
        /// "/etc/snin/pki/agent-{guid}.crt". `snin pki issue agent/GUID` makes one.
        certificate: Option<PathBuf> = None,
        /// Its key, by the same rule.
        key: Option<PathBuf> = None,
        /// The CA's certificate.
        ca_certificate: Option<PathBuf> = None,
        /// The CA's list of revoked certificates.
        revoked: Option<PathBuf> = None,
        /// What flows do while no controller is heard: silent (nothing) or besteffort (to base addresses,
        /// like all traffic without a grant).
        policy: String = "silent".to_owned(),
        /// Where it is asked.
        control_socket: PathBuf = PathBuf::from("/run/snin/agents.sock"),
        /// The group, by name or number, whose members may open this socket, beside root and the
        /// daemon's own user. Unset: the daemon's own group.
        socket_group: Option<GroupName> = None,
        /// The most flows from each port.
        flows: u32 = 16,
        /// The most queue pairs to send on of each port.
        pairs: u32 = 64,
        /// The most messages of a flow that wait.
        waiting: u32 = 64,
        /// The most pieces under way on a queue pair.
        depth: u32 = 16,
        /// How long after its last byte a message is acknowledged at the latest: sockets and processors that are
        /// waited for included.
        acknowledgement_us: u64 = 10_000,
        /// A message that is not done after this makes its queue pair be given up.
        stall_ms: u64 = 5_000,
        /// A controller not heard of for this long is lost.
        silence_ms: u64 = 2_000,
        /// How long an agent waits for an answer before it repeats a message.
        ask_again_ms: u64 = 100,
        /// A connection that nothing is sent on is given back after this.
        linger_ms: u64 = 200,
        /// Messages go to stderr, journald, or a file.
        log_file: String = "stderr".to_owned(),
        /// Files of log and events are moved to NAME.1, in place of the one before, and begun anew when they would
        /// be larger than this, in MiB. 0: never, then logrotate may (SIGUSR1 opens them anew).
        log_max_size: u64 = 64,
        /// error, warn, info, debug or trace.
        log_level: String = "info".to_owned(),
    }
}

/// What is wrong is named by file and line.
///
/// # Errors
/// The first value that cannot be used.
pub fn options(settings: &Loaded<Settings>) -> Result<Options, SettingsError> {
    let value = &settings.value;
    let mut ports = Vec::with_capacity(value.guids.len());
    for text in &value.guids {
        let guid: Guid = text
            .parse()
            .map_err(|error| settings.refuse("guids", format_args!("{text}: {error}")))?;
        ports.push(guid);
    }
    if ports.is_empty() {
        return Err(settings.refuse("guids", "at least one port's GUID is needed"));
    }
    let controllers = value.controller.as_deref().map(Address::read_all).transpose();
    let controllers = controllers.map_err(|error| settings.refuse("controller", error))?;
    let controllers = controllers.unwrap_or_default();
    let certificates = Files::configured(
        value.certificate.as_deref(),
        value.key.as_deref(),
        value.ca_certificate.as_deref(),
        value.revoked.as_deref(),
    );
    let certificates = certificates.map_err(|error| settings.refuse(error.0, error))?;
    if certificates.is_none() && controllers.iter().any(|at| matches!(at, Address::Tls(_))) {
        return Err(settings.refuse("certificate", SessionEnd::NoCredentials));
    }
    let counts = [
        ("flows", value.flows, 65_536),
        ("pairs", value.pairs, 4096),
        ("waiting", value.waiting, 65_536),
        ("depth", value.depth, 4096),
    ];
    for (key, count, most) in counts {
        if !(1..=most).contains(&count) {
            return Err(
                settings.refuse(key, format_args!("{key} = {count}: 1 to {most} is possible"))
            );
        }
    }
    let loss = match value.policy.as_str() {
        "silent" => LossPolicy::Silent,
        "besteffort" => LossPolicy::BestEffort,
        other => {
            return Err(settings.refuse("policy", format_args!("`{other}`: silent or besteffort")));
        }
    };
    let silence = Time::millis(value.silence_ms);
    let mesh = Config {
        flows: value.flows,
        pairs: value.pairs,
        queue: value.waiting,
        depth: value.depth,
        controller: !controllers.is_empty(),
        acknowledgement: Time::micros(value.acknowledgement_us),
        stall: Time::millis(value.stall_ms),
        silence,
        // A node that is there has answered several times by then.
        ask_time: silence / 10,
        ask_again: Time::millis(value.ask_again_ms),
        linger: Time::millis(value.linger_ms),
        loss,
        histogram: None,
        ..Config::default()
    };
    Ok(Options {
        fabric: value.software_port.clone(),
        ports,
        controllers,
        certificates,
        control: value.control_socket.clone(),
        group: group::configured(settings, value.socket_group.as_ref())?,
        mesh,
    })
}

#[cfg(test)]
mod tests {
    use snin_daemon::settings::parse;

    use super::*;

    #[test]
    fn what_is_refused_is_named_with_its_line() {
        let refused =
            |text: &str| options(&parse(text, "agents.toml").unwrap()).unwrap_err().to_string();
        let good = "guids = [\"0x2c9\"]\ncontroller = \"unix:///tmp/sessions.sock\"";
        assert!(options(&parse(good, "agents.toml").unwrap()).is_ok());
        assert!(refused("flows = 3").contains("at least one port"));
        assert!(refused("\nguids = [\"host\"]").starts_with("agents.toml:2: host: "));
        let files = "guids = [\"0x2c9\"]\ncertificate = \"a.crt\"\nkey = \"a.key\"";
        assert!(refused(files).ends_with("ca_certificate is missing"));
        let files = "guids = [\"0x2c9\"]\ncontroller = \"tls://ctl1:7\"";
        assert!(refused(files).starts_with("agents.toml: tls:// needs certificate"));
        let depth = "guids = [\"0x2c9\"]\ndepth = 0";
        assert_eq!(refused(depth), "agents.toml:2: depth = 0: 1 to 4096 is possible");
        assert!(
            refused("guids = [\"0x2c9\"]\ncontroller = \"node1\"").starts_with("agents.toml:2: ")
        );
    }
}
