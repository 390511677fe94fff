//! Attributes of a port: PortInfo and what extends it.

use snin_fabric::{Lid, Lmc, PortNum};

use crate::table::table;
use crate::wire::{GidPrefix, Hex8, Hex16, MKey, codes, flags};

table! {
    /// State and settings of a port (IBA 14.2.5.6). The modifier is the port.
    pub struct PortInfo("PortInfo", 64 bytes) {
        /// The key that SMPs to this port must carry.
        "M_Key" m_key: MKey = 0, 64;
        /// The subnet.
        "GidPrefix" gid_prefix: GidPrefix = 64, 64;
        /// The base LID.
        "LID" lid: Lid = 128, 16;
        /// Where traps go.
        "MasterSMLID" master_sm_lid: Lid = 144, 16;
        /// What the port can.
        "CapabilityMask" capabilities: Capabilities = 160, 32;
        /// Result of self tests; 0: good.
        "DiagCode" diag_code: Hex16 = 192, 16;
        /// Seconds until a protected M_Key is given up; 0: never.
        "M_KeyLeasePeriod" m_key_lease_period: u16 = 208, 16;
        /// The port that the request came by.
        "LocalPortNum" local_port: PortNum = 224, 8;
        /// Widths to negotiate; 255: all that are supported.
        "LinkWidthEnabled" width_enabled: LinkWidths = 232, 8;
        /// Widths that the port can.
        "LinkWidthSupported" width_supported: LinkWidths = 240, 8;
        /// The width that was negotiated.
        "LinkWidthActive" width_active: LinkWidths = 248, 8;
        /// Speeds up to QDR that the port can.
        "LinkSpeedSupported" speed_supported: LinkSpeeds = 256, 4;
        /// Whether it passes data.
        "PortState" state: PortState = 260, 4;
        /// Whether the link is trained.
        "PortPhysicalState" physical_state: PhysicalState = 264, 4;
        /// What a port falls back to when its link goes down.
        "LinkDownDefaultState" link_down_default_state: LinkDownState = 268, 4;
        /// How strictly the M_Key is checked (IBA 14.2.4.1).
        "M_KeyProtectBits" m_key_protect: u8 = 272, 2;
        /// How many low bits of the LID may vary.
        "LMC" lmc: Lmc = 277, 3;
        /// The speed that was negotiated; 0: see the extended ones.
        "LinkSpeedActive" speed_active: LinkSpeeds = 280, 4;
        /// Speeds to negotiate; 15: all that are supported.
        "LinkSpeedEnabled" speed_enabled: LinkSpeeds = 284, 4;
        /// The MTU of both ends' data.
        "NeighborMTU" neighbor_mtu: Mtu = 288, 4;
        /// The service level of traps.
        "MasterSMSL" master_sm_sl: u8 = 292, 4;
        /// Data VLs that the port can.
        "VLCap" vl_cap: VlCount = 296, 4;
        /// What a client asks of the manager after a restart.
        "InitType" init_type: Hex8 = 300, 4;
        /// Bytes (times 4096) that high priority VLs may send before a low one.
        "VLHighLimit" vl_high_limit: u8 = 304, 8;
        /// Entries of the high priority arbitration table.
        "VLArbitrationHighCap" vl_arbitration_high_cap: u8 = 312, 8;
        /// Entries of the low priority arbitration table.
        "VLArbitrationLowCap" vl_arbitration_low_cap: u8 = 320, 8;
        /// What the manager did about InitType.
        "InitTypeReply" init_type_reply: Hex8 = 328, 4;
        /// The largest MTU that the port can.
        "MTUCap" mtu_cap: Mtu = 332, 4;
        /// Packets dropped in a row that make a VL stalled.
        "VLStallCount" vl_stall_count: u8 = 336, 3;
        /// A packet's longest wait at the head of a queue: 4.096 us times 2 to this; above 19 for ever.
        "HOQLife" hoq_life: u8 = 339, 5;
        /// Data VLs in use.
        "OperationalVLs" operational_vls: VlCount = 344, 4;
        /// Check partitions of packets that come in.
        "PartitionEnforcementInbound" partition_enforcement_inbound: bool = 348, 1;
        /// Check partitions of packets that go out.
        "PartitionEnforcementOutbound" partition_enforcement_outbound: bool = 349, 1;
        /// Drop raw packets that come in.
        "FilterRawInbound" filter_raw_inbound: bool = 350, 1;
        /// Drop raw packets that go out.
        "FilterRawOutbound" filter_raw_outbound: bool = 351, 1;
        /// SMPs whose M_Key was wrong.
        "M_KeyViolations" m_key_violations: u16 = 352, 16;
        /// Packets whose P_Key was wrong.
        "P_KeyViolations" p_key_violations: u16 = 368, 16;
        /// Packets whose Q_Key was wrong.
        "Q_KeyViolations" q_key_violations: u16 = 384, 16;
        /// GUIDs that the port can have.
        "GUIDCap" guid_cap: u8 = 400, 8;
        /// Asks clients to subscribe and join again.
        "ClientReregister" client_reregister: bool = 408, 1;
        /// Do not report multicast P_Key violations.
        "MulticastPKeyTrapSuppressionEnabled" multicast_pkey_trap_suppression: u8 = 409, 2;
        /// Longest time through the subnet: 4.096 us times 2 to this.
        "SubnetTimeOut" subnet_timeout: u8 = 411, 5;
        /// Longest time from an SMP to its answer: 4.096 us times 2 to this.
        "RespTimeValue" response_time: u8 = 419, 5;
        /// Physical errors that cause trap 129.
        "LocalPhyErrors" local_phy_errors: u8 = 424, 4;
        /// Overruns in a row that cause trap 130.
        "OverrunErrors" overrun_errors: u8 = 428, 4;
        /// Largest useful number of credits on this link.
        "MaxCreditHint" max_credit_hint: u16 = 432, 16;
        /// The negotiated speed beyond NDR; 0: see LinkSpeedExtActive.
        "LinkSpeedExtActive2" speed_ext2_active: LinkSpeedsExt2 = 449, 2;
        /// Speeds beyond NDR that the port can.
        "LinkSpeedExtSupported2" speed_ext2_supported: LinkSpeedsExt2 = 451, 2;
        /// Speeds beyond NDR to negotiate.
        "LinkSpeedExtEnabled2" speed_ext2_enabled: LinkSpeedsExt2 = 453, 3;
        /// There and back, in units of 4 ns.
        "LinkRoundTripLatency" link_round_trip_latency: u32 = 456, 24;
        /// What else the port can.
        "CapabilityMask2" capabilities2: Capabilities2 = 480, 16;
        /// The negotiated speed from FDR to NDR; 0: see LinkSpeedActive.
        "LinkSpeedExtActive" speed_ext_active: LinkSpeedsExt = 496, 4;
        /// Speeds from FDR to NDR that the port can.
        "LinkSpeedExtSupported" speed_ext_supported: LinkSpeedsExt = 500, 4;
        /// Speeds from FDR to NDR to negotiate; 30: none, 31: all that are supported.
        "LinkSpeedExtEnabled" speed_ext_enabled: LinkSpeedsExt = 507, 5;
    }
}

