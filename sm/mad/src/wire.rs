//! The types of fields: every type reads any bits, so that looking never fails.

use std::fmt;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};
use snin_fabric::{Guid, Lid, Lmc, PortNum};

use crate::bits::Place;
use crate::error::BadField;
use crate::table::{Format, Table, Wire};

/// A [`Wire`] type that is a number of at most 64 bits in some dress.
macro_rules! number {
    ($type:ty, $format:expr, |$bits:ident| $from:expr, |$value:ident| $into:expr) => {
        impl $crate::table::Wire for $type {
            const FORMAT: $crate::table::Format = $format;

            #[inline(always)]
            fn read<const N: usize>(data: &[u8; N], place: $crate::bits::Place) -> Self {
                let $bits = $crate::bits::get(data, place);
                $from
            }

            #[inline(always)]
            fn write<const N: usize>(self, data: &mut [u8; N], place: $crate::bits::Place) {
                let $value = self;
                $crate::bits::set(data, place, $into);
            }
        }
    };
}
pub(crate) use number;

number!(u8, Format::Dec, |bits| bits as Self, |value| value.into());
number!(u16, Format::Dec, |bits| bits as Self, |value| value.into());
number!(u32, Format::Dec, |bits| bits as Self, |value| value.into());
number!(u64, Format::Dec, |bits| bits, |value| value);
number!(bool, Format::Bool, |bits| bits != 0, |value| value.into());
number!(Guid, Format::Hex, |bits| Self(bits), |value| value.0);
number!(Lid, Format::Dec, |bits| Self(bits as u16), |value| value.0.into());
number!(PortNum, Format::Dec, |bits| Self(bits as u8), |value| value.0.into());
number!(
    Lmc,
    Format::Dec,
    // Three bits cannot say more than `Lmc::MAX`; a wider field would be a wrong table.
    |bits| Self::new((bits & 7) as u8).unwrap_or(Self::MAX),
    |value| value.bits().into()
);

/// Numbers that are no quantities: shown in hex, not to be confused with one another.
macro_rules! hex_numbers {
    ($($(#[$meta:meta])* $name:ident($type:ty);)*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        pub struct $name(pub $type);

        number!($name, Format::Hex, |bits| Self(bits as $type), |value| value.0.into());

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "0x{:0digits$x}", self.0, digits = size_of::<$type>() * 2)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

hex_numbers! {
    /// The key that protects a port's management state (IBA 14.2.4). 0: not protected.
    MKey(u64);
    /// The key by which subnet managers recognise each other (IBA 14.4.1).
    SmKey(u64);
    /// The upper half of a subnet's GIDs (IBA 4.1.1).
    GidPrefix(u64);
    /// A partition key: the membership bit and 15 bits of base (IBA 10.9.1). 0: an empty table entry.
    PKey(u16);
    /// A queue key (IBA 10.2.4).
    QKey(u32);
    /// A mask, code or number of which the specification fixes no decimal meaning, 8 bits.
    Hex8(u8);
    /// The same, at most 16 bits.
    Hex16(u16);
    /// The same, at most 32 bits.
    Hex32(u32);
}

impl PKey {
    /// The default partition, full member (IBA 10.9.1.2).
    pub const DEFAULT: Self = Self(0xFFFF);

    /// Whether a member may talk to limited members too.
    pub const fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// The partition, without the membership bit.
    pub const fn base(self) -> u16 {
        self.0 & 0x7FFF
    }
}

/// Bytes without a meaning of their own, shown as hex digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Octets<const L: usize>(pub [u8; L]);

/// A 128-bit global identifier (IBA 4.1.1), shown like an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Gid(pub [u8; 16]);

/// 64 bytes of text, UTF-8 if the node is well behaved, ended by a zero byte if shorter (IBA 14.2.5.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NodeString(pub [u8; 64]);

/// A [`Wire`] type that is whole bytes.
macro_rules! bytes {
    ($type:ty, $length:expr, $format:expr $(, $generic:ident)?) => {
        impl$(<const $generic: usize>)? Wire for $type {
            const FORMAT: Format = $format;

            #[inline(always)]
            fn read<const N: usize>(data: &[u8; N], place: Place) -> Self {
                let bytes = data.get(place.byte()..).and_then(|rest| rest.first_chunk());
                Self(bytes.copied().unwrap_or([0; $length]))
            }

            #[inline(always)]
            fn write<const N: usize>(self, data: &mut [u8; N], place: Place) {
                if let Some(to) = data.get_mut(place.byte()..).and_then(|rest| rest.first_chunk_mut()) {
                    *to = self.0;
                }
            }
        }
    };
}

bytes!(Octets<L>, L, Format::Bytes, L);
bytes!(Gid, 16, Format::Gid);
bytes!(NodeString, 64, Format::Text);

/// An attribute inside a record: its first `L` bytes, taken apart on demand.
pub struct Inner<T, const L: usize> {
    /// The bytes.
    pub bytes: [u8; L],
    kind: PhantomData<fn() -> T>,
}

impl<T: Table, const L: usize> Inner<T, L> {
    /// These bytes.
    pub const fn new(bytes: [u8; L]) -> Self {
        Self { bytes, kind: PhantomData }
    }

    /// The attribute as its agent answers it.
    pub fn of(value: &T) -> Self {
        let mut data = T::ZERO;
        value.emit(&mut data);
        let mut bytes = [0; L];
        bytes.iter_mut().zip(data.as_ref()).for_each(|(to, from)| *to = *from);
        Self::new(bytes)
    }

    /// The attribute.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub fn parse(&self) -> Result<T, BadField> {
        let mut data = T::ZERO;
        data.as_mut().iter_mut().zip(&self.bytes).for_each(|(to, from)| *to = *from);
        T::parse(&data)
    }
}

impl<T, const L: usize> Clone for Inner<T, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const L: usize> Copy for Inner<T, L> {}

impl<T, const L: usize> PartialEq for Inner<T, L> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T, const L: usize> Eq for Inner<T, L> {}

impl<T: Table, const L: usize> fmt::Debug for Inner<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&T::LAYOUT.show(&self.bytes), f)
    }
}

