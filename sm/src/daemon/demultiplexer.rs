//! Whose a datagram is, before any core sees it: by class, version, queue pair and partition.
//!
//! | class | queue pair | whose |
//! |---|---|---|
//! | 0x01, 0x81 (version 1) | 0 | the sweep |
//! | 0x03 (version 2), in a partition of the manager's port | 1 | administration, in its turn |
//! | 0x04 (version 1), the same | 1 | the sweep: counters of ports under test |
//!
//! Everything else is dropped and counted by reason.

use std::collections::BTreeMap;

use snin_mad::{Class, PKey};
use snin_sm_core::Event;
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::mad_address::Origin;

use crate::port::Received;

/// Why a datagram is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Not version 1 of datagrams.
    BaseVersion,
    /// A class that this daemon does not serve.
    Class,
    /// A version of the class that this daemon does not know.
    ClassVersion,
    /// A class at a queue pair where it has no business.
    QueuePair,
    /// A partition that the manager's port is not in.
    Partition,
}

impl DropReason {
    /// Every reason and its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::BaseVersion, "base version"),
        (Self::Class, "class"),
        (Self::ClassVersion, "class version"),
        (Self::QueuePair, "queue pair"),
        (Self::Partition, "P_Key"),
    ];
}

/// A datagram that has a receiver.
#[derive(Debug)]
pub enum Sorted<'a> {
    /// The manager's core, at once.
    Core(Event<'a>),
    /// The same when its turn has come: what a host asks.
    Asked(Origin),
}

/// Sorts, and counts the datagrams that it drops.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    dropped: BTreeMap<DropReason, u64>,
}

/// The place of a partition in the manager's port's table; the first, where it is not there.
pub fn place(key: PKey, own: &[PKey]) -> u16 {
    let found = own.iter().position(|own| own.base() == key.base());
    found.and_then(|index| u16::try_from(index).ok()).unwrap_or(0)
}

impl Demultiplexer {
    /// Whose a datagram is; none if it is dropped. `own`: the partition table of the manager's port.
    pub fn sort<'a>(
        &mut self,
        port: LocalPort,
        received: &'a Received,
        own: &[PKey],
    ) -> Option<Sorted<'a>> {
        match sort(port, received, own) {
            Ok(sorted) => Some(sorted),
            Err(why) => {
                *self.dropped.entry(why).or_insert(0) += 1;
                None
            }
        }
    }

    /// How many were dropped for a reason.
    pub fn dropped(&self, why: DropReason) -> u64 {
        self.dropped.get(&why).copied().unwrap_or(0)
    }
}

fn sort<'a>(
    port: LocalPort,
    received: &'a Received,
    own: &[PKey],
) -> Result<Sorted<'a>, DropReason> {
    let (header, from) = (received.mad.header(), received.from);
    if header.base_version() != 1 {
        return Err(DropReason::BaseVersion);
    }
    let class = header.class();
    let version = class.version().ok_or(DropReason::Class)?;
    if header.class_version() != version {
        return Err(DropReason::ClassVersion);
    }
    let bytes = &received.mad.0;
    match (class, from.qp) {
        (Class::Subnet | Class::DirectedSubnet, 0) => {
            Ok(Sorted::Core(Event::Mad { port, source: from.lid, bytes }))
        }
        (Class::Administration | Class::Performance, 1..) => {
            let key = own.get(usize::from(from.p_key_index)).filter(|key| key.base() != 0);
            let p_key = *key.ok_or(DropReason::Partition)?;
            let from = Origin { lid: from.lid, qp: from.qp, sl: from.sl, p_key };
            Ok(match class {
                Class::Administration => Sorted::Asked(from),
                _ => Sorted::Core(Event::General { port, from, bytes }),
            })
        }
        (Class::Subnet | Class::DirectedSubnet | Class::Administration | Class::Performance, _) => {
            Err(DropReason::QueuePair)
        }
        _ => Err(DropReason::Class),
    }
}

#[cfg(test)]
mod tests {
    use snin_fabric::Lid;
    use snin_mad::{Mad, QKey};

    use super::*;
    use crate::port::Address;

    #[test]
    fn what_is_nobodys_is_counted_by_reason() {
        let own = [PKey(0xFFFF), PKey(0x8001), PKey(0)];
        let mut sorter = Demultiplexer::default();
        let indexes = [PKey(0x7FFF), PKey(1), PKey(2)].map(|key| place(key, &own));
        assert_eq!(indexes, [0, 1, 0]);
        let mut see = |base, class, version, qp, p_key_index| {
            let mut mad = Mad::ZERO;
            (mad.0[0], mad.0[1], mad.0[2]) = (base, class, version);
            let from = Address { lid: Lid(7), qp, sl: 2, q_key: QKey(0), p_key_index };
            let received = Received { mad: Box::new(mad), from };
            sorter.sort(LocalPort(0), &received, &own).map(|sorted| match sorted {
                Sorted::Core(Event::General { from, .. }) | Sorted::Asked(from) => {
                    (from.qp, from.p_key.0)
                }
                Sorted::Core(_) => (0, 0),
            })
        };
        assert_eq!(see(1, 0x81, 1, 0, 0), Some((0, 0)));
        assert_eq!(see(1, 0x01, 1, 0, 0), Some((0, 0)));
        assert_eq!(see(1, 0x03, 2, 1, 0), Some((1, 0xFFFF)));
        assert_eq!(see(1, 0x04, 1, 1, 0), Some((1, 0xFFFF)));
        assert_eq!(see(1, 0x03, 2, 77, 1), Some((77, 0x8001)));
        for nobodys in [
            (2, 0x81, 1, 0),
            (1, 0x0A, 1, 1),
            (1, 0x04, 1, 0),
            (1, 0x03, 1, 1),
            (1, 0x03, 2, 0),
            (1, 0x81, 1, 1),
            (1, 0x3E, 1, 1),
        ] {
            let (base, class, version, qp) = nobodys;
            assert_eq!(see(base, class, version, qp, 0), None, "{nobodys:?}");
        }
        for index in [2, 31, 32, 0xFFFF] {
            assert_eq!(see(1, 0x03, 2, 1, index), None);
        }
        let counted = DropReason::ALL.map(|(why, _)| sorter.dropped(why));
        assert_eq!(counted, [1, 2, 1, 3, 4]);
    }
}
