//! The header that SA adds to the common one, and a request or an answer taken apart.

use crate::error::{BadField, Error};
use crate::header::{AttributeId, Class, Header, Method, Status, TransactionId};
use crate::mad::Mad;
use crate::rmpp::Rmpp;
use crate::sa::Record;
use crate::table::{Format, Table, table};
use crate::wire::{Hex32, Octets, SmKey, number};

/// Where a record begins.
pub const DATA_AT: usize = 56;
/// Bytes of data in one MAD.
pub const DATA: usize = 200;

table! {
    /// What follows the RMPP header in a MAD of subnet administration (IBA 15.2.1.1).
    pub struct SaHeader("SA", 256 bytes) {
        /// Shows that the requester is trusted; 0: it is not.
        "SM_Key" sm_key: SmKey = 288, 64;
        /// From one record to the next, in words of 8 bytes.
        "AttributeOffset" attribute_offset: u16 = 352, 16;
        /// Which fields of the record count.
        "ComponentMask" mask: ComponentMask = 384, 64;
        /// The records.
        "SubnetAdminData" data: Octets<200> = 448, 1600;
    }
}

/// SAHeader:ComponentMask: which fields of a record count (IBA 15.2.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ComponentMask(pub u64);

number!(ComponentMask, Format::Hex, |bits| Self(bits), |value| value.0);

impl ComponentMask {
    /// With these bits set.
    pub const fn of(bits: &[u8]) -> Self {
        let mut mask = 0;
        let mut n = 0;
        while n < bits.len() {
            mask |= 1 << bits[n];
            n += 1;
        }
        Self(mask)
    }

    /// Whether a bit is set.
    pub const fn has(self, bit: u8) -> bool {
        self.0 >> bit & 1 != 0
    }

    /// Whether all of `other` is set.
    pub const fn has_all(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The codes of SA in the upper byte of a status (IBA 15.2.4, table 184).
pub struct SaStatus;

impl SaStatus {
    /// No room for what was to be made.
    pub const NO_RESOURCES: Status = Status(0x0100);
    /// The request contradicts itself or what there is.
    pub const REQ_INVALID: Status = Status(0x0200);
    /// Nothing matches a Get.
    pub const NO_RECORDS: Status = Status(0x0300);
    /// More than one record matches a Get.
    pub const TOO_MANY_RECORDS: Status = Status(0x0400);
    /// A GID that is no port's.
    pub const INVALID_GID: Status = Status(0x0500);
    /// The mask lacks what the request needs.
    pub const INSUFFICIENT_COMPONENTS: Status = Status(0x0600);
    /// Not for this requester.
    pub const DENIED: Status = Status(0x0700);
}

/// A request or an answer of SA, its record as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaRequest {
    /// What to do, or that it was done.
    pub method: Method,
    /// How it went.
    pub status: Status,
    /// Pairs an answer with its request.
    pub transaction_id: TransactionId,
    /// Which record.
    pub attribute: AttributeId,
    /// Which variant of it.
    pub modifier: u32,
    /// The requester's key.
    pub sm_key: SmKey,
    /// From one record to the next, in words of 8 bytes.
    pub attribute_offset: u16,
    /// Which fields count.
    pub mask: ComponentMask,
    /// The data of this MAD, or of all segments.
    pub data: Vec<u8>,
}

impl SaRequest {
    /// A request about `record`, of which the fields in `mask` count.
    pub fn new<R: Record>(method: Method, record: &R, mask: ComponentMask) -> Self {
        Self {
            method,
            status: Status::OK,
            transaction_id: TransactionId(0),
            attribute: R::ID,
            modifier: 0,
            sm_key: SmKey(0),
            attribute_offset: R::stride(),
            mask,
            data: record.bytes().as_ref().iter().copied().take(DATA).collect(),
        }
    }

    /// With this transaction id.
    pub fn transaction(self, id: u64) -> Self {
        Self { transaction_id: TransactionId(id), ..self }
    }

    /// With this key.
    pub fn key(self, key: u64) -> Self {
        Self { sm_key: SmKey(key), ..self }
    }

    /// Takes a MAD of SA apart. What its RMPP header says is left to [`rmpp`](crate::rmpp).
    ///
    /// # Errors
    /// When it is of another class, or its header breaks a rule.
    pub fn parse(mad: &Mad) -> Result<Self, Error> {
        let header = Header::parse(&mad.0)?;
        if header.class != Class::Administration {
            return Err(BadField {
                table: "MAD",
                field: "MgmtClass",
                value: header.class.code().into(),
                reason: "not subnet administration (IBA 15.2.1)",
            }
            .into());
        }
        let sa = SaHeader::view(&mad.0);
        Ok(Self {
            method: header.method,
            status: header.status,
            transaction_id: header.transaction_id,
            attribute: header.attribute,
            modifier: header.modifier.0,
            sm_key: sa.sm_key(),
            attribute_offset: sa.attribute_offset(),
            mask: sa.mask(),
            data: mad.0[DATA_AT..].to_vec(),
        })
    }

    /// The MAD, with the first [`DATA`] bytes of data and no RMPP header.
    pub fn mad(&self) -> Mad {
        let mut mad = Mad::ZERO;
        Header::edit(&mut mad.0)
            .base_version(1)
            .class(Class::Administration)
            .class_version(2)
            .method(self.method)
            .status(self.status)
            .transaction_id(self.transaction_id)
            .attribute(self.attribute)
            .modifier(Hex32(self.modifier));
        SaHeader::edit(&mut mad.0)
            .sm_key(self.sm_key)
            .attribute_offset(self.attribute_offset)
            .mask(self.mask);
        let length = self.data.len().min(DATA);
        mad.0[DATA_AT..DATA_AT + length].copy_from_slice(&self.data[..length]);
        mad
    }

    /// The record, if it is an `R`.
    ///
    /// # Errors
    /// When the attribute is another, or the record breaks a rule.
    pub fn record<R: Record>(&self) -> Result<R, Error> {
        if self.attribute != R::ID {
            return Err(Error::OtherAttribute {
                expected: R::LAYOUT.name,
                got: self.attribute.0,
                class: Class::Administration.code(),
            });
        }
        Ok(R::from_bytes(&self.data)?)
    }

    /// All records of a table: none where AttributeOffset is 0.
    pub fn records<R: Record>(&self) -> impl Iterator<Item = R> + '_ {
        let stride = usize::from(self.attribute_offset) * 8;
        let chunks = self.data.chunks_exact(stride.max(1));
        chunks.filter(move |_| stride > 0).filter_map(|bytes| R::from_bytes(bytes).ok())
    }
}

impl Mad {
    /// The RMPP header, unjudged; without meaning in classes without RMPP.
    #[inline(always)]
    pub const fn rmpp(&self) -> crate::View<'_, Rmpp> {
        Rmpp::view(&self.0)
    }
}
