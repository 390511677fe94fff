//! The headers: what every MAD begins with, and what subnet management adds to it.

use snin_fabric::Lid;

use crate::error::BadField;
use crate::table::{Format, table};
use crate::wire::{Hex16, Hex32, MKey, Octets, codes, number};

table! {
    /// The common MAD header (IBA 13.4.2), in front of the MAD's 256 bytes.
    pub struct Header("MAD", 256 bytes, check Header::check) {
        /// 1.
        "BaseVersion" base_version: u8 = 0, 8;
        /// The class of agents that is meant: SMI, SA, PerfMgt...
        "MgmtClass" class: Class = 8, 8;
        /// 1; 2 for subnet administration.
        "ClassVersion" class_version: u8 = 16, 8;
        /// What to do; the top bit is set in responses.
        "Method" method: Method = 24, 8;
        /// How it went. In directed-route SMPs the top bit is the direction.
        "Status" status: Status = 32, 16;
        /// In directed-route SMPs: hop pointer and hop count.
        "ClassSpecific" class_specific: Hex16 = 48, 16;
        /// Pairs a response with its request.
        "TransactionID" transaction_id: TransactionId = 64, 64;
        /// What it is about.
        "AttributeID" attribute: AttributeId = 128, 16;
        /// Which instance of it: port, block...
        "AttributeModifier" modifier: Hex32 = 160, 32;
    }
}

table! {
    /// A LID-routed SMP (IBA 14.2.1.1): what follows the common header.
    pub struct LidRouted("SMP", 256 bytes) {
        /// The key of the port that is managed.
        "M_Key" m_key: MKey = 192, 64;
        /// The attribute.
        "SMPData" data: Octets<64> = 512, 512;
    }
}

table! {
    /// A directed-route SMP (IBA 14.2.1.2): what differs from the common header, and what follows it.
    pub struct Directed("DRSMP", 256 bytes, check Directed::check) {
        /// The direction bit: set on the way back.
        "D" returning: bool = 32, 1;
        /// How it went, 15 bits.
        "Status" status: Status = 33, 15;
        /// Where on the path the packet is.
        "HopPointer" hop_pointer: u8 = 48, 8;
        /// How long the path is: at most 63.
        "HopCount" hop_count: u8 = 56, 8;
        /// The key of the port that is managed.
        "M_Key" m_key: MKey = 192, 64;
        /// The requester's LID if a LID-routed part comes first, else 0xFFFF (permissive).
        "DrSLID" dr_slid: Lid = 256, 16;
        /// The responder's LID if a LID-routed part comes last, else 0xFFFF (permissive).
        "DrDLID" dr_dlid: Lid = 272, 16;
        /// The attribute.
        "SMPData" data: Octets<64> = 512, 512;
        /// The port to leave by at hop n, in byte n; byte 0 is not used.
        "InitialPath" initial_path: Octets<64> = 1024, 512;
        /// The port by which the packet arrived at hop n, in byte n; byte 0 is not used.
        "ReturnPath" return_path: Octets<64> = 1536, 512;
    }
}

impl Header {
    fn check(&self) -> Result<(), BadField> {
        let bad = |field, value: u8, reason| {
            Err(BadField { table: "MAD", field, value: value.into(), reason })
        };
        if self.base_version != 1 {
            return bad("BaseVersion", self.base_version, "the only version is 1 (IBA 13.4.2)");
        }
        let version = self.class.version();
        if version.is_some_and(|version| version != self.class_version) {
            return bad(
                "ClassVersion",
                self.class_version,
                "not this class's version (IBA 13.4.4)",
            );
        }
        Ok(())
    }
}

impl Directed {
    fn check(&self) -> Result<(), BadField> {
        let bad = |field, value: u8, reason| {
            Err(BadField { table: "DRSMP", field, value: value.into(), reason })
        };
        if self.hop_count > 63 {
            return bad("HopCount", self.hop_count, "a path has at most 63 hops (IBA 14.2.2)");
        }
        if self.hop_pointer > self.hop_count + 1 {
            return bad("HopPointer", self.hop_pointer, "beyond the end of the path (IBA 14.2.2)");
        }
        Ok(())
    }
}

