//! Answers to requests.

use snin_mad::sa::{Record, SaRequest, SaStatus};
use snin_mad::{AttributeId, Status};

/// Records, or the reason why there are none.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: Status,
    /// Of the records below, where it is another than the request's.
    pub(super) attribute: Option<AttributeId>,
    /// From one record to the next, in words of 8 bytes; 0 where there is none.
    pub(super) stride: u16,
    pub(super) data: Vec<u8>,
}

impl Answer {
    /// No, and why.
    pub(super) const fn refused(status: Status) -> Self {
        Self { status, attribute: None, stride: 0, data: Vec::new() }
    }

    /// One record.
    pub(super) fn one<R: Record>(record: &R) -> Self {
        Self::many([record])
    }

    /// Records of one kind, none perhaps.
    pub(super) fn many<'a, R: Record + 'a>(records: impl IntoIterator<Item = &'a R>) -> Self {
        let mut data = Vec::new();
        for record in records {
            append(&mut data, record);
        }
        Self { status: Status::OK, attribute: Some(R::ID), ..Self::table(R::stride(), data) }
    }

    /// Records as bytes.
    pub(super) const fn table(stride: u16, data: Vec<u8>) -> Self {
        let stride = if data.is_empty() { 0 } else { stride };
        Self { status: Status::OK, attribute: None, stride, data }
    }

    /// How many records there are.
    pub(super) fn count(&self) -> usize {
        self.data.len().checked_div(usize::from(self.stride) * 8).unwrap_or(0)
    }

    /// What a Get says: exactly one record, or why not (IBA 15.4.4).
    pub(super) fn only(self) -> Result<Self, Status> {
        match self.count() {
            0 => Err(SaStatus::NO_RECORDS),
            1 => Ok(self),
            _ => Err(SaStatus::TOO_MANY_RECORDS),
        }
    }
}

/// Appends a record, padded to whole words.
pub(super) fn append<R: Record>(data: &mut Vec<u8>, record: &R) {
    let bytes = record.bytes();
    let length = usize::from(R::stride()) * 8;
    let bytes = bytes.as_ref();
    data.extend_from_slice(&bytes[..length.min(bytes.len())]);
    data.resize(data.len() + length.saturating_sub(bytes.len()), 0);
}

/// The status for a method that an attribute does not have, or that no attribute has.
pub(super) fn refusal(attribute: AttributeId, method: snin_mad::Method) -> Status {
    use snin_mad::Method;
    let known = snin_mad::sa::layout(attribute).is_some();
    match method {
        Method::Get
        | Method::Set
        | Method::GetTable
        | Method::GetTraceTable
        | Method::GetMulti
        | Method::Delete => Status::BAD_METHOD_ATTRIBUTE,
        _ if known => Status::BAD_METHOD,
        _ => Status::BAD_METHOD_ATTRIBUTE,
    }
}

/// What a handler says: an answer, or the status with which it refuses.
pub(super) type SaResult = Result<Answer, Status>;

/// The record in a request.
pub(super) fn record<R: Record>(request: &SaRequest) -> Result<R, Status> {
    request.record::<R>().map_err(|_| SaStatus::REQ_INVALID)
}
