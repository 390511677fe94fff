//! When certificates end: that is told a month before, while a new one can be made in peace.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use serde::Serialize;

use super::credentials::CredentialsError;
use crate::pki::date;

/// So long before its end a certificate is told of.
const AHEAD: Duration = Duration::from_secs(30 * 86_400);

/// A certificate that has ended, or ends within a month.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Expiry {
    /// It has ended: no session begins with it.
    pub is_over: bool,
    /// Which, when, and what makes a new one. One line.
    pub line: String,
}

/// The end of the certificate of several that ends first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct End {
    /// Seconds since 1970.
    pub(super) until: u64,
    file: PathBuf,
    /// Whose certificate it is, and what makes a new one.
    whose: String,
    cure: String,
}

impl End {
    /// Of the certificates in a file, which are `whose`.
    pub(super) fn first(
        chain: &[CertificateDer<'_>],
        file: &std::path::Path,
        (whose, cure): (&str, &str),
    ) -> Result<Option<Self>, CredentialsError> {
        let mut first: Option<u64> = None;
        for certificate in chain {
            let (_, read) = x509_parser::parse_x509_certificate(certificate).map_err(|error| {
                CredentialsError::Content { path: file.to_owned(), what: error.to_string() }
            })?;
            let until = u64::try_from(read.validity().not_after.timestamp()).unwrap_or(0);
            first = Some(first.map_or(until, |first| first.min(until)));
        }
        let of = |until| Self {
            until,
            file: file.to_owned(),
            whose: whose.to_owned(),
            cure: cure.to_owned(),
        };
        Ok(first.map(of))
    }

    /// What there is to tell of it.
    pub(super) fn expiry(&self, now: SystemTime) -> Option<Expiry> {
        let Self { until, file, whose, cure } = self;
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(*until);
        let left = end.duration_since(now).unwrap_or(Duration::ZERO);
        let (file, on) = (file.display(), date(*until));
        let line = match left {
            Duration::ZERO => format!(
                "{file}: the certificate of {whose} ended on {on}: no session begins: {cure}"
            ),
            left if left < AHEAD => {
                format!("{file}: the certificate of {whose} ends on {on}: {cure}")
            }
            _ => return None,
        };
        Some(Expiry { is_over: left == Duration::ZERO, line })
    }
}
