//! The systemd unit, by systemd's own word.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use snin_fabric::ibnet;
use snin_judges::{JudgeError, Simulator, objections};

use crate::daemon::{SNIN_SM, fabric};

const UNIT: &str = "snin-sm@.service";

#[test]
fn systemd_takes_the_unit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(UNIT);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("ExecStart=/usr/sbin/snin-sm --guid %i --config /etc/snin/sm.toml\n"));
    let here = text.replace("/usr/sbin/snin-sm", SNIN_SM);
    let judged = |text: &str| objections(UNIT, text, Some("0x0002c90300a1b2c3")).unwrap();
    assert_eq!(judged(&here), "");
    let wrong = judged(&here.replace("WatchdogSec=", "WatchdogSecs="));
    assert!(wrong.contains("WatchdogSecs"), "{wrong}");
}

/// All units of daemons, by their folder.
const UNITS: [(&str, &str); 3] = [
    ("sm/systemd", UNIT),
    ("controller/systemd", "snin-controller.service"),
    ("endnode-agent/systemd", "snin-agent.service"),
];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The values of a key in a unit, apart.
fn words(unit: &str, key: &str) -> Vec<String> {
    let values = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    values.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// Sockets that settings, manuals and documents name are in folders that the unit of their daemon makes: all else
/// is closed to it. The manager's sessions are not in the folder of its port, which its configuration does not
/// know.
#[test]
fn units_allow_the_sockets_that_are_documented() {
    let mut texts = vec![fs::read_to_string(project().join("README.md")).unwrap()];
    for folder in ["docs", "sm", "controller"] {
        for entry in fs::read_dir(project().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "md" || kind == "toml") {
                texts.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    let text = texts.join("\n");
    let ends = |c: char| !(c.is_ascii_alphanumeric() || "-_/.".contains(c));
    let found = text.match_indices("/run/").map(|(at, _)| &text[at..]);
    let found = found.map(|rest| rest.split(ends).next().unwrap());
    let sockets: BTreeSet<&str> = found.filter(|path| path.ends_with(".sock")).collect();
    for (name, (folder, unit)) in [
        ("/run/snin/sm-sessions.sock", UNITS[0]),
        ("/run/snin/controller.sock", UNITS[1]),
        ("/run/snin/controller-api.sock", UNITS[1]),
        ("/run/snin/controller-sessions.sock", UNITS[1]),
        ("/run/snin/agent.sock", UNITS[2]),
        ("/run/snin/pairs.sock", UNITS[2]),
    ] {
        let unit = fs::read_to_string(project().join(folder).join(unit)).unwrap();
        let made = words(&unit, "RuntimeDirectory");
        let is_in =
            |made: &String| Path::new(name).parent() == Some(&*Path::new("/run").join(made));
        assert!(made.iter().any(is_in), "{name}: {made:?}");
        // Another daemon is in the same folder: it outlives this one.
        assert_eq!(words(&unit, "RuntimeDirectoryPreserve"), ["yes"], "{name}");
    }
    let known: BTreeSet<&str> = [
        "/run/snin/sm-sessions.sock",
        "/run/snin/controller.sock",
        "/run/snin/controller-api.sock",
        "/run/snin/controller-sessions.sock",
        "/run/snin/agent.sock",
        "/run/snin/pairs.sock",
    ]
    .into();
    let strange: Vec<_> = sockets.difference(&known).collect();
    assert!(strange.is_empty(), "which daemon's are {strange:?}?");
    assert!(sockets.contains("/run/snin/sm-sessions.sock"), "{sockets:?}");
}

/// Each is watched, has a folder for its log, and may do no more than the others.
#[test]
fn units_are_alike() {
    for (folder, name) in UNITS {
        let unit = fs::read_to_string(project().join(folder).join(name)).unwrap();
        for key in
            ["WatchdogSec", "LogsDirectory", "NotifyAccess", "SystemCallFilter", "ProcSubset"]
        {
            assert!(!words(&unit, key).is_empty(), "{name} has no {key}");
        }
        assert_eq!(words(&unit, "Type"), ["notify"], "{name}");
        let (confined, said) = exposed(name, &unit);
        assert!(confined, "{name}: {said}");
        let program = words(&unit, "ExecStart").remove(0);
        let here = unit.replace(&program, "/usr/bin/true");
        assert_eq!(objections(name, &here, Some("0x0002c90300a1b2c3")).unwrap(), "", "{name}");
    }
}

/// Whether a unit is confined, and what is said of it.
fn exposed(name: &str, text: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let mut command = Command::new("systemd-analyze");
    command.args(["security", "--offline=yes", "--no-pager", "--threshold=20"]).arg(file);
    let said = command.output().expect("install the Debian package systemd");
    (said.status.success(), String::from_utf8_lossy(&said.stdout).into_owned())
}

/// What systemd says of how much a service may do that it need not: 0 is nothing, 10 everything.
#[test]
fn the_unit_is_confined() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(UNIT);
    let text = fs::read_to_string(path).unwrap();
    let (confined, said) = exposed(UNIT, &text);
    assert!(confined, "{said}");
    assert!(!exposed(UNIT, &text.replace("CapabilityBoundingSet=\n", "")).0);
}

/// Under the unit's filter a system call that is not on its list ends the daemon.
#[test]
fn the_daemon_makes_only_the_system_calls_that_the_unit_allows() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let folder = simulator.folder();
    let (calls, config) = (folder.join("calls"), folder.join("sm.toml"));
    let settings = format!(
        "state_dir = {0:?}\ndump_files_dir = {0:?}\nevents_file = \"{1}/events\"\nlog_file = \"{1}/log\"\n\
         metrics_listen = \"127.0.0.1:0\"\ncontrol_socket = \"{1}/socket\"\n\
         socket_group = \"daemon\"\nlmc = 1\n",
        folder.join("state"),
        folder.display()
    );
    fs::write(&config, settings).unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&calls).arg(SNIN_SM).arg("--config").arg(&config);
    command.args(["--once", "--ibsim", simulator.name()]).env("NOTIFY_SOCKET", folder.join("none"));
    let said = command.output().expect("install the Debian package strace");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let allowed = system_calls("@system-service");
    let forbidden: BTreeSet<String> =
        ["@privileged", "@resources"].into_iter().flat_map(system_calls).collect();
    let text = fs::read_to_string(calls).unwrap();
    let name =
        |line: &str| Some(line.split_once(' ')?.1.trim_start().split_once('(')?.0.to_owned());
    let made: BTreeSet<String> = text.lines().filter_map(name).collect();
    // Once the program's end has begun, strace may come too late to ask what another thread was about to do, and
    // calls it `???`; before that everything has a name.
    let (before, _) = text.split_once(" exit_group(").expect("the program's end");
    assert!(!before.contains(" ???("), "{before}");
    let made: Vec<&String> =
        made.iter().filter(|name| !name.starts_with(['<', '+', '-', '?'])).collect();
    assert!(made.len() > 20, "{made:?}");
    let refused = |name: &&&String| !allowed.contains(**name) || forbidden.contains(**name);
    // The program itself is begun by systemd, before the filter.
    let refused: Vec<_> = made.iter().filter(refused).filter(|name| **name != "execve").collect();
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}

/// What systemd's name for a set of system calls stands for.
fn system_calls(set: &str) -> BTreeSet<String> {
    let said = Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", set]).output();
    let said = String::from_utf8(said.expect("systemd-analyze").stdout).unwrap();
    let mut calls = BTreeSet::new();
    for line in said.lines().skip(1).map(str::trim).filter(|line| !line.starts_with('#')) {
        match line.starts_with('@') {
            true => calls.extend(system_calls(line)),
            false => _ = calls.insert(line.to_owned()),
        }
    }
    calls
}
