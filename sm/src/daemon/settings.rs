//! The configuration file. A key that OpenSM has too, with the same meaning, has OpenSM's name.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use snin_daemon::group::GroupName;
use snin_daemon::settings::{Loaded, SettingsError};
use snin_fabric::Guid;
use snin_protocol::view::Policy;
use snin_sm_database::config::{Config, Enforce, QosOptions, READ_SMPS};
use snin_sm_database::error::ConfigError;

use super::choices::{ConsentFrom, KeyPolicy, RoutingEngine};

/// Tables that are repaired wait so long, at most, until controllers say that nothing is sent along what is
/// changed.
const CLEAR_WAIT_MS: u32 = 250;
/// A percent of a link, as the core counts it.
const MILLIONTHS: u32 = 10_000;

snin_daemon::settings! {
    /// Every key of the daemon.
    pub struct Settings {
        /// The port through which the subnet is managed: the adapter, such as "mlx5_0". Unset, with the next
        /// two: the one InfiniBand port of this machine, or the one that has a cable.
        ca: Option<String> = None,
        /// ... its port, from 1.
        port: Option<u8> = None,
        /// ... or the port's GUID, such as "0x0002c90300a1b2c3".
        guid: Option<Hex> = None,
        /// Further ports of this machine that lead to the same subnet, such as "mlx5_1/1" or a port's GUID. The
        /// manager sits at the first of all that has a link, reaches each switch by the shorter way, and moves
        /// over to another port when its own one loses its link.
        more_ports: Vec<String> = Vec::new(),

        /// 2^lmc addresses each host port. Unset: as remembered, else the least that gives each routing tree an
        /// address of its own, or the most that fits. Once chosen only this key changes it.
        lmc: Option<u8> = None,
        /// The upper half of every port's GIDs.
        subnet_prefix: Hex = Hex(0xFE80_0000_0000_0000),
        /// Where M_Keys come from. "given": m_key is on every port. "one": one that is generated. "per-port": each
        /// port has a generated one of its own; only with protection level 0 or 1. What they are generated from is
        /// kept in state_dir, and "snin sm rotate-keys" changes them all.
        m_key_policy: KeyPolicy = KeyPolicy::Given,
        /// The key on every SMP and every port, as "0x0123456789abcdef"; 0: none. A port with another manager's
        /// key is taken over if it shows that key, and else left alone and named as missing.
        m_key: Hex = Hex(0),
        /// Where m_key is given: keys that ports may have from before, when it was another. Each is tried at a
        /// port that hides its key, which has m_key from then on. At most 16; with protection level 2 or 3 at
        /// most as many as transaction_retries. Unlike m_key they may go once every port was seen.
        former_m_keys: Vec<Hex> = Vec::new(),
        /// What a port refuses to whom lacks its key (IBA 14.2.4.1). 0: writes; 1: writes, and it shows no key; 2
        /// and 3: reads too.
        m_key_protection_level: u8 = 0,
        /// Seconds for which a port that was shown a wrong key waits for its manager's; then it shows its key to
        /// every manager, so that another manager can take it over. 0: for ever.
        m_key_lease_period: u16 = 0,
        /// The manager with the highest is master, of equal ones the one with the lowest port GUID: a master hands
        /// over to one that goes before it. 0 to 15. `snin sm priority` changes it while the daemon runs.
        sm_priority: u8 = 0,
        /// Whether managers elect the master by more than sm_priority: configuration manager, good ports, the
        /// present master (docs/election.md); all managers have the same here. The least of three SMInfo
        /// priorities in a row that they show then, 0 to 13. Unset: SMInfo's rules alone.
        election: Option<u8> = None,
        /// The key by which managers of one subnet know each other. Beside a master that shows another nothing is
        /// written until one of the two ends. 0: any.
        sm_key: Hex = Hex(1),
        /// Milliseconds between two questions to another manager whether it is still there.
        sminfo_polling_timeout: u32 = 250,
        /// How many of them in a row it may leave without an answer, by directed route and by LID; after one more
        /// it is gone: by default one second after the first.
        polling_retry_number: u32 = 3,
        /// The file that says which ports are members of which partitions, in the format of OpenSM's
        /// partitions.conf. Unset: every port is a full member of the default partition. SIGHUP and
        /// "snin sm sweep" read it again.
        partition_config_file: Option<PathBuf> = None,
        /// The file of levels of service, in the format of OpenSM's qos-policy.conf: what queries for paths are
        /// answered with. What is granted keeps its service level. Unset: none. SIGHUP and "snin sm sweep" read
        /// it again.
        qos_policy_file: Option<PathBuf> = None,
        /// In which direction switches check P_Keys at the ports that face hosts, where a file keeps any apart:
        /// both, in, out or off.
        part_enforce: Enforce = Enforce::Both,
        /// Whether a port may hold the full and the limited key of a partition.
        allow_both_pkeys: bool = false,

        /// The key by which requests to subnet administration are trusted, as `saquery --smkey` shows it; 0: none
        /// is.
        sa_key: Hex = Hex(1),
        /// Whether hosts that ask while too much is under way are told so (status BUSY). Off: they are not
        /// answered, and ask again; Linux takes any status for a failure.
        sa_busy: bool = false,
        /// How long packets may be on their way, as paths and groups say it: 4.096 us times 2 to this. After that
        /// switches drop them; 20 to 63: never.
        packet_life_time: u8 = 18,
        /// The least time between two traps of a port, as every host and switch is told it: 4.096 us times 2 to
        /// this. OpenSM's is 18: a switch then tells of a second change a second after the first.
        subnet_timeout: u8 = 12,
        /// How long a packet may be the next one at a switch's port to another switch before it is dropped: 4.096
        /// us times 2 to this; 20 to 31: for ever.
        head_of_queue_lifetime: u8 = 18,
        /// The same at a switch's port to a host.
        leaf_head_of_queue_lifetime: u8 = 16,
        /// So many packets in a row that are dropped for that at a switch's port to another switch make the lane
        /// stalled: all that waits in it is dropped for a while. 0 to 7.
        vl_stall_count: u8 = 7,
        /// The same at a switch's port to a host.
        leaf_vl_stall_count: u8 = 7,
        /// After so many errors of its link a port sends trap 129. 0 to 15.
        local_phy_errors_threshold: u8 = 8,
        /// After so many overruns of its buffers in a row a port sends trap 130. 0 to 15.
        overrun_errors_threshold: u8 = 8,

        /// The service level of what is granted, 1 to 15. Wherever a link has two data lanes it has one of its
        /// own, which goes first, and the tables of all ports are written so. 0: it is sent like everything else,
        /// and tables stay as they are.
        granted_sl: u8 = 1,
        /// The least share of a link, in percent, that ordinary traffic keeps beside what is granted, 0 to 50.
        unmanaged_share: u8 = 5,
        /// Whether the tables of service levels and virtual lanes are these, and not those of granted_sl, which
        /// then only says the level.
        qos: bool = false,
        /// The virtual lane of each service level, 15 drops. A link with fewer lanes takes the low bits.
        qos_sl2vl: [u8; 16] = Config::default().qos_sl2vl,
        /// The high priority arbitration table: pairs of virtual lane and weight, at most 64.
        qos_vlarb_high: Vec<[u8; 2]> = Config::default().qos_vlarb_high,
        /// The low priority one.
        qos_vlarb_low: Vec<[u8; 2]> = Config::default().qos_vlarb_low,
        /// How much of high priority goes before something of low priority may, in 4 KiB; 255: any.
        qos_high_limit: u8 = 0,
        /// The same for ports of adapters alone. Unset: as above.
        qos_ca_sl2vl: Option<[u8; 16]> = None,
        /// ... their high priority arbitration table.
        qos_ca_vlarb_high: Option<Vec<[u8; 2]>> = None,
        /// ... their low priority one.
        qos_ca_vlarb_low: Option<Vec<[u8; 2]>> = None,
        /// ... how much of high priority goes first there.
        qos_ca_high_limit: Option<u8> = None,
        /// The same for ports of routers alone. Unset: as above.
        qos_rtr_sl2vl: Option<[u8; 16]> = None,
        /// ... their high priority arbitration table.
        qos_rtr_vlarb_high: Option<Vec<[u8; 2]>> = None,
        /// ... their low priority one.
        qos_rtr_vlarb_low: Option<Vec<[u8; 2]>> = None,
        /// ... how much of high priority goes first there.
        qos_rtr_high_limit: Option<u8> = None,
        /// The same for enhanced port 0 of switches alone. Unset: as above.
        qos_sw0_sl2vl: Option<[u8; 16]> = None,
        /// ... their high priority arbitration table.
        qos_sw0_vlarb_high: Option<Vec<[u8; 2]>> = None,
        /// ... their low priority one.
        qos_sw0_vlarb_low: Option<Vec<[u8; 2]>> = None,
        /// ... how much of high priority goes first there.
        qos_sw0_high_limit: Option<u8> = None,
        /// The same for external ports of switches alone. Unset: as above.
        qos_swe_sl2vl: Option<[u8; 16]> = None,
        /// ... their high priority arbitration table.
        qos_swe_vlarb_high: Option<Vec<[u8; 2]>> = None,
        /// ... their low priority one.
        qos_swe_vlarb_low: Option<Vec<[u8; 2]>> = None,
        /// ... how much of high priority goes first there.
        qos_swe_high_limit: Option<u8> = None,
        /// The most data lanes of a link: 1 to 5 for 1, 2, 4, 8 and 15. Ports that are up keep what they have.
        max_op_vls: u8 = 5,
        /// The service level by which ports speak to the manager.
        sm_sl: u8 = 0,

        /// Seconds between light sweeps: every switch is asked whether something changed. 0: never.
        sweep_interval: u32 = 10,
        /// Another manager keeps this subnet (OpenSM, UFM): it is only read, every sweep_interval, for controllers
        /// that grant on its tables. No Set is sent, no host is answered, IsSM is not claimed.
        read_only: bool = false,
        /// With read_only: the most SMPs a second.
        max_read_smps: u32 = READ_SMPS,
        /// Milliseconds to wait for an answer.
        transaction_timeout: u32 = 100,
        /// How often a question is asked again before the node counts as mute.
        transaction_retries: u8 = 3,
        /// The most SMPs in flight. Their number begins at a quarter of this, grows while answers come, and
        /// halves when one does not.
        max_wire_smps: u32 = 128,
        /// The most SMPs in flight to one agent: a slow agent keeps no other waiting.
        max_agent_smps: u32 = 16,
        /// The most writes between two looks at who is master, beside another manager and without generated
        /// M_Keys.
        max_burst_smps: u32 = 1024,

        /// Where addresses and trees are remembered over restarts: guid2lid in OpenSM's format, and trees.
        /// Unset: $STATE_DIRECTORY, which systemd sets; without either, only what ports hold is remembered.
        state_dir: Option<PathBuf> = None,
        /// The expected configuration at the first start, as `snin config learn` writes it. What
        /// `snin config apply` says later counts more; it is kept in state_dir. Unset: nothing is expected.
        expected_configuration: Option<PathBuf> = None,
        /// Where the consent to enforcing the expected configuration comes from. "none": there is none; addresses
        /// and routes are given, and nothing is disabled. "static": this file does, for a site with one manager.
        consent: ConsentFrom = ConsentFrom::None,
        /// The cluster's service, which chooses one manager of several and consents to what it enforces:
        /// "etcd://host:port,host:port,host:port", "etcds://..." with the certificate below, or "file:PATH" for a
        /// site with one manager. Its entries: docs/election.md. Unset: `consent` says it.
        cluster: Option<String> = None,
        /// Whether it is only said what would be done to ports.
        configuration_dry_run: bool = false,
        /// Ports that are disabled or enabled within a second, at most.
        configuration_writes: u32 = 100,
        /// Where controllers call for the fabric as it is: tls://host:port, unix:///path, or, on this machine
        /// only, plain://127.0.0.1:port.
        session_listen: Vec<String> = Vec::new(),
        /// Users (by number) whose controllers may call over Unix sockets, beside root and the manager's own.
        session_users: Vec<u32> = Vec::new(),
        /// Where other managers call for the subnet database, which a standby mirrors: addresses as above. Over
        /// plain:// no M_Key is told.
        mirror_listen: Vec<String> = Vec::new(),
        /// Where the other managers of this subnet answer such calls.
        mirror_of: Vec<String> = Vec::new(),
        /// The manager's certificate (PEM), for tls://. `snin pki issue manager/NAME` makes one.
        certificate: Option<PathBuf> = None,
        /// Its key.
        key: Option<PathBuf> = None,
        /// The CA's certificate.
        ca_certificate: Option<PathBuf> = None,
        /// The CA's list of revoked certificates.
        revoked: Option<PathBuf> = None,
        /// Is non-interference in effect? strict (the trees of ordinary traffic are never granted), shared (all
        /// trees are), off (nothing is). Controllers are told.
        policy: String = "shared".to_owned(),
        /// How tables are made. "auto": along routing trees on a Clos, else up*/down*. "updown": up*/down* on any
        /// fabric. "lanes": the shortest ways on any fabric, each on a virtual lane so that none closes a credit
        /// loop; programs have to send with the service level of their path record, and without lanes enough it is
        /// up*/down*. "dor": the same by the lowest ports, which is dimension by dimension on a torus or a mesh.
        /// "file": your own tables, of lfts_file, in lanes where they need them. Off trees nothing is granted.
        routing: RoutingEngine = RoutingEngine::Auto,
        /// The tables for routing = "file", as dump_fts or OpenSM dumps them. An address that they do not lead
        /// to its port from every switch is led up*/down*. Read at the start.
        lfts_file: Option<PathBuf> = None,
        /// The file of the GUIDs of switches that are at the top of up*/down* routes, one a line, as OpenSM's.
        /// Unset: the manager tries several orders.
        root_guid_file: Option<PathBuf> = None,
        /// How many trees carry ordinary traffic, that of programs which do not ask: base addresses are spread
        /// over so many. 0: all, and with policy "strict" one.
        unmanaged_trees: u16 = 0,

        /// Where opensm-lfts.dump, dump_fts.txt and guid2lid are written whenever tables have changed. Unset:
        /// nowhere.
        dump_files_dir: Option<PathBuf> = None,
        /// The socket for `snin sm`. Unset: control.sock in $RUNTIME_DIRECTORY, which systemd sets; without
        /// either there is none.
        control_socket: Option<PathBuf> = None,
        /// The group, by name or number, whose members may open the manager's Unix sockets, beside root and its
        /// own user. They may do all that `snin sm` does, but M_Keys are not shown to them; who calls for sessions
        /// has to be among session_users, too. Unset: the manager's own group.
        socket_group: Option<GroupName> = None,
        /// Where /metrics and /healthz are served, such as "127.0.0.1:9405". Unset: nowhere.
        metrics_listen: Option<String> = None,
        /// The file to which events are appended as JSON lines. Unset: none.
        events_file: Option<PathBuf> = None,
        /// Messages for people: "stderr", "journald" or a file, which is opened anew on SIGUSR1.
        log_file: String = "stderr".to_owned(),
        /// Files of log and events are moved to NAME.1, in place of the one before, and begun anew when they would
        /// be larger than this, in MiB. 0: never, then logrotate may (SIGUSR1 opens them anew).
        log_max_size: u64 = 64,
        /// error, warn, info, debug or trace.
        log_level: String = "info".to_owned(),
    }
}

