//! Notice, and what the traps of subnet management say in it.

use snin_fabric::{Guid, Lid, PortNum};

use crate::error::BadField;
use crate::header::{AttributeId, Method};
use crate::port::Capabilities;
use crate::table::{Table, table};
use crate::wire::{Gid, Hex16, Hex32, MKey, Octets, PKey, codes};

table! {
    /// Something happened (IBA 13.4.8.2, 14.2.5.1). An SMP carries these 64 bytes; SA adds the issuer's GID.
    pub struct Notice("Notice", 64 bytes) {
        /// The trap numbers are the specification's, not a vendor's.
        "IsGeneric" is_generic: bool = 0, 1;
        /// How grave.
        "Type" kind: NoticeKind = 1, 7;
        /// Generic: the node type of the issuer; else its vendor.
        "ProducerTypeVendorID" producer: Hex32 = 8, 24;
        /// Generic: the trap; else the vendor's device.
        "TrapNumberDeviceID" trap_number: u16 = 32, 16;
        /// The LID of the port that says so.
        "IssuerLID" issuer: Lid = 48, 16;
        /// Turns over with every new notice.
        "NoticeToggle" toggle: bool = 64, 1;
        /// How many are waiting.
        "NoticeCount" count: u16 = 65, 15;
        /// What exactly: see [`Trap`].
        "DataDetails" details: Octets<54> = 80, 432;
    }
}

table! {
    /// Traps 64 to 67: a GID or a multicast group came or went (IBA 14.3.3 to 14.3.6).
    pub struct GidDetails("Trap64", 54 bytes) {
        /// Of the port, or of the group.
        "GIDADDR" gid: Gid = 48, 128;
    }
}

table! {
    /// Trap 128: the state of a port of this switch changed (IBA 14.3.7).
    pub struct LinkStateDetails("Trap128", 54 bytes) {
        /// The switch.
        "LIDADDR" lid: Lid = 0, 16;
    }
}

table! {
    /// Traps 129 to 131: too many errors, too many overruns, flow control watchdog (IBA 14.3.8 to 14.3.10).
    pub struct ThresholdDetails("Trap129", 54 bytes) {
        /// The node.
        "LIDADDR" lid: Lid = 16, 16;
        /// Its port.
        "PORTNO" port: PortNum = 32, 8;
    }
}

table! {
    /// Trap 144: settings changed that the manager may want to know (IBA 14.3.11).
    pub struct LocalChangeDetails("Trap144", 54 bytes) {
        /// The port.
        "LIDADDR" lid: Lid = 16, 16;
        /// The flags below mean something.
        "OtherLocalChanges" other_local_changes: bool = 47, 1;
        /// As it is now.
        "CAPABILITYMASK" capabilities: Capabilities = 48, 32;
        /// CapabilityMask2 changed.
        "CapabilityMask2Change" capabilities2_change: bool = 90, 1;
        /// HierarchyInfo changed.
        "HierarchyInfoChange" hierarchy_info_change: bool = 91, 1;
        /// The priority of the subnet manager here changed.
        "SMPriorityChange" sm_priority_change: bool = 92, 1;
        /// LinkSpeedEnabled changed.
        "LinkSpeedEnabledChange" link_speed_enabled_change: bool = 93, 1;
        /// LinkWidthEnabled changed.
        "LinkWidthEnabledChange" link_width_enabled_change: bool = 94, 1;
        /// NodeDescription changed.
        "NodeDescriptionChange" node_description_change: bool = 95, 1;
        /// As it is now.
        "CapabilityMask2" capabilities2: Hex16 = 96, 16;
    }
}

table! {
    /// Trap 145: SystemImageGUID changed (IBA 14.3.12).
    pub struct SystemImageDetails("Trap145", 54 bytes) {
        /// The port.
        "LIDADDR" lid: Lid = 16, 16;
        /// As it is now.
        "SYSTEMIMAGEGUID" system_image_guid: Guid = 48, 64;
    }
}