impl<T: Table, const L: usize> Wire for Inner<T, L> {
    const FORMAT: Format = Format::Table(T::LAYOUT);

    #[inline(always)]
    fn read<const N: usize>(data: &[u8; N], place: Place) -> Self {
        let bytes = data.get(place.byte()..).and_then(|rest| rest.first_chunk());
        Self::new(bytes.copied().unwrap_or([0; L]))
    }

    #[inline(always)]
    fn write<const N: usize>(self, data: &mut [u8; N], place: Place) {
        if let Some(to) = data.get_mut(place.byte()..).and_then(|rest| rest.first_chunk_mut()) {
            *to = self.bytes;
        }
    }
}

impl<const L: usize> fmt::Debug for Octets<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Gid {
    /// The GID of a port: the subnet's prefix, the port's GUID.
    pub const fn new(prefix: GidPrefix, guid: Guid) -> Self {
        Self((((prefix.0 as u128) << 64) | guid.0 as u128).to_be_bytes())
    }

    /// The upper half.
    pub const fn prefix(self) -> GidPrefix {
        GidPrefix((u128::from_be_bytes(self.0) >> 64) as u64)
    }

    /// The lower half.
    pub const fn guid(self) -> Guid {
        Guid(u128::from_be_bytes(self.0) as u64)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl NodeString {
    /// The first 64 bytes of `text`, cut between characters.
    pub fn new(text: &str) -> Self {
        let mut bytes = [0; 64];
        let end = text.floor_char_boundary(64);
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self(bytes)
    }

    /// The text up to the first zero byte; what is no UTF-8 becomes U+FFFD.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(crate::table::text(&self.0))
    }
}

impl fmt::Debug for NodeString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text(), f)
    }
}

impl<T: Wire, const L: usize> Wire for [T; L] {
    const FORMAT: Format = T::FORMAT;
    const COUNT: usize = L;

    #[inline(always)]
    fn read<const N: usize>(data: &[u8; N], place: Place) -> Self {
        std::array::from_fn(|i| T::read(data, place.element(i)))
    }

    #[inline(always)]
    fn write<const N: usize>(self, data: &mut [u8; N], place: Place) {
        for (i, value) in self.into_iter().enumerate() {
            value.write(data, place.element(i));
        }
    }
}

/// Enumerations of the specification. An unknown code is `Unknown` and keeps its bits.
macro_rules! codes {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident($type:ty) {
            $($(#[$variant_meta:meta])* $variant:ident = $code:literal $text:literal,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
            /// A code that this table does not name.
            Unknown($type),
        }

        impl $name {
            /// By its code.
            #[inline]
            pub const fn new(code: $type) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// Its code.
            #[inline]
            pub const fn code(self) -> $type {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(code) => code,
                }
            }

            /// Its name, if it has one.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => Some($text),)*
                    Self::Unknown(_) => None,
                }
            }

            fn name_of(code: u64) -> Option<&'static str> {
                <$type>::try_from(code).ok().and_then(|code| Self::new(code).name())
            }
        }

        $crate::wire::number!(
            $name,
            $crate::table::Format::Name($name::name_of),
            |bits| Self::new(bits as $type),
            |value| value.code().into()
        );

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{:#x}", self.code()),
                }
            }
        }
    )*};
}
pub(crate) use codes;

/// Sets of the specification: one bit, one meaning. Bits without a name are kept.
macro_rules! flags {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident($type:ty) {
            $($(#[$flag_meta:meta])* $flag:ident = $bit:literal $text:literal,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $type);

        impl $name {
            $($(#[$flag_meta])* pub const $flag: Self = Self($bit);)*

            /// Whether every bit of `other` is set.
            #[inline]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// With the bits of `other` too.
            #[inline]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Without the bits of `other`.
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        $crate::wire::number!(
            $name,
            $crate::table::Format::Flags(&[$(($bit, $text)),*]),
            |bits| Self(bits as $type),
            |value| value.0.into()
        );
    )*};
}
pub(crate) use flags;
