//! What controllers are told of the fabric, and when that which a view took away is clear.
//!
//! Each controller is told the whole view first, then what changes: where only more pairs of switches and trees
//! are unusable than in the view that was told whole last, those pairs alone; everything else is a view.

use std::collections::VecDeque;
use std::sync::Arc;

use snin_fabric::routing::tables_hash;
use snin_protocol::Time;
use snin_protocol::message::ViewChange;
use snin_protocol::view::{Computed, FromManager, ViewError, frames, unusable_pairs};

use snin_sweep::FabricView;

/// Views that were told last and may still be computed by some controller: links that flap make views quicker than
/// tables are computed.
const MOST_TOLD: usize = 256;

/// See the module's documentation. `P` is a controller's identity.
#[derive(Debug)]
pub struct Controllers<P> {
    /// For how long a controller may grant on by the last view, after its session ended here.
    grants_on: Time,
    /// The view now, and the one that was told whole.
    now: Option<Arc<FabricView>>,
    whole: Option<Arc<FabricView>>,
    here: Vec<P>,
    /// When the last of them was gone, while it may grant on by the view that it was told.
    last_gone: Option<Time>,
    /// What the tables of views that were told last come to, by version.
    tables: VecDeque<(u64, u64)>,
    /// Versions that are clear.
    clear: VecDeque<u64>,
}

impl<P: PartialEq> Controllers<P> {
    /// No controller is here at `now`. One whose session ended before, with this manager or an earlier one, may
    /// grant on for so long.
    pub const fn new(grants_on: Time, now: Time) -> Self {
        Self {
            grants_on,
            now: None,
            whole: None,
            here: Vec::new(),
            last_gone: Some(now),
            tables: VecDeque::new(),
            clear: VecDeque::new(),
        }
    }

    /// Those that have a session.
    pub fn here(&self) -> &[P] {
        &self.here
    }

    /// The version of the view now.
    pub fn version(&self) -> Option<u64> {
        self.now.as_ref().map(|view| view.version())
    }

    /// A session begins: what the controller is told.
    ///
    /// # Errors
    /// When the view is too large to be told.
    pub fn opened(&mut self, controller: P) -> Result<Vec<FromManager>, ViewError> {
        self.here.retain(|known| *known != controller);
        self.here.push(controller);
        self.tell_whole()
    }

    /// Its session is over.
    pub fn closed(&mut self, controller: &P, now: Time) {
        self.here.retain(|known| known != controller);
        if self.here.is_empty() {
            self.last_gone = Some(now);
        }
    }

    /// Another manager is the master. Controllers are told nothing any more.
    pub fn stand_by(&mut self) {
        (self.now, self.whole) = (None, None);
        self.here.clear();
        self.clear.clear();
    }

    /// This manager is the master in another's place: a controller may grant on by what that one told.
    pub const fn take_over(&mut self, now: Time) {
        self.last_gone = Some(now);
    }

    /// The fabric is another: what every controller is told. Where no controller can grant anything it is clear.
    ///
    /// # Errors
    /// When there is more than can be told.
    pub fn publish(
        &mut self,
        view: &Arc<FabricView>,
        now: Time,
    ) -> Result<Vec<FromManager>, ViewError> {
        self.now = Some(view.clone());
        if self.here.is_empty() {
            self.whole = None;
            if self.last_gone.is_none_or(|gone| now - gone >= self.grants_on) {
                self.clear.push_back(view.version());
            }
            return Ok(Vec::new());
        }
        match self.whole.as_ref().filter(|whole| more_is_unusable(whole, view)) {
            Some(_) => {
                let unusable = unusable_pairs(&**view)?;
                Ok(vec![FromManager::Change(ViewChange { version: view.version(), unusable })])
            }
            None => self.tell_whole(),
        }
    }

    /// The whole view, where there is one: for those who may have missed something.
    ///
    /// # Errors
    /// When it is too large to be told.
    pub fn tell_whole(&mut self) -> Result<Vec<FromManager>, ViewError> {
        let Some(view) = self.now.clone() else { return Ok(Vec::new()) };
        let told = frames(&*view, view.placement())?;
        let hash = tables_hash(view.topology(), &view.routing().tables);
        self.tables.retain(|(told, _)| *told != view.version());
        self.tables.push_back((view.version(), hash));
        if self.tables.len() > MOST_TOLD {
            self.tables.pop_front();
        }
        self.whole = Some(view);
        Ok(told)
    }

    /// A controller says that this version, and all before it, are clear.
    pub fn cleared(&mut self, version: u64) {
        self.clear.push_back(version);
    }

    /// A version that is clear, and all before it.
    pub fn next_clear(&mut self) -> Option<u64> {
        self.clear.pop_front()
    }

    /// Whether a controller computed the same tables of a view; none where that view is long past.
    pub fn are_same(&self, computed: &Computed) -> Option<bool> {
        let (_, ours) = self.tables.iter().find(|(told, _)| *told == computed.version)?;
        Some(computed.tables == Some(*ours))
    }
}

/// Whether nothing but that more is unusable has changed.
fn more_is_unusable(whole: &FabricView, view: &FabricView) -> bool {
    whole.is_of_same_target(view) && whole.unusable().is_subset(view.unusable())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A controller that is still at a view when the next one is told has computed the one and not the other.
    #[test]
    fn what_a_controller_computed_is_compared_with_that_view_and_no_other() {
        let mut controllers = Controllers::<u8>::new(Time::ZERO, Time::ZERO);
        controllers.tables = VecDeque::from([(7, 70), (8, 80)]);
        let are_same = |version, tables| controllers.are_same(&Computed { version, tables });
        assert_eq!(are_same(7, Some(70)), Some(true));
        assert_eq!(are_same(8, Some(80)), Some(true));
        assert_eq!(are_same(8, Some(70)), Some(false));
        assert_eq!(are_same(8, None), Some(false), "it found no tables");
        assert_eq!(are_same(9, Some(80)), None, "not told, or long past");
    }
}
