//! The cluster's own service as the place where keys are: etcd.
//!
//! One member is asked at a time; where it does not answer, the next one is, each once. Reads are linearizable.
//! All that is attached or leased hangs on one lease, which ends [`TTL`] after this process does. A lease that was
//! lost is replaced by the next [`Cluster::attach`]. A change that a member did not answer is tried at the next
//! one, where it may have been done already: what is there then says whose it is, so a value that is swapped says
//! that.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, Identity,
    KeyValue, PutOptions, TlsOptions, Txn, TxnOp, TxnOpResponse, TxnResponse, WatchOptions,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::{Changed, Cluster, Conflict, Shared, SharedError, Versioned, check};
use crate::session::Files;

mod leading;

pub(super) use leading::Leading;

/// Seconds after which what a process attached is gone, if the process is.
const TTL: i64 = 5;
/// A member that has not answered for so long is passed over.
const ATTEMPT: Duration = Duration::from_millis(400);
/// Between two signs of life of the lease, and two attempts to watch.
const PAUSE: Duration = Duration::from_millis(1000);
/// Members that may be named.
const MOST: usize = 16;

/// See the module's documentation.
pub struct Etcd {
    members: Arc<Members>,
    handle: Handle,
    attached: Mutex<BTreeMap<String, (i64, Vec<u8>)>>,
    lease: Arc<Mutex<Option<i64>>>,
    /// The runtime's thread ends when this is dropped.
    end: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The process may end right after this: the lease has to be revoked before.
impl Drop for Etcd {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // Where it panicked the lease ends by itself.
            let _ = thread.join();
        }
    }
}

/// Where the members are, and the one that answered last.
struct Members {
    at: Vec<String>,
    options: ConnectOptions,
    prefix: String,
    last: Mutex<(usize, Option<Client>)>,
}

impl Etcd {
    /// Of an address such as `etcd://host:port,host:port/folder`, or `etcds://` with the files of a certificate.
    /// `folder` is where keys are unless the address says another one. Nothing is asked yet.
    ///
    /// # Errors
    /// When the address or a file cannot be used.
    pub fn open(address: &str, files: Option<&Files>, folder: &str) -> Result<Self, SharedError> {
        let wrong = |what: &str| SharedError::Address {
            address: address.to_owned(),
            what: what.to_owned(),
        };
        let (scheme, rest) = address.split_once("://").ok_or_else(|| wrong("no etcd://"))?;
        let (hosts, folder) = rest.split_once('/').unwrap_or((rest, folder));
        let scheme = match scheme {
            "etcd" => "http",
            "etcds" => "https",
            _ => return Err(wrong("etcd:// or etcds://")),
        };
        let at: Vec<String> = hosts.split(',').map(|host| format!("{scheme}://{host}")).collect();
        if at.len() > MOST || hosts.split(',').any(|host| !host.contains(':')) {
            return Err(wrong("1 to 16 members as host:port, with commas between them"));
        }
        let mut options = ConnectOptions::new().with_connect_timeout(ATTEMPT);
        if scheme == "https" {
            let files =
                files.ok_or_else(|| wrong("certificate, key and ca_certificate are needed"))?;
            options = options.with_tls(tls(files)?);
        }
        let prefix = format!("{}/", folder.trim_matches('/'));
        let members = Arc::new(Members { at, options, prefix, last: Mutex::default() });
        let failed = |error: std::io::Error| wrong(&error.to_string());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let lease = Arc::new(Mutex::new(None));
        let its = (members.clone(), lease.clone());
        let thread = thread::Builder::new()
            .name("etcd".to_owned())
            .spawn(move || serve(&runtime, its.0, its.1, ended))
            .map_err(failed)?;
        let (end, thread) = (Some(end), Some(thread));
        Ok(Self { members, handle, attached: Mutex::default(), lease, end, thread })
    }

    fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, SharedError>>,
    ) -> Result<T, SharedError> {
        self.handle.block_on(work)
    }

    /// A transaction that may be tried at several members: its caller finds out whether an attempt was done.
    fn transact(&self, txn: &Txn) -> Result<TxnResponse, SharedError> {
        let ask = |mut client: Client| {
            let txn = txn.clone();
            async move { client.txn(txn).await }
        };
        self.wait(self.members.ask(ask))
    }
}

