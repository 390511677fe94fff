//! Multicast groups and who is in them.

use snin_fabric::Lid;

use crate::sa::component::{Component, field};
use crate::sa::path::Selector;
use crate::table::table;
use crate::wire::{Gid, Hex8, Hex32, PKey, QKey, flags};

table! {
    /// A port in a multicast group, or a group (IBA 15.2.5.17).
    pub struct McMemberRecord("MCMemberRecord", 56 bytes) {
        /// The group; 0 in a request: any free one.
        "MGID" mgid: Gid = 0, 128;
        /// The member.
        "PortGID" port_gid: Gid = 128, 128;
        /// The group's key.
        "Q_Key" q_key: QKey = 256, 32;
        /// The group's address.
        "MLID" mlid: Lid = 288, 16;
        /// How MTU is meant.
        "MTUSelector" mtu_selector: Selector = 304, 2;
        /// The largest payload, by code.
        "MTU" mtu: u8 = 306, 6;
        /// Of the global header.
        "TClass" traffic_class: Hex8 = 312, 8;
        /// The group's partition.
        "P_Key" p_key: PKey = 320, 16;
        /// How Rate is meant.
        "RateSelector" rate_selector: Selector = 336, 2;
        /// The rate, by code.
        "Rate" rate: u8 = 338, 6;
        /// How PacketLifeTime is meant.
        "PacketLifeTimeSelector" lifetime_selector: Selector = 344, 2;
        /// The longest time of a packet on its way: 4.096 us times 2 to this.
        "PacketLifeTime" lifetime: u8 = 346, 6;
        /// The service level.
        "SL" sl: u8 = 352, 4;
        /// Of the global header.
        "FlowLabel" flow_label: Hex32 = 356, 20;
        /// Of the global header.
        "HopLimit" hop_limit: u8 = 376, 8;
        /// How far the group reaches: 2 the subnet, 5 the site.
        "Scope" scope: u8 = 384, 4;
        /// What the port is in the group.
        "JoinState" join_state: JoinState = 388, 4;
        /// Another port may ask in the port's place.
        "ProxyJoin" proxy_join: bool = 392, 1;
    }
}

flags! {
    /// MCMemberRecord:JoinState (IBA 15.2.5.17, and annex A on send-only full members).
    pub struct JoinState(u8) {
        /// Sends and receives, and keeps the group alive.
        FULL = 1 "full",
        /// Sends and receives.
        NON_MEMBER = 2 "non-member",
        /// Sends.
        SEND_ONLY = 4 "send-only",
        /// Sends, and keeps the group alive.
        SEND_ONLY_FULL = 8 "send-only-full",
    }
}

impl JoinState {
    /// Nothing at all.
    pub const NONE: Self = Self(0);

    /// Whether packets to the group are delivered to the member.
    pub const fn receives(self) -> bool {
        self.0 & 3 != 0
    }

    /// Whether the group lives as long as the member is in it.
    pub const fn keeps_alive(self) -> bool {
        self.0 & 9 != 0
    }
}

const fn member(bit: u8, name: &'static str) -> Component {
    field::<McMemberRecord>(bit, name)
}

pub(super) const MEMBER: &[Component] = &[
    member(0, "MGID"),
    member(1, "PortGID"),
    member(2, "Q_Key"),
    member(3, "MLID"),
    member(4, "MTUSelector"),
    member(5, "MTU"),
    member(6, "TClass"),
    member(7, "P_Key"),
    member(8, "RateSelector"),
    member(9, "Rate"),
    member(10, "PacketLifeTimeSelector"),
    member(11, "PacketLifeTime"),
    member(12, "SL"),
    member(13, "FlowLabel"),
    member(14, "HopLimit"),
    member(15, "Scope"),
    member(16, "JoinState"),
    member(17, "ProxyJoin"),
];
