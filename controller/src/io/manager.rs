//! The fabric from a subnet manager's sessions.
//!
//! A manager counts its views from its start, a controller needs versions that only rise: views get versions
//! of the controller's own here, and what is clear is said in the manager's.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_daemon::meter::{Cause, Meter};
use snin_daemon::session::{Call, Caller, Received, Tally};
use snin_fabric::view::View;
use snin_protocol::codec::CodecError;
use snin_protocol::message::{PinnedPath, Preferred, SliceMember, ViewChange, ViewClear};
use snin_protocol::view::{
    Assembly, Computed, FromManager, Policy, PortTest, PortTested, PublishedView, ToManager,
    ViewError,
};
use tokio::select;
use tokio::task::{JoinError, JoinHandle};

/// What a manager has said.
#[derive(Debug)]
pub enum News {
    /// The fabric is another.
    View(Arc<dyn View>),
    /// Some of it must not be granted.
    Change(ViewChange),
    /// Is non-interference in effect?
    Policy(Policy),
    /// The agent at a port is to show that its link carries messages.
    Test(PortTest),
    /// It is there.
    Found(String),
    /// It is not there any more; the fabric is taken to be as it was.
    Lost(String),
    /// What it said is of no use.
    Trouble(ViewError),
}

/// A view that is being computed.
struct Computing {
    /// The manager's version.
    version: u64,
    job: JoinHandle<Result<PublishedView, ViewError>>,
    /// What changed meanwhile.
    later: Option<ViewChange>,
}

/// See the module's documentation.
pub struct Manager {
    caller: Caller<FromManager, ToManager>,
    /// Is told what views cost on this thread.
    meter: Arc<Meter>,
    assembly: Option<Assembly>,
    computing: Option<Computing>,
    /// The own version of the last view or change.
    version: u64,
    /// The manager's version of each own one that is not clear yet.
    theirs: BTreeMap<u64, u64>,
    /// What it was last told, in this session, of addresses that paths are answered with first.
    preferred: Option<(Vec<PinnedPath>, u64, Vec<SliceMember>)>,
}

impl Manager {
    /// Calls it.
    pub fn call(call: Call, meter: Arc<Meter>) -> Self {
        Self {
            caller: Caller::start(call),
            meter,
            assembly: None,
            computing: None,
            version: 0,
            theirs: BTreeMap::new(),
            preferred: None,
        }
    }

