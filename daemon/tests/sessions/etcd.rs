//! The store that a cluster shares, on real members of etcd.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, Issuer, KeyPair};
use snin_daemon::pki::Pki;
use snin_daemon::session::Files;
use snin_daemon::shared::{Conflict, SharedError, Versioned, cluster};
use snin_judges::{Etcd, EtcdFiles, JudgeError};
use snin_protocol::identity::{Identity, Role};

#[test]
fn keys_change_by_who_has_seen_them_and_members_may_die() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = Etcd::new(folder.path(), 3, None)?;
    let (one, other) =
        (cluster(&etcd.address(), None).unwrap(), cluster(&etcd.address(), None).unwrap());
    let error = one.get("term").unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:") && !error.contains('\n'), "{error}");
    etcd.start()?;

    let changes = other.watch("blacklist/");
    let first = one.compare_and_swap("term", None, Some(b"1")).unwrap().unwrap();
    let late = other.compare_and_swap("term", None, Some(b"9")).unwrap();
    assert_eq!(late, Err(Conflict(Some(Versioned { revision: first, value: b"1".to_vec() }))));
    let second = other.compare_and_swap("term", Some(first), Some(b"2")).unwrap().unwrap();
    assert!(second > first);
    assert_eq!(etcd.get("term")?, "2");
    // A watch begins when it is set up; what comes after that is told.
    let begin = Instant::now();
    let seen = loop {
        etcd.put("blacklist/0x1", &begin.elapsed().as_millis().to_string())?;
        if let Ok(seen) = changes.recv_timeout(Duration::from_millis(200)) {
            break seen;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "no change is told");
    };
    assert_eq!(seen.key, "blacklist/0x1");

    // What is attached goes with who attached it; a lease is one's own.
    one.attach("managers/0x1", b"here").unwrap();
    assert!(one.lease("leader").unwrap() && one.lease("leader").unwrap());
    assert!(!other.lease("leader").unwrap());
    assert_eq!(other.list("managers/").unwrap()[0].1.value, b"here");
    drop(one);
    assert_eq!(other.list("managers/").unwrap(), []);
    assert!(other.lease("leader").unwrap());

    etcd.kill(0);
    let begin = Instant::now();
    while let Err(error) = other.get("term") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{error}");
    }
    etcd.kill(1);
    assert!(matches!(other.get("term"), Err(SharedError::Unreachable(_))));
    Ok(())
}

/// A member whose answers are lost from some time on, while what it is asked is done.
pub(crate) struct Mute {
    pub(crate) address: String,
    pub(crate) is_mute: Arc<AtomicBool>,
}

impl Mute {
    pub(crate) fn before(member: &str) -> Self {
        let (listener, member) = (TcpListener::bind("127.0.0.1:0").unwrap(), member.to_owned());
        let address = listener.local_addr().unwrap().to_string();
        let is_mute = Arc::new(AtomicBool::new(false));
        let mute = is_mute.clone();
        thread::spawn(move || {
            for asking in listener.incoming() {
                let (mut asking, mut member) =
                    (asking.unwrap(), TcpStream::connect(&member).unwrap());
                let (mut asks, mut answers) =
                    (asking.try_clone().unwrap(), member.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut asks, &mut member));
                let mute = mute.clone();
                thread::spawn(move || {
                    let mut piece = [0; 4_096];
                    while let Ok(size @ 1..) = answers.read(&mut piece) {
                        if !mute.load(Ordering::Relaxed) {
                            asking.write_all(&piece[..size]).unwrap();
                        }
                    }
                });
            }
        });
        Self { address, is_mute }
    }
}

#[test]
fn a_change_whose_answer_is_lost_is_done_once_and_is_no_conflict() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = Etcd::new(folder.path(), 1, None)?;
    etcd.start()?;
    let address = etcd.address();
    let member = address.strip_prefix("etcd://").unwrap();
    let member = member.split(['/', ',']).next().unwrap();
    let mute = Mute::before(member);
    let folder = address.rsplit_once('/').filter(|(hosts, _)| hosts.contains(':'));
    let folder = folder.map_or("snin", |(_, folder)| folder);
    let ours = cluster(&format!("etcd://{},{member}/{folder}", mute.address), None).unwrap();
    let other = cluster(&format!("etcd://{member}/{folder}"), None).unwrap();
    let first = ours.compare_and_swap("term", None, Some(b"1 by us")).unwrap().unwrap();
    mute.is_mute.store(true, Ordering::Relaxed);
    let second = ours.compare_and_swap("term", Some(first), Some(b"2 by us")).unwrap();
    let held = other.get("term").unwrap().unwrap();
    assert_eq!((second, held.value), (Ok(held.revision), b"2 by us".to_vec()));
    // What somebody else did is a conflict as before.
    let third = other.compare_and_swap("term", Some(held.revision), Some(b"3 by them")).unwrap();
    let late = ours.compare_and_swap("term", Some(held.revision), Some(b"3 by us")).unwrap();
    let now = Versioned { revision: third.unwrap(), value: b"3 by them".to_vec() };
    assert_eq!(late, Err(Conflict(Some(now))));
    Ok(())
}

/// The certificate of a member: of its address, by the site's CA.
fn member(pki: &Pki, folder: &Path) -> EtcdFiles {
    let read = |name: &str| fs::read_to_string(pki.file(name)).unwrap();
    let issuer = KeyPair::from_pem(&read("ca.key")).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), issuer).unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let pair = KeyPair::generate().unwrap();
    let made = params.signed_by(&pair, &issuer).unwrap();
    let files = EtcdFiles {
        certificate: folder.join("etcd.crt"),
        key: folder.join("etcd.key"),
        ca: pki.file("ca.crt"),
    };
    fs::write(&files.certificate, made.pem()).unwrap();
    fs::write(&files.key, pair.serialize_pem()).unwrap();
    files
}

#[test]
fn over_tls_both_ends_show_certificates() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::at(folder.path());
    pki.init("a site", 30).unwrap();
    let mut etcd = Etcd::new(folder.path(), 1, Some(member(&pki, folder.path())))?;
    let who = Identity::new(Role::Manager, "sm1").unwrap();
    let pair = pki.issue(&who, 10, None).unwrap();
    let files = |ca_certificate| Files {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
        ca_certificate,
        revoked: None,
    };
    etcd.start()?;
    let ours = cluster(&etcd.address(), Some(&files(pki.file("ca.crt")))).unwrap();
    ours.compare_and_swap("term", None, Some(b"1")).unwrap().unwrap();
    assert_eq!(etcd.get("term")?, "1");

    // A CA that did not issue the member's certificate, and no certificate at all.
    let others = Pki::at(&folder.path().join("other"));
    others.init("another site", 30).unwrap();
    let strange = cluster(&etcd.address(), Some(&files(others.file("ca.crt")))).unwrap();
    assert!(matches!(strange.get("term"), Err(SharedError::Unreachable(_))));
    assert!(matches!(cluster(&etcd.address(), None), Err(SharedError::Address { .. })));
    Ok(())
}
