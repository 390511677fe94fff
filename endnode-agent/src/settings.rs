//! The agent's settings, by the file that an admin writes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use snin_daemon::group::{self, GroupName, SocketGroup};
use snin_daemon::session::{Address, Files, SessionEnd};
use snin_daemon::settings::{Loaded, SettingsError};
use snin_fabric::Guid;
use snin_protocol::Time;

use snin_agent_core::{Config, LossPolicy};

snin_daemon::settings! {
    /// Every key of `agent.toml`.
    pub struct Settings {
        /// The port's GUID, by which controller and peers know it. Default: what the port says.
        guid: Option<String> = None,
        /// RDMA device. Default: the first with an active port.
        device: Option<String> = None,
        /// Its port. Default: the first active one.
        port: Option<u8> = None,
        /// Where peers' agents call, to exchange queue pairs: tls://0.0.0.0:18517, or, for peers on this machine
        /// only, plain://127.0.0.1:port or unix:///path.
        listen: String = "plain://127.0.0.1:18517".to_owned(),
        /// Where to call the agent of each peer: { "0x0002c90300a1b2c3" = "tls://node7:18517" }. Its certificate
        /// has to name that GUID.
        peers: BTreeMap<String, String> = BTreeMap::new(),
        /// Where the controller answers: tls://host:port, unix:///path, or, on this machine only,
        /// plain://127.0.0.1:port. Of several controllers all, with commas between them: the one that leads is
        /// found. Without one nothing is granted.
        controller: Option<String> = None,
        /// The controller's API, where users of this host have requests through pair_socket: tls://host:port, or,
        /// on this machine only, unix:///path. Default: they have none.
        controller_api: Option<String> = None,
        /// The port's certificate (PEM), for tls://. `snin pki issue agent/GUID` makes one.
        certificate: Option<PathBuf> = None,
        /// Its key.
        key: Option<PathBuf> = None,
        /// The CA's certificate.
        ca_certificate: Option<PathBuf> = None,
        /// The CA's list of revoked certificates.
        revoked: Option<PathBuf> = None,
        /// What flows do while no controller is heard: silent (nothing) or besteffort (to base addresses,
        /// like all traffic without a grant).
        policy: String = "silent".to_owned(),
        /// rc: a reliable queue pair for each (peer, tree). ud: one for all, datagrams of one packet that
        /// may be lost.
        mode: String = "rc".to_owned(),
        /// busy: the data thread never sleeps. hybrid: it spins for 20 us, then sleeps. Default: busy, but
        /// hybrid on less than three cores.
        poll: Option<String> = None,
        /// The core of the data thread, isolated ones included. Default: not pinned.
        core: Option<usize> = None,
        /// Service level of everything that is sent, 0 to 15. Default: for what is granted as the controller says,
        /// and 0 for the rest.
        service_level: Option<u8> = None,
        /// What the port sends, in bit/s: says how long a message takes.
        rate: u64 = 100_000_000_000,
        /// The most queue pairs to send on; the least recently used goes first.
        pairs: u32 = 128,
        /// The most queue pairs to receive by; more are declined.
        inbound_pairs: u32 = 1024,
        /// The most peers that may send to here; more are declined.
        inbound_peers: u32 = 1024,
        /// The most flows of a peer that may send to here; one whose own `flows` is greater is declined.
        inbound_flows: u32 = 256,
        /// The most flows from here.
        flows: u32 = 256,
        /// The most messages of a flow that wait.
        waiting: u32 = 256,
        /// The most messages under way on a queue pair.
        depth: u32 = 64,
        /// The longest message in bytes; with ud a packet is the limit.
        message: u32 = 65_536,
        /// Messages that applications may have under way in all: memory for them is registered.
        buffers: u32 = 512,
        /// Messages that may come in before an application takes them: memory for them is registered.
        receives: u32 = 512,
        /// Messages up to so many bytes, header included, are copied when posted, if the device can.
        inline: u32 = 220,
        /// A message that is not done after this makes its queue pair be given up.
        stall_ms: u64 = 1000,
        /// What is not acknowledged after this is sent again by the device, six times at most. Rounded up to what
        /// devices know, 4.096 us times a power of two.
        resend_ms: u64 = 60,
        /// A queue pair that is not connected after this is tried again.
        connect_ms: u64 = 1000,
        /// How often a peer is asked whether it is there; three missed and it is gone.
        heartbeat_ms: u64 = 250,
        /// A controller not heard of for this long is lost.
        silence_ms: u64 = 500,
        /// A connection that nothing is sent on is given back after this.
        linger_ms: u64 = 200,
        /// How long after its last byte a message is acknowledged at the latest.
        acknowledgement_us: u64 = 50,
        /// Where the trees of the node's jobs are, a file each: what programs with libsnin_preload.so are told.
        jobs: String = "/run/snin/jobs".to_owned(),
        /// Where programs of any user ask for the pairs of their job (SNIN_AGENT) and have requests of this host's
        /// port (`snin request --agent`), such as /run/snin/pairs.sock. Default: nowhere.
        pair_socket: Option<String> = None,
        /// Where `snin agent` asks.
        control_socket: String = "/run/snin/agent.sock".to_owned(),
        /// The group, by name or number, whose members may open that socket, beside root and the agent's own user.
        /// Unset: the agent's own group.
        socket_group: Option<GroupName> = None,
        /// Where /metrics and /healthz are served, such as "127.0.0.1:9407". Unset: nowhere.
        metrics_listen: Option<String> = None,
        /// Events go to the end of this file too, as JSON lines.
        events_file: Option<String> = None,
        /// Messages go to stderr, journald, or a file.
        log_file: String = "stderr".to_owned(),
        /// Files of log and events are moved to NAME.1, in place of the one before, and begun anew when they would
        /// be larger than this, in MiB. 0: never, then logrotate may (SIGUSR1 opens them anew).
        log_max_size: u64 = 64,
        /// error, warn, info, debug or trace.
        log_level: String = "info".to_owned(),
    }
}