    /// What it says next. Nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> News {
        loop {
            let (begun, news) = match &mut self.computing {
                None => {
                    let heard = self.caller.next().await;
                    (self.meter.now(), self.receive(heard))
                }
                Some(computing) => select! {
                    heard = self.caller.next() => (self.meter.now(), self.receive(heard)),
                    computed = &mut computing.job => (self.meter.now(), self.computed(computed)),
                },
            };
            self.meter.charge(Cause::View, begun);
            if let Some(news) = news {
                return news;
            }
        }
    }

    fn receive(&mut self, heard: Received<FromManager>) -> Option<News> {
        match heard {
            Received::Opened(peer) => {
                self.forget();
                Some(News::Found(peer.to_string()))
            }
            Received::Closed(peer, end) => {
                self.forget();
                Some(News::Lost(format!("{peer}: {end}")))
            }
            Received::Said(_, FromManager::Policy(policy)) => Some(News::Policy(policy)),
            Received::Said(_, FromManager::Begin(begin)) => {
                let is_empty = begin.parts == 0;
                self.assembly = Some(Assembly::new(begin));
                is_empty.then_some(News::Trouble(ViewError::OutOfTurn { version: 0, number: 0 }))
            }
            Received::Said(_, FromManager::Part(part)) => {
                let assembly = self.assembly.as_mut()?;
                match assembly.add(&part) {
                    Ok(false) => {}
                    Ok(true) => self.compute(part.version),
                    Err(error) => {
                        self.assembly = None;
                        return Some(News::Trouble(error));
                    }
                }
                None
            }
            Received::Said(_, FromManager::Change(change)) => self.change(change),
            Received::Said(_, FromManager::Test(test)) => Some(News::Test(test)),
        }
    }

    fn forget(&mut self) {
        self.assembly = None;
        self.preferred = None;
        self.theirs.clear();
        if let Some(computing) = self.computing.take() {
            computing.job.abort();
        }
    }

    /// On another thread: windows go on.
    fn compute(&mut self, version: u64) {
        let Some(assembly) = self.assembly.take() else { return };
        self.version += 1;
        let own = self.version;
        let job = tokio::task::spawn_blocking(move || assembly.finish(own));
        self.computing = Some(Computing { version, job, later: None });
    }

    fn computed(
        &mut self,
        computed: Result<Result<PublishedView, ViewError>, JoinError>,
    ) -> Option<News> {
        let Computing { version, later, .. } = self.computing.take()?;
        let view = match computed.ok()? {
            Ok(view) => view,
            Err(error) => {
                let tables = match &error {
                    ViewError::OtherTables { ours, .. } => Some(*ours),
                    _ => None,
                };
                self.send(&ToManager::Computed(Computed { version, tables }));
                return Some(News::Trouble(error));
            }
        };
        let tables = snin_fabric::routing::tables_hash(view.topology(), &view.routing().tables);
        self.send(&ToManager::Computed(Computed { version, tables: Some(tables) }));
        self.theirs.insert(view.version(), version);
        // Addresses may be others.
        self.preferred = None;
        if let Some(change) = later {
            // Beside the view that it came after: what both call unusable is not granted.
            let own = self.renumber(&change);
            self.theirs.insert(own.version, change.version);
            return Some(News::View(Arc::new(view.with_unusable(&own))));
        }
        Some(News::View(Arc::new(view)))
    }

    fn change(&mut self, change: ViewChange) -> Option<News> {
        if let Some(computing) = &mut self.computing {
            computing.later = Some(change);
            return None;
        }
        let own = self.renumber(&change);
        self.theirs.insert(own.version, change.version);
        Some(News::Change(own))
    }

    fn renumber(&mut self, change: &ViewChange) -> ViewChange {
        self.version += 1;
        ViewChange { version: self.version, unusable: change.unusable.clone() }
    }

    /// Nothing is sent any more along what this version, and all before it, called unusable.
    pub fn clear(&mut self, version: u64) {
        let later = self.theirs.split_off(&(version + 1));
        let clear = std::mem::replace(&mut self.theirs, later);
        if let Some((_, &version)) = clear.last_key_value() {
            self.send(&ToManager::Clear(ViewClear { version }));
        }
    }

    /// Says with which addresses queries for paths are to be answered first, where that is not what was said last.
    /// `slices` is asked where they are of another `version`.
    pub fn prefer(
        &mut self,
        pins: Vec<PinnedPath>,
        version: u64,
        slices: impl FnOnce() -> Vec<SliceMember>,
    ) {
        if !self.is_open() {
            return;
        }
        let members = match self.preferred.take() {
            Some((told, of, members)) if of == version => {
                if told == pins {
                    self.preferred = Some((told, of, members));
                    return;
                }
                members
            }
            _ => slices(),
        };
        for part in Preferred::parts(&pins, &members) {
            self.send(&ToManager::Preferred(part));
        }
        self.preferred = Some((pins, version, members));
    }

    /// Another controller may have said something else since.
    pub fn forget_preferred(&mut self) {
        self.preferred = None;
    }

    /// Says what came of a test that it wanted.
    pub fn tested(&mut self, tested: PortTested) {
        self.send(&ToManager::Tested(tested));
    }

    fn send(&mut self, message: &ToManager) {
        // Every message fits a frame; without a session the message is dropped.
        let _: Result<bool, CodecError> = self.caller.send(message);
    }

    /// Whether there is a session.
    pub const fn is_open(&self) -> bool {
        self.caller.is_open()
    }

    /// What was counted of its sessions.
    pub const fn tally(&self) -> &Arc<Tally> {
        self.caller.tally()
    }
}
