//! Recordings of an agent's core, from `snin-agent --record FILE`.

use std::path::Path;

use snin_agent_core::{Config, ConfigError, Event, Mesh, Output};
use snin_daemon::record::{RecordError, Recording};
use snin_protocol::Time;

/// What recordings call the agent's core.
pub const CORE: &str = "agent";

/// Why a recording cannot be replayed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What the core was made from.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Makes a core again from what the recorded one was told; each output is given to `output` with the time. The
/// core ends as the recorded one was.
///
/// # Errors
/// When the file is no recording of an agent; its entries before the one that is none were told.
pub fn replay(file: &Path, output: impl FnMut(Time, Output)) -> Result<Mesh, ReplayError> {
    let mut recording = Recording::<Config, Event>::open(file, CORE)?;
    let (config, at) = (recording.config, recording.at);
    let mut failed = None;
    let entries = std::iter::from_fn(|| match recording.next()? {
        Ok(entry) => Some((entry.at, entry.event)),
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    let mesh = snin_agent_core::replay(config, at, entries, output)?;
    failed.map_or(Ok(mesh), |error| Err(error.into()))
}
