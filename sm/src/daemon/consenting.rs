//! The cluster's service, asked on a thread of its own: an answer may take longer than a sweep.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use serde_json::json;
use snin_daemon::session::Files;
use snin_daemon::shared::{Cluster, SharedError, cluster};
use snin_daemon::watch::Watch;
use snin_mastership::cluster::{Answer, Ask, ClusterEvent, Entry, Verdict};
use snin_protocol::operator::manager;
use tracing::{info, warn};

use super::failure::Failure;
use super::run::Daemon;

/// Questions and answers that wait. The core asks one at a time.
const WAITING: usize = 16;

/// See the module's documentation.
pub struct Consenting {
    asks: Option<SyncSender<Ask>>,
    heard: Receiver<ClusterEvent>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Where events go; who waits for them is woken.
#[derive(Clone)]
struct Notifier {
    to: SyncSender<ClusterEvent>,
    bell: Arc<OwnedFd>,
}

impl Notifier {
    /// An event that finds no room is dropped: the core gives up a question without an answer, and reads all now
    /// and then.
    fn tell(&self, event: ClusterEvent) {
        let _ = self.to.try_send(event);
        // It can only be full of rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
    }
}

impl Consenting {
    /// Begins; nothing is asked yet.
    ///
    /// # Errors
    /// When the address or a certificate cannot be used, or the system refuses a thread.
    pub fn start(address: &str, files: Option<&Files>) -> Result<Self, Failure> {
        let refused = |error: io::Error| Failure::system("a thread")(error);
        let store = cluster(address, files)?;
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let bell = Arc::new(bell.map_err(|error| refused(error.into()))?);
        let (to, heard) = sync_channel(WAITING);
        let (asks, asked) = sync_channel::<Ask>(WAITING);
        let teller = Notifier { to, bell: bell.clone() };
        let changes = store.watch("");
        let news = teller.clone();
        // It ends with the store.
        let watch = move || {
            while changes.recv().is_ok() {
                changes.try_iter().for_each(drop);
                news.tell(ClusterEvent::Changed);
            }
        };
        thread::Builder::new().name("cluster-news".to_owned()).spawn(watch).map_err(refused)?;
        let work = move || {
            while let Ok(ask) = asked.recv() {
                let (number, answer) = answer(&*store, ask);
                teller.tell(ClusterEvent::Answered(number, answer));
            }
        };
        let thread =
            thread::Builder::new().name("cluster".to_owned()).spawn(work).map_err(refused)?;
        Ok(Self { asks: Some(asks), heard, bell, thread: Some(thread) })
    }

    /// Waits for it too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.bell.as_fd());
    }

    /// Asks. What finds no room is not answered.
    pub fn ask(&self, ask: Ask) {
        if let Some(asks) = &self.asks {
            let _ = asks.try_send(ask);
        }
    }

    /// What has happened next.
    pub fn next_event(&self) -> Option<ClusterEvent> {
        // First the wake-up, then the look: what comes in between wakes again.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.heard.try_recv().ok()
    }
}

/// What this manager attached is taken back before it ends.
impl Drop for Consenting {
    fn drop(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of its was its own.
            let _ = thread.join();
        }
    }
}

fn answer(store: &dyn Cluster, ask: Ask) -> (u64, Answer) {
    let failed = |error: SharedError| Answer::Failed(error.to_string());
    match ask {
        Ask::Read { number, key, value } => {
            let read = store.attach(&key, value.as_bytes()).and_then(|()| store.list(""));
            let entry = |(key, found): (String, snin_daemon::shared::Versioned)| Entry {
                key,
                value: String::from_utf8_lossy(&found.value).into_owned(),
                revision: found.revision,
            };
            let entries = read.map(|all| Answer::Entries(all.into_iter().map(entry).collect()));
            (number, entries.unwrap_or_else(failed))
        }
        Ask::Choose { number, key, revision, value } => {
            let expected = (revision > 0).then_some(revision);
            let done = store.compare_and_swap(&key, expected, Some(value.as_bytes()));
            (number, done.map_or_else(failed, |done| Answer::Chosen(done.is_ok())))
        }
    }
}

impl Daemon {
    pub(super) fn report_consent(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Granted | Verdict::Other(_) => info!("{verdict}"),
            _ => warn!("{verdict}"),
        }
        let told = json!({ "verdict": verdict.word(), "why": verdict.to_string() });
        self.outlets.notify("CONSENT", told);
    }

    /// What the cluster's service holds for managers, and what that means for this one.
    pub(super) fn cluster(&self) -> Result<manager::Cluster, String> {
        let cluster =
            self.core.manager().cluster().ok_or("no cluster is configured: `cluster` is unset")?;
        let verdict = cluster.verdict(self.clock.now());
        let entries = cluster.entries().cloned().unwrap_or_default();
        let managers = entries.managers.iter();
        Ok(manager::Cluster {
            verdict: verdict.word(),
            why: verdict.to_string(),
            chosen: entries.chosen.map(|(guid, _)| guid),
            expected: entries.newest,
            managers: managers.map(|(&guid, said)| (guid, said.to_string())).collect(),
            barred: entries.barred,
        })
    }
}