/// Runs what the store leaves to its own thread, until the store is dropped; then what it attached goes.
fn serve(
    runtime: &Runtime,
    members: Arc<Members>,
    lease: Arc<Mutex<Option<i64>>>,
    ended: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        tokio::select! {
            () = keep_alive(&members, &lease) => {}
            // It is dropped, and never sent to.
            _ = ended => {}
        }
        let last = lock(&lease).take();
        if let Some(lease) = last {
            // Where this fails the lease ends by itself.
            let revoke = |mut client: Client| async move { client.lease_revoke(lease).await };
            let _ = members.ask(revoke).await;
        }
    });
}

async fn keep_alive(members: &Members, lease: &Mutex<Option<i64>>) {
    loop {
        sleep(PAUSE).await;
        let Some(held) = *lock(lease) else { continue };
        let alive = |mut client: Client| async move {
            let (mut keeper, mut answers) = client.lease_keep_alive(held).await?;
            keeper.keep_alive().await?;
            Ok(answers.message().await?.map_or(0, |answer| answer.ttl()))
        };
        // One that does not answer may know the lease still.
        if matches!(members.ask(alive).await, Ok(..=0)) {
            lock(lease).take_if(|known| *known == held);
        }
    }
}

impl Members {
    /// Asks the member that answered last, then the others.
    async fn ask<T, F>(&self, question: impl Fn(Client) -> F) -> Result<T, SharedError>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let mut why = String::new();
        for _ in 0..self.at.len() {
            let (number, client) = lock(&self.last).clone();
            let at = &self.at[number];
            let asked = async {
                let client = match client {
                    Some(client) => client,
                    None => Client::connect([at], Some(self.options.clone())).await?,
                };
                lock(&self.last).1 = Some(client.clone());
                question(client).await
            };
            match timeout(ATTEMPT, asked).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => why = format!("{at}: {}", one_line(&error.to_string())),
                Err(_) => why = format!("{at} has not answered for {} ms", ATTEMPT.as_millis()),
            }
            // Another question may have gone on to the next one meanwhile.
            let mut last = lock(&self.last);
            if last.0 == number {
                *last = ((number + 1) % self.at.len(), None);
            }
        }
        Err(SharedError::Unreachable(why))
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn found(&self, found: &KeyValue) -> Option<(String, Versioned)> {
        let key = found.key_str().ok()?.strip_prefix(&self.prefix)?.to_owned();
        Some((key, versioned(found)))
    }

    /// Tells changes until they are not waited for any more.
    async fn watch(&self, prefix: &str, to: &Sender<Changed>) {
        loop {
            let begin = |mut client: Client| {
                let options = WatchOptions::new().with_prefix();
                let key = self.key(prefix);
                async move { client.watch(key, Some(options)).await }
            };
            if let Ok(mut stream) = self.ask(begin).await {
                while let Ok(Some(news)) = stream.message().await {
                    for event in news.events() {
                        let Some((key, now)) = event.kv().and_then(|found| self.found(found))
                        else {
                            continue;
                        };
                        let now = (event.event_type() == EventType::Put).then_some(now);
                        if to.send(Changed { key, now }).is_err() {
                            return;
                        }
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn swap(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<&[u8]>,
        lease: Option<i64>,
    ) -> Result<Result<u64, Conflict>, SharedError> {
        let key = self.key(key);
        let was =
            Compare::mod_revision(key.as_str(), CompareOp::Equal, expected.unwrap_or(0) as i64);
        let options = lease.map(|lease| PutOptions::new().with_lease(lease));
        let change = match value {
            Some(value) => TxnOp::put(key.as_str(), value, options),
            None => TxnOp::delete(key.as_str(), None),
        };
        let look = TxnOp::get(key.as_str(), None);
        let txn = Txn::new().when([was]).and_then([change]).or_else([look]);
        let attempts = AtomicU32::new(0);
        let answer = self.ask(|mut client: Client| {
            attempts.fetch_add(1, Ordering::Relaxed);
            let txn = txn.clone();
            async move { client.txn(txn).await }
        });
        let answer = answer.await?;
        if answer.succeeded() {
            return Ok(Ok(answer.header().map_or(0, |header| header.revision() as u64)));
        }
        let found = answer.op_responses().into_iter().find_map(|op| match op {
            TxnOpResponse::Get(found) => found.kvs().first().cloned(),
            _ => None,
        });
        // A member that did not answer in time may have done it: what is in its way is then this change itself.
        let is_own = match (&found, value) {
            (Some(found), Some(value)) => {
                found.value() == value && found.lease() == lease.unwrap_or(0)
            }
            (None, None) => expected.is_some(),
            _ => false,
        };
        if attempts.into_inner() > 1 && is_own {
            let changed = found.map(|found| found.mod_revision());
            let changed = changed.or_else(|| answer.header().map(|header| header.revision()));
            return Ok(Ok(changed.unwrap_or(0) as u64));
        }
        Ok(Err(Conflict(found.as_ref().map(versioned))))
    }
}

impl Shared for Etcd {
    fn get(&self, key: &str) -> Result<Option<Versioned>, SharedError> {
        let key = self.members.key(key);
        let get = |mut client: Client| {
            let key = key.clone();
            async move { client.get(key, None).await }
        };
        let answer = self.wait(self.members.ask(get))?;
        Ok(answer.kvs().first().map(versioned))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, SharedError> {
        let key = self.members.key(prefix);
        let get = |mut client: Client| {
            let key = key.clone();
            async move { client.get(key, Some(GetOptions::new().with_prefix())).await }
        };
        let answer = self.wait(self.members.ask(get))?;
        Ok(answer.kvs().iter().filter_map(|found| self.members.found(found)).collect())
    }

    fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Option<&[u8]>,
    ) -> Result<Result<u64, Conflict>, SharedError> {
        check(key, value)?;
        self.wait(self.members.swap(key, expected, value, None))
    }

    fn watch(&self, prefix: &str) -> Receiver<Changed> {
        let (to, changes) = channel();
        let (members, prefix) = (self.members.clone(), prefix.to_owned());
        self.handle.spawn(async move { members.watch(&prefix, &to).await });
        changes
    }

    fn lease(&self, name: &str) -> Result<bool, SharedError> {
        let lease = self.held()?;
        let found = match self.wait(self.members.swap(name, None, Some(b"held"), Some(lease)))? {
            Ok(_) => return Ok(true),
            Err(Conflict(found)) => found,
        };
        // It may be this process that holds it.
        let key = self.members.key(name);
        let get = |mut client: Client| {
            let key = key.clone();
            async move { client.get(key, None).await }
        };
        let answer = self.wait(self.members.ask(get))?;
        Ok(found.is_some() && answer.kvs().first().is_some_and(|found| found.lease() == lease))
    }
}

impl Cluster for Etcd {
    fn attach(&self, key: &str, value: &[u8]) -> Result<(), SharedError> {
        check(key, Some(value))?;
        let lease = self.held()?;
        if lock(&self.attached).get(key).is_some_and(|(on, is)| *on == lease && is == value) {
            return Ok(());
        }
        let to = self.members.key(key);
        let put = |mut client: Client| {
            let (key, value) = (to.clone(), value.to_owned());
            let options = PutOptions::new().with_lease(lease);
            async move { client.put(key, value, Some(options)).await }
        };
        self.wait(self.members.ask(put)).inspect_err(|_| {
            // Perhaps the lease is gone: the next attempt has another.
            lock(&self.lease).take_if(|known| *known == lease);
        })?;
        lock(&self.attached).insert(key.to_owned(), (lease, value.to_owned()));
        Ok(())
    }
}

impl Etcd {
    /// The lease on which all that this process attaches hangs.
    fn held(&self) -> Result<i64, SharedError> {
        if let Some(lease) = *lock(&self.lease) {
            return Ok(lease);
        }
        let grant = |mut client: Client| async move { client.lease_grant(TTL, None).await };
        let lease = self.wait(self.members.ask(grant))?.id();
        Ok(*lock(&self.lease).insert(lease))
    }
}

fn tls(files: &Files) -> Result<TlsOptions, SharedError> {
    let read = |path: &std::path::Path| {
        let failed = |error: std::io::Error| SharedError::File {
            path: path.to_owned(),
            what: error.to_string(),
        };
        std::fs::read(path).map_err(failed)
    };
    let ca = Certificate::from_pem(read(&files.ca_certificate)?);
    let own = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    Ok(TlsOptions::new().ca_certificate(ca).identity(own))
}

fn versioned(found: &KeyValue) -> Versioned {
    Versioned { revision: found.mod_revision() as u64, value: found.value().to_owned() }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
