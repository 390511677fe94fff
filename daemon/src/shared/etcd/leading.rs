//! An election by etcd, and the values that its winner alone changes.
//!
//! `leader` is held by the leader's lease. `written` outlives it: it says whose lease the last change was made
//! under, and which change of that leader's it was. Every change is a transaction on both: `leader` is still
//! the key that this daemon made, and `written` is as this daemon left it. So a change that a member did not
//! answer, and does later, undoes none that came after it; and where an answer was lost, what is in `written`
//! says whether it was done.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp, TxnOpResponse, TxnResponse};

use super::Etcd;
use crate::shared::election::{Candidacy, Election, Values};
use crate::shared::{Changes, Shared as _, SharedError, Versioned, check};

/// The leader's key.
const LEADER: &str = "leader";
/// Who changed something last.
const WRITTEN: &str = "written";
/// Changes in one transaction: etcd refuses more than 128, and 1.5 MiB.
const AT_ONCE: usize = 100;
const BYTES_AT_ONCE: usize = 1 << 20;
/// A transaction is tried so often where an earlier one, which was not known to be done, was.
const ATTEMPTS: usize = 3;

/// See the module's documentation.
pub(in crate::shared) struct Leading {
    etcd: Arc<Etcd>,
    ttl: u32,
    /// The lease, and the revision that made the leader's key, where that is known.
    held: Option<(i64, Option<i64>)>,
}

impl Leading {
    pub(in crate::shared) const fn new(etcd: Arc<Etcd>, ttl: u32) -> Self {
        Self { etcd, ttl, held: None }
    }

    fn found(&self, key: &str) -> Result<Option<Found>, SharedError> {
        let key = self.etcd.members.key(key);
        let get = |mut client: Client| {
            let key = key.clone();
            async move { client.get(key, None).await }
        };
        let answer = self.etcd.wait(self.etcd.members.ask(get))?;
        Ok(answer.kvs().first().map(Found::of))
    }

    /// The length of the lease of who wrote last, where it has not run out; it is revoked.
    fn end_lease_of(&self, written: Option<&Found>) -> Result<Option<Duration>, SharedError> {
        let lease = written.and_then(|found| found.text().split_once('/')?.0.parse::<i64>().ok());
        let Some(lease) = lease else { return Ok(None) };
        let ask = |mut client: Client| async move { client.lease_time_to_live(lease, None).await };
        let found = self.etcd.wait(self.etcd.members.ask(ask))?;
        if found.ttl() < 0 {
            return Ok(None);
        }
        self.revoke(lease);
        Ok(Some(Duration::from_secs(found.granted_ttl().max(0).unsigned_abs())))
    }

    /// Where this fails the lease runs out.
    fn revoke(&self, lease: i64) {
        let revoke = |mut client: Client| async move { client.lease_revoke(lease).await };
        let _ = self.etcd.wait(self.etcd.members.ask(revoke));
    }
}

impl Election for Leading {
    fn stand(&mut self, value: &[u8]) -> Result<Candidacy, SharedError> {
        check(LEADER, Some(value))?;
        self.resign();
        // Read first: if there is no leader's key then, the daemon that wrote last has lost its key.
        let before = self.found(WRITTEN)?;
        if let Some(leader) = self.found(LEADER)? {
            return Ok(Candidacy::Other(leader.value));
        }
        let predecessor = self.end_lease_of(before.as_ref())?;
        let ttl = i64::from(self.ttl);
        let grant = |mut client: Client| async move { client.lease_grant(ttl, None).await };
        let lease = self.etcd.wait(self.etcd.members.ask(grant))?.id();
        self.held = Some((lease, None));
        let members = &self.etcd.members;
        let (leader, written) = (members.key(LEADER), members.key(WRITTEN));
        let was = before.map_or(0, |found| found.modified);
        let own = format!("{lease}/0");
        let options = PutOptions::new().with_lease(lease);
        let txn = Txn::new()
            .when([
                Compare::create_revision(leader.as_str(), CompareOp::Equal, 0),
                Compare::mod_revision(written.as_str(), CompareOp::Equal, was),
            ])
            .and_then([
                TxnOp::put(leader.as_str(), value, Some(options)),
                TxnOp::put(written.as_str(), own.as_str(), None),
            ])
            .or_else([TxnOp::get(leader.as_str(), None), TxnOp::get(written.as_str(), None)]);
        let answer = self.etcd.transact(&txn)?;
        let (made, changed) = match revision(&answer) {
            Ok(revision) => (revision, revision),
            // It was done, and the answer was lost.
            Err(Conflict { leader: Some(leader), written: Some(written) })
                if written.text() == own =>
            {
                (leader.created, written.modified)
            }
            Err(Conflict { leader, .. }) => {
                self.resign();
                return Ok(Candidacy::Other(leader.map_or_else(Vec::new, |leader| leader.value)));
            }
        };
        self.held = Some((lease, Some(made)));
        let last = Mutex::new(Last { lease, number: 0, changed });
        let values = Arc::new(Led { etcd: self.etcd.clone(), made, last });
        Ok(Candidacy::Won { values, predecessor })
    }

