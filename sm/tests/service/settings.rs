//! Names of keys, beside OpenSM's own.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use snin_daemon::settings::Settings as _;
use snin_sm::daemon::settings::Settings;

use crate::daemon::SNIN_SM;

/// What OpenSM has no key for: it has one port, adapters by GUID only, no limit for one agent, its
/// memory where a variable says, a console in place of socket with its group, metrics and events,
/// levels of its log as bits, and no mirror.
const OURS_ALONE: [&str; 35] = [
    "ca",
    "more_ports",
    "port",
    "max_agent_smps",
    "state_dir",
    "control_socket",
    "socket_group",
    "metrics_listen",
    "mirror_listen",
    "mirror_of",
    "events_file",
    "log_level",
    "m_key_policy",
    "former_m_keys",
    "policy",
    "session_listen",
    "session_users",
    "certificate",
    "key",
    "ca_certificate",
    "revoked",
    "routing",
    "configuration_dry_run",
    "configuration_writes",
    "cluster",
    "consent",
    "election",
    "expected_configuration",
    "sa_busy",
    "max_burst_smps",
    "max_read_smps",
    "read_only",
    "unmanaged_trees",
    "granted_sl",
    "unmanaged_share",
];

#[test]
fn what_opensm_has_too_has_opensms_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("opensm.conf");
    let mut command = Command::new("opensm");
    let said = command.arg("--create-config").arg(&file).output();
    assert!(said.expect("install the Debian package opensm").status.success());
    let text = fs::read_to_string(file).unwrap();
    let theirs: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once(' ')).map(|(key, _)| key).collect();
    let alone: BTreeSet<&str> =
        Settings::KEYS.iter().map(|key| key.name).filter(|key| !theirs.contains(key)).collect();
    assert_eq!(alone, BTreeSet::from(OURS_ALONE));
}

/// A byte of another encoding is named by file, line and column; in a comment it does not count.
#[test]
fn bytes_that_are_no_utf8_are_named_and_taken_in_comments() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let told = |settings: &str| {
        let mut command = Command::new(SNIN_SM);
        let output =
            command.args(["--config", settings, "--ibsim", "nobody-there"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3));
        String::from_utf8(output.stderr).unwrap()
    };
    let settings = file("sm.toml", b"# caf\xe9\nlog_file = \"caf\xe9\"\n");
    let said = told(&settings);
    assert!(said.contains(&format!("{settings}:2:16: byte 0xe9 is no UTF-8")), "{said}");
    let partitions =
        file("partitions.conf", b"# na\xefve\nDefault=0x7fff : ALL=full;\nst\xe9=0x8001 : ALL;\n");
    let text = format!("# caf\u{e9}\npartition_config_file = \"{partitions}\"\n");
    let settings = file("sm.toml", text.as_bytes());
    let said = told(&settings);
    assert!(said.contains(&format!("{partitions}:3:3: byte 0xe9 is no UTF-8")), "{said}");
    file("partitions.conf", b"# na\xefve\nDefault=0x7fff : ALL=full; # \xff\n");
    // All is read; there is only no fabric.
    let said = told(&settings);
    assert!(said.contains("no ibsim listens at nobody-there"), "{said}");
}
