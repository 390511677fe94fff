//! How one value is written and read. The ids belong to another crate and the messages shall not know their
//! bytes, so this is a trait of our own over bincode's encoder.

use std::sync::Arc;

use bincode::de::{Decode, Decoder};
use bincode::enc::{Encode, Encoder};
use bincode::error::{DecodeError, EncodeError};

use super::{put_raw, take_raw};

/// A value with a place in a frame.
pub trait Wire: Sized {
    /// Writes it.
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError>;
    /// Reads it.
    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError>;
}

/// A message to be written.
pub(super) struct BodyRef<'a, M>(pub(super) &'a M);

impl<M: Wire> Encode for BodyRef<'_, M> {
    fn encode<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        self.0.put(to)
    }
}

/// A message that was read.
pub(super) struct Body<M>(pub(super) M);

impl<M: Wire> Decode<()> for Body<M> {
    fn decode<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        M::take(from).map(Self)
    }
}

/// As what it shares.
impl<T: Wire> Wire for Arc<T> {
    fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
        T::put(self, to)
    }

    fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
        T::take(from).map(Self::new)
    }
}

/// Plain numbers.
macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Wire for $number {
            fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
                put_raw(*self, to)
            }

            fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
                take_raw(from)
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, bool);

/// Newtypes, as what they hold.
macro_rules! newtypes {
    ($($name:ident),+ $(,)?) => {$(
        impl Wire for $name {
            fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
                self.0.put(to)
            }

            fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
                Wire::take(from).map(Self)
            }
        }
    )+};
}

/// Structures, field by field.
macro_rules! records {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {$(
        impl Wire for $name {
            fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
                $(self.$field.put(to)?;)+
                Ok(())
            }

            fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
                Ok(Self { $($field: Wire::take(from)?),+ })
            }
        }
    )+};
}

/// Enums: a byte that says which, then what the variant holds, if anything.
macro_rules! choices {
    ($($name:ident { $($code:literal $variant:ident $(($value:ident))?),+ $(,)? })+) => {$(
        impl Wire for $name {
            fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
                match self {$(
                    Self::$variant $(($value))? => {
                        let code: u8 = $code;
                        code.put(to)?;
                        $($value.put(to)?;)?
                    }
                )+}
                Ok(())
            }

            fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
                match u8::take(from)? {
                    $($code => Ok(Self::$variant $(({
                        let $value = Wire::take(from)?;
                        $value
                    }))?),)+
                    _ => Err(DecodeError::Other(concat!("no such ", stringify!($name)))),
                }
            }
        }
    )+};
}

/// Lists: a u16 that says how many, then the items. The limit is asked before anything is kept.
macro_rules! lists {
    ($($item:ident up to $limit:expr;)+) => {$(
        impl Wire for Vec<$item> {
            fn put<E: Encoder>(&self, to: &mut E) -> Result<(), EncodeError> {
                const { assert!($limit <= u16::MAX as usize) };
                if self.len() > $limit {
                    return Err(EncodeError::Other("a list is too long"));
                }
                (self.len() as u16).put(to)?;
                self.iter().try_for_each(|item| item.put(to))
            }

            fn take<D: Decoder<Context = ()>>(from: &mut D) -> Result<Self, DecodeError> {
                let count = usize::from(u16::take(from)?);
                if count > $limit {
                    return Err(DecodeError::Other("a list is too long"));
                }
                (0..count).map(|_| Wire::take(from)).collect()
            }
        }
    )+};
}

pub(super) use {choices, lists, newtypes, records};
