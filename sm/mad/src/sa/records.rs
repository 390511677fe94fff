//! Records that are an attribute of subnet management and whose it is (IBA 15.2.5).

use snin_fabric::{Lid, Lmc, PortNum};

use crate::node::{GuidInfo, NodeDescription, NodeInfo, SmInfo, SwitchInfo};
use crate::port::PortInfo;
use crate::sa::component::{Component, field, inside};
use crate::table::table;
use crate::tables::{LinearForwarding, MulticastForwarding, PKeyTable, SlToVl, VlArbitration};
use crate::wire::{GidPrefix, Hex8, Hex16, Inner};

table! {
    /// A port's node: NodeInfo as the port answers it (IBA 15.2.5.2).
    pub struct NodeRecord("NodeRecord", 112 bytes) {
        /// The port's address.
        "LID" lid: Lid = 0, 16;
        /// Its node.
        "NodeInfo" info: Inner<NodeInfo, 40> = 32, 320;
        /// The node's name.
        "NodeDescription" description: Inner<NodeDescription, 64> = 352, 512;
    }
}

table! {
    /// A port (IBA 15.2.5.3).
    pub struct PortInfoRecord("PortInfoRecord", 72 bytes) {
        /// The address of the port, or of the switch that it is of.
        "EndportLID" lid: Lid = 0, 16;
        /// The port's number.
        "PortNum" port: PortNum = 16, 8;
        /// Top bit: as the port has it, without speeds made to look like older ones.
        "Options" options: Hex8 = 24, 8;
        /// The port.
        "PortInfo" info: Inner<PortInfo, 64> = 32, 512;
    }
}

table! {
    /// A table of service levels (IBA 15.2.5.4).
    pub struct SlToVlRecord("SLtoVLMappingTableRecord", 16 bytes) {
        /// The address of the port, or of its switch.
        "LID" lid: Lid = 0, 16;
        /// Where a packet comes in.
        "InputPortNum" input: PortNum = 16, 8;
        /// Where it goes out.
        "OutputPortNum" output: PortNum = 24, 8;
        /// The table.
        "SLtoVLMappingTable" table: Inner<SlToVl, 8> = 64, 64;
    }
}

table! {
    /// A switch (IBA 15.2.5.5).
    pub struct SwitchInfoRecord("SwitchInfoRecord", 24 bytes) {
        /// Its address.
        "LID" lid: Lid = 0, 16;
        /// What it says of itself.
        "SwitchInfo" info: Inner<SwitchInfo, 20> = 32, 160;
    }
}

table! {
    /// 64 entries of a switch's forwarding table (IBA 15.2.5.6).
    pub struct LinearForwardingRecord("LinearForwardingTableRecord", 72 bytes) {
        /// The switch.
        "LID" lid: Lid = 0, 16;
        /// Which 64.
        "BlockNum" block: u16 = 16, 16;
        /// The ports.
        "LinearForwardingTable" table: Inner<LinearForwarding, 64> = 64, 512;
    }
}

table! {
    /// 16 entries of a random forwarding table (IBA 15.2.5.7).
    pub struct RandomForwardingRecord("RandomForwardingTableRecord", 72 bytes) {
        /// The switch.
        "LID" lid: Lid = 0, 16;
        /// Which 16.
        "BlockNum" block: u16 = 16, 16;
        /// By entry: the address.
        "EntryLID" lids: [Lid; 16] = 64, 16 step 32;
        /// By entry: whether it counts.
        "Valid" valid: [bool; 16] = 80, 1 step 32;
        /// By entry: how many low bits of the address may vary.
        "LMC" lmcs: [Lmc; 16] = 81, 3 step 32;
        /// By entry: the port.
        "Port" ports: [PortNum; 16] = 88, 8 step 32;
    }
}

table! {
    /// 32 entries, 16 ports wide, of a switch's multicast table (IBA 15.2.5.8).
    pub struct MulticastForwardingRecord("MulticastForwardingTableRecord", 72 bytes) {
        /// The switch.
        "LID" lid: Lid = 0, 16;
        /// Which 16 ports.
        "Position" position: u8 = 16, 4;
        /// Which 32 entries.
        "BlockNum" block: u16 = 23, 9;
        /// The ports.
        "MulticastForwardingTable" table: Inner<MulticastForwarding, 64> = 64, 512;
    }
}

table! {
    /// A subnet manager (IBA 15.2.5.10).
    pub struct SmInfoRecord("SMInfoRecord", 32 bytes) {
        /// Its port.
        "LID" lid: Lid = 0, 16;
        /// What it says of itself.
        "SMInfo" info: Inner<SmInfo, 21> = 32, 168;
    }
}