/// The settings of an agent, checked.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) guid: Option<Guid>,
    pub(crate) listen: Address,
    pub(crate) peers: BTreeMap<Guid, Address>,
    /// Any of them will do.
    pub(crate) controllers: Vec<Address>,
    pub(crate) controller_api: Option<Address>,
    pub(crate) certificates: Option<Files>,
    pub(crate) socket_group: Option<SocketGroup>,
    pub(crate) datagrams: bool,
    pub(crate) busy: bool,
    loss: LossPolicy,
}

/// Cores for the data thread, the control thread and an application; with fewer no thread spins.
const POLLERS: usize = 3;

/// The most datagrams under way.
const MOST_DATAGRAMS: u32 = 16_384;

/// What is wrong is named by file and line.
pub(crate) fn check(settings: &Loaded<Settings>) -> Result<Checked, SettingsError> {
    let value = &settings.value;
    let refuse = |key: &str, what: String| Err(settings.refuse(key, what));
    let guid = match &value.guid {
        Some(text) => Some(text.parse().map_err(|error| settings.refuse("guid", error))?),
        None => None,
    };
    let mut peers = BTreeMap::new();
    for (guid, address) in &value.peers {
        let guid: Guid = guid.parse().map_err(|error| settings.refuse("peers", error))?;
        peers.insert(guid, read(settings, "peers", address)?);
    }
    let loss = match value.policy.as_str() {
        "silent" => LossPolicy::Silent,
        "besteffort" => LossPolicy::BestEffort,
        other => return refuse("policy", format!("`{other}`: silent or besteffort")),
    };
    let datagrams = match value.mode.as_str() {
        "rc" => false,
        "ud" => true,
        other => return refuse("mode", format!("`{other}`: rc or ud")),
    };
    let busy = match value.poll.as_deref() {
        Some("busy") => true,
        Some("hybrid") => false,
        Some(other) => return refuse("poll", format!("`{other}`: busy or hybrid")),
        None => std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= POLLERS),
    };
    let counts = [
        ("pairs", value.pairs, 4096),
        ("inbound_pairs", value.inbound_pairs, 65_536),
        ("inbound_peers", value.inbound_peers, 65_536),
        ("inbound_flows", value.inbound_flows, 65_536),
        ("flows", value.flows, 65_536),
        ("waiting", value.waiting, 65_536),
        ("depth", value.depth, 4096),
        ("message", value.message, 8 << 20),
        ("buffers", value.buffers, 65_536),
        ("receives", value.receives, 16_384),
    ];
    if let Some((key, count, most)) =
        counts.into_iter().find(|&(_, count, most)| !(1..=most).contains(&count))
    {
        return refuse(key, format!("{key} = {count}: 1 to {most} is possible"));
    }
    if datagrams && value.pairs * value.depth > MOST_DATAGRAMS {
        return refuse(
            "pairs",
            format!("with mode = \"ud\" pairs times depth is at most {MOST_DATAGRAMS}"),
        );
    }
    if let Some(level) = value.service_level.filter(|&level| level > 15) {
        return refuse("service_level", format!("{level}: 0 to 15"));
    }
    let controllers = value.controller.as_deref().map(Address::read_all).transpose();
    let controllers = controllers.map_err(|error| settings.refuse("controller", error))?;
    let controllers = controllers.unwrap_or_default();
    let controller_api = value.controller_api.as_deref();
    let controller_api =
        controller_api.map(|address| read(settings, "controller_api", address)).transpose()?;
    let listen = read(settings, "listen", &value.listen)?;
    let certificates = Files::configured(
        value.certificate.as_deref(),
        value.key.as_deref(),
        value.ca_certificate.as_deref(),
        value.revoked.as_deref(),
    );
    let certificates = certificates.map_err(|error| settings.refuse(error.0, error))?;
    let mut addresses = peers.values().chain(&controllers).chain(&controller_api).chain([&listen]);
    let needs_certificate = addresses.any(|address| matches!(address, Address::Tls(_)));
    drop(addresses);
    if certificates.is_none() && needs_certificate {
        return Err(settings.refuse("certificate", SessionEnd::NoCredentials));
    }
    Ok(Checked {
        guid,
        listen,
        peers,
        controllers,
        controller_api,
        certificates,
        socket_group: group::configured(settings, value.socket_group.as_ref())?,
        datagrams,
        busy,
        loss,
    })
}

