//! A MAD as bytes.

/// The 256 bytes of a MAD (IBA 13.4.2), unchecked.
#[derive(Clone, PartialEq, Eq)]
pub struct Mad(pub [u8; 256]);
