//! Attributes of performance management that the project needs, and the ClassPortInfo of any class.

use snin_fabric::{Lid, PortNum};

use crate::table::table;
use crate::wire::{Gid, Hex8, Hex16, Hex32, PKey, QKey};

table! {
    /// What a class's agent can, and whom to ask instead (IBA 13.4.8.1).
    pub struct ClassPortInfo("ClassPortInfo", 192 bytes) {
        /// MAD version supported.
        "BaseVersion" base_version: u8 = 0, 8;
        /// Class version supported.
        "ClassVersion" class_version: u8 = 8, 8;
        /// What the agent can; the upper byte is the class's.
        "CapabilityMask" capabilities: Hex16 = 16, 16;
        /// What else it can, all the class's.
        "CapabilityMask2" capabilities2: Hex32 = 32, 27;
        /// Longest time to an answer: 4.096 us times 2 to this.
        "RespTimeValue" response_time: u8 = 59, 5;
        /// Ask this port instead.
        "RedirectGID" redirect_gid: Gid = 64, 128;
        /// With this traffic class.
        "RedirectTC" redirect_traffic_class: Hex8 = 192, 8;
        /// With this service level.
        "RedirectSL" redirect_sl: u8 = 200, 4;
        /// With this flow label.
        "RedirectFL" redirect_flow_label: Hex32 = 204, 20;
        /// At this address; 0: by the GID.
        "RedirectLID" redirect_lid: Lid = 224, 16;
        /// In this partition.
        "RedirectP_Key" redirect_p_key: PKey = 240, 16;
        /// At this queue pair.
        "RedirectQP" redirect_qp: Hex32 = 264, 24;
        /// With this key.
        "RedirectQ_Key" redirect_q_key: QKey = 288, 32;
        /// Traps go to this port.
        "TrapGID" trap_gid: Gid = 320, 128;
        /// With this traffic class.
        "TrapTC" trap_traffic_class: Hex8 = 448, 8;
        /// With this service level.
        "TrapSL" trap_sl: u8 = 456, 4;
        /// With this flow label.
        "TrapFL" trap_flow_label: Hex32 = 460, 20;
        /// To this address; 0: no traps.
        "TrapLID" trap_lid: Lid = 480, 16;
        /// In this partition.
        "TrapP_Key" trap_p_key: PKey = 496, 16;
        /// Over this many routers.
        "TrapHL" trap_hop_limit: u8 = 512, 8;
        /// To this queue pair.
        "TrapQP" trap_qp: Hex32 = 520, 24;
        /// With this key.
        "TrapQ_Key" trap_q_key: QKey = 544, 32;
    }
}

table! {
    /// Counters of a port; they stop at their maximum (IBA 16.1.3.5).
    pub struct PortCounters("PortCounters", 192 bytes) {
        /// The port; 255: all of a switch.
        "PortSelect" port: PortNum = 8, 8;
        /// In a Set: which to write.
        "CounterSelect" select: Hex16 = 16, 16;
        /// Minor link errors.
        "SymbolErrorCounter" symbol_errors: u16 = 32, 16;
        /// Retrainings that succeeded.
        "LinkErrorRecoveryCounter" link_error_recoveries: u8 = 48, 8;
        /// Retrainings that failed.
        "LinkDownedCounter" link_downed: u8 = 56, 8;
        /// Packets with errors.
        "PortRcvErrors" receive_errors: u16 = 64, 16;
        /// Packets that were marked bad further up.
        "PortRcvRemotePhysicalErrors" receive_remote_physical_errors: u16 = 80, 16;
        /// Packets that a switch could not forward.
        "PortRcvSwitchRelayErrors" receive_switch_relay_errors: u16 = 96, 16;
        /// Packets dropped on the way out.
        "PortXmitDiscards" transmit_discards: u16 = 112, 16;
        /// Packets not sent for their partition or for being raw.
        "PortXmitConstraintErrors" transmit_constraint_errors: u8 = 128, 8;
        /// Packets not taken for their partition or for being raw.
        "PortRcvConstraintErrors" receive_constraint_errors: u8 = 136, 8;
        /// In a Set: which more to write.
        "CounterSelect2" select2: Hex8 = 144, 8;
        /// Times the threshold of physical errors was reached.
        "LocalLinkIntegrityErrors" local_link_integrity_errors: u8 = 152, 4;
        /// Times the threshold of overruns was reached.
        "ExcessiveBufferOverrunErrors" excessive_buffer_overrun_errors: u8 = 156, 4;
        /// QP1 packets dropped for want of room.
        "QP1Dropped" qp1_dropped: u16 = 160, 16;
        /// SMPs dropped for want of room.
        "VL15Dropped" vl15_dropped: u16 = 176, 16;
        /// Sent, in units of 4 bytes.
        "PortXmitData" transmit_data: u32 = 192, 32;
        /// Received, in units of 4 bytes.
        "PortRcvData" receive_data: u32 = 224, 32;
        /// Packets sent.
        "PortXmitPkts" transmit_packets: u32 = 256, 32;
        /// Packets received.
        "PortRcvPkts" receive_packets: u32 = 288, 32;
        /// Ticks in which there was data but no credit.
        "PortXmitWait" transmit_wait: u32 = 320, 32;
    }
}

