//! What a daemon drives: a manager, or beside a manager that stays the reader in its place.

use std::sync::Arc;

use snin_fabric::Lid;
use snin_protocol::Time;
use snin_sm_database::config::Config;
use snin_sm_database::error::ConfigError;
use snin_sm_database::records::KeptRecord;
use snin_sm_database::saved::Saved;
use snin_sweep::{FabricView, Metrics, Reader};

use crate::events::{Event, Output};
use crate::manager::Manager;

/// A manager, or a reader that is at work in its place. Both have the verbs of every core.
///
/// Where there is a reader nothing is told to the manager: it says what one says that has seen nothing.
pub struct Core {
    manager: Manager,
    reader: Option<Box<Reader>>,
}

impl Core {
    /// One that has seen nothing yet: a reader, where the configuration says that another manager keeps the
    /// subnet.
    ///
    /// # Errors
    /// When a number of the configuration is out of range.
    pub fn new(
        config: Config,
        saved: Saved,
        kept: impl IntoIterator<Item = KeptRecord>,
    ) -> Result<Self, ConfigError> {
        let reader = match config.read_only {
            true => Some(Box::new(Reader::new(config.clone(), &saved)?)),
            false => None,
        };
        let config = Config { read_only: false, ..config };
        Ok(Self { manager: Manager::new(config, saved, kept)?, reader })
    }

    /// The manager, which is at work unless there is a reader.
    pub const fn manager(&self) -> &Manager {
        &self.manager
    }

    /// The same, to be told what it needs before it begins.
    pub const fn manager_mut(&mut self) -> &mut Manager {
        &mut self.manager
    }

    /// Whether another manager keeps the subnet, and this one only reads it.
    pub const fn is_read_only(&self) -> bool {
        self.reader.is_some()
    }

    /// The address of the manager that keeps the subnet, and whether it reports changes, where this one only
    /// reads.
    pub fn master_sm(&self) -> Option<(Lid, bool)> {
        self.reader.as_ref()?.master_sm()
    }

    /// Takes note of what happened. What is for no core that is at work is dropped.
    pub fn handle(&mut self, event: Event<'_>, now: Time) {
        match (&mut self.reader, event) {
            (None, event) => self.manager.handle(event, now),
            (Some(reader), event) => {
                if let Some(event) = event.for_sweep() {
                    reader.handle(event, now);
                }
            }
        }
    }

    /// The next thing to be done, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        match &mut self.reader {
            Some(reader) => reader.poll_output().map(Output::from),
            None => self.manager.poll_output(),
        }
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Time> {
        match &self.reader {
            Some(reader) => reader.next_deadline(),
            None => self.manager.next_deadline(),
        }
    }

    /// Does what is due at `now`; too early a call does nothing.
    pub fn handle_deadline(&mut self, now: Time) {
        match &mut self.reader {
            Some(reader) => reader.handle_deadline(now),
            None => self.manager.handle_deadline(now),
        }
    }

    /// What was counted of the fabric's management.
    pub fn metrics(&self) -> &Metrics {
        self.reader.as_ref().map_or_else(|| self.manager.metrics(), |reader| reader.metrics())
    }

    /// The last view published.
    pub fn view(&self) -> Option<&Arc<FabricView>> {
        self.reader.as_ref().map_or_else(|| self.manager.view(), |reader| reader.view())
    }

    /// Whether nothing is being asked, computed or written.
    pub fn is_idle(&self) -> bool {
        self.reader.as_ref().map_or_else(|| self.manager.is_idle(), |reader| reader.is_idle())
    }

    /// Whether the fabric is as it was meant to be, or was read, for all that is known.
    pub fn has_swept(&self) -> bool {
        match &self.reader {
            Some(reader) => reader.is_idle() && reader.view().is_some(),
            None => self.manager.has_swept(),
        }
    }

    /// SMPs in flight.
    pub fn in_flight(&self) -> usize {
        self.reader.as_ref().map_or_else(|| self.manager.in_flight(), |reader| reader.in_flight())
    }
}
