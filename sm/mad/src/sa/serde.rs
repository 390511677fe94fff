//! `#[serde(with = "snin_mad::sa::serde")]`: a record as the bytes that the specification gives it.

use ::serde::de::Error as _;
use ::serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Record;

/// The record's bytes.
///
/// # Errors
/// As the serializer.
pub fn serialize<R: Record, S: Serializer>(record: &R, serializer: S) -> Result<S::Ok, S::Error> {
    record.bytes().as_ref().serialize(serializer)
}

/// The record in such bytes.
///
/// # Errors
/// When it breaks a rule.
pub fn deserialize<'de, R: Record, D: Deserializer<'de>>(deserializer: D) -> Result<R, D::Error> {
    R::from_bytes(&Vec::<u8>::deserialize(deserializer)?).map_err(D::Error::custom)
}
