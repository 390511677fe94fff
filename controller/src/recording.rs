//! Recordings of the controller's core: what `snin-controller --record FILE` writes and `snin replay FILE` reads.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::error::ConfigError;
use snin_controller_core::events::{Event, Output};
use snin_controller_core::orders::{Answer, Order};
use snin_daemon::record::Recorder;
use snin_daemon::replay::Replay;
use snin_fabric::view::View;
use snin_protocol::{Time, codec};
use tracing::warn;

/// What recordings call the controller's core.
pub const CORE: &str = "controller";

/// What a core is made from.
#[derive(Serialize, Deserialize)]
pub struct Made {
    /// How it works.
    pub config: Config,
    /// The fabric.
    #[serde(with = "snin_protocol::view_frames")]
    pub view: Arc<dyn View>,
}

/// A core of which everything that it is told is recorded, if that is wanted. A file that cannot be written ends
/// the recording, not the controller.
pub struct Recorded {
    core: Core,
    recorder: Option<Recorder>,
    /// The time of what was recorded last.
    last: Time,
    /// From then on another controller may lead.
    until: Time,
}

impl Deref for Recorded {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Recorded {
    /// As [`Core::new`]; recorded to a file, if one is named.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn new(
        config: Config,
        view: Arc<dyn View>,
        now: Time,
        file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let recorder = file.and_then(|file| {
            let made = Made { config: config.clone(), view: Arc::clone(&view) };
            let recorder = Recorder::create(file, CORE, &made, now);
            recorder.inspect_err(|error| warn!("{}: {error}: not recorded", file.display())).ok()
        });
        let core = Core::new(config, view, now)?;
        Ok(Self { core, recorder, last: now, until: Time::MAX })
    }

    /// The core is told nothing from this moment on, and so decides no grant: another controller may lead then.
    /// What it decided before is bounded by its own times, however late it is sent.
    pub const fn grant_until(&mut self, moment: Time) {
        self.until = moment;
    }

    /// As [`Core::handle`].
    pub fn handle(&mut self, event: Event, now: Time) {
        if now >= self.until {
            return;
        }
        self.write(now, Some(&event));
        self.core.handle(event, now);
    }

    /// As [`Core::handle_deadline`].
    pub fn handle_deadline(&mut self, now: Time) {
        if now >= self.until {
            return;
        }
        self.write(now, None);
        self.core.handle_deadline(now);
    }

    /// As [`Core::poll_output`].
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.core.poll_output();
        if let (Some(recorder), Some(output)) = (&mut self.recorder, &output)
            && let Some(bytes) = outcome(output)
        {
            recorder.output(&bytes);
        }
        output
    }

    /// The core carries an order out.
    pub fn order(&mut self, order: Order, now: Time) -> Answer {
        let event = Event::Order(order);
        self.write(now, Some(&event));
        self.core.handle(event, now)
    }

    /// The controller ends, and its recording with it.
    pub fn finish(&mut self) {
        if let Some(Err(error)) = self.recorder.take().map(|recorder| recorder.end(self.last)) {
            warn!("the recording has no end: {error}");
        }
    }

    fn write(&mut self, now: Time, event: Option<&Event>) {
        self.last = now;
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.write(now, event)
        {
            warn!("recording ends: {error}");
            self.recorder = None;
        }
    }
}

/// The bytes by which what comes out of a core is compared: what agents are sent.
fn outcome(output: &Output) -> Option<Vec<u8>> {
    let Output::Send { to, message } = output else { return None };
    let mut bytes = to.0.to_be_bytes().to_vec();
    bytes.extend(codec::encode(message).ok()?);
    Some(bytes)
}

/// A core that is told again what a recorded one was told.
pub struct Replaying(
    /// The core.
    pub Core,
);

impl Replay for Replaying {
    const CORE: &'static str = CORE;
    type Made = Made;
    type Event<'a> = Event;
    type Output = Output;

    fn make(made: &Made, at: Time) -> Result<Self, String> {
        let core = Core::new(made.config.clone(), Arc::clone(&made.view), at);
        core.map(Self).map_err(|error| error.to_string())
    }

    /// What the core refused then it refuses again.
    fn handle(&mut self, event: Option<Event>, now: Time) -> Result<(), String> {
        match event {
            Some(event) => drop(self.0.handle(event, now)),
            None => self.0.handle_deadline(now),
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn compared(output: &Output) -> Option<Vec<u8>> {
        outcome(output)
    }
}
