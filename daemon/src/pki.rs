//! A site's own CA: a folder with its certificate, key and revocation list, and what it has issued.
//!
//! | file | mode | what it is |
//! |---|---|---|
//! | `ca.crt` | 0644 | the CA's certificate: every daemon's `ca_certificate` |
//! | `ca.key` | 0600 | its key, which never leaves this folder |
//! | `revoked.pem` | 0644 | its revocation list: every daemon's `revoked` |
//! | `issued.json` | 0600 | serial number, name and end of every certificate |
//! | `ROLE-NAME.crt`, `.key` | 0644, 0600 | a daemon's |
//!
//! Keys are ECDSA P-256, which every TLS library knows.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SerialNumber,
};
use serde::{Deserialize, Serialize};
use snin_protocol::identity::{Identity, Role};

use crate::store::{self, StoreError};

/// Clocks of a site's machines are within this of each other.
const SKEW: Duration = Duration::from_secs(300);
/// A hundred years: what is longer is a mistake, and no date of a certificate.
const LONGEST: u32 = 36_500;
const DAY: Duration = Duration::from_secs(86_400);

/// Why something is not done. One line.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file that has to be replaced as a whole.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is a CA already: another would make all its certificates worthless.
    #[error("{}: there is a CA already: its certificates would all be refused by another's daemons", .0.display())]
    Exists(PathBuf),
    /// No CA.
    #[error("{}: there is no CA: `snin pki init --dir {}` makes one", .0.display(), .0.display())]
    NoCa(PathBuf),
    /// The list of what was issued is none.
    #[error("{}: {what}", path.display())]
    Garbled {
        /// Which file.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// A certificate of that name is in force.
    #[error("{0} has a certificate until {1}: `snin pki renew {0}` makes a new one")]
    HasOne(Identity, String),
    /// None.
    #[error("{0} has no certificate in force: `snin pki issue {0}` makes one")]
    HasNone(Identity),
    /// The certificate cannot be made.
    #[error("the certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// A certificate for no time, or for longer than anybody means.
    #[error("{0} days: a certificate is for 1 to {LONGEST} days")]
    Days(u32),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    NoRandom,
}

/// A certificate as the CA remembers it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Issued {
    /// Hexadecimal.
    pub serial: String,
    /// Whose: `controller/ctl1`.
    pub name: String,
    /// Seconds since 1970 at which it ends.
    pub until: u64,
    /// Seconds since 1970 at which it was revoked.
    pub revoked: Option<u64>,
}

impl Issued {
    /// Whether it is neither over nor revoked.
    pub fn is_in_force(&self) -> bool {
        self.revoked.is_none() && self.until > seconds(SystemTime::now())
    }

    /// When it ends, as RFC 3339 has it.
    pub fn end(&self) -> String {
        date(self.until)
    }
}

/// The files of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Pki {
    folder: PathBuf,
}

impl Pki {
    /// The CA of a folder, there or not.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Makes the CA.
    ///
    /// # Errors
    /// When there is one, and what the system says.
    pub fn init(&self, name: &str, days: u32) -> Result<(), PkiError> {
        let (certificate, key) = (self.file("ca.crt"), self.file("ca.key"));
        if certificate.exists() || key.exists() {
            return Err(PkiError::Exists(self.folder.clone()));
        }
        let mut params = params(days)?;
        fs::create_dir_all(&self.folder)
            .map_err(|error| PkiError::File { path: self.folder.clone(), error })?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pair = KeyPair::generate()?;
        let made = params.self_signed(&pair)?;
        write(&key, pair.serialize_pem().as_bytes(), 0o600)?;
        write(&certificate, made.pem().as_bytes(), 0o644)?;
        self.keep(&[])
    }

    /// Makes a certificate and its key; they are written to `to`, or into the CA's folder.
    ///
    /// # Errors
    /// When there is no CA, when the name has a certificate already, and what the system says.
    pub fn issue(&self, who: &Identity, days: u32, to: Option<&Path>) -> Result<Pair, PkiError> {
        let issued = self.issued()?;
        if let Some(one) = in_force(&issued, who).next() {
            return Err(PkiError::HasOne(who.clone(), one.end()));
        }
        self.make(who, days, to, issued)
    }

