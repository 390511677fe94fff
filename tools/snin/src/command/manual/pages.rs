//! The pages of the command and of everything below it.

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};

use super::{entries, examples, section};
use crate::cli::{Cli, EXIT_CODES};

/// Writes a page for the command and for each subcommand, but for those called like a daemon (`snin sm`):
/// `man snin-sm` shows the daemon, whose page names what is below.
pub(super) fn write(directory: &Path, daemons: &[String]) -> io::Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_below(&command, &[], directory, daemons)
}

fn write_below(
    command: &Command,
    above: &[&Command],
    directory: &Path,
    daemons: &[String],
) -> io::Result<()> {
    let way: Vec<&Command> = above.iter().copied().chain([command]).collect();
    for below in subcommands(command) {
        write_below(below, &way, directory, daemons)?;
    }
    let name = page_name(command);
    if daemons.contains(&name) {
        return Ok(());
    }
    fs::write(directory.join(format!("{name}.1")), page(command, above, daemons)?)
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// `snin-plan-slices`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

/// Names with their section, such as `snin-sm(8)`.
fn reference(name: &str, daemons: &[String]) -> String {
    let number = if daemons.iter().any(|daemon| daemon == name) { 8 } else { 1 };
    format!("{name}({number})")
}

/// What does something by itself: the command, or all below it.
fn leaves(command: &Command) -> Vec<&Command> {
    let below: Vec<&Command> = subcommands(command).flat_map(leaves).collect();
    if below.is_empty() { vec![command] } else { below }
}

fn page(command: &Command, above: &[&Command], daemons: &[String]) -> io::Result<Vec<u8>> {
    let name = page_name(command);
    let man = clap_mangen::Man::new(command.clone()).title(name.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    let below: Vec<&Command> = subcommands(command).flat_map(leaves).collect();
    if !below.is_empty() {
        let entries = below.iter().map(|below| {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            (reference(&page_name(below), daemons), about)
        });
        page.extend(section("Subcommands", entries).bytes());
    }
    let (_, codes) = EXIT_CODES.split_once(":\n").unwrap_or_default();
    page.extend(section("Exit status", entries(codes)).bytes());
    page.extend(section("Examples", examples::of(&name)).bytes());
    let nearest = above.last().map_or_else(Vec::new, |parent| leaves(parent));
    let related = above.iter().copied().chain(nearest).map(page_name);
    let mut related: Vec<String> = related.chain(daemons.iter().cloned()).collect();
    related.sort();
    related.dedup();
    let related: Vec<String> =
        related.iter().filter(|other| **other != name).map(|o| reference(o, daemons)).collect();
    page.extend(format!(".SH \"SEE ALSO\"\n{}\n", related.join(", ")).bytes());
    Ok(page)
}
