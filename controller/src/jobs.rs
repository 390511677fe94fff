//! What a job's nodes need to know of its slice.

use snin_protocol::operator::controller::{GetSliceTrees, SliceTrees};

use crate::daemon::Daemon;
use crate::principal::ApiError;

impl Daemon {
    /// The trees of a slice as a text (`snin_fabric::job`), and whether they are its own already.
    pub(crate) fn slice_trees(&self, asked: &GetSliceTrees) -> Result<SliceTrees, ApiError> {
        let core = self.core()?;
        let owner = &asked.owner;
        let none = || ApiError::absent(format!("{owner:.128} has no slice"));
        let slice = core.slice(owner).ok_or_else(none)?;
        let pairs = asked.pairs.as_deref().unwrap_or_default();
        let trees = core.job_trees(owner, asked.uid, pairs).ok_or_else(none)?;
        Ok(SliceTrees {
            owner: owner.clone(),
            text: trees.to_string(),
            whole: slice.whole,
            ready: slice.whole && slice.foreign == 0,
        })
    }
}
