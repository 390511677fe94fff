//! `snin config`, `snin port`: what is expected of the fabric, by the running subnet manager.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use snin_protocol::operator::manager::{
    self, ApplyConfiguration, CheckConfiguration, CompareConfiguration, ConfigurationApplied,
    Differences, GetHistory, GetPorts, History, LearnConfiguration, Objections, PhasePortIn,
    PhasePortOut, PortState, Ports, QuarantinePort, ReleasePort, ShowConfiguration, TestPort,
    Version,
};

use super::asking::show;
use crate::Verdict;
use crate::cli::configuration::{Config, Port};
use crate::failure::Failure;
use crate::output::Output;

/// The expected configuration.
pub(crate) fn config<W: Write>(asked: &Config, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let well = match asked {
        Config::Learn { test, spares, lines, daemon } => {
            let asked = LearnConfiguration { test: *test, spares: *spares, lines: *lines };
            show(daemon, &asked, out, |learnt, out| out.text(&learnt.text))?;
            true
        }
        Config::Diff { file, daemon } => {
            let asked = CompareConfiguration { file: file.as_deref().map(absolute) };
            show(daemon, &asked, out, differences)?.differences.is_empty()
        }
        Config::Check { file, daemon } => {
            let asked = CheckConfiguration { file: absolute(file) };
            let print = |Objections { objections }: &Objections, out: &mut Output<W>| {
                objections.iter().try_for_each(|it| out.line(it))
            };
            show(daemon, &asked, out, print)?.objections.is_empty()
        }
        Config::Apply { file, force, daemon } => {
            let by = format!("uid {}", rustix::process::getuid().as_raw());
            let asked = ApplyConfiguration { file: absolute(file), force: *force, by };
            show(daemon, &asked, out, applied)?;
            true
        }
        Config::Show { version, lines, daemon } => {
            let asked = ShowConfiguration { version: *version, lines: *lines };
            show(daemon, &asked, out, |shown, out| out.text(&shown.text))?;
            true
        }
        Config::History { daemon } => {
            show(daemon, &GetHistory {}, out, history)?;
            true
        }
    };
    Ok(if well { Verdict::Well } else { Verdict::Unwell })
}

fn differences<W: Write>(answer: &Differences, out: &mut Output<W>) -> Result<(), Failure> {
    answer.differences.iter().try_for_each(|difference| out.line(&difference.what))
}

fn applied<W: Write>(answer: &ConfigurationApplied, out: &mut Output<W>) -> Result<(), Failure> {
    answer.objections.iter().try_for_each(|it| out.line(it))?;
    let enforced = if answer.enforced { "" } else { ", not enforced: nobody consents" };
    out.line(format_args!("version {}{enforced}", answer.version))
}

fn history<W: Write>(answer: &History, out: &mut Output<W>) -> Result<(), Failure> {
    answer.versions.iter().try_for_each(|Version { version, at, by, forced, .. }| {
        let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(*at));
        let forced = if *forced { ", forced" } else { "" };
        out.line(format_args!("{version} {at} {by}{forced}"))
    })
}

/// Ports of which something is expected.
pub(crate) fn port<W: Write>(asked: &Port, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Port::Status { all, daemon } => {
            let answer = show(daemon, &GetPorts { all: *all }, out, ports)?;
            let failed = answer.ports.iter().any(|port| port.state == PortState::Failed);
            return Ok(if failed { Verdict::Unwell } else { Verdict::Well });
        }
        Port::Release { port, daemon } => {
            show(daemon, &ReleasePort { port: port.clone() }, out, |_, _| Ok(()))?
        }
        Port::Test { port, daemon } => {
            show(daemon, &TestPort { port: port.clone() }, out, |_, _| Ok(()))?
        }
        Port::PhaseOut { port, why, daemon } => {
            let asked = PhasePortOut { port: port.clone(), why: why.clone() };
            show(daemon, &asked, out, |_, _| Ok(()))?
        }
        Port::PhaseIn { port, daemon } => {
            show(daemon, &PhasePortIn { port: port.clone() }, out, |_, _| Ok(()))?
        }
        Port::Quarantine { port, why, daemon } => {
            let asked = QuarantinePort { port: port.clone(), why: why.clone() };
            show(daemon, &asked, out, |_, _| Ok(()))?
        }
    };
    Ok(Verdict::Well)
}

fn ports<W: Write>(answer: &Ports, out: &mut Output<W>) -> Result<(), Failure> {
    answer.ports.iter().try_for_each(|port| {
        let manager::Port { at, expected, state, why, .. } = port;
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        out.line(format_args!("{at} {state} ({expected} expected){why}"))
    })
}

/// The manager has another working directory.
fn absolute(path: &Path) -> String {
    std::path::absolute(path)
        .map_or_else(|_| path.into(), std::path::PathBuf::from)
        .display()
        .to_string()
}
