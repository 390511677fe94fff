//! Paths: PathRecord, and MultiPathRecord, which only asks.

use snin_fabric::Lid;

use crate::sa::component::{Component, field};
use crate::table::table;
use crate::wire::{Gid, Hex8, Hex32, PKey, codes};

table! {
    /// How one port reaches another (IBA 15.2.5.16).
    pub struct PathRecord("PathRecord", 64 bytes) {
        /// The service that is asked for, its upper half.
        "ServiceID" service_id: u64 = 0, 64;
        /// To this port, or group.
        "DGID" dgid: Gid = 64, 128;
        /// From this port.
        "SGID" sgid: Gid = 192, 128;
        /// To this address.
        "DLID" dlid: Lid = 320, 16;
        /// From this one.
        "SLID" slid: Lid = 336, 16;
        /// Raw packets.
        "RawTraffic" raw: bool = 352, 1;
        /// Of the global header.
        "FlowLabel" flow_label: Hex32 = 356, 20;
        /// Of the global header.
        "HopLimit" hop_limit: u8 = 376, 8;
        /// Of the global header.
        "TClass" traffic_class: Hex8 = 384, 8;
        /// The way back is the way there.
        "Reversible" reversible: bool = 392, 1;
        /// The most paths to be answered.
        "NumbPath" numb_path: u8 = 393, 7;
        /// The partition.
        "P_Key" p_key: PKey = 400, 16;
        /// The class of service.
        "QoSClass" qos_class: u16 = 416, 12;
        /// The service level.
        "SL" sl: u8 = 428, 4;
        /// How Mtu is meant.
        "MtuSelector" mtu_selector: Selector = 432, 2;
        /// The largest payload, by code.
        "Mtu" mtu: u8 = 434, 6;
        /// How Rate is meant.
        "RateSelector" rate_selector: Selector = 440, 2;
        /// The rate, by code.
        "Rate" rate: u8 = 442, 6;
        /// How PacketLifeTime is meant.
        "PacketLifeTimeSelector" lifetime_selector: Selector = 448, 2;
        /// The longest time of a packet on its way: 4.096 us times 2 to this.
        "PacketLifeTime" lifetime: u8 = 450, 6;
        /// 0 is the best path.
        "Preference" preference: u8 = 456, 8;
    }
}

table! {
    /// Asks for paths between several ports (IBA 15.2.5.20). The GIDs follow: sources, then destinations.
    pub struct MultiPathRecord("MultiPathRecord", 24 bytes) {
        /// Raw packets.
        "RawTraffic" raw: bool = 0, 1;
        /// Of the global header.
        "FlowLabel" flow_label: Hex32 = 4, 20;
        /// Of the global header.
        "HopLimit" hop_limit: u8 = 24, 8;
        /// Of the global header.
        "TClass" traffic_class: Hex8 = 32, 8;
        /// The way back is the way there.
        "Reversible" reversible: bool = 40, 1;
        /// The most paths to be answered.
        "NumbPath" numb_path: u8 = 41, 7;
        /// The partition.
        "P_Key" p_key: PKey = 48, 16;
        /// The class of service.
        "QoSClass" qos_class: u16 = 64, 12;
        /// The service level.
        "SL" sl: u8 = 76, 4;
        /// How Mtu is meant.
        "MtuSelector" mtu_selector: Selector = 80, 2;
        /// The largest payload, by code.
        "Mtu" mtu: u8 = 82, 6;
        /// How Rate is meant.
        "RateSelector" rate_selector: Selector = 88, 2;
        /// The rate, by code.
        "Rate" rate: u8 = 90, 6;
        /// How PacketLifeTime is meant.
        "PacketLifeTimeSelector" lifetime_selector: Selector = 96, 2;
        /// The longest time of a packet on its way.
        "PacketLifeTime" lifetime: u8 = 98, 6;
        /// The service, its upper 8 bits.
        "ServiceID8MSB" service_id_high: Hex8 = 104, 8;
        /// How independent the paths shall be of one another.
        "IndependenceSelector" independence: u8 = 112, 2;
        /// How many sources follow.
        "SGIDCount" sources: u8 = 120, 8;
        /// How many destinations follow them.
        "DGIDCount" destinations: u8 = 128, 8;
        /// The service, its lower 56 bits.
        "ServiceID56LSB" service_id_low: u64 = 136, 56;
    }
}

codes! {
    /// How a value in a request is meant (IBA 15.2.5.16).
    pub enum Selector(u8) {
        /// More than the value.
        Greater = 0 "greater",
        /// Less than the value.
        Less = 1 "less",
        /// The value itself.
        Exactly = 2 "exactly",
        /// The largest there is (of a time: the smallest).
        Largest = 3 "largest",
    }
}

const fn path(bit: u8, name: &'static str) -> Component {
    field::<PathRecord>(bit, name)
}

/// ServiceID has two bits, 0 and 1, for its halves, which must come together.
pub(super) const PATH: &[Component] = &[
    path(0, "ServiceID"),
    path(2, "DGID"),
    path(3, "SGID"),
    path(4, "DLID"),
    path(5, "SLID"),
    path(6, "RawTraffic"),
    path(8, "FlowLabel"),
    path(9, "HopLimit"),
    path(10, "TClass"),
    path(11, "Reversible"),
    path(12, "NumbPath"),
    path(13, "P_Key"),
    path(14, "QoSClass"),
    path(15, "SL"),
    path(16, "MtuSelector"),
    path(17, "Mtu"),
    path(18, "RateSelector"),
    path(19, "Rate"),
    path(20, "PacketLifeTimeSelector"),
    path(21, "PacketLifeTime"),
    path(22, "Preference"),
];

const fn multi(bit: u8, name: &'static str) -> Component {
    field::<MultiPathRecord>(bit, name)
}

pub(super) const MULTI_PATH: &[Component] = &[
    multi(0, "RawTraffic"),
    multi(2, "FlowLabel"),
    multi(3, "HopLimit"),
    multi(4, "TClass"),
    multi(5, "Reversible"),
    multi(6, "NumbPath"),
    multi(7, "P_Key"),
    multi(8, "QoSClass"),
    multi(9, "SL"),
    multi(10, "MtuSelector"),
    multi(11, "Mtu"),
    multi(12, "RateSelector"),
    multi(13, "Rate"),
    multi(14, "PacketLifeTimeSelector"),
    multi(15, "PacketLifeTime"),
    multi(16, "ServiceID8MSB"),
    multi(17, "IndependenceSelector"),
    multi(19, "SGIDCount"),
    multi(20, "DGIDCount"),
    multi(21, "ServiceID56LSB"),
];

impl Selector {
    /// Whether `offered` is what was asked for. With [`Selector::Largest`] anything is: the best is chosen
    /// elsewhere.
    pub fn admits<T: PartialOrd>(self, offered: T, asked: T) -> bool {
        match self {
            Self::Greater => offered > asked,
            Self::Less => offered < asked,
            Self::Exactly => offered == asked,
            _ => true,
        }
    }
}

/// A packet's lifetime by its code, in nanoseconds; codes above 51 are more than a `u64` holds.
pub const fn lifetime_nanos(code: u8) -> u64 {
    if code > 51 { u64::MAX } else { 4_096 << code }
}
