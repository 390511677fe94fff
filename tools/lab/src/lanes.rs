//! Ordinary traffic beside what is granted: who sends it, and which lanes both have.

use snin_sm_core::Config;

/// The service level of what is granted, where it has a lane of its own.
pub const GRANTED: u8 = 1;
/// That lane, and the one of everything else.
const LANES: [u8; 2] = [1, 0];
/// Bytes that PortInfo:VLHighLimit counts in; 255 of them are no limit (IBA 7.6.9.2).
const LIMIT_UNIT: u32 = 4_096;
const NO_LIMIT: u8 = 255;
/// The most weight of an entry; a table with one entry needs none in particular.
const WEIGHT: u8 = 255;
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

/// Has the manager give what is granted a lane that goes first, and everything else `share` of a million of a link
/// that both want, in packets of `mtu` bytes at most.
pub fn program(config: Config, share: u32, mtu: u16) -> Config {
    let [granted, ordinary] = LANES;
    let level = |sl| if sl == usize::from(GRANTED) { granted } else { ordinary };
    Config {
        qos: true,
        qos_sl2vl: std::array::from_fn(level),
        qos_vlarb_high: vec![[granted, WEIGHT]],
        qos_vlarb_low: vec![[ordinary, WEIGHT]],
        qos_high_limit: limit(share, mtu),
        ..config
    }
}

/// How much may go first while a packet of the others waits: they get their share at least.
fn limit(share: u32, mtu: u16) -> u8 {
    if share == 0 {
        return NO_LIMIT;
    }
    let first = u64::from(mtu) * u64::from(MILLION.saturating_sub(share)) / u64::from(share);
    // What has begun is sent whole, which is a packet more than the limit: 0 is one packet.
    (first / u64::from(LIMIT_UNIT)).min(u64::from(NO_LIMIT) - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_limits() {
        assert_eq!(
            [0, 50_000, 500_000, 1_000_000].map(|share| limit(share, 4_096)),
            [255, 19, 1, 0]
        );
        assert_eq!((limit(1, 4_096), limit(50_000, 256)), (254, 1));
    }

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
