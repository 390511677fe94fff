//! A set of ports of one switch.

use std::fmt;

use crate::PortNum;

/// Any of the ports 0 to 254, as a switch's multicast forwarding table has them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PortMask([u64; 4]);

impl PortMask {
    /// No port.
    pub const EMPTY: Self = Self([0; 4]);

    /// True without ports.
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// Whether `port` is in it.
    pub const fn contains(&self, port: PortNum) -> bool {
        self.0[port.index() / 64] >> (port.0 % 64) & 1 == 1
    }

    /// Adds `port`.
    pub const fn insert(&mut self, port: PortNum) {
        self.0[port.index() / 64] |= 1 << (port.0 % 64);
    }

    /// The ports that are in both.
    pub fn and(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    /// The ports that are in either.
    pub fn or(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    /// Whether every port of `other` is in it.
    pub fn covers(&self, other: &Self) -> bool {
        self.and(other) == *other
    }

    /// Its ports, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = PortNum> + '_ {
        (0..=u8::MAX).map(PortNum).filter(|&port| self.contains(port))
    }

    /// The 16 ports from 16 times `position` on (below 16), the lowest in the lowest bit.
    pub const fn position(&self, position: u8) -> u16 {
        let first = (position as usize & 15) * 16;
        (self.0[first / 64] >> (first % 64)) as u16
    }

    /// Replaces those 16 ports.
    pub const fn set_position(&mut self, position: u8, ports: u16) {
        let first = (position as usize & 15) * 16;
        let word = &mut self.0[first / 64];
        *word = *word & !(0xFFFF << (first % 64)) | (ports as u64) << (first % 64);
    }
}

impl FromIterator<PortNum> for PortMask {
    fn from_iter<I: IntoIterator<Item = PortNum>>(ports: I) -> Self {
        let mut mask = Self::EMPTY;
        ports.into_iter().for_each(|port| mask.insert(port));
        mask
    }
}

impl fmt::Debug for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|port| port.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sixteen_ports_each() {
        let ports = [0, 1, 15, 16, 63, 64, 254].map(PortNum);
        let mut mask: PortMask = ports.into_iter().collect();
        assert_eq!(mask.iter().collect::<Vec<_>>(), ports);
        let words: Vec<u16> = (0..16).map(|position| mask.position(position)).collect();
        assert_eq!(
            (words[0], words[1], words[3], words[4], words[15]),
            (0x8003, 1, 0x8000, 1, 0x4000)
        );
        mask.set_position(0, 4);
        mask.set_position(15, 0);
        assert_eq!(mask.iter().map(|port| port.0).collect::<Vec<_>>(), [2, 16, 63, 64]);
    }
}
