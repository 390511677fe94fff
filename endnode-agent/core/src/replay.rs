//! A mesh made again from what another was told.

use snin_protocol::Time;

use super::config::{Config, ConfigError};
use super::events::{Event, Output};
use super::mesh::Mesh;

/// Tells a new mesh what was recorded: events with their times, and the times at which deadlines were handled.
/// Each output is given to `output` with the time. The mesh ends as the recorded one was.
///
/// # Errors
/// When the configuration contradicts itself.
pub fn replay(
    config: Config,
    at: Time,
    entries: impl IntoIterator<Item = (Time, Option<Event>)>,
    mut output: impl FnMut(Time, Output),
) -> Result<Mesh, ConfigError> {
    let mut mesh = Mesh::new(config, at)?;
    for (now, event) in entries {
        match event {
            Some(event) => mesh.handle(event, now),
            None => mesh.handle_deadline(now),
        }
        while let Some(one) = mesh.poll_output() {
            output(now, one);
        }
    }
    Ok(mesh)
}