table! {
    /// Forward error correction of a port (IBA 14.2.5.19). The modifier is the port.
    pub struct PortInfoExtended("PortInfoExtended", 64 bytes) {
        /// What of this attribute the port can.
        "CapMask" cap_mask: FecCapabilities = 0, 32;
        /// The code in use.
        "FECModeActive" fec_active: FecMode = 32, 16;
        /// Codes that the port can at FDR.
        "FDRFECModeSupported" fdr_fec_supported: Hex16 = 48, 16;
        /// Codes to use at FDR.
        "FDRFECModeEnabled" fdr_fec_enabled: Hex16 = 64, 16;
        /// Codes that the port can at EDR.
        "EDRFECModeSupported" edr_fec_supported: Hex16 = 80, 16;
        /// Codes to use at EDR.
        "EDRFECModeEnabled" edr_fec_enabled: Hex16 = 96, 16;
        /// Codes that the port can at HDR.
        "HDRFECModeSupported" hdr_fec_supported: Hex16 = 112, 16;
        /// Codes to use at HDR.
        "HDRFECModeEnabled" hdr_fec_enabled: Hex16 = 128, 16;
        /// Codes that the port can at NDR.
        "NDRFECModeSupported" ndr_fec_supported: Hex16 = 144, 16;
        /// Codes to use at NDR.
        "NDRFECModeEnabled" ndr_fec_enabled: Hex16 = 160, 16;
    }
}