table! {
    /// Trap 256: an SMP with a wrong M_Key (IBA 14.3.13).
    pub struct BadMKeyDetails("Trap256", 54 bytes, check BadMKeyDetails::check) {
        /// The port whose key it was.
        "LIDADDR" lid: Lid = 16, 16;
        /// Where the SMP's LID-routed part came from.
        "DRSLID" dr_slid: Lid = 32, 16;
        /// What it wanted to do.
        "METHOD" method: Method = 48, 8;
        /// To which attribute.
        "ATTRIBUTEID" attribute: AttributeId = 64, 16;
        /// To which instance of it.
        "ATTRIBUTEMODIFIER" modifier: Hex32 = 80, 32;
        /// The key that it tried.
        "MKEY" m_key: MKey = 112, 64;
        /// It came by a directed route.
        "DRNotice" directed: bool = 184, 1;
        /// The path was too long to be told.
        "DRPathTruncated" truncated: bool = 185, 1;
        /// Length of the path.
        "DRHopCount" hop_count: u8 = 186, 6;
        /// The way back, its first 30 bytes.
        "DRNoticeReturnPath" return_path: Octets<30> = 192, 240;
    }
}

impl BadMKeyDetails {
    fn check(&self) -> Result<(), BadField> {
        if self.hop_count > 30 && !self.truncated {
            return Err(BadField {
                table: "Trap256",
                field: "DRHopCount",
                value: self.hop_count.into(),
                reason: "more hops than the path has room for, yet not truncated (IBA 14.3.13)",
            });
        }
        Ok(())
    }
}

table! {
    /// Traps 257 and 258: a packet with a wrong P_Key or Q_Key (IBA 14.3.14, 14.3.15).
    pub struct BadKeyDetails("Trap257", 54 bytes) {
        /// From.
        "LIDADDR1" lid1: Lid = 16, 16;
        /// To.
        "LIDADDR2" lid2: Lid = 32, 16;
        /// The key that it had.
        "KEY" key: Hex32 = 48, 32;
        /// The service level.
        "SL" sl: u8 = 80, 4;
        /// From.
        "QP1" qp1: Hex32 = 88, 24;
        /// To.
        "QP2" qp2: Hex32 = 120, 24;
        /// From.
        "GIDADDR1" gid1: Gid = 144, 128;
        /// To.
        "GIDADDR2" gid2: Gid = 272, 128;
    }
}

table! {
    /// Trap 259: a packet with a wrong P_Key at a switch's external port (IBA 14.3.16).
    pub struct SwitchBadPKeyDetails("Trap259", 54 bytes) {
        /// Which of the following are known.
        "DataValid" data_valid: Hex16 = 0, 16;
        /// From.
        "LIDADDR1" lid1: Lid = 16, 16;
        /// To.
        "LIDADDR2" lid2: Lid = 32, 16;
        /// The key that it had.
        "PKEY" p_key: PKey = 48, 16;
        /// The service level.
        "SL" sl: u8 = 64, 4;
        /// From.
        "QP1" qp1: Hex32 = 72, 24;
        /// To.
        "QP2" qp2: Hex32 = 104, 24;
        /// From.
        "GIDADDR1" gid1: Gid = 128, 128;
        /// To.
        "GIDADDR2" gid2: Gid = 256, 128;
        /// The switch.
        "SWLIDADDR" switch_lid: Lid = 384, 16;
        /// Its port.
        "PORTNO" port: PortNum = 400, 8;
    }
}

codes! {
    /// Notice:Type (IBA 13.4.8.2).
    pub enum NoticeKind(u8) {
        /// Something broke.
        Fatal = 0 "Fatal",
        /// Something changed that wants attention.
        Urgent = 1 "Urgent",
        /// A requester tried what is not allowed.
        Security = 2 "Security",
        /// For the subnet manager.
        SubnetManagement = 3 "SubnetManagement",
        /// Good to know.
        Informational = 4 "Informational",
        /// No notice at all.
        Empty = 0x7F "Empty",
    }
}

