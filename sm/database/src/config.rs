//! Configuration of the sweep core. The daemon reads it from a file.

use serde::{Deserialize, Serialize};
use snin_fabric::Lmc;
use snin_fabric::routing::Engine;
use snin_mad::{GidPrefix, SmKey};
use snin_protocol::Time;

use crate::error::ConfigError;
use crate::keys::KeyPolicy;
use crate::partitions::Partitions;
use crate::qos_policy::QosPolicy;

/// In which direction a switch checks the partitions of packets, at a port that faces an end port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforce {
    /// In both.
    Both,
    /// What comes from the end port.
    In,
    /// What goes to it.
    Out,
    /// In none.
    Off,
}

impl Enforce {
    /// PartitionEnforcementInbound and Outbound (IBA 14.2.5.6).
    pub const fn bits(self) -> (bool, bool) {
        match self {
            Self::Both => (true, true),
            Self::In => (true, false),
            Self::Out => (false, true),
            Self::Off => (false, false),
        }
    }
}

/// What ports of one kind have instead of what all have. Unset: as all have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosOptions {
    /// The virtual lane of each service level.
    pub sl2vl: Option<[u8; 16]>,
    /// The high priority arbitration table.
    pub vlarb_high: Option<Vec<[u8; 2]>>,
    /// The low priority one.
    pub vlarb_low: Option<Vec<[u8; 2]>>,
    /// VLHighLimit.
    pub high_limit: Option<u8>,
}

/// Local ports of one manager.
const MOST_PORTS: u32 = 8;

/// Keys that ports may have from before: each is one more question to a port that hides its own.
const MOST_FORMER: u32 = 16;

