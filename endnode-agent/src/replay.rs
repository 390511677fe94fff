//! Recordings of an agent's core, from `snin-agent --record FILE`.

use snin_agent_core::{Config, Event, Mesh, Output};
use snin_daemon::replay::Replay;
use snin_protocol::Time;

/// What recordings call the agent's core.
pub const CORE: &str = "agent";

/// A mesh that is told again what a recorded one was told.
#[derive(Debug)]
pub struct Replaying(
    /// The mesh.
    pub Mesh,
);

impl Replay for Replaying {
    const CORE: &'static str = CORE;
    type Made = Config;
    type Event<'a> = Event;
    type Output = Output;

    fn make(made: &Config, at: Time) -> Result<Self, String> {
        Mesh::new(*made, at).map(Self).map_err(|error| error.to_string())
    }

    fn handle(&mut self, event: Option<Event>, now: Time) -> Result<(), String> {
        match event {
            Some(event) => self.0.handle(event, now),
            None => self.0.handle_deadline(now),
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn compared(output: &Output) -> Option<Vec<u8>> {
        Some(compared(output))
    }
}

/// The bytes by which an output is compared.
pub(crate) fn compared(output: &Output) -> Vec<u8> {
    format!("{output:?}").into_bytes()
}
