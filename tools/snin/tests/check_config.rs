//! `--check-config` of every daemon: a line for each file that can be used, or the one that cannot, its line and
//! value.

#[allow(dead_code, reason = "other tests need the rest of it")]
mod daemons;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use daemons::snin;

fn check(program: &str, file: &Path) -> Output {
    // The command has the daemons built that are not there.
    let mut command = snin();
    command.arg("--version").output().unwrap();
    let folder = Path::new(command.get_program()).parent().unwrap();
    Command::new(folder.join(program))
        .arg("--check-config")
        .arg("--config")
        .arg(file)
        .output()
        .unwrap()
}

fn line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

#[test]
fn what_can_be_used_is_said_and_what_cannot_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let guid = "guids = [\"0x0200100000000001\"]\nsoftware_port = \"s\"\n";
    let programs = [
        ("snin-sm", "lmc = 3\n", "lmc = 9\n", "lmc"),
        ("snin-controller", "topology = \"f\"\n", "topology = \"f\"\nguard_us = 1\n", "guard"),
        ("snin-software-agents", guid, "guids = []\n", "GUID"),
    ];
    for (program, good, bad, named) in programs {
        let file = path(program);
        fs::write(&file, good).unwrap();
        let output = check(program, &file);
        let said = line(&output.stdout);
        assert_eq!(said, format!("{}: can be used", file.display()), "{}", line(&output.stderr));
        assert_eq!(output.status.code(), Some(0));
        fs::write(&file, bad).unwrap();
        let output = check(program, &file);
        let said = line(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{said}");
        assert!(said.starts_with(&format!("{program}: {}:", file.display())), "{said}");
        assert!(said.contains(named) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn files_that_a_configuration_names_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (partitions, policy) = (path("partitions.conf"), path("qos-policy.conf"));
    fs::write(&partitions, "Default=0x7fff : ALL=full;\n").unwrap();
    fs::write(&policy, "qos-ulps\ndefault : 2\nend-qos-ulps\n").unwrap();
    let text = format!("partition_config_file = {partitions:?}\nqos_policy_file = {policy:?}\n");
    fs::write(path("sm.toml"), text).unwrap();
    let output = check("snin-sm", &path("sm.toml"));
    let said = line(&output.stdout);
    let files = [&path("sm.toml"), &partitions, &policy];
    let lines: Vec<String> =
        files.iter().map(|file| format!("{}: can be used", file.display())).collect();
    assert_eq!(said, lines.join("\n"), "{}", line(&output.stderr));
    for (file, wrong, why) in [
        (&policy, "qos-ulps\ndefault : 20\nend-qos-ulps\n", "line 2: sl is `20`: expected 0 to 15"),
        (&partitions, "Default=0x7fff : SOME=full;\n", "`SOME` is no member"),
    ] {
        fs::write(file, wrong).unwrap();
        let output = check("snin-sm", &path("sm.toml"));
        let said = line(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(&file.display().to_string()) && said.contains(why), "{said}");
    }
    // Certificates too: a key that is not there.
    let text = "manager = \"tls://127.0.0.1:1\"\ncertificate = \"/no/such.crt\"\nkey = \"/no/such.key\"\n\
                ca_certificate = \"/no/such/ca.crt\"\n";
    fs::write(path("controller.toml"), text).unwrap();
    let output = check("snin-controller", &path("controller.toml"));
    let said = line(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("/no/such") && said.lines().count() == 1, "{said}");
}