/// How the sweep core works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Local ports through which the subnet is managed; the driver numbers them from 0.
    pub ports: u8,
    /// 2^LMC addresses a host port. Unset: as saved, else the least that gives each tree its own address, or
    /// the most that fits. Only the operator changes it.
    pub lmc: Option<u8>,
    /// How many trees base addresses are spread over, which programs use that do not ask; 0: all.
    pub unmanaged_trees: u16,
    /// How tables are made.
    #[serde(default)]
    pub routing: Engine,
    /// GUIDs of the switches at the top, where routes go up and then down; none: the manager chooses.
    #[serde(default)]
    pub roots: Vec<u64>,
    /// The administrator's own tables, as `dump_fts` or OpenSM dumps them.
    #[serde(default)]
    pub lfts: String,
    /// The upper half of every port's GIDs (IBA 4.1.1).
    pub subnet_prefix: u64,
    /// Where keys come from.
    pub m_key_policy: KeyPolicy,
    /// The operator's key, on every SMP and every port. 0: none. Where keys are generated: one that ports may
    /// have.
    pub m_key: u64,
    /// What a port refuses to whom lacks its key: 0 to 3 (IBA 14.2.4.1). Written with the key only.
    pub m_key_protect: u8,
    /// Seconds for which a port that was shown a wrong key waits for its manager's before it shows its key to
    /// every manager (IBA 14.2.4.2); 0: for ever.
    pub m_key_lease_s: u16,
    /// Keys that ports may have from before, where they are given: each is tried at a port that hides another.
    pub former_m_keys: Vec<u64>,
    /// Which ports are members of which partitions.
    pub partitions: Partitions,
    /// What paths are answered with besides their addresses.
    #[serde(default)]
    pub qos_policy: QosPolicy,
    /// What switches check at their ports that face end ports.
    pub enforce: Enforce,
    /// Whether a port may have the full and the limited key of a partition.
    pub both_keys: bool,
    /// The service level of what is granted, which has a lane of its own wherever a link has two; 0: it has none,
    /// and tables of lanes stay as they are.
    pub granted_sl: u8,
    /// The least share of a link that ordinary traffic keeps beside what is granted, in millionths.
    pub unmanaged_share: u32,
    /// Whether the tables of service levels and virtual lanes are the ones below.
    pub qos: bool,
    /// The virtual lane of each service level; 15 drops. A link with fewer lanes takes the low bits.
    pub qos_sl2vl: [u8; 16],
    /// The high priority arbitration table: pairs of virtual lane and weight, at most 64.
    pub qos_vlarb_high: Vec<[u8; 2]>,
    /// The low priority one.
    pub qos_vlarb_low: Vec<[u8; 2]>,
    /// VLHighLimit: how much of high priority goes before something of low priority may, in 4 KiB; 255: any.
    pub qos_high_limit: u8,
    /// What ports of adapters have instead.
    pub qos_ca: QosOptions,
    /// What ports of routers have.
    pub qos_rtr: QosOptions,
    /// What enhanced port 0 of a switch has.
    pub qos_sw0: QosOptions,
    /// What external ports of switches have.
    pub qos_swe: QosOptions,
    /// The most data lanes of a link, as PortInfo:OperationalVLs says it: 1 to 5 for 1, 2, 4, 8 and 15.
    pub max_op_vls: u8,
    /// The service level by which ports speak to the manager.
    pub sm_sl: u8,
    /// Milliseconds to wait for an answer.
    pub timeout_ms: u32,
    /// How often a question is asked before the node counts as mute.
    pub attempts: u8,
    /// SMPs in flight to begin with; the number grows while answers come and halves when one does not.
    pub window: u32,
    /// The most SMPs in flight.
    pub window_max: u32,
    /// The most SMPs in flight to one agent: a slow agent keeps no other waiting.
    pub window_agent: u32,
    /// The most writes between two looks at who is master, beside another manager and where M_Keys do not change
    /// with each new master.
    pub burst: u32,
    /// The key by which managers of one subnet know each other: one that shows another is heeded by none. 0:
    /// any.
    pub sm_key: u64,
    /// Milliseconds between two polls of another manager.
    pub poll_ms: u32,
    /// Polls in a row that another manager may leave without an answer; after one more it is gone. By default
    /// that is one second after the first.
    pub poll_retries: u32,
    /// The manager with the highest is master, of equal ones the one with the lowest port GUID; a master hands
    /// over to one that goes before it. 0 to 15.
    pub priority: u8,
    /// Whether a cluster's service chooses the configuration manager and consents to what it enforces.
    pub cluster: bool,
    /// Whether managers elect the master by an order of their own; then the least of the three SMInfo priorities
    /// that they show, 0 to 13. Off: by SMInfo's rules alone.
    pub election: Option<u8>,
    /// Seconds between light sweeps: every switch is asked whether something changed. 0: never.
    pub sweep_interval_s: u32,
    /// Another manager keeps the subnet: it is read, every `sweep_interval_s`, and nothing is written.
    #[serde(default)]
    pub read_only: bool,
    /// SMPs a second, at most, by which it is read.
    #[serde(default = "read_smps")]
    pub read_smps: u32,
    /// Milliseconds for which tables are left as they are after a view was published, unless the controller
    /// says sooner that no connection uses what the view took away. 0: no controller is waited for.
    pub clear_wait_ms: u32,
    /// The key by which requests to subnet administration are trusted. 0: none is.
    pub sa_key: u64,
    /// Whether who asks while too much is under way is told to ask later. Off: no answer, since Linux takes any
    /// status for a failure and asks again what is not answered.
    pub sa_busy: bool,
    /// Other managers of this subnet have copies of its database: a manager that knows nothing lets them go first.
    pub mirrored: bool,
    /// How often the first segment of an answer is sent again to a requester that has acknowledged nothing yet.
    /// Programs under ibsim's preload never acknowledge, and number their questions from 1: a later program takes
    /// what is sent again for an answer of its own.
    pub sa_repeats: u32,
    /// How long packets may be on their way, as paths and groups say it: 4.096 us times 2 to this. After that
    /// switches drop them; 20 to 31: never.
    pub packet_lifetime: u8,
    /// SubnetTimeOut of every host and switch: traps come no sooner one after the other.
    pub subnet_timeout: u8,
    /// HOQLife of a switch's port to another switch: a packet that is the next one for longer is dropped.
    pub head_of_queue_lifetime: u8,
    /// HOQLife of a switch's port to a host.
    pub leaf_head_of_queue_lifetime: u8,
    /// VLStallCount of a switch's port to another switch: packets dropped in a row after which a lane is stalled.
    pub vl_stall_count: u8,
    /// VLStallCount of a switch's port to a host.
    pub leaf_vl_stall_count: u8,
    /// Errors of a link after which its port sends trap 129.
    pub local_phy_errors_threshold: u8,
    /// Overruns of a buffer after which its port sends trap 130.
    pub overrun_errors_threshold: u8,
    /// Where the transaction ids begin; another after each restart, so that late answers to the last run
    /// are not taken for answers to this one.
    pub seed: u64,
}

/// Fewer than one a switch's agent answers in a millisecond, and a reading of a few hundred hosts in seconds.
pub const READ_SMPS: u32 = 2_000;

