//! The field's numbers as types of their own, so that a LID is never taken for a port or a tree.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A 64-bit globally unique identifier of a node, port or system image (IBA 4.1). Displayed as `0x` and
/// sixteen lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}", self.0)
    }
}

/// In documents a GUID is the text that it is displayed as.
impl Serialize for Guid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // For people as text; where no one reads it, as the number that it is.
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Guid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no GUID (hex digits, with or without `0x`, at most sixteen).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GUID (expected 0x and up to 16 hex digits)")]
pub struct BadGuid(pub String);

impl FromStr for Guid {
    type Err = BadGuid;

    fn from_str(text: &str) -> Result<Self, BadGuid> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
        match u64::from_str_radix(digits, 16) {
            Ok(value) if plain => Ok(Self(value)),
            _ => Err(BadGuid(text.to_owned())),
        }
    }
}

/// A local identifier: the 16-bit address of a port within a subnet (IBA 4.1.3). 0 means "none yet".
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct Lid(pub u16);

impl Lid {
    /// No address assigned.
    pub const NONE: Self = Self(0);
    /// The highest unicast LID (IBA 4.1.3); 0xC000 and above are multicast and permissive.
    pub const MAX_UNICAST: Self = Self(0xBFFF);

    /// As an index into tables by LID.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Lid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A multicast LID: the address of a group within a subnet, 0xC000 to 0xFFFE (IBA 4.1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mlid(u16);

impl Mlid {
    /// The lowest.
    pub const MIN: Self = Self(0xC000);
    /// The highest; 0xFFFF is the permissive LID.
    pub const MAX: Self = Self(0xFFFE);

    /// `None` outside the range.
    pub const fn new(lid: u16) -> Option<Self> {
        if lid >= Self::MIN.0 && lid <= Self::MAX.0 { Some(Self(lid)) } else { None }
    }

    /// As it stands in a packet.
    pub const fn lid(self) -> Lid {
        Lid(self.0)
    }

    /// Its entry in a multicast forwarding table, from 0.
    pub const fn index(self) -> usize {
        (self.0 - Self::MIN.0) as usize
    }

    /// That of the n-th entry, while there is one.
    pub const fn nth(index: usize) -> Option<Self> {
        if index <= Self::MAX.index() { Some(Self(Self::MIN.0 + index as u16)) } else { None }
    }
}

impl fmt::Display for Mlid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04x}", self.0)
    }
}

/// LID mask control: a port answers to 2^LMC consecutive LIDs (IBA 4.1.3), 0 to 7.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(try_from = "u8", into = "u8")]
pub struct Lmc(u8);

impl Lmc {
    /// One address a port.
    pub const ZERO: Self = Self(0);
    /// The most that PortInfo's three bits can say: 128 addresses a port.
    pub const MAX: Self = Self(7);

    /// `None` above 7.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 7 { Some(Self(value)) } else { None }
    }

    /// The mask's number of bits, 0 to 7.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Addresses of one port: 2^LMC.
    pub const fn addresses(self) -> usize {
        1 << self.0
    }

    /// The smallest LMC with at least `addresses` addresses a port, if 128 are enough.
    pub fn at_least(addresses: usize) -> Option<Self> {
        (0..=7).map(Self).find(|lmc| lmc.addresses() >= addresses)
    }
}

impl TryFrom<u8> for Lmc {
    type Error = &'static str;

    fn try_from(bits: u8) -> Result<Self, Self::Error> {
        Self::new(bits).ok_or("an LMC is 0 to 7")
    }
}

impl From<Lmc> for u8 {
    fn from(lmc: Lmc) -> Self {
        lmc.bits()
    }
}

impl fmt::Display for Lmc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A destination LID: the base LID of a host port plus an offset that chooses the routing tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Dlid(pub Lid);

impl fmt::Display for Dlid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A routing tree, numbered from 0 by (root GUID, plane).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct TreeId(pub u16);

impl TreeId {
    /// As an index into tables by tree.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A port of a node. Switches have a port 0, their own management port; adapters start at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PortNum(pub u8);

impl PortNum {
    /// The management port of a switch.
    pub const ZERO: Self = Self(0);
    /// What a forwarding table holds for an address that it does not forward (IBA 18.2.4.3.3).
    pub const NONE: Self = Self(0xFF);

    /// As an index into tables by port.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for PortNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A node's place in its [`Topology`](crate::Topology).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeIndex(pub u32);

impl NodeIndex {
    /// As an index into tables by node.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port's place in its [`Topology`](crate::Topology).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortIndex(pub u32);

impl PortIndex {
    /// As an index into tables by port.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guids_are_read_and_written_in_one_form() {
        assert_eq!("0x2c9".parse::<Guid>().unwrap().to_string(), "0x00000000000002c9");
        assert_eq!("2C5EAB0300B87B40".parse(), Ok(Guid(0x2c5e_ab03_00b8_7b40)));
        for bad in ["", "0x", "+5", "0x12345678901234567", "S-12"] {
            assert_eq!(bad.parse::<Guid>(), Err(BadGuid(bad.to_owned())), "{bad:?}");
        }
    }

    #[test]
    fn lmc_is_at_most_seven() {
        assert_eq!(Lmc::new(8), None);
        assert_eq!(Lmc::at_least(18).map(Lmc::addresses), Some(32));
        assert_eq!(Lmc::at_least(1), Some(Lmc::ZERO));
        assert_eq!(Lmc::at_least(129), None);
    }
}
