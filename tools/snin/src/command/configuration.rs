//! `snin config`, `snin port`: what is expected of the fabric, by the running subnet manager.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::manager::connect;
use crate::Verdict;
use crate::cli::SmDaemon;
use crate::cli::configuration::{Config, Port};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// The expected configuration.
pub(crate) fn config<W: Write>(asked: &Config, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let (daemon, request) = match asked {
        Config::Learn { test, spares, lines, daemon } => {
            let command = "config-learn";
            let asked =
                json!({ "command": command, "test": test, "spares": spares, "lines": lines });
            (daemon, asked)
        }
        Config::Diff { file, daemon } => {
            let file = file.as_deref().map(absolute);
            (daemon, json!({ "command": "config-diff", "file": file }))
        }
        Config::Check { file, daemon } => {
            (daemon, json!({ "command": "config-check", "file": absolute(file) }))
        }
        Config::Apply { file, force, daemon } => {
            let by = format!("uid {}", rustix::process::getuid().as_raw());
            let file = absolute(file);
            (daemon, json!({ "command": "config-apply", "file": file, "force": force, "by": by }))
        }
        Config::Show { version, lines, daemon } => {
            (daemon, json!({ "command": "config-show", "version": version, "lines": lines }))
        }
        Config::History { daemon } => (daemon, json!({ "command": "config-history" })),
    };
    let said = ask(daemon, &request, out, |said, out| match asked {
        Config::Learn { .. } | Config::Show { .. } => out.text(text(&said["text"])),
        Config::Diff { .. } => {
            list(&said["differences"]).try_for_each(|it| out.line(text(&it["what"])))
        }
        Config::Check { .. } => list(&said["objections"]).try_for_each(|it| out.line(text(it))),
        Config::Apply { .. } => {
            list(&said["objections"]).try_for_each(|it| out.line(text(it)))?;
            let enforced =
                if said["enforced"] == true { "" } else { ", not enforced: nobody consents" };
            out.line(format_args!("version {}{enforced}", said["version"]))
        }
        Config::History { .. } => list(&said["versions"]).try_for_each(|it| {
            let forced = if it["forced"] == true { ", forced" } else { "" };
            let at = it["at"].as_u64().unwrap_or_default();
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(at);
            let at = humantime::format_rfc3339_seconds(at);
            out.line(format_args!("{} {at} {}{forced}", it["version"], text(&it["by"])))
        }),
    })?;
    let unwell = match asked {
        Config::Diff { .. } => list(&said["differences"]).next().is_some(),
        Config::Check { .. } => list(&said["objections"]).next().is_some(),
        _ => false,
    };
    Ok(if unwell { Verdict::Unwell } else { Verdict::Well })
}

/// Ports of which something is expected.
pub(crate) fn port<W: Write>(asked: &Port, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let (daemon, request) = match asked {
        Port::Status { all, daemon } => (daemon, json!({ "command": "port-status", "all": all })),
        Port::Release { port, daemon } => {
            (daemon, json!({ "command": "port-release", "port": port }))
        }
        Port::Test { port, daemon } => (daemon, json!({ "command": "port-test", "port": port })),
        Port::PhaseOut { port, why, daemon } => {
            (daemon, json!({ "command": "port-phase-out", "port": port, "why": why }))
        }
        Port::PhaseIn { port, daemon } => {
            (daemon, json!({ "command": "port-phase-in", "port": port }))
        }
        Port::Quarantine { port, why, daemon } => {
            (daemon, json!({ "command": "port-quarantine", "port": port, "why": why }))
        }
    };
    let said = ask(daemon, &request, out, |said, out| {
        let Port::Status { .. } = asked else { return Ok(()) };
        for port in list(&said["ports"]) {
            let (at, state, why) = (text(&port["at"]), text(&port["state"]), text(&port["why"]));
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            out.line(format_args!("{at} {state} ({} expected){why}", text(&port["expected"])))?;
        }
        Ok(())
    })?;
    let failed = list(&said["ports"]).any(|port| port["state"] == "failed");
    Ok(if failed { Verdict::Unwell } else { Verdict::Well })
}

fn ask<W: Write>(
    daemon: &SmDaemon,
    request: &Value,
    out: &mut Output<W>,
    describe: impl FnOnce(&Value, &mut Output<W>) -> Result<(), Failure>,
) -> Result<Value, Failure> {
    let said = connect(daemon)?.ask(request)?;
    let target = Target::open(daemon.format.json.as_deref())?;
    out.report(target, &said, |out| describe(&said, out))?;
    Ok(said)
}

/// The manager has another working directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path)
        .map_or_else(|_| path.into(), std::path::PathBuf::from)
        .display()
        .to_string()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
