//! Man pages and completions, from the command's own definition.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use snin_daemon::settings::Settings as _;
use snin_sm::daemon::settings::Settings;

use crate::Verdict;
use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Writes `snin.1`, `snin-plan.1` and so on, and the daemons': `snin-sm.8`.
pub(crate) fn pages(directory: &Path) -> Result<Verdict, Failure> {
    fs::create_dir_all(directory).map_err(Failure::file(directory))?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(Failure::file(directory))?;
    let file = directory.join("snin-sm.8");
    let mut page = Vec::new();
    let render = clap_mangen::Man::new(snin_sm::daemon::cli::Cli::command()).section("8");
    render.render(&mut page).map_err(Failure::file(&file))?;
    page.extend(keys().bytes());
    fs::write(&file, page).map_err(Failure::file(&file))?;
    Ok(Verdict::Well)
}

/// The section of the configuration file's keys, as man pages are written.
fn keys() -> String {
    let mut text = String::from(".SH \"CONFIGURATION FILE\"\nTOML; every key has a default.\n");
    for key in Settings::KEYS {
        text += &format!(".TP\n\\fB{}\\fR\n", key.name);
        for line in key.doc {
            // A line that begins with a full stop or an apostrophe would be taken for a request.
            text += &format!("\\&{}\n", line.trim().replace('\\', "\\e"));
        }
    }
    text
}

/// Prints the completions of one shell, for the command and for the daemons.
pub(crate) fn completions<W: Write>(
    shell: clap_complete::Shell,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "snin", &mut script);
    let daemon = &mut snin_sm::daemon::cli::Cli::command();
    clap_complete::generate(shell, daemon, "snin-sm", &mut script);
    out.text(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Well)
}
