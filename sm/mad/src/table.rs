//! The tables: what fields there are, where they lie, what they mean.
//!
//! One [`table!`] per structure of the specification; the accessors ([`View`]), the setters ([`Edit`]),
//! the value with `parse` and `emit` ([`Table`]), `Display`, JSON, the tests and the fuzz targets all
//! follow from it.

use std::fmt;
use std::marker::PhantomData;

use serde_json::Value;

use crate::bits::{self, Place};
use crate::error::BadField;

/// How a field's bits are shown.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// A decimal number.
    Dec,
    /// `0x` and all the field's hex digits.
    Hex,
    /// 0 or 1: `false`, `true` in JSON.
    Bool,
    /// An enumeration: the value's name, if it has one.
    Name(fn(u64) -> Option<&'static str>),
    /// A set: hex, and the names of the bits that are set.
    Flags(&'static [(u64, &'static str)]),
    /// A 128-bit global identifier, in the form of an IPv6 address.
    Gid,
    /// Text, ended by a zero byte or by the field's end.
    Text,
    /// Hex digits.
    Bytes,
    /// A structure of its own.
    Table(&'static Layout),
}

/// A type that a table's field can have. Reading is total: an unknown code is kept, not refused.
pub trait Wire: Copy {
    /// How it is shown.
    const FORMAT: Format;
    /// The number of elements, 1 where it is no array.
    const COUNT: usize = 1;

    /// Takes the bits at `place`.
    fn read<const N: usize>(data: &[u8; N], place: Place) -> Self;

    /// Replaces the bits at `place`; a value too large loses its high bits.
    fn write<const N: usize>(self, data: &mut [u8; N], place: Place);
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The specification's name.
    pub name: &'static str,
    /// Where it lies.
    pub place: Place,
    /// 1, or the number of elements of an array.
    pub count: usize,
    /// How it is shown.
    pub format: Format,
}

/// One table: what needs to be known to show a structure without knowing its type.
#[derive(Debug)]
pub struct Layout {
    /// The specification's name.
    pub name: &'static str,
    /// The number of bytes of the structure's carrier (an SMP's data is always 64 bytes).
    pub bytes: usize,
    /// The rows, in the specification's order.
    pub fields: &'static [Field],
}

/// A structure of the specification as a value: sub-byte fields decoded, nothing that breaks the
/// specification's rules.
pub trait Table: Sized {
    /// The bytes it is carried in: an array.
    type Data: AsRef<[u8]> + AsMut<[u8]>;
    /// Its table.
    const LAYOUT: &'static Layout;
    /// Its bytes, all zeros.
    const ZERO: Self::Data;

    /// Takes the bytes apart; an error names structure, field and value.
    fn parse(data: &Self::Data) -> Result<Self, BadField>;

    /// Writes every byte, reserved ones as zeros. A value too large for its field loses its high bits.
    fn emit(&self, data: &mut Self::Data);
}

/// A view over bytes that judges nothing: getters named like the fields, `Display`, JSON.
pub struct View<'a, T: Table> {
    pub(crate) data: &'a T::Data,
    table: PhantomData<T>,
}

/// Setters named like the fields, to be chained; nothing but the named field changes.
pub struct Edit<'a, T: Table> {
    pub(crate) data: &'a mut T::Data,
    table: PhantomData<T>,
}

impl<'a, T: Table> View<'a, T> {
    /// Looks at `data` as a `T`.
    pub const fn new(data: &'a T::Data) -> Self {
        Self { data, table: PhantomData }
    }

    /// All fields by the specification's names: numbers, names of enumerations, `"0x..."` where the field
    /// is no quantity, lists where it is an array.
    pub fn json(&self) -> Value {
        T::LAYOUT.json(self.data.as_ref())
    }
}

impl<'a, T: Table> Edit<'a, T> {
    /// Will change `data` as a `T`.
    pub const fn new(data: &'a mut T::Data) -> Self {
        Self { data, table: PhantomData }
    }
}

impl<T: Table> fmt::Display for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::LAYOUT.show(self.data.as_ref()).fmt(f)
    }
}

impl<T: Table> fmt::Debug for View<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Layout {
    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// `data` as text: `{}` on one line, `{:#}` one field a line. Missing bytes show as zeros.
    pub fn show<'a>(&'a self, data: &'a [u8]) -> impl fmt::Display + 'a {
        Show { layout: self, data }
    }

