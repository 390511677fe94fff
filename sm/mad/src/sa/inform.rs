//! Subscriptions, and the notices that subscribers get.

use snin_fabric::Lid;

use crate::notice::Notice;
use crate::sa::component::{Component, field, inside};
use crate::table::table;
use crate::wire::{Gid, Hex32, Inner};

/// In LIDRangeBegin: notices from any address (IBA 13.4.8.3).
pub const ANY_LID: Lid = Lid(0xFFFF);
/// In Type and TrapNumber: any (IBA 13.4.8.3).
pub const ANY_TRAP: u16 = 0xFFFF;

table! {
    /// Subscribes to notices, or ends a subscription (IBA 13.4.8.3).
    pub struct InformInfo("InformInfo", 40 bytes) {
        /// Only from this port; 0: from those in the range.
        "GID" gid: Gid = 0, 128;
        /// Only from these addresses: from here; 0xFFFF: from any.
        "LIDRangeBegin" lid_begin: Lid = 128, 16;
        /// ... to here.
        "LIDRangeEnd" lid_end: Lid = 144, 16;
        /// 1: notices of the specification, 0: of a vendor.
        "IsGeneric" is_generic: u8 = 176, 8;
        /// 1: subscribe, 0: end the subscription.
        "Subscribe" subscribe: u8 = 184, 8;
        /// How grave; 0xFFFF: any.
        "Type" kind: u16 = 192, 16;
        /// Which; 0xFFFF: any.
        "TrapNumberDeviceID" trap_number: u16 = 208, 16;
        /// Of which queue pair the subscription is that ends.
        "QPN" qpn: Hex32 = 224, 24;
        /// Longest time from a report to its answer: 4.096 us times 2 to this.
        "RespTimeValue" response_time: u8 = 251, 5;
        /// Which kind of node says so; 0xFFFFFF: any.
        "ProducerTypeVendorID" producer: Hex32 = 264, 24;
    }
}

table! {
    /// A subscription (IBA 15.2.5.12).
    pub struct InformInfoRecord("InformInfoRecord", 64 bytes) {
        /// Whose.
        "SubscriberGID" subscriber: Gid = 0, 128;
        /// Which of its subscriptions.
        "Enum" number: u16 = 128, 16;
        /// To what.
        "InformInfo" info: Inner<InformInfo, 36> = 192, 288;
    }
}

table! {
    /// A notice as SA and its reports carry it (IBA 13.4.8.2): with the issuer's GID.
    pub struct SaNotice("SANotice", 80 bytes) {
        /// The notice.
        "Notice" notice: Inner<Notice, 64> = 0, 512;
        /// The GID of the port that says so.
        "IssuerGID" issuer_gid: Gid = 512, 128;
    }
}

const fn inform(bit: u8, name: &'static str) -> Component {
    field::<InformInfo>(bit, name)
}

pub(super) const INFORM: &[Component] = &[
    inform(0, "GID"),
    inform(1, "LIDRangeBegin"),
    inform(2, "LIDRangeEnd"),
    inform(4, "IsGeneric"),
    inform(5, "Subscribe"),
    inform(6, "Type"),
    inform(7, "TrapNumberDeviceID"),
    inform(8, "QPN"),
    inform(10, "RespTimeValue"),
    inform(12, "ProducerTypeVendorID"),
];

const fn subscribed(bit: u8, name: &'static str) -> Component {
    inside::<InformInfoRecord, InformInfo>(bit, "InformInfo", name)
}

pub(super) const SUBSCRIPTION: &[Component] = &[
    field::<InformInfoRecord>(0, "SubscriberGID"),
    field::<InformInfoRecord>(1, "Enum"),
    subscribed(3, "GID"),
    subscribed(4, "LIDRangeBegin"),
    subscribed(5, "LIDRangeEnd"),
    subscribed(7, "IsGeneric"),
    subscribed(8, "Subscribe"),
    subscribed(9, "Type"),
    subscribed(10, "TrapNumberDeviceID"),
    subscribed(11, "QPN"),
    subscribed(13, "RespTimeValue"),
    subscribed(15, "ProducerTypeVendorID"),
];
