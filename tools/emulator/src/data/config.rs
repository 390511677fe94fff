//! Configuration of the data plane besides the topology: rates, delays, buffers, queues.

use snin_protocol::Time;

use super::arbiter::VlArbitration;
use super::packet::{BLOCK, blocks, data_bytes};

/// Where a switch keeps packets that wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Queues {
    /// One queue for each input, VL and output: no packet waits behind a packet for another output.
    #[default]
    PerOutput,
    /// One queue an input and VL. For comparison: its head holds up all that came after it (Karol, Hluchyj
    /// and Morgan, 1987).
    PerInput,
}

/// How fabric and adapters behave. [`Config::default`] is of the kind that is sold today.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Bit/s of every link. `None`: what the topology says of the slower end, 400 Gbit/s where it says
    /// nothing.
    pub bandwidth: Option<u64>,
    /// Of a cable, one way.
    pub propagation: Time,
    /// From a header being in to the packet leaving, if nothing is in its way.
    pub switch_delay: Time,
    /// Most payload of a packet, in bytes: 256, 512, 1,024, 2,048 or 4,096 (IBA 14.2.5.6).
    pub mtu: u16,
    /// Data VLs in use, 1 to 15: VL 0 upwards. Service level n takes VL n, until
    /// [`Network::set_lanes`](super::Network::set_lanes) says otherwise.
    pub vls: u8,
    /// Room at each input port for each VL, in bytes; whole blocks of 64 count. For full rate it must hold
    /// what is sent in a round trip: a packet's transmission, two propagations, switch delay.
    pub buffer: u32,
    /// Where packets wait in switches.
    pub queues: Queues,
    /// Which VL sends next, at every port.
    pub arbitration: VlArbitration,
    /// The service level of acknowledgements.
    pub ack_sl: u8,
    /// One acknowledgement for so many packets.
    pub ack_every: u32,
}

impl Default for Config {
    /// 64 KiB a port and VL, data on VL 0, acknowledgements on VL 1, which goes first but for one packet at
    /// a time; 10 m of cable; one acknowledgement for 32 packets.
    fn default() -> Self {
        Self {
            bandwidth: None,
            propagation: Time(50),
            switch_delay: Time(200),
            mtu: 4_096,
            vls: 2,
            buffer: 64 << 10,
            queues: Queues::PerOutput,
            arbitration: VlArbitration::one_before(1, 0),
            ack_sl: 1,
            ack_every: 32,
        }
    }
}

/// A configuration that nothing can be emulated with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// Outside 1 Mbit/s to 100 Tbit/s.
    #[error("{0} bit/s is no rate of a link (1e6 to 1e14 are possible)")]
    Bandwidth(u64),
    /// A second or more.
    #[error("{0} is too long for a cable or a switch (less than 1s is possible)")]
    Delay(Time),
    /// None of the five sizes.
    #[error("{0} bytes is no MTU (256, 512, 1024, 2048 and 4096 are possible)")]
    Mtu(u16),
    /// None or too many.
    #[error("{0} VLs (1 to 15 are possible)")]
    Vls(u8),
    /// Too small for a packet, or too large to count.
    #[error("a buffer of {buffer} bytes ({least} to 1073741824 are possible with this MTU)")]
    Buffer {
        /// Bytes.
        buffer: u32,
        /// What a packet needs.
        least: u32,
    },
    /// Acknowledgements after no packet.
    #[error("one acknowledgement for 0 packets")]
    AckEvery,
    /// Beyond the last VL.
    #[error("VL {vl} is named, but there are only {vls}")]
    NoSuchVl {
        /// The VL.
        vl: u8,
        /// How many there are.
        vls: u8,
    },
    /// In no arbitration table: its packets would wait for ever.
    #[error("VL {0} has a turn in neither arbitration table")]
    NeverServed(u8),
    /// More than 64 entries.
    #[error("an arbitration table has {0} entries (64 are possible)")]
    Entries(usize),
}

const RATES: std::ops::RangeInclusive<u64> = 1_000_000..=100_000_000_000_000;
const MAX_VLS: u8 = 15;
const MAX_BUFFER: u32 = 1 << 30;
/// Entries of a VL arbitration table (IBA 7.6.9.1).
const MAX_ENTRIES: usize = 64;

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if let Some(rate) = self.bandwidth.filter(|rate| !RATES.contains(rate)) {
            return Err(ConfigError::Bandwidth(rate));
        }
        let delays = [self.propagation, self.switch_delay];
        if let Some(delay) = delays.into_iter().find(|&delay| delay >= Time::secs(1)) {
            return Err(ConfigError::Delay(delay));
        }
        if !matches!(self.mtu, 256 | 512 | 1_024 | 2_048 | 4_096) {
            return Err(ConfigError::Mtu(self.mtu));
        }
        let least = blocks(data_bytes(self.mtu)) * BLOCK;
        if !(least..=MAX_BUFFER).contains(&self.buffer) {
            return Err(ConfigError::Buffer { buffer: self.buffer, least });
        }
        if self.ack_every == 0 {
            return Err(ConfigError::AckEvery);
        }
        self.check_vls()
    }

    fn check_vls(&self) -> Result<(), ConfigError> {
        let vls = self.vls;
        if !(1..=MAX_VLS).contains(&vls) {
            return Err(ConfigError::Vls(vls));
        }
        let VlArbitration { high, low, .. } = &self.arbitration;
        if let Some(table) = [high, low].into_iter().find(|table| table.len() > MAX_ENTRIES) {
            return Err(ConfigError::Entries(table.len()));
        }
        let named = high.iter().chain(low).map(|entry| entry.vl).chain([self.ack_sl]);
        if let Some(vl) = named.into_iter().find(|&vl| vl >= vls) {
            return Err(ConfigError::NoSuchVl { vl, vls });
        }
        let unserved = (0..vls).find(|&vl| !self.arbitration.serves(vl));
        unserved.map_or(Ok(()), |vl| Err(ConfigError::NeverServed(vl)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_emulated_is_refused() {
        let base = Config::default();
        assert_eq!(base.check(), Ok(()));
        let bad = [
            (Config { bandwidth: Some(0), ..base.clone() }, ConfigError::Bandwidth(0)),
            (
                Config { propagation: Time::secs(1), ..base.clone() },
                ConfigError::Delay(Time::secs(1)),
            ),
            (Config { mtu: 1_500, ..base.clone() }, ConfigError::Mtu(1_500)),
            (Config { vls: 16, ..base.clone() }, ConfigError::Vls(16)),
            (Config { vls: 1, ..base.clone() }, ConfigError::NoSuchVl { vl: 1, vls: 1 }),
            (Config { vls: 3, ..base.clone() }, ConfigError::NeverServed(2)),
            (Config { ack_every: 0, ..base.clone() }, ConfigError::AckEvery),
            (Config { buffer: 4_096, ..base }, ConfigError::Buffer { buffer: 4_096, least: 4_160 }),
        ];
        for (config, error) in bad {
            assert_eq!(config.check(), Err(error));
        }
    }
}
