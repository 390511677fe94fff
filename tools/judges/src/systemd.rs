//! systemd's own word on a unit.

use std::fs;

use crate::{JudgeError, Program};

/// The objections of systemd to a unit of this file name and text, a line each; of a template, to the instance
/// of this name.
///
/// # Errors
/// When systemd-analyze is not installed or cannot be run.
pub fn objections(unit: &str, text: &str, instance: Option<&str>) -> Result<String, JudgeError> {
    let folder = tempfile::tempdir().map_err(JudgeError::file(std::env::temp_dir()))?;
    let file = folder.path().join(unit);
    fs::write(&file, text).map_err(JudgeError::file(&file))?;
    let name = match instance {
        Some(instance) => unit.replace('@', &format!("@{instance}")),
        None => unit.to_owned(),
    };
    let mut command = std::process::Command::new(Program::SYSTEMD_ANALYZE.find()?);
    command.args(["verify", "--man=no"]).arg(folder.path().join(name));
    let said = command.output().map_err(JudgeError::file(&file))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    // It looks at units of the machine too.
    let own = unit.trim_end_matches(".service").trim_end_matches('@');
    Ok(said.lines().filter(|line| line.contains(own)).collect::<Vec<_>>().join("\n"))
}