table! {
    /// Counters of a port, 64 bits wide (IBA 16.1.4.11).
    pub struct PortCountersExtended("PortCountersExtended", 192 bytes) {
        /// The port; 255: all of a switch.
        "PortSelect" port: PortNum = 8, 8;
        /// In a Set: which to write.
        "CounterSelect" select: Hex16 = 16, 16;
        /// In a Set: which more to write.
        "CounterSelect2" select2: Hex32 = 32, 32;
        /// Sent, in units of 4 bytes.
        "PortXmitData" transmit_data: u64 = 64, 64;
        /// Received, in units of 4 bytes.
        "PortRcvData" receive_data: u64 = 128, 64;
        /// Packets sent.
        "PortXmitPkts" transmit_packets: u64 = 192, 64;
        /// Packets received.
        "PortRcvPkts" receive_packets: u64 = 256, 64;
        /// Unicast packets sent.
        "PortUnicastXmitPkts" unicast_transmit_packets: u64 = 320, 64;
        /// Unicast packets received.
        "PortUnicastRcvPkts" unicast_receive_packets: u64 = 384, 64;
        /// Multicast packets sent.
        "PortMulticastXmitPkts" multicast_transmit_packets: u64 = 448, 64;
        /// Multicast packets received.
        "PortMulticastRcvPkts" multicast_receive_packets: u64 = 512, 64;
        /// The rest as in [`PortCounters`].
        "SymbolErrorCounter" symbol_errors: u64 = 576, 64;
        /// Retrainings that succeeded.
        "LinkErrorRecoveryCounter" link_error_recoveries: u64 = 640, 64;
        /// Retrainings that failed.
        "LinkDownedCounter" link_downed: u64 = 704, 64;
        /// Packets with errors.
        "PortRcvErrors" receive_errors: u64 = 768, 64;
        /// Packets that were marked bad further up.
        "PortRcvRemotePhysicalErrors" receive_remote_physical_errors: u64 = 832, 64;
        /// Packets that a switch could not forward.
        "PortRcvSwitchRelayErrors" receive_switch_relay_errors: u64 = 896, 64;
        /// Packets dropped on the way out.
        "PortXmitDiscards" transmit_discards: u64 = 960, 64;
        /// Packets not sent for their partition or for being raw.
        "PortXmitConstraintErrors" transmit_constraint_errors: u64 = 1024, 64;
        /// Packets not taken for their partition or for being raw.
        "PortRcvConstraintErrors" receive_constraint_errors: u64 = 1088, 64;
        /// Times the threshold of physical errors was reached.
        "LocalLinkIntegrityErrors" local_link_integrity_errors: u64 = 1152, 64;
        /// Times the threshold of overruns was reached.
        "ExcessiveBufferOverrunErrors" excessive_buffer_overrun_errors: u64 = 1216, 64;
        /// SMPs dropped for want of room.
        "VL15Dropped" vl15_dropped: u64 = 1280, 64;
        /// Ticks in which there was data but no credit.
        "PortXmitWait" transmit_wait: u64 = 1344, 64;
        /// QP1 packets dropped for want of room.
        "QP1Dropped" qp1_dropped: u64 = 1408, 64;
    }
}