const fn read_smps() -> u32 {
    READ_SMPS
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ports: 1,
            lmc: None,
            unmanaged_trees: 0,
            routing: Engine::Trees,
            roots: Vec::new(),
            lfts: String::new(),
            subnet_prefix: 0xFE80_0000_0000_0000,
            m_key_policy: KeyPolicy::Given,
            m_key: 0,
            m_key_protect: 0,
            m_key_lease_s: 0,
            former_m_keys: Vec::new(),
            partitions: Partitions::default(),
            qos_policy: QosPolicy::default(),
            enforce: Enforce::Both,
            both_keys: false,
            granted_sl: 0,
            unmanaged_share: 50_000,
            qos: false,
            // OpenSM's defaults, so that who switches over finds what was there.
            qos_sl2vl: std::array::from_fn(|sl| if sl == 15 { 7 } else { sl as u8 }),
            qos_vlarb_high: (0..15).map(|vl| [vl, if vl == 0 { 4 } else { 0 }]).collect(),
            qos_vlarb_low: (0..15).map(|vl| [vl, if vl == 0 { 0 } else { 4 }]).collect(),
            qos_high_limit: 0,
            qos_ca: QosOptions::default(),
            qos_rtr: QosOptions::default(),
            qos_sw0: QosOptions::default(),
            qos_swe: QosOptions::default(),
            max_op_vls: 5,
            sm_sl: 0,
            timeout_ms: 100,
            attempts: 4,
            window: 32,
            window_max: 128,
            window_agent: 16,
            burst: 1_024,
            sm_key: 1,
            poll_ms: 250,
            poll_retries: 3,
            priority: 0,
            cluster: false,
            election: None,
            sweep_interval_s: 10,
            read_only: false,
            read_smps: READ_SMPS,
            clear_wait_ms: 0,
            // OpenSM's, so that who switches over finds what was there.
            sa_key: 1,
            sa_busy: false,
            mirrored: false,
            sa_repeats: 1,
            packet_lifetime: 18,
            // OpenSM's is 18, with which a switch tells of a second change a second after the first.
            subnet_timeout: 12,
            head_of_queue_lifetime: 18,
            leaf_head_of_queue_lifetime: 16,
            vl_stall_count: 7,
            leaf_vl_stall_count: 7,
            local_phy_errors_threshold: 8,
            overrun_errors_threshold: 8,
            seed: 0,
        }
    }
}