table! {
    /// FDR10, which the specification does not know: Mellanox's vendor attribute. The modifier is the port.
    pub struct VendorPortInfo("ExtendedPortInfo", 64 bytes) {
        /// 1 where a Set shall write LinkSpeedEnabled.
        "StateChangeEnable" state_change_enable: Hex8 = 24, 8;
        /// Vendor speeds that the port can.
        "LinkSpeedSupported" speed_supported: VendorSpeeds = 56, 8;
        /// Vendor speeds to negotiate.
        "LinkSpeedEnabled" speed_enabled: VendorSpeeds = 88, 8;
        /// The vendor speed that was negotiated; 0: see PortInfo.
        "LinkSpeedActive" speed_active: VendorSpeeds = 120, 8;
    }
}

codes! {
    /// PortInfo:PortState (IBA 7.2, 14.2.5.6).
    pub enum PortState(u8) {
        /// In a Set: leave it.
        NoChange = 0 "NoChange",
        /// No link.
        Down = 1 "Down",
        /// Only SMPs pass. Cannot be written.
        Initialize = 2 "Initialize",
        /// SMPs pass, data is received but not sent.
        Armed = 3 "Armed",
        /// Everything passes.
        Active = 4 "Active",
        /// Active, and the link retrains.
        ActiveDefer = 5 "ActiveDefer",
    }

    /// PortInfo:PortPhysicalState (IBA 14.2.5.6).
    pub enum PhysicalState(u8) {
        /// In a Set: leave it.
        NoChange = 0 "NoChange",
        /// Neither sends nor listens for long.
        Sleep = 1 "Sleep",
        /// Calls for a partner.
        Polling = 2 "Polling",
        /// Switched off.
        Disabled = 3 "Disabled",
        /// Partners agree on width and speed.
        Training = 4 "PortConfigurationTraining",
        /// Trained.
        LinkUp = 5 "LinkUp",
        /// Trains again after errors.
        ErrorRecovery = 6 "LinkErrorRecovery",
        /// Under test.
        PhyTest = 7 "PhyTest",
    }

    /// PortInfo:LinkDownDefaultState (IBA 14.2.5.6).
    pub enum LinkDownState(u8) {
        /// In a Set: leave it.
        NoChange = 0 "NoChange",
        /// Wait to be called.
        Sleep = 1 "Sleep",
        /// Call.
        Polling = 2 "Polling",
    }

    /// Largest payload (IBA 14.2.5.6).
    pub enum Mtu(u8) {
        /// 256 bytes.
        B256 = 1 "256",
        /// 512 bytes.
        B512 = 2 "512",
        /// 1,024 bytes.
        B1024 = 3 "1024",
        /// 2,048 bytes.
        B2048 = 4 "2048",
        /// 4,096 bytes.
        B4096 = 5 "4096",
    }

    /// How many data VLs (IBA 14.2.5.6).
    pub enum VlCount(u8) {
        /// In a Set: leave it.
        NoChange = 0 "NoChange",
        /// VL 0.
        Vl0 = 1 "VL0",
        /// VL 0 and 1.
        Vl0To1 = 2 "VL0-1",
        /// VL 0 to 3.
        Vl0To3 = 3 "VL0-3",
        /// VL 0 to 7.
        Vl0To7 = 4 "VL0-7",
        /// VL 0 to 14.
        Vl0To14 = 5 "VL0-14",
    }

    /// PortInfoExtended:FECModeActive (IBA 14.2.5.19).
    pub enum FecMode(u16) {
        /// None.
        None = 0 "None",
        /// Fire code.
        FireCode = 1 "FireCode",
        /// Reed-Solomon.
        ReedSolomon = 2 "RS-FEC",
        /// Low latency Reed-Solomon.
        LowLatencyReedSolomon = 3 "LL-RS-FEC",
    }
}