fn read(settings: &Loaded<Settings>, key: &str, text: &str) -> Result<Address, SettingsError> {
    text.parse().map_err(|error| settings.refuse(key, error))
}

impl Checked {
    /// What the mesh is told. `packet` is what the port's packets carry.
    pub(crate) fn mesh(
        &self,
        settings: &Settings,
        (port, session): (Guid, u64),
        packet: u32,
        piece: u32,
    ) -> Config {
        Config {
            port,
            session,
            pairs: settings.pairs,
            flows: settings.flows,
            inbound_peers: settings.inbound_peers,
            inbound_flows: settings.inbound_flows,
            queue: settings.waiting,
            depth: settings.depth,
            piece,
            mtu: packet,
            rate: settings.rate,
            controller: !self.controllers.is_empty(),
            // It counts from the agent's start, so nothing but the controller's answers can say how far off it is.
            clock_error: None,
            // A datagram is done when it has left; RC's completion says that it has arrived.
            settle: if self.datagrams { Time::millis(1) } else { Time::ZERO },
            acknowledgement: Time::micros(settings.acknowledgement_us),
            stall: Time::millis(settings.stall_ms),
            connect: Time::millis(settings.connect_ms),
            linger: Time::millis(settings.linger_ms),
            silence: Time::millis(settings.silence_ms),
            // A node that is there has answered several times by then.
            ask_time: Time::millis(settings.silence_ms) / 5,
            loss: self.loss,
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use snin_daemon::settings::parse;

    use super::*;

    fn refused(text: &str) -> String {
        check(&parse(text, "agent.toml").unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_refused_is_named_with_its_line() {
        assert!(check(&Loaded::defaults()).is_ok());
        assert_eq!(refused("mode = \"xrc\""), "agent.toml:1: `xrc`: rc or ud");
        assert_eq!(refused("\npolicy = \"loud\""), "agent.toml:2: `loud`: silent or besteffort");
        assert_eq!(refused("poll = \"never\""), "agent.toml:1: `never`: busy or hybrid");
        assert_eq!(refused("depth = 0"), "agent.toml:1: depth = 0: 1 to 4096 is possible");
        assert!(refused("guid = \"host\"").starts_with("agent.toml:1: "));
        assert!(refused("listen = \"node1\"").contains("expected tls://HOST:PORT"));
        assert!(refused("controller = \"node1:18516\"").contains("expected tls://HOST:PORT"));
        assert!(refused("controller = \"plain://192.0.2.1:7\"").contains("for this machine only"));
        let peer = "peers = { 0x2 = \"tls://node2:7\" }";
        assert!(refused(peer).starts_with("agent.toml: tls:// needs certificate"));
        let tls = refused("controller = \"tls://node1:18516\"");
        assert_eq!(
            tls,
            "agent.toml: tls:// needs certificate, key and ca_certificate in the configuration"
        );
        assert!(refused("\nkey = \"a.key\"").ends_with("certificate is missing"));
        assert!(refused("mode = \"ud\"\npairs = 4096").starts_with("agent.toml:2: with mode"));
    }
}
