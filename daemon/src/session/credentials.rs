//! Certificate, key, CA and revocation list of a daemon, and what TLS makes of them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, Connection, RootCertStore, ServerConfig};
use snin_protocol::identity::Identity;
use tokio::sync::watch;

use super::end::SessionEnd;
use super::expiry::{End, Expiry};
use crate::metrics::Page;

/// What both ends say that they speak within TLS.
const ALPN: &[u8] = b"snin";

/// That a certificate ends is logged so often.
const DAY: Duration = Duration::from_secs(86_400);

/// Where they are: PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    /// The daemon's certificate, and what is between it and the CA.
    pub certificate: PathBuf,
    /// Its key, which others cannot read.
    pub key: PathBuf,
    /// The certificates of those whose word counts.
    pub ca_certificate: PathBuf,
    /// The CA's list of revoked certificates.
    pub revoked: Option<PathBuf>,
}

/// The keys of a configuration that name certificates: every daemon's.
pub const KEYS: [&str; 4] = ["certificate", "key", "ca_certificate", "revoked"];

/// Some of the files are configured, one is not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("certificate, key and ca_certificate go together: {0} is missing")]
pub struct MissingFile(pub &'static str);

/// What is wrong with one of them. One line.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is no PEM, or not of what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// Anybody could be this daemon.
    #[error("{}: others can read this key: chmod o= {}", .0.display(), .0.display())]
    KeyIsPublic(PathBuf),
    /// Certificate, key and CA do not go together.
    #[error("{}: {what}", path.display())]
    Unfit {
        /// The certificate.
        path: PathBuf,
        /// The error, in words.
        what: String,
    },
    /// The certificate names no identity, or several.
    #[error(
        "{}: the certificate names nobody in snin.internal: `snin pki issue` makes one that does",
        .0.display()
    )]
    Nameless(PathBuf),
}

/// What TLS makes of the files as they were read last.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
    callers: Arc<dyn ClientCertVerifier>,
    called: Arc<WebPkiServerVerifier>,
    own: Identity,
    /// Of these certificates the one that ends first.
    end: Option<End>,
}

/// See the module's documentation. Sessions see when it changes.
#[derive(Debug)]
pub struct Credentials {
    files: Files,
    tls: watch::Sender<Arc<Tls>>,
    stamps: std::sync::Mutex<Vec<Option<(SystemTime, u64)>>>,
    /// When it was logged that a certificate ends, and whether it had.
    warned: std::sync::Mutex<Option<(Instant, bool)>>,
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn load(files: Files) -> Result<Self, CredentialsError> {
        let stamps = std::sync::Mutex::new(files.stamps());
        let tls = watch::Sender::new(Arc::new(Tls::load(&files)?));
        let warned = std::sync::Mutex::new(None);
        Ok(Self { files, tls, stamps, warned })
    }

    /// Reads the files again if one of them is another than before; whether that was so. Sessions whose
    /// certificates are not good any more end; callers whose own certificate is new call with that before
    /// they end what they have.
    ///
    /// # Errors
    /// What is wrong with one of them; what was read before stays in force.
    pub fn refresh(&self) -> Result<bool, CredentialsError> {
        let stamps = self.files.stamps();
        let mut known = self.stamps.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known == stamps {
            return Ok(false);
        }
        *known = stamps;
        self.tls.send_replace(Arc::new(Tls::load(&self.files)?));
        Ok(true)
    }

    /// The certificate that has ended, or ends within a month, its own or the CA's.
    pub fn expiry(&self, now: SystemTime) -> Option<Expiry> {
        self.tls.borrow().end.as_ref()?.expiry(now)
    }

    /// Seconds since 1970 at which the first of them ends.
    pub fn until(&self) -> Option<u64> {
        self.tls.borrow().end.as_ref().map(|end| end.until)
    }

    /// When the first of them ends, as a metric whose name begins so.
    pub fn export(&self, prefix: &str, page: &mut Page) {
        if let Some(until) = self.until() {
            let help =
                "Seconds since 1970 at which the first certificate ends, its own or the CA's";
            page.gauge(&format!("{prefix}_certificate_end_seconds"), help, until as f64);
        }
    }

    /// Logs once a day, and when it ends, that a certificate ends.
    pub(crate) fn warn(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(Expiry { is_over, line }) = self.expiry(SystemTime::now()) else {
            *warned = None;
            return;
        };
        if warned.is_none_or(|(at, was_over)| was_over != is_over || at.elapsed() >= DAY) {
            *warned = Some((Instant::now(), is_over));
            tracing::warn!("{line}");
        }
    }

    /// Whose they are.
    pub fn identity(&self) -> Identity {
        self.tls.borrow().own.clone()
    }

    pub(crate) fn now(&self) -> Arc<Tls> {
        self.tls.borrow().clone()
    }

    pub(super) fn changes(&self) -> watch::Receiver<Arc<Tls>> {
        self.tls.subscribe()
    }
}

impl Files {
    /// Of what a configuration says; `None` where it names no certificate.
    ///
    /// # Errors
    /// When it names some of the files and not the others that belong to them.
    pub fn configured(
        certificate: Option<&Path>,
        key: Option<&Path>,
        ca_certificate: Option<&Path>,
        revoked: Option<&Path>,
    ) -> Result<Option<Self>, MissingFile> {
        let missing = match (certificate, key, ca_certificate) {
            (Some(certificate), Some(key), Some(ca_certificate)) => {
                return Ok(Some(Self {
                    certificate: certificate.to_owned(),
                    key: key.to_owned(),
                    ca_certificate: ca_certificate.to_owned(),
                    revoked: revoked.map(ToOwned::to_owned),
                }));
            }
            (None, None, None) if revoked.is_none() => return Ok(None),
            (None, ..) => "certificate",
            (_, None, _) => "key",
            (_, _, None) => "ca_certificate",
        };
        Err(MissingFile(missing))
    }

