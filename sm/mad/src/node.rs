//! Attributes of a node: NodeDescription, NodeInfo, SwitchInfo, GUIDInfo, and the small ones.

use snin_fabric::{Guid, Lid, NodeKind, PortNum};

use crate::error::BadField;
use crate::table::table;
use crate::wire::{Hex16, Hex32, NodeString, Octets, SmKey, codes};

table! {
    /// The name that an operator gave to a node (IBA 14.2.5.2).
    pub struct NodeDescription("NodeDescription", 64 bytes) {
        /// The name.
        "NodeString" text: NodeString = 0, 512;
    }
}

table! {
    /// What a node is (IBA 14.2.5.3).
    pub struct NodeInfo("NodeInfo", 64 bytes, check NodeInfo::check) {
        /// MAD version supported.
        "BaseVersion" base_version: u8 = 0, 8;
        /// SMP version supported.
        "ClassVersion" class_version: u8 = 8, 8;
        /// Adapter, switch or router.
        "NodeType" node_type: NodeType = 16, 8;
        /// Number of physical ports, a switch's port 0 not counted.
        "NumPorts" num_ports: u8 = 24, 8;
        /// One for all nodes under a common supervisor.
        "SystemImageGUID" system_image_guid: Guid = 32, 64;
        /// The node.
        "NodeGUID" node_guid: Guid = 96, 64;
        /// The port that the request came by; of a switch always port 0.
        "PortGUID" port_guid: Guid = 160, 64;
        /// Number of entries in the partition table: of each port, or of a switch's port 0.
        "PartitionCap" partition_cap: u16 = 224, 16;
        /// The vendor's number of the device.
        "DeviceID" device_id: Hex16 = 240, 16;
        /// The vendor's revision of it.
        "Revision" revision: Hex32 = 256, 32;
        /// The port that the request came by.
        "LocalPortNum" local_port: PortNum = 288, 8;
        /// The vendor's OUI.
        "VendorID" vendor_id: Hex32 = 296, 24;
    }
}

impl NodeInfo {
    /// The rules whose breach would make the answer unusable: what it says of itself identifies the node.
    fn check(&self) -> Result<(), BadField> {
        let bad = |field, value, reason| Err(BadField { table: "NodeInfo", field, value, reason });
        if self.node_guid == Guid(0) {
            return bad("NodeGUID", 0, "a GUID is not zero (IBA 4.1)");
        }
        if self.port_guid == Guid(0) {
            return bad("PortGUID", 0, "a GUID is not zero (IBA 4.1)");
        }
        let is_switch = self.node_type == NodeType::Switch;
        if self.num_ports == 0 || self.num_ports == u8::MAX {
            return bad(
                "NumPorts",
                self.num_ports.into(),
                "a node has 1 to 254 ports (IBA 14.2.5.3)",
            );
        }
        let local = self.local_port.0;
        if local > self.num_ports || local == 0 && !is_switch {
            return bad("LocalPortNum", local.into(), "no port of this node (IBA 14.2.5.3)");
        }
        Ok(())
    }
}

