//! Ordinary traffic beside what is granted: who sends it, and which lanes both have.

use snin_emulator::{AdapterModel, SwitchModel};
use snin_mad::Mtu;
use snin_sm_database::config::Config;

/// The service level of what is granted, where it has a lane of its own.
pub const GRANTED: u8 = 1;
const MILLION: u32 = 1_000_000;

/// Which lanes granted and ordinary traffic have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// One for both.
    Shared,
    /// What is granted has one of its own, as the manager wrote it into every port.
    Own,
}

/// Hosts that flood base addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ordinary {
    /// How many of a million hosts; every other one where it is half of them.
    pub share: u32,
    /// Whether what is granted has a lane of its own.
    pub lane: Lane,
}

impl Ordinary {
    /// Whether a host is one of them.
    pub fn has(self, place: u32) -> bool {
        let before = |places: u32| u64::from(places) * u64::from(self.share) / u64::from(MILLION);
        before(place + 1) > before(place)
    }
}

/// Has the manager give what is granted a lane that goes first, as `snin-sm` does by itself, and everything else
/// `share` of a million of a link that both want.
pub fn program(config: Config, share: u32) -> Config {
    Config { granted_sl: GRANTED, unmanaged_share: share, ..config }
}

/// Ports whose packets have `mtu` bytes at most, by which the manager reckons.
pub fn ports(config: snin_emulator::Config, mtu: u16) -> snin_emulator::Config {
    let all = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048];
    let mtu_cap = all.into_iter().find(|code| code.bytes() >= Some(mtu)).unwrap_or(Mtu::B4096);
    snin_emulator::Config {
        switch: SwitchModel { mtu_cap, ..config.switch },
        adapter: AdapterModel { mtu_cap, ..config.adapter },
        ..config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_that_flood_are_spread_evenly() {
        let of = |share| {
            let ordinary = Ordinary { share, lane: Lane::Own };
            (0..8).filter(|&place| ordinary.has(place)).collect::<Vec<u32>>()
        };
        assert_eq!((of(500_000), of(0)), (vec![1, 3, 5, 7], vec![]));
        assert_eq!((of(250_000), of(1_000_000)), (vec![3, 7], (0..8).collect()));
    }
}