table! {
    /// A cable, from one end (IBA 15.2.5.13).
    pub struct LinkRecord("LinkRecord", 8 bytes) {
        /// This end: the port's address, or its switch's.
        "FromLID" from_lid: Lid = 0, 16;
        /// ... and the port.
        "FromPort" from_port: PortNum = 16, 8;
        /// ... and the other's.
        "ToPort" to_port: PortNum = 24, 8;
        /// The other end.
        "ToLID" to_lid: Lid = 32, 16;
    }
}

table! {
    /// Eight GUIDs of a port (IBA 15.2.5.18).
    pub struct GuidInfoRecord("GUIDInfoRecord", 72 bytes) {
        /// The port.
        "LID" lid: Lid = 0, 16;
        /// Which eight.
        "BlockNum" block: u8 = 16, 8;
        /// The GUIDs.
        "GUIDInfo" guids: Inner<GuidInfo, 64> = 64, 512;
    }
}

table! {
    /// 32 entries of a partition table (IBA 15.2.5.11).
    pub struct PKeyTableRecord("P_KeyTableRecord", 72 bytes) {
        /// The port, or its switch.
        "LID" lid: Lid = 0, 16;
        /// Which 32.
        "BlockNum" block: u16 = 16, 16;
        /// The port's number.
        "PortNum" port: PortNum = 32, 8;
        /// The keys.
        "P_KeyTable" table: Inner<PKeyTable, 64> = 64, 512;
    }
}

table! {
    /// A quarter of a table of lanes (IBA 15.2.5.9).
    pub struct VlArbitrationRecord("VLArbitrationTableRecord", 72 bytes) {
        /// The port, or its switch.
        "LID" lid: Lid = 0, 16;
        /// The port's number.
        "OutputPortNum" port: PortNum = 16, 8;
        /// 1 and 2: low priority; 3 and 4: high priority.
        "BlockNum" block: u8 = 24, 8;
        /// The lanes.
        "VLArbitrationTable" table: Inner<VlArbitration, 64> = 64, 512;
    }
}

table! {
    /// One hop of a path (IBA 15.2.5.17).
    pub struct TraceRecord("TraceRecord", 48 bytes) {
        /// The subnet.
        "GIDPrefix" gid_prefix: GidPrefix = 0, 64;
        /// Changes when the identifiers below do.
        "IDGeneration" generation: Hex16 = 64, 16;
        /// Adapter, switch or router.
        "NodeType" node_type: u8 = 88, 8;
        /// The node.
        "NodeID" node: snin_fabric::Guid = 96, 64;
        /// Its chassis.
        "ChassisID" chassis: snin_fabric::Guid = 160, 64;
        /// The port by which the path comes in.
        "EntryPortID" entry: snin_fabric::Guid = 224, 64;
        /// The port by which it goes out.
        "ExitPortID" exit: snin_fabric::Guid = 288, 64;
        /// ... its number.
        "EntryPort" entry_port: PortNum = 352, 8;
        /// ... its number.
        "ExitPort" exit_port: PortNum = 360, 8;
    }
}

const fn node(bit: u8, name: &'static str) -> Component {
    inside::<NodeRecord, NodeInfo>(bit, "NodeInfo", name)
}

pub(super) const NODE: &[Component] = &[
    field::<NodeRecord>(0, "LID"),
    node(2, "BaseVersion"),
    node(3, "ClassVersion"),
    node(4, "NodeType"),
    node(5, "NumPorts"),
    node(6, "SystemImageGUID"),
    node(7, "NodeGUID"),
    node(8, "PortGUID"),
    node(9, "PartitionCap"),
    node(10, "DeviceID"),
    node(11, "Revision"),
    node(12, "LocalPortNum"),
    node(13, "VendorID"),
    inside::<NodeRecord, NodeDescription>(14, "NodeDescription", "NodeString"),
];

const fn port(bit: u8, name: &'static str) -> Component {
    inside::<PortInfoRecord, PortInfo>(bit, "PortInfo", name)
}

