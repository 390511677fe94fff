//! Man pages and completions, from the command's own definition.

mod examples;
mod pages;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::{Command, CommandFactory};
use snin_daemon::http::Route;
use snin_daemon::settings::{Settings, template};

use crate::Verdict;
use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Writes `snin.1`, `snin-plan.1` and so on, and the daemons': `snin-sm.8` and so on.
pub(crate) fn pages(directory: &Path) -> Result<Verdict, Failure> {
    fs::create_dir_all(directory).map_err(Failure::file(directory))?;
    let daemons =
        [&MANAGER, &CONTROLLER, &AGENT].map(|daemon| (daemon.command)().get_name().to_owned());
    pages::write(directory, &daemons).map_err(Failure::file(directory))?;
    let manager = page::<snin_sm::daemon::settings::Settings>(&MANAGER);
    let agent = page::<snin_agent::Settings>(&AGENT);
    let controller = page::<snin_controller::config::Settings>(&CONTROLLER);
    let all = [("snin-sm.8", manager), ("snin-controller.8", controller), ("snin-agent.8", agent)];
    for (name, page) in all {
        let file = directory.join(name);
        page.and_then(|page| fs::write(&file, page)).map_err(Failure::file(&file))?;
    }
    Ok(Verdict::Well)
}

/// What a daemon's page says beyond its command line and its settings.
struct Daemon {
    command: fn() -> Command,
    examples: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, &'static str)],
    /// Its API by HTTP.
    api: &'static [Route],
    /// Every metric with what it means, where the daemon says it.
    metrics: fn() -> Vec<(String, String)>,
    see_also: &'static str,
}

const MANAGER: Daemon = Daemon {
    command: snin_sm::daemon::cli::Cli::command,
    examples: &[
        ("snin-sm --once", "Brings the subnet of this machine's one port up, reports, and ends."),
        (
            "snin-sm --ibsim --once --json",
            "The same on a fabric that ibsim simulates, for a program.",
        ),
        (
            "systemctl enable --now snin-sm@0x0002c90300a1b2c3",
            "Manages the subnet of the port with this GUID from now on.",
        ),
    ],
    files: &[
        ("/etc/snin/sm.toml", "The configuration, as the systemd unit names it."),
        (
            "/etc/snin/partitions.conf",
            "Who is a member of which partition, in OpenSM's format; partition_config_file names it.",
        ),
        ("/var/lib/snin-sm/GUID/guid2lid", "Addresses by port, as OpenSM writes them."),
        ("/var/lib/snin-sm/GUID/trees", "Which switch is the root of which routing tree."),
        ("/run/snin-sm/GUID/control.sock", "The socket that snin-sm-status(1) and its like find."),
    ],
    api: &[],
    metrics: Vec::new,
    see_also: "snin(1), snin-sm-status(1), snin-sm-events(1), opensm(8), ibsim(1), systemd(1)",
};

const CONTROLLER: Daemon = Daemon {
    command: snin_controller::cli::Cli::command,
    examples: &[
        (
            "snin-controller --dump-config > /etc/snin/controller.toml",
            "A file with every key to begin with.",
        ),
        ("snin-controller --config /etc/snin/controller.toml", "Grants connections."),
        (
            "systemctl enable --now snin-controller",
            "The same as a service, now and after every start of the machine.",
        ),
    ],
    files: &[
        ("/etc/snin/controller.toml", "The configuration, where --config names it."),
        (
            "/var/lib/snin/controller/controller.redb",
            "The term, pinned grants, slices, and requests with a time of their own.",
        ),
        (
            "/run/snin/controller.sock",
            "The socket that snin-controller-status(1), snin-slice-create(1) and snin-request(1) find.",
        ),
    ],
    api: &snin_controller::api::ROUTES,
    metrics: snin_controller::metrics::names,
    see_also: "snin(1), snin-controller-status(1), snin-controller-windows(1), snin-controller-grants(1), \
               snin-controller-fabric(1), snin-controller-policy(1), snin-controller-requests(1), \
               snin-controller-events(1), snin-slice-create(1), snin-request(1), snin-release(1), snin-path(1), \
               snin-owner(1), snin-pki-init(1), snin-sm(8), snin-agent(8)",
};

