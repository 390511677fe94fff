//! What becomes of a controller whose disk is full: it begins no term that it could not remember, and says so.

use std::sync::Arc;

use serde_json::json;
use snin_daemon::trouble::News;
use snin_fabric::Guid;
use snin_protocol::message::{AgentMessage, Change, FromAgent};
use tracing::{error, info};

use crate::daemon::Daemon;
use crate::error::Failure;
use crate::io::state::State;

impl Daemon {
    /// Begins a term, which is on the disk before anything is granted in it.
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        let begun = self.state.begin(self.config.term, self.config.longest_in_force())?;
        (self.config.term, self.config.predecessor) = (begun.term, begun.predecessor);
        info!("{} begins term {}", self.identity, self.config.term);
        self.begun = true;
        Ok(())
    }

    /// Says whether the state is stored, and does what had to wait for that.
    pub(crate) fn check_state(&mut self) -> Result<(), Failure> {
        match self.state.news() {
            None => {}
            Some(News::Failed(why)) => {
                error!("the state is not stored, which is tried again: {why}");
                self.outlets.notify("STATE_NOT_WRITTEN", json!({ "why": why }));
            }
            Some(News::Works(failures)) => {
                info!("the state is stored again, after {failures} failures");
                self.outlets.notify("STATE_WRITTEN", json!({ "failures": failures }));
            }
        }
        if self.begun || self.leading.is_some() || self.state.trouble().is_some() {
            return Ok(());
        }
        match self.begin() {
            Ok(()) => self.open(),
            // It is told with the next news.
            Err(failure) if failure.may_pass() => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

/// A pinned connection whose agent does not say which tree it had gets that one.
pub(crate) fn recall(state: &State, from: Guid, message: &mut FromAgent) {
    let AgentMessage::Ask(ask) = &mut message.body else { return };
    let is_pinned = |change: &Change| matches!(change, Change::Request(request) if request.pinned);
    if !ask.changes.iter().any(is_pinned) {
        return;
    }
    for change in Arc::make_mut(&mut ask.changes) {
        if let Change::Request(request) = change
            && request.pinned
            && request.tree.is_none()
        {
            request.tree = state.pinned(from, request.destination);
        }
    }
}
