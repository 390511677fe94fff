//! A state folder that cannot be written costs no subnet: it is told, tried again, and told when it works.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, Simulator};

use crate::daemon::{Daemon, SNIN_SM, fabric};

/// A folder's name that leads nowhere yet: nothing can be read there, and nothing written.
#[test]
fn a_state_folder_that_cannot_be_written_is_an_event_and_a_retry() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let folder = simulator.folder().to_owned();
    let (state, disk) = (folder.join("state"), folder.join("disk"));
    symlink(&disk, &state).unwrap();
    let once = || {
        let mut command = Command::new(SNIN_SM);
        command.args(["--once", "--ibsim", simulator.name(), "--state"]).arg(&state);
        command.env_remove("STATE_DIRECTORY").output().unwrap()
    };
    let said = once();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&said.stderr));
    assert!(text.contains("the state is not stored: ") && text.contains("up after"), "{text}");

    let config = format!("state_dir = {state:?}\nsweep_interval = 1\n");
    let mut daemon = Daemon::start(&simulator, None, &config);
    let status = daemon.status();
    assert_eq!((&status["state"], &status["healthy"]), (&json!("master"), &json!(false)));
    assert_eq!(status["subnet"]["switches"], 6);
    let why = status["not_stored"].as_str().unwrap();
    assert!(why.contains(&*state.to_string_lossy()), "{why}");
    // However often it is tried, it is told once.
    daemon.until("tried again", |daemon| daemon.status()["storage_failures"].as_u64() > Some(1));
    assert_eq!((daemon.told("STATE_NOT_WRITTEN"), daemon.told("STATE_WRITTEN")), (1, 0));

    fs::create_dir(&disk).unwrap();
    daemon.until("stored", |daemon| daemon.told("STATE_WRITTEN") > 0);
    let status = daemon.status();
    assert_eq!((&status["healthy"], &status["not_stored"]), (&json!(true), &json!(null)));
    let addresses = fs::read_to_string(disk.join("guid2lid")).unwrap();
    assert!(addresses.lines().count() > 8, "{addresses}");
    assert_eq!(daemon.told("STATE_NOT_WRITTEN"), 1);
    daemon.end();
    assert!(once().status.success());
    assert_eq!(fs::read_to_string(disk.join("guid2lid")).unwrap(), addresses);
    Ok(())
}
