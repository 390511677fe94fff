//! The tables of service levels and lanes that a port has, each as far as one SMP carries.

use snin_fabric::PortNum;
use snin_mad::{Attribute, AttributeId, Error, Mad, PortInfo, SlToVl, VlArbitration};

/// Entries of a quarter of an arbitration table.
pub const QUARTER: usize = 32;

/// One of a port's tables, as far as an SMP carries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum QosTableId {
    /// For what comes in by this port of the switch; by port 0 where there are no others.
    Mapping(PortNum),
    /// A quarter: 1 and 2 are the low priority table, 3 and 4 the high one.
    Arbitration(u8),
}

/// What is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QosTable {
    /// Which lane each service level takes.
    Mapping(SlToVl),
    /// Lanes and their weights, in turn.
    Arbitration(VlArbitration),
}

impl QosTableId {
    /// The attribute that reads and writes it.
    pub const fn attribute(self) -> AttributeId {
        match self {
            Self::Mapping(_) => SlToVl::ID,
            Self::Arbitration(_) => VlArbitration::ID,
        }
    }

    /// The attribute's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mapping(_) => "SLtoVLMappingTable",
            Self::Arbitration(_) => "VLArbitrationTable",
        }
    }

    /// The attribute modifier at a port of a switch, or at an end port: there port 0 stands for the port itself.
    pub fn modifier(self, is_switch: bool, port: PortNum) -> u32 {
        let port = if is_switch { port } else { PortNum::ZERO };
        match self {
            Self::Mapping(input) => SlToVl::modifier(input, port),
            Self::Arbitration(quarter) => VlArbitration::modifier(port, quarter.into()),
        }
    }

    /// The table in an answer.
    pub fn read(self, mad: &Mad) -> Result<QosTable, Error> {
        Ok(match self {
            Self::Mapping(_) => QosTable::Mapping(mad.attribute()?),
            Self::Arbitration(_) => QosTable::Arbitration(mad.attribute()?),
        })
    }
}

/// Whether the port's arbitration tables are so long that they have this quarter.
pub fn has_quarter(info: &PortInfo, quarter: u8) -> bool {
    let capacity = match quarter {
        1 | 2 => info.vl_arbitration_low_cap,
        _ => info.vl_arbitration_high_cap,
    };
    usize::from(capacity) > if quarter.is_multiple_of(2) { QUARTER } else { 0 }
}

/// What the tables of lanes are for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LaneUse {
    /// Nothing: they stay as they are.
    #[default]
    AsTheyAre,
    /// What is granted has a lane of its own.
    Granted,
    /// Each path has a lane.
    Paths,
}