pub(super) const PORT: &[Component] = &[
    field::<PortInfoRecord>(0, "EndportLID"),
    field::<PortInfoRecord>(1, "PortNum"),
    // Options (2) say how the answer is made; nothing is compared with them.
    port(3, "M_Key"),
    port(4, "GidPrefix"),
    port(5, "LID"),
    port(6, "MasterSMLID"),
    port(7, "CapabilityMask"),
    port(8, "DiagCode"),
    port(9, "M_KeyLeasePeriod"),
    port(10, "LocalPortNum"),
    port(11, "LinkWidthEnabled"),
    port(12, "LinkWidthSupported"),
    port(13, "LinkWidthActive"),
    port(14, "LinkSpeedSupported"),
    port(15, "PortState"),
    port(16, "PortPhysicalState"),
    port(17, "LinkDownDefaultState"),
    port(18, "M_KeyProtectBits"),
    port(20, "LMC"),
    port(21, "LinkSpeedActive"),
    port(22, "LinkSpeedEnabled"),
    port(23, "NeighborMTU"),
    port(24, "MasterSMSL"),
    port(25, "VLCap"),
    port(26, "InitType"),
    port(27, "VLHighLimit"),
    port(28, "VLArbitrationHighCap"),
    port(29, "VLArbitrationLowCap"),
    port(30, "InitTypeReply"),
    port(31, "MTUCap"),
    port(32, "VLStallCount"),
    port(33, "HOQLife"),
    port(34, "OperationalVLs"),
    port(35, "PartitionEnforcementInbound"),
    port(36, "PartitionEnforcementOutbound"),
    port(37, "FilterRawInbound"),
    port(38, "FilterRawOutbound"),
    port(39, "M_KeyViolations"),
    port(40, "P_KeyViolations"),
    port(41, "Q_KeyViolations"),
    port(42, "GUIDCap"),
    port(43, "ClientReregister"),
    port(45, "SubnetTimeOut"),
    port(47, "RespTimeValue"),
    port(48, "LocalPhyErrors"),
    port(49, "OverrunErrors"),
    port(50, "MaxCreditHint"),
    port(52, "LinkRoundTripLatency"),
    port(53, "CapabilityMask2"),
    port(54, "LinkSpeedExtActive"),
    port(55, "LinkSpeedExtSupported"),
    port(57, "LinkSpeedExtEnabled"),
];

pub(super) const SL_TO_VL: &[Component] = &[
    field::<SlToVlRecord>(0, "LID"),
    field::<SlToVlRecord>(1, "InputPortNum"),
    field::<SlToVlRecord>(2, "OutputPortNum"),
];

pub(super) const SWITCH: &[Component] = &[field::<SwitchInfoRecord>(0, "LID")];

pub(super) const LINEAR: &[Component] =
    &[field::<LinearForwardingRecord>(0, "LID"), field::<LinearForwardingRecord>(1, "BlockNum")];

pub(super) const RANDOM: &[Component] =
    &[field::<RandomForwardingRecord>(0, "LID"), field::<RandomForwardingRecord>(1, "BlockNum")];

pub(super) const MULTICAST: &[Component] = &[
    field::<MulticastForwardingRecord>(0, "LID"),
    field::<MulticastForwardingRecord>(1, "Position"),
    field::<MulticastForwardingRecord>(3, "BlockNum"),
];

const fn manager(bit: u8, name: &'static str) -> Component {
    inside::<SmInfoRecord, SmInfo>(bit, "SMInfo", name)
}

pub(super) const MANAGER: &[Component] = &[
    field::<SmInfoRecord>(0, "LID"),
    manager(2, "GUID"),
    manager(3, "SM_Key"),
    manager(4, "ActCount"),
    manager(5, "Priority"),
    manager(6, "SMState"),
];

pub(super) const LINK: &[Component] = &[
    field::<LinkRecord>(0, "FromLID"),
    field::<LinkRecord>(1, "FromPort"),
    field::<LinkRecord>(2, "ToPort"),
    field::<LinkRecord>(3, "ToLID"),
];

const fn guid(bit: u8, index: usize) -> Component {
    let all = inside::<GuidInfoRecord, GuidInfo>(bit, "GUIDInfo", "GUID");
    Component { place: all.place.element(index), ..all }
}

pub(super) const GUIDS: &[Component] = &[
    field::<GuidInfoRecord>(0, "LID"),
    field::<GuidInfoRecord>(1, "BlockNum"),
    guid(4, 0),
    guid(5, 1),
    guid(6, 2),
    guid(7, 3),
    guid(8, 4),
    guid(9, 5),
    guid(10, 6),
    guid(11, 7),
];

pub(super) const P_KEYS: &[Component] = &[
    field::<PKeyTableRecord>(0, "LID"),
    field::<PKeyTableRecord>(1, "BlockNum"),
    field::<PKeyTableRecord>(2, "PortNum"),
];

pub(super) const ARBITRATION: &[Component] = &[
    field::<VlArbitrationRecord>(0, "LID"),
    field::<VlArbitrationRecord>(1, "OutputPortNum"),
    field::<VlArbitrationRecord>(2, "BlockNum"),
];
