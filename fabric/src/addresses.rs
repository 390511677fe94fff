//! Which port answers to which LID: what a subnet holds, planned by snin or not.

use crate::{Lid, Lmc, PortIndex};

const NOBODY: u32 = u32::MAX;

/// Base LID and LMC of every addressed port, and the port behind every LID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addresses {
    of_port: Vec<(Lid, Lmc)>,
    owner: Vec<u32>,
}

/// A port that cannot have the addresses asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Outside 1..=0xBFFF, the last address included.
    #[error("LID {base} with LMC {lmc} is outside the unicast range 1 to {}", Lid::MAX_UNICAST)]
    OutOfRange {
        /// First address.
        base: Lid,
        /// 2^LMC addresses.
        lmc: Lmc,
    },
    /// The base of 2^LMC addresses is a multiple of 2^LMC (IBA 4.1.3).
    #[error("LID {base} is no multiple of {} (LMC {lmc})", lmc.addresses())]
    Misaligned {
        /// First address.
        base: Lid,
        /// 2^LMC addresses.
        lmc: Lmc,
    },
    /// Another port answers to one of them.
    #[error("LID {lid} is taken")]
    Taken {
        /// The address.
        lid: Lid,
        /// The port that has it.
        owner: PortIndex,
    },
}

impl Addresses {
    /// No port addressed, for a topology of `ports` ports.
    pub fn none(ports: usize) -> Self {
        Self { of_port: vec![(Lid::NONE, Lmc::ZERO); ports], owner: Vec::new() }
    }

    /// Gives `port` the 2^`lmc` addresses from `base`.
    ///
    /// # Errors
    /// Leaves everything as it was when one of them cannot be had.
    pub fn assign(&mut self, port: PortIndex, base: Lid, lmc: Lmc) -> Result<(), AddressError> {
        let end = base.index() + lmc.addresses();
        if base == Lid::NONE || end > Lid::MAX_UNICAST.index() + 1 {
            return Err(AddressError::OutOfRange { base, lmc });
        }
        if !base.index().is_multiple_of(lmc.addresses()) {
            return Err(AddressError::Misaligned { base, lmc });
        }
        if self.owner.len() < end {
            self.owner.resize(end, NOBODY);
        }
        for lid in base.index()..end {
            if self.owner[lid] != NOBODY {
                let owner = PortIndex(self.owner[lid]);
                return Err(AddressError::Taken { lid: Lid(lid as u16), owner });
            }
        }
        self.owner[base.index()..end].fill(port.0);
        self.of_port[port.index()] = (base, lmc);
        Ok(())
    }

    /// First address of `port`, if it has any.
    pub fn base(&self, port: PortIndex) -> Option<Lid> {
        let (base, _) = self.of_port[port.index()];
        (base != Lid::NONE).then_some(base)
    }

    /// LMC of `port`; 0 where it has no address.
    pub fn lmc(&self, port: PortIndex) -> Lmc {
        self.of_port[port.index()].1
    }

    /// Every address of `port`, lowest first.
    pub fn of(&self, port: PortIndex) -> impl ExactSizeIterator<Item = Lid> + use<> {
        let (base, lmc) = self.of_port[port.index()];
        let count = if base == Lid::NONE { 0 } else { lmc.addresses() as u16 };
        (0..count).map(move |offset| Lid(base.0 + offset))
    }

    /// The port that answers to `lid`, and the offset from its base.
    pub fn owner(&self, lid: Lid) -> Option<(PortIndex, u16)> {
        let port = *self.owner.get(lid.index()).filter(|&&port| port != NOBODY)?;
        Some((PortIndex(port), lid.0 - self.of_port[port as usize].0.0))
    }

    /// The highest address given to anyone: LinearFDBTop.
    pub fn top(&self) -> Lid {
        Lid(self.owner.len().saturating_sub(1) as u16)
    }

    /// Every addressed port with its base and LMC, in order of ports.
    pub fn iter(&self) -> impl Iterator<Item = (PortIndex, Lid, Lmc)> + '_ {
        self.of_port.iter().enumerate().filter_map(|(port, &(base, lmc))| {
            (base != Lid::NONE).then_some((PortIndex(port as u32), base, lmc))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_refused_and_changes_nothing() {
        let mut addresses = Addresses::none(3);
        let lmc = Lmc::new(2).unwrap();
        addresses.assign(PortIndex(0), Lid(4), lmc).unwrap();
        let before = addresses.clone();
        let refused = [
            (Lid(6), Lmc::ZERO, AddressError::Taken { lid: Lid(6), owner: PortIndex(0) }),
            (Lid(9), lmc, AddressError::Misaligned { base: Lid(9), lmc }),
            (Lid::NONE, lmc, AddressError::OutOfRange { base: Lid::NONE, lmc }),
            (Lid(0xC000), lmc, AddressError::OutOfRange { base: Lid(0xC000), lmc }),
        ];
        for (base, lmc, error) in refused {
            assert_eq!(addresses.assign(PortIndex(1), base, lmc), Err(error));
            assert_eq!(addresses.base(PortIndex(1)), None);
        }
        assert_eq!(addresses, before);
        assert_eq!(addresses.owner(Lid(7)), Some((PortIndex(0), 3)));
        assert_eq!(addresses.owner(Lid(8)), None);
        assert_eq!(addresses.top(), Lid(7));
        assert_eq!(addresses.of(PortIndex(0)).collect::<Vec<_>>(), [4, 5, 6, 7].map(Lid));
    }
}