/// A number of 64 bits, which TOML's own lack: text such as "0x0123456789abcdef", or a number.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Hex(pub u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#018x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Number;
        impl de::Visitor<'_> for Number {
            type Value = Hex;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number such as \"0x0123456789abcdef\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hex, E> {
                let wrong = || E::invalid_value(de::Unexpected::Str(text), &self);
                text.parse::<Guid>().map(|guid| Hex(guid.0)).map_err(|_| wrong())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Hex, E> {
                let wrong = || E::invalid_value(de::Unexpected::Signed(number), &self);
                u64::try_from(number).map(Hex).map_err(|_| wrong())
            }
        }
        from.deserialize_any(Number)
    }
}

impl Settings {
    /// What the core has to know, and where transaction ids begin.
    pub fn core(&self, seed: u64) -> Config {
        Config {
            ports: u8::try_from(self.more_ports.len() + 1).unwrap_or(u8::MAX),
            lmc: self.lmc,
            unmanaged_trees: match self.unmanaged_trees {
                0 if self.policy == Policy::Strict.name() => 1,
                some => some,
            },
            routing: self.routing.into(),
            // Read from its file afterwards.
            roots: Vec::new(),
            lfts: String::new(),
            subnet_prefix: self.subnet_prefix.0,
            m_key_policy: self.m_key_policy.into(),
            m_key: self.m_key.0,
            m_key_protect: self.m_key_protection_level,
            m_key_lease_s: self.m_key_lease_period,
            former_m_keys: self.former_m_keys.iter().map(|key| key.0).collect(),
            // Read from the file afterwards.
            partitions: Config::default().partitions,
            qos_policy: Config::default().qos_policy,
            enforce: self.part_enforce,
            both_keys: self.allow_both_pkeys,
            granted_sl: if self.policy == Policy::Off.name() { 0 } else { self.granted_sl },
            unmanaged_share: u32::from(self.unmanaged_share) * MILLIONTHS,
            qos: self.qos,
            qos_sl2vl: self.qos_sl2vl,
            qos_vlarb_high: self.qos_vlarb_high.clone(),
            qos_vlarb_low: self.qos_vlarb_low.clone(),
            qos_high_limit: self.qos_high_limit,
            qos_ca: QosOptions {
                sl2vl: self.qos_ca_sl2vl,
                vlarb_high: self.qos_ca_vlarb_high.clone(),
                vlarb_low: self.qos_ca_vlarb_low.clone(),
                high_limit: self.qos_ca_high_limit,
            },
            qos_rtr: QosOptions {
                sl2vl: self.qos_rtr_sl2vl,
                vlarb_high: self.qos_rtr_vlarb_high.clone(),
                vlarb_low: self.qos_rtr_vlarb_low.clone(),
                high_limit: self.qos_rtr_high_limit,
            },
            qos_sw0: QosOptions {
                sl2vl: self.qos_sw0_sl2vl,
                vlarb_high: self.qos_sw0_vlarb_high.clone(),
                vlarb_low: self.qos_sw0_vlarb_low.clone(),
                high_limit: self.qos_sw0_high_limit,
            },
            qos_swe: QosOptions {
                sl2vl: self.qos_swe_sl2vl,
                vlarb_high: self.qos_swe_vlarb_high.clone(),
                vlarb_low: self.qos_swe_vlarb_low.clone(),
                high_limit: self.qos_swe_high_limit,
            },
            max_op_vls: self.max_op_vls,
            sm_sl: self.sm_sl,
            timeout_ms: self.transaction_timeout,
            attempts: self.transaction_retries.saturating_add(1),
            window: (self.max_wire_smps / 4).max(1),
            window_max: self.max_wire_smps,
            window_agent: self.max_agent_smps,
            burst: self.max_burst_smps,
            sm_key: self.sm_key.0,
            poll_ms: self.sminfo_polling_timeout,
            poll_retries: self.polling_retry_number,
            priority: self.sm_priority,
            cluster: self.cluster.is_some(),
            election: self.election,
            sweep_interval_s: self.sweep_interval,
            read_only: self.read_only,
            read_smps: self.max_read_smps,
            // Controllers move traffic first: that takes them some windows.
            clear_wait_ms: if self.session_listen.is_empty() { 0 } else { CLEAR_WAIT_MS },
            sa_key: self.sa_key.0,
            sa_busy: self.sa_busy,
            mirrored: !self.mirror_of.is_empty(),
            sa_repeats: Config::default().sa_repeats,
            packet_lifetime: self.packet_life_time,
            subnet_timeout: self.subnet_timeout,
            head_of_queue_lifetime: self.head_of_queue_lifetime,
            leaf_head_of_queue_lifetime: self.leaf_head_of_queue_lifetime,
            vl_stall_count: self.vl_stall_count,
            leaf_vl_stall_count: self.leaf_vl_stall_count,
            local_phy_errors_threshold: self.local_phy_errors_threshold,
            overrun_errors_threshold: self.overrun_errors_threshold,
            seed,
        }
    }
}

