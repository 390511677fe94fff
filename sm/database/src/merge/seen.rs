//! Partitions as their own databases have them: what tells whether two of one number are the same.

use std::collections::BTreeSet;

use snin_fabric::Guid;

use super::snapshot::{Number, Partition, Snapshot};
use crate::records::Port;

/// A partition of one database.
#[derive(Debug)]
pub(super) struct Seen {
    /// Its number in the result.
    pub(super) now: u16,
    /// Its number there.
    number: u16,
    /// The numbers that it has or had.
    numbers: BTreeSet<u16>,
    record: Partition,
    /// Its ports, and what they are in it.
    ports: BTreeSet<(Guid, u8, u16)>,
}

impl Seen {
    pub(super) fn of(database: &Snapshot, number: u16) -> Self {
        let had = |(_, was): &(Guid, Number), is: &Number| match was {
            Number::Partition(was) if *is == Number::Partition(number) => Some(*was),
            _ => None,
        };
        let had = database.were.iter().filter_map(|(was, is)| had(was, is));
        let held = |port: &Port| {
            port.partitions()
                .filter(|key| key.base() == number)
                .fold(0, |held, key| held | key.0 & 0x8000)
        };
        let ports = database.in_partition(number);
        let record = database.partitions.get(&number).and_then(|entry| entry.value.clone());
        Self {
            now: number,
            number,
            numbers: had.chain([number]).collect(),
            record: record.unwrap_or_default(),
            ports: ports.map(|(place, port)| (place.0, place.1.0, held(port))).collect(),
        }
    }

    /// Whether two are one: the operator says so, or they have a number and a name in common, or, without
    /// names, a number and all ports.
    pub(super) fn is(&self, other: &Self, common: &BTreeSet<u16>) -> bool {
        let declared = common.contains(&self.number) || self.record.common && other.record.common;
        if self.number == other.number && declared {
            return true;
        }
        !self.numbers.is_disjoint(&other.numbers)
            && match (&self.record.name, &other.record.name) {
                (Some(own), Some(other)) => own == other,
                (None, None) => self.ports == other.ports,
                _ => false,
            }
    }
}