    fn stamps(&self) -> Vec<Option<(SystemTime, u64)>> {
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            Some((found.modified().ok()?, found.len()))
        };
        let all =
            [&self.certificate, &self.key, &self.ca_certificate].into_iter().chain(&self.revoked);
        all.map(stamp).collect()
    }
}

fn read<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, pem::Error>,
) -> Result<T, CredentialsError> {
    let bytes =
        fs::read(path).map_err(|error| CredentialsError::File { path: path.to_owned(), error })?;
    parse(&bytes).map_err(|error| CredentialsError::Content {
        path: path.to_owned(),
        what: error.to_string(),
    })
}

fn all<T: PemObject>(path: &Path) -> Result<Vec<T>, CredentialsError> {
    let found: Vec<T> = read(path, |bytes| T::pem_slice_iter(bytes).collect())?;
    if found.is_empty() {
        return Err(CredentialsError::Content {
            path: path.to_owned(),
            what: "nothing of the kind is in it".to_owned(),
        });
    }
    Ok(found)
}

impl Tls {
    fn load(files: &Files) -> Result<Self, CredentialsError> {
        let unfit = |path: &Path| {
            let path = path.to_owned();
            move |what: &dyn std::fmt::Display| CredentialsError::Unfit {
                path: path.clone(),
                what: what.to_string(),
            }
        };
        let chain: Vec<CertificateDer<'static>> = all(&files.certificate)?;
        let mode = fs::metadata(&files.key)
            .map_err(|error| CredentialsError::File { path: files.key.clone(), error })?
            .permissions()
            .mode();
        if mode & 0o007 != 0 {
            return Err(CredentialsError::KeyIsPublic(files.key.clone()));
        }
        let key = read(&files.key, PrivateKeyDer::from_pem_slice)?;
        let mut roots = RootCertStore::empty();
        let authorities = all::<CertificateDer<'static>>(&files.ca_certificate)?;
        for root in authorities.clone() {
            roots.add(root).map_err(|error| unfit(&files.ca_certificate)(&error))?;
        }
        let roots = Arc::new(roots);
        let lists: Vec<CertificateRevocationListDer<'static>> = match &files.revoked {
            Some(path) => all(path)?,
            None => Vec::new(),
        };
        let own = owner(&chain[0])
            .ok_or_else(|| CredentialsError::Nameless(files.certificate.clone()))?;
        let name = own.to_string();
        let renew = format!("`snin pki renew {name}` makes a new one");
        let anew = "`snin pki init` in a new folder makes another, and all certificates are issued anew by it";
        let ends = [
            End::first(&chain, &files.certificate, (&name, &renew))?,
            End::first(&authorities, &files.ca_certificate, ("the CA", anew))?,
        ];
        let end = ends.into_iter().flatten().min();
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        // A CA without a list of its own has revoked nothing.
        let callers = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(lists.clone())
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| unfit(&files.ca_certificate)(&error))?;
        let called = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .with_crls(lists)
            .allow_unknown_revocation_status()
            .build()
            .map_err(|error| unfit(&files.ca_certificate)(&error))?;
        let versions = &[&rustls::version::TLS13];
        let wrong = |error: rustls::Error| unfit(&files.certificate)(&error);
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(wrong)?
            .with_client_cert_verifier(callers.clone())
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(wrong)?;
        // Callers call anew with a whole handshake, which is when certificates are looked at.
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![ALPN.to_vec()];
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(called.clone())
            .with_client_auth_cert(chain, key)
            .map_err(wrong)?;
        client.resumption = rustls::client::Resumption::disabled();
        client.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self { server: Arc::new(server), client: Arc::new(client), callers, called, own, end })
    }

    /// Whether a peer's certificate would still be accepted.
    pub(super) fn verify(&self, tls: &Connection, peer: &Identity) -> Result<(), SessionEnd> {
        let chain = tls.peer_certificates().unwrap_or_default();
        let Some((end, between)) = chain.split_first() else {
            return Err(SessionEnd::Revoked(rustls::Error::NoCertificatesPresented));
        };
        let verified = match tls {
            Connection::Server(_) => {
                self.callers.verify_client_cert(end, between, UnixTime::now()).map(drop)
            }
            Connection::Client(_) => {
                let name = server_name(&peer.dns());
                self.called.verify_server_cert(end, between, &name, &[], UnixTime::now()).map(drop)
            }
        };
        verified.map_err(SessionEnd::Revoked)
    }
}

/// The name that the certificate of a called daemon has.
pub(crate) fn server_name(dns: &str) -> ServerName<'static> {
    // Identities are DNS names by construction; an address that no certificate has stands in for
    // what cannot be.
    ServerName::try_from(dns.to_owned())
        .unwrap_or_else(|_| std::net::IpAddr::from([0, 0, 0, 0]).into())
}

/// The identity that a certificate names; `None` for none or several.
pub(crate) fn owner(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut named = certificate.valid_dns_names().filter_map(Identity::from_dns);
    let first = named.next()?;
    named.next().is_none().then_some(first)
}
