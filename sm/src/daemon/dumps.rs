//! Tables as files, for programs that read OpenSM's dumps: written beside the loop, since those of a large
//! fabric are gigabytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use snin_daemon::store::{StoreError, replace_by_texts};
use snin_fabric::{Addresses, ForwardingTable, Topology, dump};
use tracing::{error, info};

use snin_sm_core::FabricView;

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
    let put = |name, texts: &mut dyn Iterator<Item = String>| {
        replace_by_texts(&directory.join(name), texts)
    };
    put("dump_fts.txt", &mut dump::lfts::dump_fts(topology, addresses, tables))?;
    put("opensm-lfts.dump", &mut dump::lfts::opensm(topology, addresses, tables))?;
    put("guid2lid", &mut std::iter::once(dump::guid2lid::write(topology, addresses)))
}

/// A thread that writes the newest view; it ends with the value, when the last one is written.
pub struct Dumps {
    views: Option<Sender<Arc<FabricView>>>,
    thread: Option<JoinHandle<()>>,
}

impl Dumps {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(directory: PathBuf) -> std::io::Result<Self> {
        let (views, next) = channel::<Arc<FabricView>>();
        let work = move || {
            while let Ok(view) = next.recv() {
                // What is out of date already need not be written.
                let view = next.try_iter().last().unwrap_or(view);
                let tables = &view.routing().tables;
                match write(&directory, view.topology(), view.addresses(), tables) {
                    Ok(()) => {
                        let directory = directory.display();
                        info!(version = view.version(), %directory, "tables dumped");
                    }
                    Err(error) => error!("{error}"),
                }
            }
        };
        let thread = std::thread::Builder::new().name("dump".to_owned()).spawn(work)?;
        Ok(Self { views: Some(views), thread: Some(thread) })
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
        self.views = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}
