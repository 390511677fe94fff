//! One leader among several, on real members of etcd.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snin_daemon::shared::{Candidacy, Changes, Election, SharedError, Values, election};
use snin_judges::{Etcd, JudgeError};

use crate::etcd::Mute;

/// However busy the machine, by then it is so.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a lease, in seconds.
const LEASE: u32 = 2;

fn candidate(address: &str) -> Box<dyn Election> {
    election(address, None, "snin", LEASE).unwrap()
}

/// What the winner alone changes, and its predecessor's lease.
type Won = (Arc<dyn Values>, Option<Duration>);

fn stand(candidate: &mut dyn Election, name: &str) -> Result<Won, String> {
    match candidate.stand(name.as_bytes()).unwrap() {
        Candidacy::Won { values, predecessor } => Ok((values, predecessor)),
        Candidacy::Other(leader) => Err(String::from_utf8(leader).unwrap()),
    }
}

/// Stands again and again until it leads.
fn wins(candidate: &mut dyn Election, name: &str) -> Won {
    let begin = Instant::now();
    loop {
        if let Ok(won) = stand(candidate, name) {
            return won;
        }
        assert!(begin.elapsed() < PATIENCE, "{name} is not elected");
    }
}

fn put(values: &dyn Values, value: &str) -> Result<(), SharedError> {
    let value = Some(value.as_bytes().to_vec());
    values.put_all(&Changes::from([("a".to_owned(), value.clone()), ("b".to_owned(), value)]))
}

fn is_deposed(done: Result<(), SharedError>, by: &str) -> bool {
    matches!(done, Err(SharedError::Deposed(leader)) if leader == by)
}

#[test]
fn who_lost_its_lease_changes_nothing_any_more() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = Etcd::new(folder.path(), 3, None)?;
    etcd.start()?;
    let (mut one, mut other) = (candidate(&etcd.address()), candidate(&etcd.address()));
    let (its, before) = stand(&mut *one, "one").unwrap_or_else(|leader| panic!("{leader} leads"));
    assert_eq!(before, None);
    put(&*its, "1 by one").unwrap();
    assert_eq!(stand(&mut *other, "other").err().as_deref(), Some("one"));
    assert!(one.renew().unwrap() && !other.renew().unwrap());
    etcd.kill(0);
    // The members may be electing a leader of their own meanwhile: a daemon asks again then.
    let done = (0..10).find_map(|_| put(&*its, "2 by one").ok());
    assert!(done.is_some(), "two of three members take it");

    // The one stands still, until its lease has run out.
    let (theirs, before) = wins(&mut *other, "other");
    assert_eq!(before, None, "nobody may think any more that it leads");
    assert_eq!(theirs.get("a").unwrap().unwrap().value, b"2 by one");
    assert!(is_deposed(put(&*its, "3 by one"), "other"));
    put(&*theirs, "3 by other").unwrap();
    assert!(is_deposed(put(&*its, "4 by one"), "other") && !one.renew().unwrap());
    assert_eq!(etcd.get("b")?, "3 by other");

    // Somebody removes the key of a leader whose lease goes on: the next one is told.
    assert!(other.renew().unwrap());
    etcd.delete("leader")?;
    let (again, before) = wins(&mut *one, "one");
    assert_eq!(before, Some(Duration::from_secs(LEASE.into())));
    assert!(!other.renew().unwrap() && is_deposed(put(&*theirs, "4 by other"), "one"));
    put(&*again, "4 by one").unwrap();

    // Who resigns is followed at once.
    one.resign();
    assert_eq!(stand(&mut *other, "other").map(|won| won.1), Ok(None));
    assert_eq!(etcd.get("a")?, "4 by one");
    etcd.kill(1);
    assert!(matches!(other.renew(), Err(SharedError::Unreachable(_))));
    Ok(())
}

#[test]
fn changes_whose_answers_are_lost_are_done_once_and_in_their_order() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let mut etcd = Etcd::new(folder.path(), 1, None)?;
    etcd.start()?;
    let address = etcd.address();
    let member = address.strip_prefix("etcd://").unwrap();
    let mute = Mute::before(member);
    let mut ours = candidate(&format!("etcd://{},{member}", mute.address));
    // Also an election may be won without hearing of it.
    mute.is_mute.store(true, Ordering::Relaxed);
    let (values, _) = wins(&mut *ours, "ours");
    for number in 0..4 {
        mute.is_mute.store(number % 2 == 0, Ordering::Relaxed);
        put(&*values, &number.to_string()).unwrap();
        assert_eq!(etcd.get("a")?, number.to_string());
    }
    // No member answers, so this daemon does not know whether its change was made.
    mute.is_mute.store(true, Ordering::Relaxed);
    let mut alone = candidate(&format!("etcd://{}", mute.address));
    ours.resign();
    mute.is_mute.store(false, Ordering::Relaxed);
    let (values, _) = wins(&mut *alone, "alone");
    mute.is_mute.store(true, Ordering::Relaxed);
    assert!(matches!(put(&*values, "lost"), Err(SharedError::Unreachable(_))));
    let begin = Instant::now();
    while etcd.get("a")? != "lost" {
        assert!(begin.elapsed() < PATIENCE, "it was not done");
    }
    mute.is_mute.store(false, Ordering::Relaxed);
    put(&*values, "next").unwrap();
    assert_eq!((etcd.get("a")?, etcd.get("b")?), ("next".to_owned(), "next".to_owned()));
    Ok(())
}