    /// Makes a new certificate with a new key. What the old one's owner has open goes on, and the old one is good
    /// until it ends: daemons take the new files by themselves.
    ///
    /// # Errors
    /// When there is none to renew, and what the system says.
    pub fn renew(&self, who: &Identity, days: u32, to: Option<&Path>) -> Result<Pair, PkiError> {
        let issued = self.issued()?;
        if in_force(&issued, who).next().is_none() {
            return Err(PkiError::HasNone(who.clone()));
        }
        self.make(who, days, to, issued)
    }

    /// Revokes all certificates of a name; how many. Daemons that have the list end their sessions.
    ///
    /// # Errors
    /// When there is none, and what the system says.
    pub fn revoke(&self, who: &Identity) -> Result<usize, PkiError> {
        let mut issued = self.issued()?;
        let count = in_force(&issued, who).count();
        if count == 0 {
            return Err(PkiError::HasNone(who.clone()));
        }
        let (name, now) = (who.to_string(), seconds(SystemTime::now()));
        for one in issued.iter_mut().filter(|one| one.name == name && one.is_in_force()) {
            one.revoked = Some(now);
        }
        self.keep(&issued)?;
        Ok(count)
    }

    /// Everything that was issued, oldest first.
    ///
    /// # Errors
    /// When there is no CA, and what the system says.
    pub fn issued(&self) -> Result<Vec<Issued>, PkiError> {
        if !self.file("ca.crt").exists() {
            return Err(PkiError::NoCa(self.folder.clone()));
        }
        let path = self.file("issued.json");
        let text = fs::read(&path).map_err(|error| PkiError::File { path: path.clone(), error })?;
        serde_json::from_slice(&text)
            .map_err(|error| PkiError::Garbled { path, what: error.to_string() })
    }

    fn make(
        &self,
        who: &Identity,
        days: u32,
        to: Option<&Path>,
        mut issued: Vec<Issued>,
    ) -> Result<Pair, PkiError> {
        let mut params = params(days)?;
        params.distinguished_name.push(DnType::CommonName, who.to_string());
        let names = match who.role() {
            // No caller looks for these by their role.
            Role::Agent | Role::Operator | Role::Launcher => vec![who.dns()],
            role @ (Role::Manager | Role::Controller) => vec![who.dns(), role.dns()],
        };
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate()?;
        let made = params.signed_by(&pair, &self.issuer()?)?;
        let folder = to.unwrap_or(&self.folder);
        fs::create_dir_all(folder)
            .map_err(|error| PkiError::File { path: folder.to_owned(), error })?;
        let stem = who.to_string().replace('/', "-");
        let files = Pair {
            certificate: folder.join(format!("{stem}.crt")),
            key: folder.join(format!("{stem}.key")),
        };
        let serial = params.serial_number.as_ref().map(SerialNumber::to_bytes).unwrap_or_default();
        issued.push(Issued {
            serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
            name: who.to_string(),
            until: seconds(SystemTime::now()) + u64::from(days) * DAY.as_secs(),
            revoked: None,
        });
        // Kept before it exists: a certificate that is not on the list cannot be revoked.
        self.keep(&issued)?;
        write(&files.key, pair.serialize_pem().as_bytes(), 0o600)?;
        write(&files.certificate, made.pem().as_bytes(), 0o644)?;
        Ok(files)
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, PkiError> {
        let read = |name: &str| {
            let path = self.file(name);
            fs::read_to_string(&path).map_err(|error| PkiError::File { path, error })
        };
        let key = KeyPair::from_pem(&read("ca.key")?)?;
        Ok(Issuer::from_ca_cert_pem(&read("ca.crt")?, key)?)
    }

    /// Writes what was issued, and the list of what is revoked.
    fn keep(&self, issued: &[Issued]) -> Result<(), PkiError> {
        let path = self.file("issued.json");
        let text = serde_json::to_vec_pretty(issued)
            .map_err(|error| PkiError::Garbled { path: path.clone(), what: error.to_string() })?;
        write(&path, &text, 0o600)?;
        let revoked = issued.iter().filter_map(|one| Some((one, one.revoked?)));
        let revoked_certs = revoked
            .map(|(one, at)| RevokedCertParams {
                serial_number: SerialNumber::from_slice(&bytes(&one.serial)),
                revocation_time: (SystemTime::UNIX_EPOCH + Duration::from_secs(at)).into(),
                reason_code: Some(RevocationReason::Unspecified),
                invalidity_date: None,
            })
            .collect();
        let now = SystemTime::now();
        let list = CertificateRevocationListParams {
            this_update: (now - SKEW).into(),
            next_update: (now + DAY * 3650).into(),
            crl_number: SerialNumber::from(seconds(now)),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer()?)?;
        write(&self.file("revoked.pem"), list.pem()?.as_bytes(), 0o644)
    }
}

fn in_force<'a>(issued: &'a [Issued], who: &Identity) -> impl Iterator<Item = &'a Issued> {
    let name = who.to_string();
    issued.iter().filter(move |one| one.name == name && one.is_in_force())
}