codes! {
    /// MgmtClass: who is meant (IBA 13.4.4).
    pub enum Class(u8) {
        /// Subnet management, LID-routed.
        Subnet = 0x01 "SubnMgt",
        /// Subnet administration.
        Administration = 0x03 "SubnAdm",
        /// Performance management.
        Performance = 0x04 "PerfMgt",
        /// Baseboard management.
        Baseboard = 0x05 "BM",
        /// Device management.
        Device = 0x06 "DevMgt",
        /// Communication management.
        Communication = 0x07 "ComMgt",
        /// Subnet management, directed route.
        DirectedSubnet = 0x81 "SubnMgtDR",
    }

    /// Method, with its response bit (IBA 13.4.5, 14.2.3, 15.2.2).
    pub enum Method(u8) {
        /// Read an attribute.
        Get = 0x01 "Get",
        /// Write an attribute; the answer is a GetResp with what it is now.
        Set = 0x02 "Set",
        /// A datagram.
        Send = 0x03 "Send",
        /// Something happened; repeated until repressed.
        Trap = 0x05 "Trap",
        /// Something happened: to a subscriber.
        Report = 0x06 "Report",
        /// The trap arrived: stop repeating it.
        TrapRepress = 0x07 "TrapRepress",
        /// SA: read records that match.
        GetTable = 0x12 "GetTable",
        /// SA: trace a path.
        GetTraceTable = 0x13 "GetTraceTable",
        /// SA: read multipath records.
        GetMulti = 0x14 "GetMulti",
        /// SA: delete a record.
        Delete = 0x15 "Delete",
        /// The answer to Get and Set.
        GetResp = 0x81 "GetResp",
        /// The answer to Report.
        ReportResp = 0x86 "ReportResp",
        /// The answer to GetTable and GetTraceTable.
        GetTableResp = 0x92 "GetTableResp",
        /// The answer to GetMulti.
        GetMultiResp = 0x94 "GetMultiResp",
        /// The answer to Delete.
        DeleteResp = 0x95 "DeleteResp",
    }

    /// The invalid-field code of a status (IBA 13.4.7, bits 4-2).
    pub enum StatusCode(u8) {
        /// Nothing wrong with the fields.
        Valid = 0 "valid",
        /// Base or class version not supported, or the class is unknown.
        BadVersion = 1 "version or class not supported",
        /// Method not supported by this agent.
        BadMethod = 2 "method not supported",
        /// Method and attribute do not go together, or the attribute is unknown.
        BadMethodAttribute = 3 "method/attribute combination not supported",
        /// A field of the attribute or the modifier has a value that is not allowed.
        BadValue = 7 "invalid value in attribute or modifier",
    }
}

impl Class {
    /// The version of the class that this crate speaks, where it speaks one.
    pub const fn version(self) -> Option<u8> {
        match self {
            Self::Subnet | Self::DirectedSubnet | Self::Performance => Some(1),
            Self::Administration => Some(2),
            _ => None,
        }
    }

    /// One of the two classes of subnet management.
    pub const fn is_subnet(self) -> bool {
        matches!(self, Self::Subnet | Self::DirectedSubnet)
    }
}

impl Method {
    /// Whether the response bit is set, or the method ends an exchange as TrapRepress does (IBA 13.4.5).
    pub const fn is_response(self) -> bool {
        self.code() & 0x80 != 0 || matches!(self, Self::TrapRepress)
    }

    /// The method that answers this one (IBA 13.4.5, table 108; 15.2.2).
    pub const fn response(self) -> Option<Self> {
        match self {
            Self::Get | Self::Set => Some(Self::GetResp),
            Self::Trap => Some(Self::TrapRepress),
            Self::Report => Some(Self::ReportResp),
            Self::GetTable | Self::GetTraceTable => Some(Self::GetTableResp),
            Self::GetMulti => Some(Self::GetMultiResp),
            Self::Delete => Some(Self::DeleteResp),
            _ => None,
        }
    }
}

/// MADHeader:Status (IBA 13.4.7): 0 is success. In directed-route SMPs only 15 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Status(pub u16);

number!(Status, Format::Hex, |bits| Self(bits as u16), |value| value.0.into());

impl Status {
    /// Success.
    pub const OK: Self = Self(0);
    /// The agent is busy and dropped the request: try again.
    pub const BUSY: Self = Self(1);
    /// Base or class version not supported, or the class is unknown.
    pub const BAD_VERSION: Self = Self(1 << 2);
    /// Method not supported.
    pub const BAD_METHOD: Self = Self(2 << 2);
    /// Method and attribute do not go together, or the attribute is unknown.
    pub const BAD_METHOD_ATTRIBUTE: Self = Self(3 << 2);
    /// A value that is not allowed.
    pub const BAD_VALUE: Self = Self(7 << 2);

    /// Success.
    pub const fn is_ok(self) -> bool {
        self.0 == 0
    }

    /// Try again later.
    pub const fn is_busy(self) -> bool {
        self.0 & 1 != 0
    }

    /// Another port answers such requests: ClassPortInfo says which.
    pub const fn is_redirect(self) -> bool {
        self.0 & 2 != 0
    }

    /// What was wrong with the request.
    pub const fn code(self) -> StatusCode {
        StatusCode::new((self.0 >> 2 & 7) as u8)
    }

    /// The upper byte, whose meaning is the class's (IBA 15.2.4 for SA).
    pub const fn class_specific(self) -> u8 {
        (self.0 >> 8) as u8
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#06x}", self.0)?;
        if self.is_ok() {
            return f.write_str(" (success)");
        }
        let busy = if self.is_busy() { ", busy" } else { "" };
        let redirect = if self.is_redirect() { ", redirect" } else { "" };
        write!(f, " ({}{busy}{redirect})", self.code())
    }
}

/// MADHeader:TransactionID (IBA 13.4.2). Where a kernel shares the port it owns the upper 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct TransactionId(pub u64);

number!(TransactionId, Format::Hex, |bits| Self(bits), |value| value.0);

/// MADHeader:AttributeID; what it means depends on the class (IBA 13.4.8, 14.2.5, 16.1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AttributeId(pub u16);

number!(AttributeId, Format::Hex, |bits| Self(bits as u16), |value| value.0.into());

impl std::fmt::Debug for AttributeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
