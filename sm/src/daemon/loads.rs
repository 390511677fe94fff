//! How evenly what the switches hold loads the links: counted beside the loop whenever a view was published, since
//! all pairs of hosts are walked, so that a status only has to be told.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use snin_fabric::check::load::load;
use snin_fabric::{NodeIndex, PortIndex};
use snin_protocol::operator::manager::LinkLoads;

use snin_sweep::FabricView;

fn count(view: &FabricView) -> LinkLoads {
    let hosts = view.routing().hosts.iter().map(|(_, host)| (host.port, host.switch));
    let hosts: Vec<(PortIndex, NodeIndex)> = hosts.collect();
    let tables = &view.routing().tables;
    let report = load(view.topology(), view.addresses(), tables, &hosts, (0, 0));
    LinkLoads { most: report.most, mean: report.mean, lost: report.lost }
}

/// A thread that counts for the newest view. It ends after the value, when it has counted.
pub struct Loads {
    views: Sender<Arc<FabricView>>,
    counted: Receiver<(u64, LinkLoads)>,
    newest: Cell<Option<(u64, LinkLoads)>>,
}

impl Loads {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start() -> std::io::Result<Self> {
        let (views, next) = channel::<Arc<FabricView>>();
        let (tell, counted) = channel();
        let work = move || {
            while let Ok(view) = next.recv() {
                // What is out of date already need not be counted.
                let view = next.try_iter().last().unwrap_or(view);
                if tell.send((view.version(), count(&view))).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("loads".to_owned()).spawn(work)?;
        Ok(Self { views, counted, newest: Cell::new(None) })
    }

    /// Has a view's links counted, unless a newer one comes before.
    pub fn put(&self, view: Arc<FabricView>) {
        // A thread that is gone has said why.
        let _ = self.views.send(view);
    }

    /// Of the newest view that was counted, with its version.
    pub fn counted(&self) -> Option<(u64, LinkLoads)> {
        let newest = self.counted.try_iter().last().or_else(|| self.newest.get());
        self.newest.set(newest);
        newest
    }
}