impl Config {
    /// Checks the numbers, so that the core need not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let within = |key, value: u32, least: u32, most: u32, expected| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(ConfigError::Range { key, value: value.into(), expected })
        };
        within("lmc", self.lmc.unwrap_or(0).into(), 0, 7, "0 to 7")?;
        within("m_key_protect", self.m_key_protect.into(), 0, 3, "0 to 3")?;
        let former = self.former_m_keys.len() as u32;
        within("former_m_keys", former, 0, MOST_FORMER, "at most 16 keys")?;
        within("timeout_ms", self.timeout_ms, 1, 60_000, "1 to 60000")?;
        within("attempts", self.attempts.into(), 1, 32, "1 to 32")?;
        within("window_max", self.window_max, 1, 4_096, "1 to 4096")?;
        within("window_agent", self.window_agent, 1, 4_096, "1 to 4096")?;
        within("burst", self.burst, 1, 1_000_000, "1 to 1000000")?;
        within("read_smps", self.read_smps, 1, 1_000_000, "1 to 1000000")?;
        within("poll_ms", self.poll_ms, 10, 600_000, "10 to 600000")?;
        within("poll_retries", self.poll_retries, 0, 100, "0 to 100")?;
        within("priority", self.priority.into(), 0, 15, "0 to 15")?;
        within("election", self.election.unwrap_or(0).into(), 0, 13, "0 to 13")?;
        within("packet_lifetime", self.packet_lifetime.into(), 0, 63, "0 to 63")?;
        for (key, value, most, expected) in [
            ("subnet_timeout", self.subnet_timeout, 31, "0 to 31"),
            ("head_of_queue_lifetime", self.head_of_queue_lifetime, 31, "0 to 31"),
            ("leaf_head_of_queue_lifetime", self.leaf_head_of_queue_lifetime, 31, "0 to 31"),
            ("vl_stall_count", self.vl_stall_count, 7, "0 to 7"),
            ("leaf_vl_stall_count", self.leaf_vl_stall_count, 7, "0 to 7"),
            ("local_phy_errors_threshold", self.local_phy_errors_threshold, 15, "0 to 15"),
            ("overrun_errors_threshold", self.overrun_errors_threshold, 15, "0 to 15"),
        ] {
            within(key, value.into(), 0, most, expected)?;
        }
        within("ports", self.ports.into(), 1, MOST_PORTS, "1 to 8")?;
        if matches!(self.routing, Engine::MinHop | Engine::DModK | Engine::Found) {
            return Err(ConfigError::Baseline);
        }
        if matches!(self.routing, Engine::Lanes | Engine::DimensionOrder) && self.qos {
            return Err(ConfigError::LanesTaken);
        }
        within("window", self.window, 1, self.window_max, "1 to window_max")?;
        within("granted_sl", self.granted_sl.into(), 0, 15, "0 to 15")?;
        within("unmanaged_share", self.unmanaged_share, 0, 500_000, "at most half of a link")?;
        within("max_op_vls", self.max_op_vls.into(), 1, 5, "1 to 5, for 1, 2, 4, 8 and 15 lanes")?;
        within("sm_sl", self.sm_sl.into(), 0, 15, "0 to 15")?;
        let [ca, rtr, sw0, swe] = [&self.qos_ca, &self.qos_rtr, &self.qos_sw0, &self.qos_swe];
        for (key, mapping) in [
            ("qos_sl2vl", Some(&self.qos_sl2vl)),
            ("qos_ca_sl2vl", ca.sl2vl.as_ref()),
            ("qos_rtr_sl2vl", rtr.sl2vl.as_ref()),
            ("qos_sw0_sl2vl", sw0.sl2vl.as_ref()),
            ("qos_swe_sl2vl", swe.sl2vl.as_ref()),
        ] {
            for &vl in mapping.into_iter().flatten() {
                within(key, vl.into(), 0, 15, "virtual lanes 0 to 14, or 15 to drop")?;
            }
        }
        for (key, entries) in [
            ("qos_vlarb_high", Some(&self.qos_vlarb_high)),
            ("qos_vlarb_low", Some(&self.qos_vlarb_low)),
            ("qos_ca_vlarb_high", ca.vlarb_high.as_ref()),
            ("qos_ca_vlarb_low", ca.vlarb_low.as_ref()),
            ("qos_rtr_vlarb_high", rtr.vlarb_high.as_ref()),
            ("qos_rtr_vlarb_low", rtr.vlarb_low.as_ref()),
            ("qos_sw0_vlarb_high", sw0.vlarb_high.as_ref()),
            ("qos_sw0_vlarb_low", sw0.vlarb_low.as_ref()),
            ("qos_swe_vlarb_high", swe.vlarb_high.as_ref()),
            ("qos_swe_vlarb_low", swe.vlarb_low.as_ref()),
        ] {
            let Some(entries) = entries else { continue };
            within(key, entries.len() as u32, 0, 64, "at most 64 entries")?;
            for [vl, _] in entries {
                within(key, (*vl).into(), 0, 14, "virtual lanes 0 to 14")?;
            }
        }
        Ok(())
    }

    /// The key by which requests to subnet administration are trusted, as they carry it.
    pub const fn sa_key(&self) -> SmKey {
        SmKey(self.sa_key)
    }

    /// How many low bits of its address a host port ignores, where the operator says it.
    pub fn lmc(&self) -> Option<Lmc> {
        self.lmc.and_then(Lmc::new)
    }

    /// The upper half of every GID of the subnet.
    pub const fn subnet_prefix(&self) -> GidPrefix {
        GidPrefix(self.subnet_prefix)
    }

    /// How long an answer is waited for.
    pub const fn timeout(&self) -> Time {
        Time::millis(self.timeout_ms as u64)
    }

    /// The time between two light sweeps; none: there are no such sweeps.
    pub const fn sweep_interval(&self) -> Option<Time> {
        match self.sweep_interval_s {
            0 => None,
            seconds => Some(Time::secs(seconds as u64)),
        }
    }

    /// The time between two polls of another manager.
    pub const fn poll_interval(&self) -> Time {
        Time::millis(self.poll_ms as u64)
    }

    /// How long tables wait at most for the controller to say that a view is clear; zero: they do not.
    pub const fn clear_wait(&self) -> Time {
        Time::millis(self.clear_wait_ms as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let default = Config::default;
        let refused = [
            (Config { lmc: Some(8), ..default() }, "lmc"),
            (Config { attempts: 0, ..default() }, "attempts"),
            (Config { vl_stall_count: 8, ..default() }, "vl_stall_count"),
            (Config { window: 129, ..default() }, "window"),
            (Config { granted_sl: 16, ..default() }, "granted_sl"),
            (Config { m_key_protect: 4, ..default() }, "m_key_protect"),
            (Config { qos_vlarb_low: vec![[15, 1]], ..default() }, "qos_vlarb_low"),
        ];
        for (config, key) in refused {
            let error = config.check().unwrap_err();
            assert!(matches!(error, ConfigError::Range { key: k, .. } if k == key), "{error}");
        }
        assert_eq!(Config::default().check(), Ok(()));
    }
}