    fn renew(&mut self) -> Result<bool, SharedError> {
        let Some((lease, Some(made))) = self.held else { return Ok(false) };
        let alive = |mut client: Client| async move { client.lease_keep_alive(lease).await };
        let renewed = self.etcd.wait(self.etcd.members.ask(alive));
        // With the lease the key goes; and somebody may have removed the key alone.
        let is_own = self.found(LEADER)?.is_some_and(|leader| leader.created == made);
        if is_own {
            renewed?;
        }
        Ok(is_own)
    }

    fn resign(&mut self) {
        if let Some((lease, _)) = self.held.take() {
            self.revoke(lease);
        }
    }
}

/// The process may end right after this.
impl Drop for Leading {
    fn drop(&mut self) {
        self.resign();
    }
}

/// A key as it was found.
struct Found {
    value: Vec<u8>,
    created: i64,
    modified: i64,
}

impl Found {
    fn of(found: &etcd_client::KeyValue) -> Self {
        let (created, modified) = (found.create_revision(), found.mod_revision());
        Self { value: found.value().to_owned(), created, modified }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.value).into_owned()
    }
}

/// Why a transaction was not done: `leader` and `written` hold something else.
struct Conflict {
    leader: Option<Found>,
    written: Option<Found>,
}

/// The revision that a transaction made.
fn revision(answer: &TxnResponse) -> Result<i64, Conflict> {
    if answer.succeeded() {
        return Ok(answer.header().map_or(0, |header| header.revision()));
    }
    let mut found = answer.op_responses().into_iter().map(|op| match op {
        TxnOpResponse::Get(found) => found.kvs().first().map(Found::of),
        _ => None,
    });
    let leader = found.next().flatten();
    Err(Conflict { leader, written: found.next().flatten() })
}

/// The last change that was made, as far as is known.
struct Last {
    lease: i64,
    number: u64,
    /// The revision in which `written` was changed.
    changed: i64,
}

/// What the leader alone changes.
struct Led {
    etcd: Arc<Etcd>,
    /// The revision that made the leader's key.
    made: i64,
    last: Mutex<Last>,
}

impl Led {
    fn put(&self, changes: &[(&String, &Option<Vec<u8>>)]) -> Result<(), SharedError> {
        let members = &self.etcd.members;
        let (leader, written) = (members.key(LEADER), members.key(WRITTEN));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.number += 1;
        let own = format!("{}/{}", last.lease, last.number);
        let ops: Vec<TxnOp> = changes
            .iter()
            .map(|&(key, value)| match value {
                Some(value) => TxnOp::put(members.key(key), value.as_slice(), None),
                None => TxnOp::delete(members.key(key), None),
            })
            .chain([TxnOp::put(written.as_str(), own.as_str(), None)])
            .collect();
        for _ in 0..ATTEMPTS {
            let txn = Txn::new()
                .when([
                    Compare::create_revision(leader.as_str(), CompareOp::Equal, self.made),
                    Compare::mod_revision(written.as_str(), CompareOp::Equal, last.changed),
                ])
                .and_then(ops.clone())
                .or_else([TxnOp::get(leader.as_str(), None), TxnOp::get(written.as_str(), None)]);
            match revision(&self.etcd.transact(&txn)?) {
                Ok(revision) => {
                    last.changed = revision;
                    return Ok(());
                }
                Err(Conflict { leader: Some(leader), written: Some(written) })
                    if leader.created == self.made =>
                {
                    last.changed = written.modified;
                    // Done by a member whose answer was lost; else an earlier change was.
                    if written.text() == own {
                        return Ok(());
                    }
                }
                Err(Conflict { leader, .. }) => {
                    let by = leader.map_or_else(|| "nobody".to_owned(), |leader| leader.text());
                    return Err(SharedError::Deposed(by));
                }
            }
        }
        Err(SharedError::Unreachable("changes of before are still being made".to_owned()))
    }
}

impl Values for Led {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        self.etcd.get(key)
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        self.etcd.list(prefix)
    }

    /// Few changes are one transaction. Many are several: each is made or is not.
    fn put_all(&self, changes: &Changes) -> Result<(), SharedError> {
        changes.iter().try_for_each(|(key, value)| check(key, value.as_deref()))?;
        let (mut some, mut bytes) = (Vec::new(), 0);
        for (key, value) in changes {
            let length = key.len() + value.as_ref().map_or(0, Vec::len);
            if some.len() == AT_ONCE || !some.is_empty() && bytes + length > BYTES_AT_ONCE {
                self.put(&std::mem::take(&mut some))?;
                bytes = 0;
            }
            some.push((key, value));
            bytes += length;
        }
        if some.is_empty() { Ok(()) } else { self.put(&some) }
    }

    fn damaged(&self, what: String) -> SharedError {
        SharedError::Address { address: self.etcd.members.at.join(","), what }
    }
}
