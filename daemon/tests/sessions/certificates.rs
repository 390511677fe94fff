//! Certificates: which are valid, for which identity, until when.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use snin_daemon::pki::Pki;
use snin_daemon::session::{Address, Count, Limits};

use super::support::{Desk, Good, Site, agent};

#[tokio::test]
async fn who_has_a_certificate_has_a_session_under_its_name() {
    let site = Site::new();
    let mut desk = Desk::tls(&site, Limits::default());
    let mut good = Good::call(&desk.addresses[0], agent(7), Some(site.credentials(&agent(7))));
    assert_eq!(good.opened().await, "controller/ctl1");
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    for sent in 0..100 {
        good.asks(sent).await;
    }
    drop(good);
    assert!(desk.next().await.starts_with("agent/0x0000000000000007 is gone"));
}

#[tokio::test]
async fn without_a_certificate_there_is_no_session_and_others_are_unharmed() {
    let site = Site::new();
    let mut desk = Desk::tls(&site, Limits::default());
    let mut good = Good::call(&desk.addresses[0], agent(7), Some(site.credentials(&agent(7))));
    good.opened().await;
    desk.next().await;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(site.pki.file("ca.crt")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let Address::Tls(address) = desk.addresses[0].clone() else { panic!() };
    let refused = tokio::task::spawn_blocking(move || {
        let name = "controller.snin.internal".try_into().unwrap();
        let mut tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        stream.write_all(b"hello").and_then(|()| stream.read(&mut [0; 10])).unwrap_err()
    });
    assert!(refused.await.unwrap().to_string().contains("CertificateRequired"));
    desk.counts(Count::Handshake, 1).await;
    good.asks(1).await;
    assert_eq!(desk.so_far(), [""; 0]);
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused_at_both_ends() {
    let site = Site::new();
    let mut desk = Desk::tls(&site, Limits::default());
    let other = Site::new();
    let pair = other.pki.issue(&agent(8), 10, None).unwrap();
    // A caller that trusts only its own CA, and one that trusts the site's.
    let both = [other.pki.file("ca.crt"), site.pki.file("ca.crt")];
    let rogues =
        both.map(|ca| Good::call(&desk.addresses[0], agent(8), Some(other.load(&pair, &ca))));
    let mut good = Good::call(&desk.addresses[0], agent(7), Some(site.credentials(&agent(7))));
    good.opened().await;
    desk.counts(Count::Handshake, 4).await;
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    assert_eq!(desk.so_far(), [""; 0]);
    assert!(rogues.iter().all(|rogue| !rogue.0.is_open()));
}

#[tokio::test]
async fn nobody_speaks_for_another_port() {
    let site = Site::new();
    let mut desk = Desk::tls(&site, Limits::default());
    let mut good = Good::call(&desk.addresses[0], agent(7), Some(site.credentials(&agent(7))));
    good.opened().await;
    let rogue = Good::call(&desk.addresses[0], agent(7), Some(site.credentials(&agent(8))));
    desk.counts(Count::Imposter, 2).await;
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    assert_eq!(desk.so_far(), [""; 0], "the session of the port's own agent was not replaced");
    assert!(!rogue.0.is_open());
    // And an agent's certificate makes no controller of it.
    let pair = site.pki.issue(&agent(9), 10, None).unwrap();
    let poser = Desk::open(
        &["tls://127.0.0.1:0"],
        Limits::default(),
        Some(site.load(&pair, &site.pki.file("ca.crt"))),
    );
    let misled = Good::call(&poser.addresses[0], agent(10), Some(site.credentials(&agent(10))));
    poser.counts(Count::Handshake, 1).await;
    assert!(!misled.0.is_open());
}

#[tokio::test]
async fn a_revoked_certificate_ends_its_session_and_opens_no_other() {
    let site = Site::new();
    let credentials = site.credentials(&super::support::controller());
    let mut desk = Desk::open(&["tls://127.0.0.1:0"], Limits::default(), Some(credentials.clone()));
    let [mut good, mut bad] = [7, 8].map(|number| {
        Good::call(&desk.addresses[0], agent(number), Some(site.credentials(&agent(number))))
    });
    good.opened().await;
    bad.opened().await;
    desk.next().await;
    desk.next().await;
    site.pki.revoke(&agent(8)).unwrap();
    assert!(credentials.refresh().unwrap() || desk.tally.get(Count::Revoked) == 1);
    let gone = desk.next().await;
    assert!(
        gone.starts_with("agent/0x0000000000000008 is gone: its certificate is not good"),
        "{gone}"
    );
    assert_eq!(desk.tally.get(Count::Revoked), 1);
    desk.counts(Count::Handshake, 2).await;
    good.asks(1).await;
    assert_eq!(desk.so_far(), [""; 0]);
}

#[tokio::test]
async fn a_renewed_certificate_makes_no_break() {
    let site = Site::new();
    let mut desk = Desk::tls(&site, Limits::default());
    let credentials = site.credentials(&agent(7));
    let mut good = Good::call(&desk.addresses[0], agent(7), Some(credentials.clone()));
    good.opened().await;
    good.asks(1).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    site.pki.renew(&agent(7), 20, None).unwrap();
    credentials.refresh().unwrap();
    good.opened().await;
    good.asks(2).await;
    assert_eq!(desk.next().await, "agent/0x0000000000000007 is there");
    assert_eq!(desk.so_far(), [""; 0], "it was never gone");
    assert_eq!(desk.tally.get(Count::Replaced), 1);
}

#[test]
fn a_key_that_others_can_read_is_none() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new();
    let pair = Pki::at(site.folder.path()).issue(&agent(7), 10, None).unwrap();
    std::fs::set_permissions(&pair.key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let files = snin_daemon::session::Files {
        certificate: pair.certificate,
        key: pair.key,
        ca_certificate: site.pki.file("ca.crt"),
        revoked: None,
    };
    let error = snin_daemon::session::Credentials::load(files).unwrap_err().to_string();
    assert!(error.contains("others can read this key"), "{error}");
}
