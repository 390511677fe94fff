//! The error on a machine without devices.
#![cfg(feature = "verbs")]

use std::process::Command;

use snin_verbs::{VerbsError, choose, device_names};

#[test]
fn a_machine_without_devices_is_told_what_is_missing_in_one_line() {
    // Machines that have devices are told about the wrong name.
    match (device_names(), choose(Some("no_such_device"), None)) {
        (Err(VerbsError::NoDevices), Err(error @ VerbsError::NoDevices)) => {
            let text = error.to_string();
            assert!(text.starts_with("no RDMA device found: "), "{text}");
            assert!(text.contains("rdma link add") && !text.contains('\n'), "{text}");
        }
        (Ok(names), Err(error @ VerbsError::NoSuchDevice { .. })) => {
            let text = error.to_string();
            assert_eq!(
                text,
                format!("no RDMA device `no_such_device`: there are {}", names.join(", "))
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_program_says_it_in_one_line_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("agent.toml");
    std::fs::write(&config, "device = \"no_such_device\"\n").unwrap();
    let program = env!("CARGO_BIN_EXE_snin-agent");
    let output = Command::new(program).arg("--config").arg(&config).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(3), 1), "{said}");
    let why = choose(Some("no_such_device"), None).unwrap_err();
    assert_eq!(said, format!("snin-agent: {why}\n"));
}
