//! The attributes: their numbers, their classes, their tables.

use crate::error::Error;
use crate::header::{AttributeId, Class};
use crate::node::{GuidInfo, LedInfo, NodeDescription, NodeInfo, SmInfo, SwitchInfo, VendorDiag};
use crate::notice::Notice;
use crate::performance::{ClassPortInfo, PortCounters, PortCountersExtended};
use crate::port::{PortInfo, PortInfoExtended, VendorPortInfo};
use crate::table::{Layout, Table};
use crate::tables::{
    LinearForwarding, LinkSpeedWidthPairs, MulticastForwarding, PKeyTable, RandomForwarding,
    SlToVl, VlArbitration,
};

/// A structure that is asked for by number.
pub trait Attribute: Table {
    /// Its number.
    const ID: AttributeId;

    /// Whether `class` gives that number to this structure.
    fn belongs_to(class: Class) -> bool;

    /// Where the class puts its attributes into a MAD.
    fn data(mad: &[u8; 256]) -> &Self::Data;

    /// The same, to write.
    fn data_mut(mad: &mut [u8; 256]) -> &mut Self::Data;
}

/// The one list. `subnet`: 64 bytes at 64 (IBA 14.2.1); `performance`: 192 bytes at 64 (IBA 16.1.1).
macro_rules! attributes {
    (
        subnet { $($subnet:ident = $subnet_id:literal,)* }
        performance { $($performance:ident = $performance_id:literal,)* }
    ) => {
        $(attributes!(@attribute $subnet = $subnet_id, 64, Class::Subnet | Class::DirectedSubnet);)*
        $(attributes!(@attribute $performance = $performance_id, 192, Class::Performance);)*

        /// Any attribute, as a value.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Payload {
            $(#[doc = concat!("[`", stringify!($subnet), "`]")] $subnet($subnet),)*
            $(#[doc = concat!("[`", stringify!($performance), "`]")] $performance($performance),)*
        }

        impl Payload {
            /// Takes the attribute out of a MAD whose header says this class and number.
            pub fn parse(class: Class, id: AttributeId, mad: &[u8; 256]) -> Result<Self, Error> {
                let data = mad;
                match (class.is_subnet(), class, id) {
                    $((true, _, $subnet::ID) => {
                        Ok(Self::$subnet($subnet::parse($subnet::data(data))?))
                    })*
                    $((_, Class::Performance, $performance::ID) => {
                        Ok(Self::$performance($performance::parse($performance::data(data))?))
                    })*
                    _ => Err(Error::UnknownAttribute { attribute: id.0, class: class.code() }),
                }
            }

            /// Writes the attribute, and nothing else, into a MAD.
            pub fn emit(&self, mad: &mut [u8; 256]) {
                match self {
                    $(Self::$subnet(value) => value.emit($subnet::data_mut(mad)),)*
                    $(Self::$performance(value) => value.emit($performance::data_mut(mad)),)*
                }
            }

            /// Its number.
            pub const fn id(&self) -> AttributeId {
                match self {
                    $(Self::$subnet(_) => $subnet::ID,)*
                    $(Self::$performance(_) => $performance::ID,)*
                }
            }
        }

        /// Every attribute of subnet management.
        pub const SUBNET: &[(AttributeId, &Layout)] =
            &[$(($subnet::ID, $subnet::LAYOUT)),*];

        /// Every attribute of performance management.
        pub const PERFORMANCE: &[(AttributeId, &Layout)] =
            &[$(($performance::ID, $performance::LAYOUT)),*];
    };
    (@attribute $name:ident = $id:literal, $bytes:literal, $class:pat) => {
        impl Attribute for $name {
            const ID: AttributeId = AttributeId($id);

            #[inline]
            fn belongs_to(class: Class) -> bool {
                matches!(class, $class)
            }

            #[inline(always)]
            fn data(mad: &[u8; 256]) -> &[u8; $bytes] {
                window::<$bytes>(mad)
            }

            #[inline(always)]
            fn data_mut(mad: &mut [u8; 256]) -> &mut [u8; $bytes] {
                window_mut::<$bytes>(mad)
            }
        }
    };
}

attributes! {
    subnet {
        Notice = 0x0002,
        NodeDescription = 0x0010,
        NodeInfo = 0x0011,
        SwitchInfo = 0x0012,
        GuidInfo = 0x0014,
        PortInfo = 0x0015,
        PKeyTable = 0x0016,
        SlToVl = 0x0017,
        VlArbitration = 0x0018,
        LinearForwarding = 0x0019,
        RandomForwarding = 0x001A,
        MulticastForwarding = 0x001B,
        LinkSpeedWidthPairs = 0x001C,
        SmInfo = 0x0020,
        VendorDiag = 0x0030,
        LedInfo = 0x0031,
        PortInfoExtended = 0x0033,
        VendorPortInfo = 0xFF90,
    }
    performance {
        ClassPortInfo = 0x0001,
        PortCounters = 0x0012,
        PortCountersExtended = 0x001D,
    }
}

/// The table of an attribute, to print what one does not know.
pub fn layout(class: Class, id: AttributeId) -> Option<&'static Layout> {
    let list = match class {
        Class::Subnet | Class::DirectedSubnet => SUBNET,
        Class::Performance => PERFORMANCE,
        Class::Administration => return crate::sa::layout(id),
        _ => return None,
    };
    list.iter().find(|(known, _)| *known == id).map(|(_, layout)| *layout)
}

/// Where a class puts its attributes into a MAD.
pub const fn data_at(class: Class) -> usize {
    match class {
        Class::Administration => crate::sa::DATA_AT,
        _ => 64,
    }
}

/// The name of an attribute.
pub fn name(class: Class, id: AttributeId) -> Option<&'static str> {
    layout(class, id).map(|layout| layout.name)
}

/// `L` bytes from byte 64 on. `L` is 64 or 192, so the chunk is always there.
#[inline(always)]
fn window<const L: usize>(mad: &[u8; 256]) -> &[u8; L] {
    const { assert!(L <= 192) };
    mad[64..].first_chunk().expect("64 + L <= 256, asserted above")
}

#[inline(always)]
fn window_mut<const L: usize>(mad: &mut [u8; 256]) -> &mut [u8; L] {
    const { assert!(L <= 192) };
    mad[64..].first_chunk_mut().expect("64 + L <= 256, asserted above")
}
