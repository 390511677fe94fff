//! Files of `snin pki` go into every daemon's configuration under the same keys.

use std::process::Command;

use snin_agent_software as software;
use snin_daemon::session::KEYS;
use snin_daemon::settings::{Settings, parse};

/// What `snin pki` prints for a folder: files, and the keys that it says they are for.
fn pki(arguments: &[&str], folder: &str) -> Vec<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    let done = command.arg("pki").args(arguments).args(["--dir", folder]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let said = String::from_utf8(done.stdout).unwrap();
    let lines = said.lines().filter_map(|line| {
        let (file, key) = line.split_once(": ")?;
        Some((file.to_owned(), key.split('`').nth(1)?.to_owned()))
    });
    lines.collect()
}

/// Reads the lines as a daemon's configuration.
fn takes<S: Settings>(daemon: &str, text: &str) {
    if let Err(error) = parse::<S>(text, daemon) {
        panic!("{error}");
    }
}

#[test]
fn every_daemon_takes_the_keys_that_the_command_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut named = pki(&["init"], folder);
    named.extend(pki(&["issue", "controller/ctl1"], folder));
    let mut keys: Vec<&str> = named.iter().map(|(_, key)| key.as_str()).collect();
    let mut all = KEYS;
    keys.sort_unstable();
    all.sort_unstable();
    assert_eq!(keys, all);
    let lines = named.iter().map(|(file, key)| format!("{key} = \"{file}\"\n"));
    let text: String = lines.collect();
    takes::<snin_sm::daemon::settings::Settings>("sm.toml", &text);
    takes::<snin_controller::config::Settings>("controller.toml", &text);
    takes::<snin_agent::Settings>("agent.toml", &text);
    takes::<software::Settings>("agents.toml", &text);
}
