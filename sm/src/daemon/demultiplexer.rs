//! Whose a datagram is, before any core sees it: by class, version and queue pair.
//!
//! | class | queue pair | whose |
//! |---|---|---|
//! | 0x01, 0x81 (version 1) | 0 | the sweep |
//! | 0x03 (version 2) | 1 | administration |
//!
//! Everything else is dropped and counted by reason.

use std::collections::BTreeMap;

use snin_mad::Class;
use snin_sm_core::administration::Origin;
use snin_sm_core::{Event, LocalPort};

use crate::port::Received;

/// Why a datagram is nobody's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Nobodys {
    /// Not version 1 of datagrams.
    BaseVersion,
    /// A class that nobody here serves.
    Class,
    /// A version of the class that nobody here knows.
    ClassVersion,
    /// A class at a queue pair where it has no business.
    QueuePair,
}

impl Nobodys {
    /// Every reason and its name.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::BaseVersion, "base version"),
        (Self::Class, "class"),
        (Self::ClassVersion, "class version"),
        (Self::QueuePair, "queue pair"),
    ];
}

/// Sorts, and counts what is nobody's.
#[derive(Debug, Default)]
pub struct Demultiplexer {
    dropped: BTreeMap<Nobodys, u64>,
}

impl Demultiplexer {
    /// The event that a datagram is; none if it is nobody's.
    pub fn sort<'a>(&mut self, received: &'a Received) -> Option<Event<'a>> {
        match sort(received) {
            Ok(event) => Some(event),
            Err(why) => {
                *self.dropped.entry(why).or_insert(0) += 1;
                None
            }
        }
    }

    /// How many were dropped for a reason.
    pub fn dropped(&self, why: Nobodys) -> u64 {
        self.dropped.get(&why).copied().unwrap_or(0)
    }
}

fn sort(received: &Received) -> Result<Event<'_>, Nobodys> {
    let (header, from) = (received.mad.header(), received.from);
    if header.base_version() != 1 {
        return Err(Nobodys::BaseVersion);
    }
    let class = header.class();
    let version = class.version().ok_or(Nobodys::Class)?;
    if header.class_version() != version {
        return Err(Nobodys::ClassVersion);
    }
    let (port, bytes) = (LocalPort(0), &received.mad.0);
    match (class, from.qp) {
        (Class::Subnet | Class::DirectedSubnet, 0) => {
            Ok(Event::Mad { port, source: from.lid, bytes })
        }
        (Class::Administration, 1..) => {
            let from = Origin { lid: from.lid, qp: from.qp, sl: from.sl };
            Ok(Event::General { port, from, bytes })
        }
        (Class::Subnet | Class::DirectedSubnet | Class::Administration, _) => {
            Err(Nobodys::QueuePair)
        }
        _ => Err(Nobodys::Class),
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
        let mut sorter = Demultiplexer::default();
        let mut see = |base, class, version, qp| {
            let mut mad = Mad::ZERO;
            (mad.0[0], mad.0[1], mad.0[2]) = (base, class, version);
            let from = Address { lid: Lid(7), qp, sl: 2, q_key: QKey(0) };
            sorter.sort(&Received { mad: Box::new(mad), from }).map(|event| match event {
                Event::General { from, .. } => (from.qp, from.sl),
                _ => (0, 0),
            })
        };
        assert_eq!(see(1, 0x81, 1, 0), Some((0, 0)));
        assert_eq!(see(1, 0x01, 1, 0), Some((0, 0)));
        assert_eq!(see(1, 0x03, 2, 1), Some((1, 2)));
        assert_eq!(see(1, 0x03, 2, 77), Some((77, 2)));
        for nobodys in [
            (2, 0x81, 1, 0),
            (1, 0x0A, 1, 1),
            (1, 0x04, 1, 1),
            (1, 0x03, 1, 1),
            (1, 0x03, 2, 0),
            (1, 0x81, 1, 1),
        ] {
            let (base, class, version, qp) = nobodys;
            assert_eq!(see(base, class, version, qp), None, "{nobodys:?}");
        }
        let counted = Nobodys::ALL.map(|(why, _)| sorter.dropped(why));
        assert_eq!(counted, [1, 2, 1, 2]);
    }
}