flags! {
    /// PortInfo:LinkWidth* (IBA 14.2.5.6).
    pub struct LinkWidths(u8) {
        /// One lane.
        X1 = 1 "1x",
        /// Four lanes.
        X4 = 2 "4x",
        /// Eight lanes.
        X8 = 4 "8x",
        /// Twelve lanes.
        X12 = 8 "12x",
        /// Two lanes.
        X2 = 16 "2x",
    }

    /// PortInfo:LinkSpeed* (IBA 14.2.5.6).
    pub struct LinkSpeeds(u8) {
        /// 2.5 Gbaud.
        SDR = 1 "SDR",
        /// 5 Gbaud.
        DDR = 2 "DDR",
        /// 10 Gbaud.
        QDR = 4 "QDR",
    }

    /// PortInfo:LinkSpeedExt* (IBA 14.2.5.6).
    pub struct LinkSpeedsExt(u8) {
        /// 14.0625 Gbaud.
        FDR = 1 "FDR",
        /// 25.78125 Gbaud.
        EDR = 2 "EDR",
        /// 53.125 Gbit/s.
        HDR = 4 "HDR",
        /// 106.25 Gbit/s.
        NDR = 8 "NDR",
    }

    /// PortInfo:LinkSpeedExt*2 (IBA 14.2.5.6, from release 1.7 on).
    pub struct LinkSpeedsExt2(u8) {
        /// 212.5 Gbit/s.
        XDR = 1 "XDR",
    }

    /// ExtendedPortInfo:LinkSpeed*, the vendor's.
    pub struct VendorSpeeds(u8) {
        /// 10.3125 Gbaud with 64b/66b.
        FDR10 = 1 "FDR10",
    }

    /// PortInfoExtended:CapMask (IBA 14.2.5.19).
    pub struct FecCapabilities(u32) {
        /// The FEC fields mean something.
        FEC_MODE = 1 "IsFECModeSupported",
    }

    /// PortInfo:CapabilityMask (IBA 14.2.5.6). Only port 0 of a switch sets the node's bits.
    pub struct Capabilities(u32) {
        /// A subnet manager sits here.
        SM = 0x2 "IsSM",
        /// Keeps notices.
        NOTICE = 0x4 "IsNoticeSupported",
        /// Sends traps.
        TRAP = 0x8 "IsTrapSupported",
        /// Inter packet delays beyond the mandatory ones.
        OPTIONAL_IPD = 0x10 "IsOptionalIPDSupported",
        /// Automatic path migration.
        AUTOMATIC_MIGRATION = 0x20 "IsAutomaticMigrationSupported",
        /// SLtoVLMappingTable.
        SL_MAPPING = 0x40 "IsSLMappingSupported",
        /// The M_Key survives a power cycle.
        M_KEY_NVRAM = 0x80 "IsMKeyNVRAM",
        /// The P_Keys survive a power cycle.
        P_KEY_NVRAM = 0x100 "IsPKeyNVRAM",
        /// LedInfo.
        LED_INFO = 0x200 "IsLEDInfoSupported",
        /// The subnet manager here is switched off.
        SM_DISABLED = 0x400 "IsSMdisabled",
        /// SystemImageGUID.
        SYSTEM_IMAGE_GUID = 0x800 "IsSystemImageGUIDSupported",
        /// Trap 259.
        P_KEY_SWITCH_TRAP = 0x1000 "IsPKeySwitchExternalPortTrapSupported",
        /// CableInfo.
        CABLE_INFO = 0x2000 "IsCableInfoSupported",
        /// The LinkSpeedExt fields.
        EXTENDED_SPEEDS = 0x4000 "IsExtendedSpeedsSupported",
        /// CapabilityMask2.
        CAPABILITY_MASK2 = 0x8000 "IsCapabilityMask2Supported",
        /// Communication management.
        COMMUNICATION_MANAGEMENT = 0x10000 "IsCommunicationManagementSupported",
        /// SNMP tunnelling.
        SNMP_TUNNELING = 0x20000 "IsSNMPTunnelingSupported",
        /// InitType.
        REINIT = 0x40000 "IsReinitSupported",
        /// Device management.
        DEVICE_MANAGEMENT = 0x80000 "IsDeviceManagementSupported",
        /// Vendor classes.
        VENDOR_CLASS = 0x100000 "IsVendorClassSupported",
        /// Trap 256 tells the directed route.
        DR_NOTICE = 0x200000 "IsDRNoticeSupported",
        /// Trap 144 when this mask changes.
        CAPABILITY_MASK_NOTICE = 0x400000 "IsCapabilityMaskNoticeSupported",
        /// Boot management.
        BOOT_MANAGEMENT = 0x800000 "IsBootManagementSupported",
        /// LinkRoundTripLatency.
        LINK_ROUND_TRIP_LATENCY = 0x1000000 "IsLinkRoundTripLatencySupported",
        /// ClientReregister.
        CLIENT_REREGISTRATION = 0x2000000 "IsClientReregistrationSupported",
        /// Trap 144 for other changes.
        OTHER_LOCAL_CHANGES_NOTICE = 0x4000000 "IsOtherLocalChangesNoticeSupported",
        /// LinkSpeedWidthPairsTable.
        LINK_SPEED_WIDTH_PAIRS = 0x8000000 "IsLinkSpeedWidthPairsTableSupported",
        /// VendorSpecificMadsTable.
        VENDOR_MADS_TABLE = 0x10000000 "IsVendorSpecificMadsTableSupported",
        /// MulticastPKeyTrapSuppressionEnabled.
        MULTICAST_P_KEY_TRAP_SUPPRESSION = 0x20000000 "IsMcastPKeyTrapSuppressionSupported",
        /// MulticastFDBTop.
        MULTICAST_FDB_TOP = 0x40000000 "IsMulticastFDBTopSupported",
        /// HierarchyInfo.
        HIERARCHY_INFO = 0x80000000 "IsHierarchyInfoSupported",
    }

    /// PortInfo:CapabilityMask2 (IBA 14.2.5.6).
    pub struct Capabilities2(u16) {
        /// Set(NodeDescription).
        SET_NODE_DESCRIPTION = 0x1 "IsSetNodeDescriptionSupported",
        /// PortInfoExtended.
        PORT_INFO_EXTENDED = 0x2 "IsPortInfoExtendedSupported",
        /// Virtual ports.
        VIRTUALIZATION = 0x4 "IsVirtualizationSupported",
        /// SwitchPortStateTable.
        SWITCH_PORT_STATE_TABLE = 0x8 "IsSwitchPortStateTableSupported",
        /// Two lanes.
        LINK_WIDTH_2X = 0x10 "IsLinkWidth2xSupported",
        /// HDR.
        LINK_SPEED_HDR = 0x20 "IsLinkSpeedHDRSupported",
        /// A third M_Key protection bit.
        M_KEY_PROTECT_BITS_EXT = 0x40 "IsMKeyProtectBitsExtSupported",
        /// Trap 128 tells the port.
        ENHANCED_TRAP_128 = 0x80 "IsEnhancedTrap128Supported",
        /// PartitionTop.
        PARTITION_TOP = 0x100 "IsPartitionTopSupported",
        /// Enhanced QoS arbitration.
        ENHANCED_QOS_ARBITER = 0x200 "IsEnhancedQoSArbiterSupported",
        /// NDR.
        LINK_SPEED_NDR = 0x400 "IsLinkSpeedNDRSupported",
        /// The LinkSpeedExt*2 fields.
        EXTENDED_SPEEDS2 = 0x800 "IsExtendedSpeeds2Supported",
        /// XDR.
        LINK_SPEED_XDR = 0x1000 "IsLinkSpeedXDRSupported",
    }
}

impl Mtu {
    /// In bytes, if the code has a meaning.
    pub const fn bytes(self) -> Option<u16> {
        match self.code() {
            code @ 1..=5 => Some(128 << code),
            _ => None,
        }
    }
}

impl VlCount {
    /// Number of data VLs, if the code says one.
    pub const fn data_vls(self) -> Option<u8> {
        match self {
            Self::Vl0To14 => Some(15),
            _ => match self.code() {
                code @ 1..=4 => Some(1 << (code - 1)),
                _ => None,
            },
        }
    }
}
