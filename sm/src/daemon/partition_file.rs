//! The file of partitions.

use std::path::Path;

use snin_daemon::text;
use snin_sm_core::Partitions;

use super::failure::Failure;

/// Reads it; without a file there is the default partition alone.
///
/// # Errors
/// When it cannot be read, or a line of it means nothing.
pub fn read(path: Option<&Path>) -> Result<Partitions, Failure> {
    let Some(path) = path else { return Ok(Partitions::default()) };
    let text = text::read(path).map_err(Failure::text(path))?;
    text.parse().map_err(|error: snin_sm_core::partitions::BadPartitions| Failure::Content {
        path: path.to_owned(),
        what: error.to_string(),
    })
}
