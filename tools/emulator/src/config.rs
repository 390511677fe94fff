//! Configuration of the emulation besides the topology: times, limits, models, noise, and the seed of it all.

use std::collections::BTreeMap;

use snin_fabric::NodeIndex;
use snin_mad::{Mtu, VlCount};
use snin_protocol::Time;

/// How the emulated hardware behaves. [`Config::default`] is a fabric without faults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Of everything that is left to chance: the same seed and the same calls give the same bytes.
    pub seed: u64,
    /// From leaving a port to being received at the other end, the receiving node's relaying included.
    pub link_latency: Time,
    /// What a link carries; `None`: a packet takes no time to send. With it, packets queue at each port.
    pub bits_per_second: Option<u64>,
    /// How long an agent works at one MAD. It does one after the other.
    pub agent_latency: Time,
    /// How long the agent of a switch works at a directed MAD that it passes on. 0: hardware passes it on.
    pub relay_latency: Time,
    /// MADs that wait at an agent; more are dropped and counted (VL15Dropped, IBA 16.1.3.5).
    pub agent_queue: u32,
    /// From two ports finding each other to the link being up.
    pub training: Time,
    /// Shortest time between a trap and its repetition (IBA 13.4.9); PortInfo:SubnetTimeOut may ask for more.
    pub trap_interval: Time,
    /// Whether a manager may write Initialize to a port of a link that is up, and Active where it is Initialize.
    /// IBA 14.2.5.6 allows neither; the mechanism that the reconfiguration study has as its baseline does both.
    pub lenient_port_states: bool,
    /// Longest extra delay of a reordered MAD.
    pub reorder_within: Time,
    /// What happens to MADs anywhere, once a MAD: see also [`Fault::CableNoise`](crate::Fault::CableNoise).
    pub noise: Noise,
    /// MADs that wait for a client to take them; more are dropped.
    pub inbox: usize,
    /// MADs on their way at one time, anywhere; more are dropped.
    pub packets: usize,
    /// Switches that a LID-routed packet passes before it is taken for lost in a loop. Hardware has no such
    /// limit; a loop in the tables must not hang the emulator.
    pub relays: u8,
    /// Every switch, if `switches` says nothing else.
    pub switch: SwitchModel,
    /// Single switches that differ.
    pub switches: BTreeMap<NodeIndex, SwitchModel>,
    /// Every adapter and router.
    pub adapter: AdapterModel,
}

/// What a switch can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchModel {
    /// Entries of the linear forwarding table, at most 49,152.
    pub linear_fdb_cap: u16,
    /// Entries of the multicast forwarding table, at most 16,383; 0: no multicast.
    pub multicast_fdb_cap: u16,
    /// Entries of port 0's partition table.
    pub partition_cap: u16,
    /// Entries of each external port's partition table; 0: no enforcement.
    pub partition_enforcement_cap: u16,
    /// Whether port 0 is enhanced (has an LMC); `None`: what the topology says.
    pub enhanced_port0: Option<bool>,
    /// Data VLs.
    pub vl_cap: VlCount,
    /// The largest MTU.
    pub mtu_cap: Mtu,
    /// Entries of each of the two VL arbitration tables, at most 64.
    pub vl_arbitration_cap: u8,
}

/// What an adapter or router can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdapterModel {
    /// Entries of each port's partition table.
    pub partition_cap: u16,
    /// GUIDs of each port.
    pub guid_cap: u8,
    /// Data VLs.
    pub vl_cap: VlCount,
    /// The largest MTU.
    pub mtu_cap: Mtu,
    /// Entries of each of the two VL arbitration tables, at most 64.
    pub vl_arbitration_cap: u8,
}

/// How often a MAD comes to harm, each in parts of a million.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Noise {
    /// Lost: the receiving port finds the check sum wrong and counts a symbol and a receive error.
    pub drop: u32,
    /// Arrives twice.
    pub duplicate: u32,
    /// Arrives late, so that others overtake it.
    pub reorder: u32,
    /// Arrives with one bit flipped that no check sum found.
    pub corrupt: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            link_latency: Time(250),
            bits_per_second: None,
            agent_latency: Time::micros(10),
            relay_latency: Time::ZERO,
            agent_queue: 128,
            training: Time::millis(5),
            trap_interval: Time::millis(100),
            lenient_port_states: false,
            reorder_within: Time::micros(100),
            noise: Noise::default(),
            inbox: 1 << 20,
            packets: 1 << 20,
            relays: 64,
            switch: SwitchModel::default(),
            switches: BTreeMap::new(),
            adapter: AdapterModel::default(),
        }
    }
}

impl Config {
    /// The model of one switch.
    pub fn model(&self, switch: NodeIndex) -> SwitchModel {
        self.switches.get(&switch).copied().unwrap_or(self.switch)
    }
}

impl Default for SwitchModel {
    fn default() -> Self {
        Self {
            linear_fdb_cap: 0xC000,
            multicast_fdb_cap: 4096,
            partition_cap: 32,
            partition_enforcement_cap: 32,
            enhanced_port0: None,
            vl_cap: VlCount::Vl0To7,
            mtu_cap: Mtu::B4096,
            vl_arbitration_cap: 8,
        }
    }
}

impl Default for AdapterModel {
    fn default() -> Self {
        Self {
            partition_cap: 128,
            guid_cap: 16,
            vl_cap: VlCount::Vl0To7,
            mtu_cap: Mtu::B4096,
            vl_arbitration_cap: 8,
        }
    }
}

impl Noise {
    /// Of a million.
    pub const WHOLE: u32 = 1_000_000;
    /// Nothing comes to harm.
    pub const NONE: Self = Self { drop: 0, duplicate: 0, reorder: 0, corrupt: 0 };

    /// This many of a hundred are lost.
    pub const fn drop_percent(percent: u32) -> Self {
        Self { drop: percent.saturating_mul(Self::WHOLE / 100), ..Self::NONE }
    }

    /// Both together.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            drop: self.drop.saturating_add(other.drop),
            duplicate: self.duplicate.saturating_add(other.duplicate),
            reorder: self.reorder.saturating_add(other.reorder),
            corrupt: self.corrupt.saturating_add(other.corrupt),
        }
    }
}
