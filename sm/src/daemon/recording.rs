//! Recordings of the manager's core: what `snin-sm --record FILE` writes and `snin replay FILE` reads.
//!
//! A computation is not recorded: the core's own jobs are run again.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use snin_daemon::record::Recorder;
use snin_daemon::replay::Replay;
use snin_protocol::Time;
use snin_sm_core::{Core, Event, Output};
use snin_sm_database::config::Config;
use snin_sm_database::error::ConfigError;
use snin_sm_database::mad_address::Destination;
use snin_sm_database::records::KeptRecord;
use snin_sm_database::saved::Saved;
use snin_sweep::Job;
use tracing::warn;

use super::failure::Failure;

/// What recordings call the manager's core.
pub const CORE: &str = "sm";

/// What a manager is made from.
#[derive(Clone, Serialize, Deserialize)]
pub struct Made {
    /// How it works.
    pub config: Config,
    /// What survived a restart.
    pub saved: Saved,
    /// What hosts said before it.
    pub kept: Vec<KeptRecord>,
    /// What has to be added to its driver's time to have that of the epoch.
    pub epoch: Time,
}

impl Made {
    /// The manager.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn core(self) -> Result<Core, ConfigError> {
        let mut core = Core::new(self.config, self.saved, self.kept)?;
        core.manager_mut().set_epoch(self.epoch);
        Ok(core)
    }
}

/// What a manager is told.
#[derive(Serialize, Deserialize)]
pub enum Recorded<E> {
    /// This.
    Event(E),
    /// The job with this number is done.
    Computed(u64),
}

/// Records a manager. A file that cannot be written ends the recording, not the manager.
pub struct EventRecorder(Option<Recorder>);

impl EventRecorder {
    /// No recording.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Begins one of a manager that is about to be made from this.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(file: &Path, made: &Made, now: Time) -> Result<Self, Failure> {
        let recorder = Recorder::create(file, CORE, made, now);
        recorder.map(|recorder| Self(Some(recorder))).map_err(Failure::file(file))
    }

    /// The core is told of an event, or without one that a deadline has come.
    pub fn event(&mut self, now: Time, event: Option<&Event<'_>>) {
        let told = match event {
            None => None,
            // The manager itself makes these.
            Some(Event::Groups(_)) => return,
            Some(Event::Computed(computed)) => Some(Recorded::Computed(computed.number())),
            Some(event) => Some(Recorded::Event(event)),
        };
        self.with(|recorder| recorder.write(now, told.as_ref()));
    }

    /// The core wants this.
    pub fn output(&mut self, output: &Output) {
        if let (Some(recorder), Some(bytes)) = (&mut self.0, outcome(output)) {
            recorder.output(&bytes);
        }
    }

    /// What was recorded so far is in the file.
    pub fn flush(&mut self) {
        self.with(Recorder::flush);
    }

    /// The manager ends.
    pub fn end(&mut self, now: Time) {
        if let Some(Err(error)) = self.0.take().map(|recorder| recorder.end(now)) {
            warn!("the recording has no end: {error}");
        }
    }

    fn with(&mut self, write: impl FnOnce(&mut Recorder) -> std::io::Result<()>) {
        if let Some(recorder) = &mut self.0
            && let Err(error) = write(recorder)
        {
            warn!("recording ends: {error}");
            self.0 = None;
        }
    }
}

/// The bytes by which what comes out of a manager is compared: what it sends. The rest follows from what it
/// is told.
fn outcome(output: &Output) -> Option<Vec<u8>> {
    let (to, mad) = match output {
        Output::Send { to: Destination::Directed, mad, .. } => (0xFFFF, mad),
        Output::Send { to: Destination::Lid(lid), mad, .. } => (lid.0, mad),
        Output::Answer { to, mad, .. } => (to.lid.0, mad),
        _ => return None,
    };
    let mut bytes = to.to_be_bytes().to_vec();
    bytes.extend_from_slice(&mad.0);
    Some(bytes)
}

/// A manager that is told again what a recorded one was told.
pub struct Replaying {
    /// The manager, or a reader in its place.
    pub core: Core,
    /// Computations that the manager gave out, by number, until their results are due.
    jobs: BTreeMap<u64, Job>,
}

impl Replay for Replaying {
    const CORE: &'static str = CORE;
    type Made = Made;
    type Event<'a> = Recorded<Event<'a>>;
    type Output = Output;

    fn make(made: &Made, _at: Time) -> Result<Self, String> {
        let core = made.clone().core().map_err(|error| error.to_string())?;
        Ok(Self { core, jobs: BTreeMap::new() })
    }

    fn handle(&mut self, event: Option<Recorded<Event<'_>>>, now: Time) -> Result<(), String> {
        match event {
            None => self.core.handle_deadline(now),
            Some(Recorded::Event(event)) => self.core.handle(event, now),
            Some(Recorded::Computed(job)) => {
                let job = self.jobs.remove(&job).ok_or("of a job that was not given")?;
                self.core.handle(Event::Computed(Box::new(job.run())), now);
            }
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.core.poll_output()
    }

    fn compared(output: &Output) -> Option<Vec<u8>> {
        outcome(output)
    }

    fn keep(&mut self, output: Output) {
        if let Output::Compute(job) = output {
            self.jobs.insert(job.number(), *job);
        }
    }
}