fn params(days: u32) -> Result<CertificateParams, PkiError> {
    if !(1..=LONGEST).contains(&days) {
        return Err(PkiError::Days(days));
    }
    let mut params = CertificateParams::new(Vec::new())?;
    let now = SystemTime::now();
    params.not_before = (now - SKEW).into();
    params.not_after = (now + DAY * days).into();
    let mut serial = [0; 16];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut serial).map_err(|_| PkiError::NoRandom)?;
    // Serial numbers are positive, and this one is never shortened.
    serial[0] = serial[0] & 0x3F | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.filter_map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// As RFC 3339 has it.
pub(crate) fn date(seconds: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Replaces a file as a whole, with its mode from the first byte on.
fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), PkiError> {
    let failed = |error| PkiError::File { path: path.to_owned(), error };
    let beside = path.with_extension("new");
    // A file that was left behind may have another mode.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)
        .map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    store::sync_folder(folder.unwrap_or_else(|| Path::new("."))).map_err(PkiError::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_site_issues_renews_and_revokes() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::at(folder.path());
        let who: Identity = "controller/ctl1".parse().unwrap();
        assert!(matches!(pki.issue(&who, 1, None), Err(PkiError::NoCa(_))));
        pki.init("a site", 10).unwrap();
        assert!(matches!(pki.init("a site", 10), Err(PkiError::Exists(_))));
        for days in [0, 36_501, u32::MAX] {
            let told = format!("{days} days: a certificate is for 1 to 36500 days");
            assert_eq!(pki.issue(&who, days, None).unwrap_err().to_string(), told);
            assert!(pki.issued().unwrap().is_empty() && !pki.file("controller-ctl1.crt").exists());
            let elsewhere = folder.path().join("other");
            assert_eq!(Pki::at(&elsewhere).init("a site", days).unwrap_err().to_string(), told);
            assert!(!elsewhere.exists());
        }
        let pair = pki.issue(&who, 1, None).unwrap();
        assert!(matches!(pki.renew(&who, 0, None), Err(PkiError::Days(0))));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&pair.key), mode(&pair.certificate)), (0o600, 0o644));
        assert_eq!((mode(&pki.file("ca.key")), mode(&pki.file("revoked.pem"))), (0o600, 0o644));
        assert!(matches!(pki.issue(&who, 1, None), Err(PkiError::HasOne(..))));
        let first = fs::read(&pair.certificate).unwrap();
        pki.renew(&who, 1, None).unwrap();
        assert_ne!(fs::read(&pair.certificate).unwrap(), first);
        assert_eq!(pki.revoke(&who).unwrap(), 2);
        assert!(matches!(pki.renew(&who, 1, None), Err(PkiError::HasNone(_))));
        assert_eq!(pki.issued().unwrap().len(), 2);
        pki.issue(&who, 1, None).unwrap();
        let serials: std::collections::BTreeSet<String> =
            pki.issued().unwrap().into_iter().map(|one| one.serial).collect();
        assert_eq!(serials.len(), 3);
    }
}
