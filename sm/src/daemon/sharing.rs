//! The versions of the expected configuration in the cluster's service, on a thread of its own: every manager has
//! the newest one soon after any of them applied it.
//!
//! They are in a folder beside that of the cluster's other entries (`snin-configuration` beside `snin`), since
//! those are read as a whole twice a second.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use snin_daemon::control::Client;
use snin_daemon::session::Files;
use snin_daemon::shared::{Shared, cluster};
use snin_daemon::watch::Watch;

use super::failure::Failure;
use super::versions::{HISTORY, VersionLog, VersionLogError};

/// Jobs and news that wait.
const WAITING: usize = 16;
/// It is looked without news too: a change may be missed while no member answers.
const LOOK: Duration = Duration::from_secs(5);

/// What is to be done.
pub enum Job {
    /// See whether there is a newer version.
    Look,
    /// Add a version after those that are known here.
    Add {
        /// Who hears of it.
        client: Client,
        /// What is known here.
        book: VersionLog,
        /// The version's text.
        text: String,
        /// Who applies it.
        by: String,
        /// Whether it is enforced even where it cuts the fabric.
        forced: bool,
    },
    /// Find the text of a version.
    Text {
        /// Who asks.
        client: Client,
        /// What is known here.
        book: VersionLog,
        /// Which version.
        version: u64,
    },
}

/// What has become of it.
pub enum News {
    /// There are other versions than were known here; the text of the newest.
    Newest(VersionLog, String),
    /// A version was added, and is the newest; or why not.
    Added(Client, Result<(VersionLog, String), String>),
    /// The text of a version.
    Text(Client, Result<(u64, String), String>),
}

/// See the module's documentation.
pub struct Sharing {
    jobs: SyncSender<Job>,
    news: Receiver<News>,
    bell: Arc<OwnedFd>,
}

/// Where news goes; who waits for it is woken.
struct Notifier {
    to: SyncSender<News>,
    bell: Arc<OwnedFd>,
}

impl Notifier {
    /// False where the daemon is gone.
    fn tell(&self, news: News) -> bool {
        let taken = self.to.send(news).is_ok();
        // It can only be full of rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        taken
    }
}

/// The address of the folder beside; none where the cluster is a file, which daemons change nothing in.
fn beside(address: &str) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let (hosts, folder) = rest.split_once('/').unwrap_or((rest, "snin"));
    let folder = match folder.trim_matches('/') {
        "" => "snin",
        folder => folder,
    };
    Some(format!("{scheme}://{hosts}/{folder}-configuration"))
}

impl Sharing {
    /// Begins with a look.
    ///
    /// # Errors
    /// When the address or a certificate cannot be used, or the system refuses a thread.
    pub fn start(address: &str, files: Option<&Files>) -> Result<Option<Self>, Failure> {
        let Some(address) = beside(address) else { return Ok(None) };
        let refused = |error: io::Error| Failure::system("a thread")(error);
        let store = cluster(&address, files)?;
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let bell = Arc::new(bell.map_err(|error| refused(error.into()))?);
        let (to, news) = sync_channel(WAITING);
        let (jobs, asked) = sync_channel::<Job>(WAITING);
        let teller = Notifier { to, bell: bell.clone() };
        let changes = store.watch(HISTORY);
        let look = jobs.clone();
        // It ends with the store.
        let watch = move || {
            while changes.recv().is_ok() {
                changes.try_iter().for_each(drop);
                // Where jobs wait already, one of them sees it, or the next look does.
                if let Err(TrySendError::Disconnected(_)) = look.try_send(Job::Look) {
                    return;
                }
            }
        };
        let name = |name: &str| thread::Builder::new().name(name.to_owned());
        name("versions-news").spawn(watch).map_err(refused)?;
        let work = move || work(&*store, &asked, &teller);
        name("versions").spawn(work).map_err(refused)?;
        Ok(Some(Self { jobs, news, bell }))
    }

    /// Waits for it too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.bell.as_fd());
    }

    /// Has something done; false where too much waits already.
    pub fn ask(&self, job: Job) -> bool {
        self.jobs.try_send(job).is_ok()
    }

    /// What has become of it next.
    pub fn next_news(&self) -> Option<News> {
        // First the wake-up, then the look: what comes in between wakes again.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.news.try_recv().ok()
    }
}

fn work(store: &dyn Shared, asked: &Receiver<Job>, teller: &Notifier) {
    let mut known = VersionLog::default();
    let mut next = Ok(Job::Look);
    loop {
        let goes_on = match next {
            Ok(Job::Look) | Err(RecvTimeoutError::Timeout) => look(store, &mut known, teller),
            Ok(Job::Add { client, book, text, by, forced }) => {
                let done = add(store, &book, &text, &by, forced);
                if let Ok(book) = &done {
                    known.clone_from(book);
                }
                let done = done.map(|book| (book, text)).map_err(|error| error.to_string());
                teller.tell(News::Added(client, done))
            }
            Ok(Job::Text { client, book, version }) => {
                let found = book.text(store, version);
                let found = found.map(|text| (version, text)).map_err(|error| error.to_string());
                teller.tell(News::Text(client, found))
            }
            Err(RecvTimeoutError::Disconnected) => false,
        };
        if !goes_on {
            return;
        }
        next = asked.recv_timeout(LOOK);
    }
}

fn add(
    store: &dyn Shared,
    known: &VersionLog,
    text: &str,
    by: &str,
    forced: bool,
) -> Result<VersionLog, VersionLogError> {
    let mut book = VersionLog::read(store)?.after(known)?;
    book.add(store, text, by, forced)?;
    Ok(book)
}

/// A store that cannot be read is looked at again later: consent has to be asked for there too, and says why.
fn look(store: &dyn Shared, known: &mut VersionLog, teller: &Notifier) -> bool {
    let Ok(book) = VersionLog::read(store) else { return true };
    let Some(newest) = book.newest().filter(|_| book != *known) else { return true };
    let Ok(text) = book.text(store, newest.version) else { return true };
    known.clone_from(&book);
    teller.tell(News::Newest(book, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_a_folder_beside() {
        for (address, folder) in [
            ("etcd://a:1,b:2", Some("etcd://a:1,b:2/snin-configuration")),
            ("etcds://a:1/", Some("etcds://a:1/snin-configuration")),
            ("etcd://a:1/site/x/", Some("etcd://a:1/site/x-configuration")),
            ("file:/etc/snin/cluster.toml", None),
        ] {
            assert_eq!(beside(address).as_deref(), folder);
        }
    }
}
