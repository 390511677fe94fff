//! Man pages and completions, from the command's own definition.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::Verdict;
use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Writes `snin.1`, `snin-plan.1` and so on.
pub(crate) fn pages(directory: &Path) -> Result<Verdict, Failure> {
    fs::create_dir_all(directory).map_err(Failure::file(directory))?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(Failure::file(directory))?;
    Ok(Verdict::Well)
}

/// Prints the completions of one shell.
pub(crate) fn completions<W: Write>(
    shell: clap_complete::Shell,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "snin", &mut script);
    out.text(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Well)
}