/// The core's objection, at the line where the value was set, under the key's name in the file.
pub fn objection(loaded: &Loaded<Settings>, error: &ConfigError) -> SettingsError {
    let key = match error {
        ConfigError::Range { key, .. } => match *key {
            "m_key_protect" => "m_key_protection_level",
            "timeout_ms" => "transaction_timeout",
            "attempts" => "transaction_retries",
            "window_agent" => "max_agent_smps",
            "burst" => "max_burst_smps",
            "priority" => "sm_priority",
            "poll_ms" => "sminfo_polling_timeout",
            "poll_retries" => "polling_retry_number",
            "packet_lifetime" => "packet_life_time",
            "window" | "window_max" => "max_wire_smps",
            "read_smps" => "max_read_smps",
            other => other,
        },
        ConfigError::NoSecret => "m_key_policy",
        ConfigError::HiddenPorts(_) => "m_key_protection_level",
        ConfigError::LanesTaken | ConfigError::Baseline => "routing",
        ConfigError::ReadOnly => "read_only",
    };
    match error {
        ConfigError::Range { key: "unmanaged_share", value, expected } => loaded
            .refuse(key, format_args!("{key} is {}: {expected}", value / u64::from(MILLIONTHS))),
        ConfigError::Range { value, expected, .. } => {
            loaded.refuse(key, format_args!("{key} is {value}: {expected}"))
        }
        ConfigError::NoSecret
        | ConfigError::HiddenPorts(_)
        | ConfigError::LanesTaken
        | ConfigError::Baseline
        | ConfigError::ReadOnly => loaded.refuse(key, error),
    }
}