/// One variant a trap: its name, its number, its details.
macro_rules! traps {
    ($($(#[$meta:meta])* $trap:ident($details:ty) = $number:literal $kind:ident,)*) => {
        /// What a generic notice of subnet management says.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Trap {
            $($(#[$meta])* $trap($details),)*
        }

        impl Trap {
            /// The trap's number.
            pub const fn number(&self) -> u16 {
                match self {
                    $(Self::$trap(_) => $number,)*
                }
            }

            /// How grave the specification calls it (IBA 14.3, table 118).
            pub const fn kind(&self) -> NoticeKind {
                match self {
                    $(Self::$trap(_) => NoticeKind::$kind,)*
                }
            }

            fn parse(number: u16, details: &[u8; 54]) -> Result<Option<Self>, BadField> {
                Ok(Some(match number {
                    $($number => Self::$trap(<$details>::parse(details)?),)*
                    _ => return Ok(None),
                }))
            }

            fn emit(&self, details: &mut [u8; 54]) {
                match self {
                    $(Self::$trap(trap) => trap.emit(details),)*
                }
            }
        }

        /// The table of a trap's DataDetails.
        pub fn details_layout(number: u16) -> Option<&'static crate::Layout> {
            match number {
                $($number => Some(<$details>::LAYOUT),)*
                _ => None,
            }
        }

        /// Every trap whose details this crate knows.
        pub const TRAPS: &[u16] = &[$($number),*];
    };
}

traps! {
    /// A port can be reached.
    GidInService(GidDetails) = 64 SubnetManagement,
    /// A port cannot be reached any more.
    GidOutOfService(GidDetails) = 65 SubnetManagement,
    /// A multicast group was created.
    GroupCreated(GidDetails) = 66 SubnetManagement,
    /// A multicast group was deleted.
    GroupDeleted(GidDetails) = 67 SubnetManagement,
    /// A port of a switch changed its state.
    LinkStateChange(LinkStateDetails) = 128 Urgent,
    /// Local link integrity threshold reached.
    LinkIntegrity(ThresholdDetails) = 129 Urgent,
    /// Excessive buffer overrun threshold reached.
    BufferOverrun(ThresholdDetails) = 130 Urgent,
    /// Flow control update watchdog expired.
    FlowControlWatchdog(ThresholdDetails) = 131 Urgent,
    /// Capabilities, description, enabled widths or speeds changed.
    LocalChange(LocalChangeDetails) = 144 Informational,
    /// SystemImageGUID changed.
    SystemImageChange(SystemImageDetails) = 145 Informational,
    /// Wrong M_Key.
    BadMKey(BadMKeyDetails) = 256 Security,
    /// Wrong P_Key.
    BadPKey(BadKeyDetails) = 257 Security,
    /// Wrong Q_Key.
    BadQKey(BadKeyDetails) = 258 Security,
    /// Wrong P_Key at a switch port.
    SwitchBadPKey(SwitchBadPKeyDetails) = 259 Security,
}

impl Notice {
    /// A generic notice about `trap` from `issuer`, a node of type `producer` (4: a class manager).
    pub fn generic(trap: &Trap, producer: u8, issuer: Lid) -> Self {
        let mut details = [0; 54];
        trap.emit(&mut details);
        Self {
            is_generic: true,
            kind: trap.kind(),
            producer: Hex32(producer.into()),
            trap_number: trap.number(),
            issuer,
            toggle: false,
            count: 0,
            details: Octets(details),
        }
    }

    /// What it says: `None` for vendors' notices and for traps that this crate does not know.
    pub fn trap(&self) -> Result<Option<Trap>, BadField> {
        if self.is_generic { Trap::parse(self.trap_number, &self.details.0) } else { Ok(None) }
    }
}