table! {
    /// What a switch can, and what its forwarding is set to (IBA 14.2.5.4).
    pub struct SwitchInfo("SwitchInfo", 64 bytes) {
        /// Entries of the linear forwarding table.
        "LinearFDBCap" linear_fdb_cap: u16 = 0, 16;
        /// Entries of the random forwarding table.
        "RandomFDBCap" random_fdb_cap: u16 = 16, 16;
        /// Entries of the multicast forwarding table; 0: no multicast.
        "MulticastFDBCap" multicast_fdb_cap: u16 = 32, 16;
        /// The highest LID that the linear table forwards; above it packets are dropped.
        "LinearFDBTop" linear_fdb_top: Lid = 48, 16;
        /// Where a random table sends what it does not hold.
        "DefaultPort" default_port: PortNum = 64, 8;
        /// Where unknown multicast goes.
        "DefaultMulticastPrimaryPort" default_multicast_primary_port: PortNum = 72, 8;
        /// Where unknown multicast goes that came in by the primary port.
        "DefaultMulticastNotPrimaryPort" default_multicast_not_primary_port: PortNum = 80, 8;
        /// A packet's longest stay: 4.096 us times 2 to this; above 19 for ever.
        "LifeTimeValue" life_time: u8 = 88, 5;
        /// Some port changed its state; cleared by writing 1.
        "PortStateChange" port_state_change: bool = 93, 1;
        /// 1: several SLtoVL tables can be written by one SMP.
        "OptimizedSLtoVLMappingProgramming" optimized_sl_to_vl: u8 = 94, 2;
        /// LIDs a port, of a random table.
        "LIDsPerPort" lids_per_port: u16 = 96, 16;
        /// Entries of each external port's partition table; 0: no enforcement.
        "PartitionEnforcementCap" partition_enforcement_cap: u16 = 112, 16;
        /// Can check partitions of packets that come in.
        "InboundEnforcementCap" inbound_enforcement_cap: bool = 128, 1;
        /// Can check partitions of packets that go out.
        "OutboundEnforcementCap" outbound_enforcement_cap: bool = 129, 1;
        /// Can drop raw packets that come in.
        "FilterRawInboundCap" filter_raw_inbound_cap: bool = 130, 1;
        /// Can drop raw packets that go out.
        "FilterRawOutboundCap" filter_raw_outbound_cap: bool = 131, 1;
        /// Port 0 is a port like an adapter's (with an LMC and queue pairs of its own).
        "EnhancedPort0" enhanced_port_zero: bool = 132, 1;
        /// The highest multicast LID that is forwarded.
        "MulticastFDBTop" multicast_fdb_top: Lid = 144, 16;
    }
}

table! {
    /// Eight more GUIDs of a port (IBA 14.2.5.5). The modifier is the block; entry 0 of block 0 is read-only.
    pub struct GuidInfo("GUIDInfo", 64 bytes) {
        /// The block.
        "GUID" guids: [Guid; 8] = 0, 64;
    }
}

table! {
    /// A subnet manager of itself (IBA 14.2.5.13).
    pub struct SmInfo("SMInfo", 64 bytes) {
        /// The port it sits at.
        "GUID" guid: Guid = 0, 64;
        /// Shown only to whom the asker's own key was right.
        "SM_Key" sm_key: SmKey = 64, 64;
        /// Rises while the manager lives.
        "ActCount" act_count: u32 = 128, 32;
        /// 15 is highest.
        "Priority" priority: u8 = 160, 4;
        /// What it is doing.
        "SMState" state: SmState = 164, 4;
    }
}

table! {
    /// A vendor's diagnostics (IBA 14.2.5.14); the modifier chooses the page.
    pub struct VendorDiag("VendorDiag", 64 bytes) {
        /// The next page, 0 after the last.
        "NextIndex" next_index: u16 = 0, 16;
        /// What the vendor says.
        "DiagData" data: Octets<62> = 16, 496;
    }
}

table! {
    /// The LED of a port (IBA 14.2.5.15).
    pub struct LedInfo("LedInfo", 64 bytes) {
        /// On.
        "LedMask" led: bool = 0, 1;
    }
}

codes! {
    /// NodeInfo:NodeType (IBA 14.2.5.3).
    pub enum NodeType(u8) {
        /// A host adapter, or the management board of something.
        ChannelAdapter = 1 "ChannelAdapter",
        /// A switch.
        Switch = 2 "Switch",
        /// A router between subnets.
        Router = 3 "Router",
    }

    /// SMInfo:SMState (IBA 14.4.1).
    pub enum SmState(u8) {
        /// Told not to act.
        NotActive = 0 "NotActive",
        /// Looking at the fabric.
        Discovering = 1 "Discovering",
        /// Another is master.
        Standby = 2 "Standby",
        /// The one.
        Master = 3 "Master",
    }
}

impl NodeType {
    /// What a fabric calls such a node. One of an unknown type counts as an adapter: nothing is routed through it.
    pub const fn kind(self) -> NodeKind {
        match self {
            Self::Switch => NodeKind::Switch,
            Self::Router => NodeKind::Router,
            _ => NodeKind::Adapter,
        }
    }
}