const AGENT: Daemon = Daemon {
    command: snin_agent::cli::Cli::command,
    examples: &[
        ("snin-agent --dump-config > /etc/snin/agent.toml", "A file with every key to begin with."),
        ("snin-agent --config /etc/snin/agent.toml", "Runs the agent of a host port."),
    ],
    files: &[
        ("/etc/snin/agent.toml", "The configuration, where --config names it."),
        ("/run/snin/agent.sock", "The socket that snin-agent-status(1) and its like find."),
    ],
    api: &[],
    metrics: Vec::new,
    see_also: "snin(1), snin-agent-status(1), snin-agent-flows(1), snin-agent-mesh(1), snin-agent-histogram(1), \
               snin-agent-events(1), snin-lat(1), snin-sm(8), rdma(8)",
};

/// The page of a daemon: what its command line says, every key of its file, and where its files are.
fn page<S: Settings>(daemon: &Daemon) -> io::Result<Vec<u8>> {
    let command = (daemon.command)();
    let about = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = clap_mangen::Man::new(command).section("8");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    // Blocks with a title, then a line each: what is told, and what it means.
    for block in about.split("\n\n") {
        let (title, lines) = block.split_once(":\n").unwrap_or((block, ""));
        let title = if title == "Exit codes" { "Exit status" } else { title };
        page.extend(section(title, entries(lines)).bytes());
    }
    let defaults = toml_defaults::<S>();
    let keys = S::KEYS.iter().map(|key| {
        let text: String = key.doc.iter().map(|line| format!("{}\n", line.trim())).collect();
        // Some say themselves what holds without them.
        let told =
            if text.contains("Default: ") { String::new() } else { default(&defaults, key.name) };
        (key.name, text + &told)
    });
    page.extend(section("Configuration file", keys).bytes());
    if !daemon.api.is_empty() {
        let routes = daemon.api.iter().map(|route| (route, route.about.to_owned()));
        page.extend(section("API", routes).bytes());
    }
    let metrics = (daemon.metrics)();
    if !metrics.is_empty() {
        page.extend(section("Metrics", metrics).bytes());
    }
    let files = daemon.files.iter().map(|&(name, text)| (name, text.to_owned()));
    page.extend(section("Files", files).bytes());
    let examples = daemon.examples.iter().map(|&(line, what)| (line, what.to_owned()));
    page.extend(section("Examples", examples).bytes());
    page.extend(format!(".SH \"SEE ALSO\"\n{}\n", daemon.see_also).bytes());
    Ok(page)
}

/// What a table of a name and a meaning each says; a line without a name goes on with the meaning before it.
fn entries(table: &str) -> Vec<(&str, String)> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (line.split_once("  "), entries.last_mut()) {
            (Some((name, meaning)), _) => entries.push((name, meaning.trim_start().to_owned())),
            (None, Some((_, meaning))) => *meaning += &format!(" {line}"),
            (None, None) => {}
        }
    }
    entries
}

fn default(defaults: &BTreeMap<String, String>, key: &str) -> String {
    format!("Default: {}.", defaults.get(key).map_or("unset", String::as_str))
}

/// A section of names and what they mean, as man pages are written.
fn section(
    title: &str,
    entries: impl IntoIterator<Item = (impl std::fmt::Display, String)>,
) -> String {
    let mut text = format!(".SH \"{}\"\n", title.to_uppercase());
    for (name, meaning) in entries {
        text += &format!(".TP\n\\fB{name}\\fR\n");
        for line in meaning.lines() {
            // A line that begins with a full stop or an apostrophe would be taken for a request.
            text += &format!("\\&{}\n", line.replace('\\', "\\e"));
        }
    }
    text
}

/// Each key's default, as the file has it.
fn toml_defaults<S: Settings>() -> BTreeMap<String, String> {
    let text = template::<S>();
    let set = text.lines().filter_map(|line| line.strip_prefix('#')?.split_once(" = "));
    set.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Prints the completions of one shell, for the command and for the daemons.
pub(crate) fn completions<W: Write>(
    shell: clap_complete::Shell,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "snin", &mut script);
    for daemon in [MANAGER, CONTROLLER, AGENT] {
        let command = &mut (daemon.command)();
        let name = command.get_name().to_owned();
        clap_complete::generate(shell, command, name, &mut script);
    }
    out.text(&String::from_utf8_lossy(&script))?;
    Ok(Verdict::Well)
}
