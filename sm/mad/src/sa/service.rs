//! Services that ports advertise.

use crate::sa::component::{Component, element, field};
use crate::table::table;
use crate::wire::{Gid, NodeString, Octets, PKey};

table! {
    /// A service at a port, for as long as its lease lasts (IBA 15.2.5.14).
    pub struct ServiceRecord("ServiceRecord", 176 bytes) {
        /// The service.
        "ServiceID" id: u64 = 0, 64;
        /// The port that offers it.
        "ServiceGID" gid: Gid = 64, 128;
        /// In this partition.
        "ServiceP_Key" p_key: PKey = 192, 16;
        /// Seconds; 0xFFFFFFFF: for ever.
        "ServiceLease" lease: u32 = 224, 32;
        /// Without it the record cannot be changed.
        "ServiceKey" key: Octets<16> = 256, 128;
        /// For people.
        "ServiceName" name: NodeString = 384, 512;
        /// The service's own.
        "ServiceData8" data8: [u8; 16] = 896, 8;
        /// The service's own.
        "ServiceData16" data16: [u16; 8] = 1024, 16;
        /// The service's own.
        "ServiceData32" data32: [u32; 4] = 1152, 32;
        /// The service's own.
        "ServiceData64" data64: [u64; 2] = 1280, 64;
    }
}

table! {
    /// Which key goes with which name (IBA 15.2.5.15).
    pub struct ServiceAssociationRecord("ServiceAssociationRecord", 80 bytes) {
        /// The key.
        "ServiceKey" key: Octets<16> = 0, 128;
        /// The name.
        "ServiceName" name: NodeString = 128, 512;
    }
}

const fn data(bit: u8, name: &'static str, index: usize) -> Component {
    element::<ServiceRecord>(bit, name, index)
}

pub(super) const SERVICE: &[Component] = &[
    field::<ServiceRecord>(0, "ServiceID"),
    field::<ServiceRecord>(1, "ServiceGID"),
    field::<ServiceRecord>(2, "ServiceP_Key"),
    field::<ServiceRecord>(4, "ServiceLease"),
    field::<ServiceRecord>(5, "ServiceKey"),
    field::<ServiceRecord>(6, "ServiceName"),
    data(7, "ServiceData8", 0),
    data(8, "ServiceData8", 1),
    data(9, "ServiceData8", 2),
    data(10, "ServiceData8", 3),
    data(11, "ServiceData8", 4),
    data(12, "ServiceData8", 5),
    data(13, "ServiceData8", 6),
    data(14, "ServiceData8", 7),
    data(15, "ServiceData8", 8),
    data(16, "ServiceData8", 9),
    data(17, "ServiceData8", 10),
    data(18, "ServiceData8", 11),
    data(19, "ServiceData8", 12),
    data(20, "ServiceData8", 13),
    data(21, "ServiceData8", 14),
    data(22, "ServiceData8", 15),
    data(23, "ServiceData16", 0),
    data(24, "ServiceData16", 1),
    data(25, "ServiceData16", 2),
    data(26, "ServiceData16", 3),
    data(27, "ServiceData16", 4),
    data(28, "ServiceData16", 5),
    data(29, "ServiceData16", 6),
    data(30, "ServiceData16", 7),
    data(31, "ServiceData32", 0),
    data(32, "ServiceData32", 1),
    data(33, "ServiceData32", 2),
    data(34, "ServiceData32", 3),
    data(35, "ServiceData64", 0),
    data(36, "ServiceData64", 1),
];

pub(super) const ASSOCIATION: &[Component] = &[
    field::<ServiceAssociationRecord>(0, "ServiceKey"),
    field::<ServiceAssociationRecord>(1, "ServiceName"),
];