#[cfg(test)]
mod tests {
    use snin_daemon::settings::{parse, template};

    use super::*;
    use snin_sm_database::saved::Saved;
    use snin_sweep::Sweep;

    /// But for lanes: a core without settings writes none.
    #[test]
    fn its_defaults_are_the_cores() {
        let with_lanes = Config { granted_sl: 1, ..Config::default() };
        assert_eq!(Settings::default().core(0), with_lanes);
        let off = Settings { policy: "off".to_owned(), ..Settings::default() };
        assert_eq!(off.core(0), Config::default(), "nothing is granted");
    }

    #[test]
    fn keys_have_sixty_four_bits() {
        let read = |text: &str| parse::<Settings>(text, "sm.toml");
        assert_eq!(
            read("m_key = \"0xfedcba9876543210\"").unwrap().value.m_key.0,
            0xFEDC_BA98_7654_3210
        );
        assert_eq!(read("guid = 0x10").unwrap().value.guid, Some(Hex(16)));
        let wrong = read("\nm_key = \"secret\"").unwrap_err().to_string();
        assert_eq!(
            wrong,
            "sm.toml:2: m_key: invalid value: string \"secret\", expected a number such as \
             \"0x0123456789abcdef\""
        );
    }

    #[test]
    fn what_the_core_refuses_is_told_by_line() {
        for (text, told) in [
            ("\nlmc = 8", "sm.toml:2: lmc is 8: 0 to 7"),
            ("unmanaged_share = 51", "sm.toml:1: unmanaged_share is 51: at most half of a link"),
            ("transaction_timeout = 0", "sm.toml:1: transaction_timeout is 0: 1 to 60000"),
            (
                "qos_sl2vl = [16,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7]",
                "sm.toml:1: qos_sl2vl is 16: virtual lanes 0 to 14, or 15 to drop",
            ),
        ] {
            let loaded = parse::<Settings>(text, "sm.toml").unwrap();
            let error = Sweep::new(loaded.value.core(1), Saved::default()).map(|_| ()).unwrap_err();
            assert_eq!(objection(&loaded, &error).to_string(), told);
        }
    }

    #[test]
    fn the_example_holds_every_key() {
        let example = include_str!("../../snin-sm.toml");
        assert_eq!(example, template::<Settings>(), "snin-sm --dump-config > sm/snin-sm.toml");
    }
}
