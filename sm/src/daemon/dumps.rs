//! Tables as files, for programs that read OpenSM's dumps: written beside the loop, since those of a large
//! fabric are gigabytes. What has not changed is not written again, and after a dump there is a pause.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use snin_daemon::store::{StoreError, replace_by_texts};
use snin_fabric::{Addresses, ForwardingTable, Topology, dump};
use tracing::{error, info};

use snin_sweep::FabricView;

/// At most this share of the time goes into dumps: so many times as long as one took, nothing is written after it.
const REST: u32 = 9;
/// And never so often as every ...
const LEAST: Duration = Duration::from_secs(1);

/// Which files say something else than they did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Changed {
    tables: bool,
    addresses: bool,
}

impl Changed {
    const ALL: Self = Self { tables: true, addresses: true };

    fn between(before: &FabricView, now: &FabricView) -> Self {
        // Dumps of tables name nodes and addresses too.
        let addresses =
            before.addresses() != now.addresses() || before.topology() != now.topology();
        let tables = addresses || before.routing().tables != now.routing().tables;
        Self { tables, addresses }
    }
}

/// Writes dump_fts.txt, opensm-lfts.dump and guid2lid into a directory, which is made if it is not there.
///
/// # Errors
/// When one of them cannot be written.
pub fn write(
    directory: &Path,
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
) -> Result<(), StoreError> {
    write_changed(directory, topology, addresses, tables, Changed::ALL)
}

/// Of these files those that have changed.
fn write_changed(
    directory: &Path,
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    changed: Changed,
) -> Result<(), StoreError> {
    let put = |name, texts: &mut dyn Iterator<Item = String>| {
        replace_by_texts(&directory.join(name), texts)
    };
    if changed.tables {
        put("dump_fts.txt", &mut dump::lfts::dump_fts(topology, addresses, tables))?;
        put("opensm-lfts.dump", &mut dump::lfts::opensm(topology, addresses, tables))?;
    }
    if changed.addresses {
        put("guid2lid", &mut std::iter::once(dump::guid2lid::write(topology, addresses)))?;
    }
    Ok(())
}

/// A thread that writes the newest view; it ends with the value, when the last one is written.
pub struct Dumps {
    views: Option<Sender<Arc<FabricView>>>,
    /// Nothing is sent by it: dropped, it ends a rest.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dumps {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(directory: PathBuf) -> std::io::Result<Self> {
        let (views, next) = channel::<Arc<FabricView>>();
        let (end, ends) = channel::<()>();
        let work = move || {
            let mut dumped: Option<Arc<FabricView>> = None;
            while let Ok(view) = next.recv() {
                // What is out of date already need not be written.
                let view = next.try_iter().last().unwrap_or(view);
                let changed =
                    dumped.as_ref().map_or(Changed::ALL, |was| Changed::between(was, &view));
                if !changed.tables && !changed.addresses {
                    continue;
                }
                let begin = Instant::now();
                let tables = &view.routing().tables;
                match write_changed(&directory, view.topology(), view.addresses(), tables, changed)
                {
                    Ok(()) => {
                        let directory = directory.display();
                        info!(version = view.version(), %directory, "tables dumped");
                        dumped = Some(view);
                    }
                    Err(error) => {
                        error!("{error}");
                        // Nobody knows which of the files are what.
                        dumped = None;
                    }
                }
                // The value that ends, and with it the daemon, waits no longer.
                let rest = (begin.elapsed() * REST).max(LEAST);
                let _ = ends.recv_timeout(rest);
            }
        };
        let thread = std::thread::Builder::new().name("dump".to_owned()).spawn(work)?;
        Ok(Self { views: Some(views), end: Some(end), thread: Some(thread) })
    }

    /// Has a view written, unless a newer one comes before.
    pub fn put(&self, view: Arc<FabricView>) {
        if let Some(views) = &self.views {
            // A thread that is gone has said why.
            let _ = views.send(view);
        }
    }
}

impl Drop for Dumps {
    fn drop(&mut self) {
        (self.views, self.end) = (None, None);
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}
