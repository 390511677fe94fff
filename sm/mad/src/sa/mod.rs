//! Subnet administration (SA): its header, its records, and which bit of a component mask means which field.
//!
//! SA has a class of its own (IBA 15.2): 20 bytes of header follow the RMPP header, then 200 bytes of data. A
//! record is a [`Table`]; an answer of several records is sent as RMPP segments ([`rmpp`](crate::rmpp)).

mod component;
mod header;
mod inform;
mod member;
mod path;
mod records;
pub mod serde;
mod service;

pub use component::{Component, matches};
pub use header::{ComponentMask, DATA, DATA_AT, SaHeader, SaRequest, SaStatus};
pub use inform::{ANY_LID, ANY_TRAP, InformInfo, InformInfoRecord, SaNotice};
pub use member::{JoinState, McMemberRecord};
pub use path::{MultiPathRecord, PathRecord, Selector, lifetime_nanos};
pub use records::{
    GuidInfoRecord, LinearForwardingRecord, LinkRecord, MulticastForwardingRecord, NodeRecord,
    PKeyTableRecord, PortInfoRecord, RandomForwardingRecord, SlToVlRecord, SmInfoRecord,
    SwitchInfoRecord, TraceRecord, VlArbitrationRecord,
};
pub use service::{ServiceAssociationRecord, ServiceRecord};

use crate::header::AttributeId;
use crate::performance::ClassPortInfo;
use crate::table::{Layout, Table};

/// A structure that SA is asked for by number.
pub trait Record: Table {
    /// Its number (IBA 15.2.5).
    const ID: AttributeId;
    /// The bytes that count: its length without what pads it to whole words of 8 bytes.
    const BYTES: usize;
    /// Which bit of the component mask means which field, in the order of bits.
    const COMPONENTS: &'static [Component];

    /// From one record of a table to the next, in words of 8 bytes.
    fn stride() -> u16 {
        Self::BYTES.div_ceil(8) as u16
    }

    /// The record in the data of a request or an answer: what is missing reads as zeros.
    fn from_bytes(data: &[u8]) -> Result<Self, crate::BadField> {
        let mut bytes = Self::ZERO;
        let whole = bytes.as_mut();
        let length = whole.len().min(data.len());
        whole[..length].copy_from_slice(&data[..length]);
        Self::parse(&bytes)
    }

    /// The record as bytes, padded to whole words.
    fn bytes(&self) -> Self::Data {
        let mut bytes = Self::ZERO;
        self.emit(&mut bytes);
        bytes
    }
}

macro_rules! records {
    ($($record:ident($bytes:literal) = $id:literal, $components:expr;)*) => {
        $(impl Record for $record {
            const ID: AttributeId = AttributeId($id);
            const BYTES: usize = $bytes;
            const COMPONENTS: &'static [Component] = $components;
        })*

        /// Every record: number, table, components.
        pub const RECORDS: &[(AttributeId, &Layout, &[Component])] =
            &[$((AttributeId($id), $record::LAYOUT, $record::COMPONENTS)),*];
    };
}

records! {
    ClassPortInfo(72) = 0x0001, &[];
    SaNotice(80) = 0x0002, &[];
    InformInfo(36) = 0x0003, inform::INFORM;
    NodeRecord(108) = 0x0011, records::NODE;
    PortInfoRecord(68) = 0x0012, records::PORT;
    SlToVlRecord(16) = 0x0013, records::SL_TO_VL;
    SwitchInfoRecord(24) = 0x0014, records::SWITCH;
    LinearForwardingRecord(72) = 0x0015, records::LINEAR;
    RandomForwardingRecord(72) = 0x0016, records::RANDOM;
    MulticastForwardingRecord(72) = 0x0017, records::MULTICAST;
    SmInfoRecord(25) = 0x0018, records::MANAGER;
    LinkRecord(8) = 0x0020, records::LINK;
    GuidInfoRecord(72) = 0x0030, records::GUIDS;
    ServiceRecord(176) = 0x0031, service::SERVICE;
    PKeyTableRecord(72) = 0x0033, records::P_KEYS;
    PathRecord(64) = 0x0035, path::PATH;
    VlArbitrationRecord(72) = 0x0036, records::ARBITRATION;
    McMemberRecord(52) = 0x0038, member::MEMBER;
    TraceRecord(46) = 0x0039, &[];
    MultiPathRecord(24) = 0x003A, path::MULTI_PATH;
    ServiceAssociationRecord(80) = 0x003B, service::ASSOCIATION;
    InformInfoRecord(60) = 0x00F3, inform::SUBSCRIPTION;
}

/// The table of a record, to print what one does not know.
pub fn layout(id: AttributeId) -> Option<&'static Layout> {
    RECORDS.iter().find(|(known, ..)| *known == id).map(|(_, layout, _)| *layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_lie_within_their_record_and_are_in_order() {
        for (id, layout, components) in RECORDS {
            for pair in components.windows(2) {
                assert!(pair[0].bit < pair[1].bit, "{id:?} {} {}", layout.name, pair[1].name);
            }
            for component in *components {
                let end = component.place.offset + component.place.width;
                assert!(end <= layout.bytes * 8, "{} {}", layout.name, component.name);
            }
        }
    }

    #[test]
    fn strides_are_the_specifications() {
        assert_eq!(NodeRecord::stride(), 14);
        assert_eq!(PortInfoRecord::stride(), 9);
        assert_eq!(SmInfoRecord::stride(), 4);
        assert_eq!(McMemberRecord::stride(), 7);
        assert_eq!(PathRecord::stride(), 8);
        assert_eq!(ServiceRecord::stride(), 22);
        assert_eq!(InformInfoRecord::stride(), 8);
        assert_eq!(TraceRecord::stride(), 6);
    }
}
