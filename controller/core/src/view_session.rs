//! What a manager says of the fabric in a session, put together.
//!
//! A manager counts its views from its start, a controller needs versions that only rise: views get versions
//! of the controller's own here, and what is clear is said in the manager's.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_fabric::routing::tables_hash;
use snin_fabric::view::View;
use snin_protocol::message::{ViewChange, ViewClear};
use snin_protocol::view::{
    Assembly, Computed, FromManager, Policy, PortTest, PublishedView, ToManager, ViewError,
};

/// What came of something that the manager said.
#[derive(Debug)]
pub enum ViewNews {
    /// The whole view is there: its tables are to be computed ([`ViewJob::run`]), on another thread where windows
    /// must not wait.
    Compute(ViewJob),
    /// The fabric is another.
    View(Arc<dyn View>),
    /// Some of it must not be granted.
    Change(ViewChange),
    /// Is non-interference in effect?
    Policy(Policy),
    /// The agent at a port is to show that its link carries messages.
    Test(PortTest),
    /// What the manager said is of no use.
    Trouble(ViewError),
}

/// A view whose tables are to be computed.
#[derive(Debug)]
pub struct ViewJob {
    assembly: Assembly,
    version: u64,
}

impl ViewJob {
    /// Computes them: milliseconds for some hundred hosts.
    pub fn run(self) -> ViewDone {
        ViewDone { version: self.version, view: self.assembly.finish(self.version) }
    }
}

/// A view whose tables are computed, or why they cannot be: it contradicts itself, or they are others than the
/// manager's.
#[derive(Debug)]
pub struct ViewDone {
    version: u64,
    view: Result<PublishedView, ViewError>,
}

/// A view that is being computed.
#[derive(Debug)]
struct Computing {
    /// The own version, and the manager's.
    own: u64,
    version: u64,
    /// What changed meanwhile.
    later: Option<ViewChange>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct ViewSession {
    assembly: Option<Assembly>,
    computing: Option<Computing>,
    /// The own version of the last view or change.
    version: u64,
    /// The manager's version of each own one that is not clear yet.
    theirs: BTreeMap<u64, u64>,
}

impl ViewSession {
    /// A session begins, or is over: nothing of the one before is put together any more, and a job that it gave is
    /// of no use.
    pub fn begin(&mut self) {
        (self.assembly, self.computing) = (None, None);
        self.theirs.clear();
    }

    /// The manager says something.
    pub fn said(&mut self, said: FromManager) -> Option<ViewNews> {
        match said {
            FromManager::Policy(policy) => Some(ViewNews::Policy(policy)),
            FromManager::Begin(begin) => {
                let is_empty = begin.parts == 0;
                self.assembly = Some(Assembly::new(begin));
                let error = ViewError::OutOfTurn { version: 0, number: 0 };
                is_empty.then_some(ViewNews::Trouble(error))
            }
            FromManager::Part(part) => match self.assembly.as_mut()?.add(&part) {
                Ok(false) => None,
                Ok(true) => self.compute(part.version),
                Err(error) => {
                    self.assembly = None;
                    Some(ViewNews::Trouble(error))
                }
            },
            FromManager::Change(change) => self.change(change),
            FromManager::Test(test) => Some(ViewNews::Test(test)),
        }
    }

    fn compute(&mut self, version: u64) -> Option<ViewNews> {
        let assembly = self.assembly.take()?;
        self.version += 1;
        self.computing = Some(Computing { own: self.version, version, later: None });
        Some(ViewNews::Compute(ViewJob { assembly, version: self.version }))
    }

    fn change(&mut self, change: ViewChange) -> Option<ViewNews> {
        if let Some(computing) = &mut self.computing {
            computing.later = Some(change);
            return None;
        }
        Some(ViewNews::Change(self.renumber(&change)))
    }

    fn renumber(&mut self, change: &ViewChange) -> ViewChange {
        self.version += 1;
        self.theirs.insert(self.version, change.version);
        ViewChange { version: self.version, unusable: change.unusable.clone() }
    }

    /// A job is done: what is to be said to the manager, and what follows. Nothing where another one was given
    /// since.
    pub fn computed(&mut self, done: ViewDone) -> Option<(ToManager, ViewNews)> {
        let is_current = |computing: &mut Computing| computing.own == done.version;
        let Computing { version, later, .. } = self.computing.take_if(is_current)?;
        let view = match done.view {
            Ok(view) => view,
            Err(error) => {
                let tables = match &error {
                    ViewError::OtherTables { ours, .. } => Some(*ours),
                    _ => None,
                };
                let said = ToManager::Computed(Computed { version, tables });
                return Some((said, ViewNews::Trouble(error)));
            }
        };
        let tables = Some(tables_hash(view.topology(), &view.routing().tables));
        let said = ToManager::Computed(Computed { version, tables });
        self.theirs.insert(view.version(), version);
        let view = match later {
            // Beside the view that it came after: what both call unusable is not granted.
            Some(change) => view.with_unusable(&self.renumber(&change)),
            None => view,
        };
        Some((said, ViewNews::View(Arc::new(view))))
    }

    /// Nothing is sent any more along what this own version, and all before it, called unusable: what the manager
    /// is told.
    pub fn clear(&mut self, version: u64) -> Option<ToManager> {
        let later = self.theirs.split_off(&(version + 1));
        let clear = std::mem::replace(&mut self.theirs, later);
        let (_, &version) = clear.last_key_value()?;
        Some(ToManager::Clear(ViewClear { version }))
    }
}
