//! Width and speed of a link, as ibnetdiscover prints them (`4xNDR`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Lanes of a link (PortInfo:LinkWidthActive, IBA 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Width(u8);

impl Width {
    /// Four lanes: what nearly every port runs at.
    pub const X4: Self = Self(4);

    /// 1, 2, 4, 8 or 12 lanes; anything else is no InfiniBand width.
    pub const fn new(lanes: u8) -> Option<Self> {
        if matches!(lanes, 1 | 2 | 4 | 8 | 12) { Some(Self(lanes)) } else { None }
    }

    /// Number of lanes.
    pub const fn lanes(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Width {
    type Error = &'static str;

    fn try_from(lanes: u8) -> Result<Self, Self::Error> {
        Self::new(lanes).ok_or("a link has 1, 2, 4, 8 or 12 lanes")
    }
}

impl From<Width> for u8 {
    fn from(width: Width) -> Self {
        width.lanes()
    }
}

macro_rules! speeds {
    ($($name:ident $text:literal $bits:literal $doc:literal),+ $(,)?) => {
        /// Signalling generation of one lane (LinkSpeedActive, LinkSpeedExtActive; IBA 14.2.5.6).
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize,
        )]
        pub enum Speed { $(#[doc = $doc] $name),+ }

        impl Speed {
            /// Every generation, slowest first.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// As ibnetdiscover spells it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// Data rate of one lane in bit/s, line coding taken off.
            pub const fn lane_bits_per_second(self) -> u64 {
                match self { $(Self::$name => $bits),+ }
            }
        }
    };
}

speeds! {
    Sdr "SDR" 2_000_000_000 "2.5 Gbaud, 8b/10b",
    Ddr "DDR" 4_000_000_000 "5 Gbaud, 8b/10b",
    Qdr "QDR" 8_000_000_000 "10 Gbaud, 8b/10b",
    Fdr10 "FDR10" 10_000_000_000 "10.3125 Gbaud, 64b/66b (vendor)",
    Fdr "FDR" 13_636_363_636 "14.0625 Gbaud, 64b/66b",
    Edr "EDR" 25_000_000_000 "25.78125 Gbaud, 64b/66b",
    Hdr "HDR" 50_000_000_000 "50 Gbit/s a lane",
    Ndr "NDR" 100_000_000_000 "100 Gbit/s a lane",
    Xdr "XDR" 200_000_000_000 "200 Gbit/s a lane",
}

/// Width times speed. Displayed and read as `4xNDR`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkRate {
    /// Lanes.
    pub width: Width,
    /// Generation of each lane.
    pub speed: Speed,
}

impl LinkRate {
    /// Four lanes NDR: 400 Gbit/s.
    pub const NDR4: Self = Self { width: Width::X4, speed: Speed::Ndr };

    /// Data rate in bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.width.lanes() as u64 * self.speed.lane_bits_per_second()
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width.lanes(), self.speed.name())
    }
}

impl FromStr for LinkRate {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (lanes, speed) = text.split_once('x').ok_or(())?;
        let width = lanes.parse().ok().and_then(Width::new).ok_or(())?;
        let speed = Speed::ALL.iter().copied().find(|s| s.name() == speed).ok_or(())?;
        Ok(Self { width, speed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_read_as_written() {
        for &speed in Speed::ALL {
            for lanes in [1, 2, 4, 8, 12] {
                let rate = LinkRate { width: Width::new(lanes).unwrap(), speed };
                assert_eq!(rate.to_string().parse(), Ok(rate));
            }
        }
        assert_eq!(LinkRate::NDR4.bits_per_second(), 400_000_000_000);
        for bad in ["4xLDR", "3xNDR", "NDR", "x", "4x"] {
            assert_eq!(bad.parse::<LinkRate>(), Err(()), "{bad:?}");
        }
    }
}