    /// `data` as JSON: see [`View::json`].
    pub fn json(&self, data: &[u8]) -> Value {
        let entry = |field: &Field| (field.name.to_owned(), field.json(data));
        Value::Object(self.fields.iter().map(entry).collect())
    }
}

struct Show<'a> {
    layout: &'a Layout,
    data: &'a [u8],
}

impl fmt::Display for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.layout.name)?;
        for field in self.layout.fields {
            f.write_str(if f.alternate() { "\n  " } else { " " })?;
            write!(f, "{}={}", field.name, field.show(self.data))?;
        }
        Ok(())
    }
}

impl Field {
    /// The number in element `index`; 0 for what is wider than 64 bits.
    pub fn number(&self, data: &[u8], index: usize) -> u64 {
        if self.place.width > 64 { 0 } else { bits::get(data, self.place.element(index)) }
    }

    /// The whole field as text.
    pub fn show<'a>(&'a self, data: &'a [u8]) -> impl fmt::Display + 'a {
        ShowField { field: self, data }
    }

    /// The whole field as JSON.
    pub fn json(&self, data: &[u8]) -> Value {
        match self.count {
            1 => self.element_json(data, 0),
            n => (0..n).map(|i| self.element_json(data, i)).collect(),
        }
    }

    fn element_json(&self, data: &[u8], index: usize) -> Value {
        let number = self.number(data, index);
        match self.format {
            Format::Dec => number.into(),
            Format::Bool => (number != 0).into(),
            Format::Name(name) => name(number).map_or_else(|| number.into(), Value::from),
            Format::Flags(_) => format!("0x{number:x}").into(),
            Format::Hex | Format::Gid | Format::Bytes => {
                self.element(data, index).to_string().into()
            }
            Format::Text => String::from_utf8_lossy(text(self.bytes(data, index))).into(),
            Format::Table(layout) => layout.json(self.bytes(data, index)),
        }
    }

    fn element<'a>(&'a self, data: &'a [u8], index: usize) -> ShowElement<'a> {
        ShowElement { field: self, data, index }
    }

    fn bytes<'a>(&self, data: &'a [u8], index: usize) -> &'a [u8] {
        let start = self.place.element(index).offset / 8;
        let end = (start + self.place.width / 8).min(data.len());
        data.get(start..end).unwrap_or_default()
    }
}

/// What comes before the first zero byte.
pub(crate) fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

struct ShowField<'a> {
    field: &'a Field,
    data: &'a [u8],
}

impl fmt::Display for ShowField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, data } = *self;
        if field.count == 1 {
            return field.element(data, 0).fmt(f);
        }
        f.write_str("[")?;
        for i in 0..field.count {
            let separator = if i == 0 { "" } else { "," };
            write!(f, "{separator}{}", field.element(data, i))?;
        }
        f.write_str("]")
    }
}

struct ShowElement<'a> {
    field: &'a Field,
    data: &'a [u8],
    index: usize,
}

impl fmt::Display for ShowElement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, data, index } = *self;
        let number = field.number(data, index);
        let digits = field.place.width.div_ceil(4);
        match field.format {
            Format::Dec | Format::Bool => write!(f, "{number}"),
            Format::Hex => write!(f, "0x{number:0digits$x}"),
            Format::Name(name) => match name(number) {
                Some(name) => f.write_str(name),
                None => write!(f, "{number}"),
            },
            Format::Flags(names) => {
                write!(f, "0x{number:x}")?;
                let mut set = names.iter().filter(|(bit, _)| number & bit != 0);
                if let Some((_, name)) = set.next() {
                    write!(f, "({name}")?;
                    set.try_for_each(|(_, name)| write!(f, "|{name}"))?;
                    f.write_str(")")?;
                }
                Ok(())
            }
            Format::Gid => {
                let mut gid = [0; 16];
                let bytes = field.bytes(data, index);
                gid[..bytes.len()].copy_from_slice(bytes);
                std::net::Ipv6Addr::from(gid).fmt(f)
            }
            Format::Text => {
                write!(
                    f,
                    "\"{}\"",
                    String::from_utf8_lossy(text(field.bytes(data, index))).escape_debug()
                )
            }
            Format::Bytes => {
                field.bytes(data, index).iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Format::Table(layout) => write!(f, "{{{}}}", layout.show(field.bytes(data, index))),
        }
    }
}

