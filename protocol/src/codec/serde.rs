//! `#[serde(with = "snin_protocol::codec::serde")]`: a message as its frame.

use ::serde::de::Error as _;
use ::serde::ser::Error as _;
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Message, decode, encode};

/// The message's frame.
///
/// # Errors
/// When one of its lists is longer than it may be.
pub fn serialize<M: Message, S: Serializer>(message: &M, serializer: S) -> Result<S::Ok, S::Error> {
    encode(message).map_err(S::Error::custom)?.serialize(serializer)
}

/// The message in such a frame.
///
/// # Errors
/// When there is none.
pub fn deserialize<'de, M: Message, D: Deserializer<'de>>(deserializer: D) -> Result<M, D::Error> {
    let frame = Vec::<u8>::deserialize(deserializer)?;
    let decoded = decode(&frame).map_err(D::Error::custom)?;
    let (message, _) = decoded.ok_or_else(|| D::Error::custom("half a frame"))?;
    Ok(message)
}
