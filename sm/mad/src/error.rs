//! Errors in bytes from the wire.

/// A field whose value is against the specification's rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{table}.{field} is {value:#x}: {reason}")]
pub struct BadField {
    /// The structure, by the specification's name.
    pub table: &'static str,
    /// The field, by the specification's name.
    pub field: &'static str,
    /// What the field held.
    pub value: u64,
    /// Which rule it breaks.
    pub reason: &'static str,
}

/// Why bytes are no MAD, or not the MAD that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Not the length of a MAD (IBA 13.4.2).
    #[error("a MAD has 256 bytes, not {0}")]
    Length(usize),
    /// A field breaks a rule.
    #[error(transparent)]
    Field(#[from] BadField),
    /// The attribute is another one than the type asked for.
    #[error("expected attribute {expected}, got {got:#06x} of class {class:#04x}")]
    OtherAttribute {
        /// The name of what was asked for.
        expected: &'static str,
        /// The AttributeID of the MAD.
        got: u16,
        /// The MgmtClass of the MAD.
        class: u8,
    },
    /// No table is known for this attribute of this class.
    #[error("attribute {attribute:#06x} of class {class:#04x} is unknown")]
    UnknownAttribute {
        /// The AttributeID of the MAD.
        attribute: u16,
        /// The MgmtClass of the MAD.
        class: u8,
    },
}