/// Whether the fields lie within `bytes`, no two share a bit, and each can be read as at most eight bytes
/// or as whole bytes: asserted for every table when it is compiled.
pub(crate) const fn well_formed(fields: &[Field], bytes: usize) -> bool {
    let mut taken = [false; 256 * 8];
    let mut f = 0;
    while f < fields.len() {
        let mut i = 0;
        while i < fields[f].count {
            let place = fields[f].place.element(i);
            let whole_bytes = place.offset.is_multiple_of(8) && place.width.is_multiple_of(8);
            if place.width == 0 || !whole_bytes && place.offset % 8 + place.width > 64 {
                return false;
            }
            let mut bit = place.offset;
            while bit < place.offset + place.width {
                if bit >= bytes * 8 || taken[bit] {
                    return false;
                }
                taken[bit] = true;
                bit += 1;
            }
            i += 1;
        }
        f += 1;
    }
    true
}

/// One structure of the specification: `"Name" name: Type = first bit, width;` a row, `step n` where the
/// elements of an array do not touch, `check` where some values are against the rules.
macro_rules! table {
    (
        $(#[$meta:meta])*
        pub struct $table:ident($title:literal, $bytes:literal bytes $(, check $check:path)?) {
            $(
                $(#[$field_meta:meta])*
                $name:literal $field:ident: $type:ty = $offset:literal, $width:literal $(step $step:literal)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $table {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        const _: () = assert!($crate::table::well_formed($table::FIELDS, $bytes), $title);

        impl $table {
            const FIELDS: &'static [$crate::table::Field] = &[$($crate::table::Field {
                name: $name,
                place: $crate::bits::Place::new($offset, $width)$(.step($step))?,
                count: <$type as $crate::table::Wire>::COUNT,
                format: <$type as $crate::table::Wire>::FORMAT,
            }),*];

            /// Looks at the bytes without judging them.
            #[inline(always)]
            pub const fn view(data: &[u8; $bytes]) -> $crate::View<'_, Self> {
                $crate::View::new(data)
            }

            /// Changes single fields in place.
            #[inline(always)]
            pub const fn edit(data: &mut [u8; $bytes]) -> $crate::Edit<'_, Self> {
                $crate::Edit::new(data)
            }
        }

        impl $crate::Table for $table {
            type Data = [u8; $bytes];

            const LAYOUT: &'static $crate::Layout =
                &$crate::Layout { name: $title, bytes: $bytes, fields: Self::FIELDS };
            const ZERO: [u8; $bytes] = [0; $bytes];

            #[inline]
            fn parse(data: &[u8; $bytes]) -> Result<Self, $crate::BadField> {
                let view = Self::view(data);
                let value = Self { $($field: view.$field(),)* };
                $($check(&value)?;)?
                Ok(value)
            }

            #[inline]
            fn emit(&self, data: &mut [u8; $bytes]) {
                data.fill(0);
                Self::edit(data)$(.$field(self.$field))*;
            }
        }

        impl $crate::View<'_, $table> {
            $(
                $(#[$field_meta])*
                #[inline(always)]
                pub fn $field(&self) -> $type {
                    let place = $crate::bits::Place::new($offset, $width)$(.step($step))?;
                    <$type as $crate::table::Wire>::read(self.data, place)
                }
            )*
        }

        impl $crate::Edit<'_, $table> {
            $(
                $(#[$field_meta])*
                #[inline(always)]
                pub fn $field(self, value: $type) -> Self {
                    let place = $crate::bits::Place::new($offset, $width)$(.step($step))?;
                    <$type as $crate::table::Wire>::write(value, self.data, place);
                    self
                }
            )*
        }

        impl Default for $table {
            /// All zeros, as in an unwritten buffer.
            fn default() -> Self {
                let view = Self::view(&[0; $bytes]);
                Self { $($field: view.$field(),)* }
            }
        }

        impl std::fmt::Display for $table {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut data = [0; $bytes];
                $crate::Table::emit(self, &mut data);
                Self::view(&data).fmt(f)
            }
        }
    };
}
pub(crate) use table;
