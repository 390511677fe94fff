//! Who may open the manager's socket, and what is kept from whom.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, Simulator};

use crate::daemon::{Daemon, PATIENCE, SNIN_SM, fabric};

/// A group of operators, and one of somebody else: the system need not know a number by a name.
const OPERATORS: u32 = 4711;
const STRANGERS: u32 = 4712;
const USER: u32 = 12_345;

/// What a program of that user in that group is answered; the system's error where it may not open the socket.
fn ask_as(group: u32, socket: &Path, request: &Value) -> Result<Value, String> {
    let root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if root { "setpriv" } else { "sudo" });
    if !root {
        command.args(["-n", "setpriv"]);
    }
    command.args([&format!("--reuid={USER}"), &format!("--regid={group}"), "--clear-groups"]);
    let program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                   s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline())";
    command.args(["/usr/bin/python3", "-c", program]).arg(socket).arg(request.to_string());
    let asked = command.output().unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    let Ok(mut said) = serde_json::from_str::<Value>(&said) else {
        return Err(String::from_utf8_lossy(&asked.stderr).into_owned());
    };
    match said["error"].as_str() {
        Some(why) => Err(why.to_owned()),
        None => Ok(said["ok"].take()),
    }
}

#[test]
fn a_group_operates_the_manager_and_sees_no_key() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let folder = simulator.folder().to_owned();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!("socket_group = {OPERATORS}\nm_key = \"0x12345678\"\n");
    let mut daemon = Daemon::start(&simulator, None, &settings);
    daemon.until("up", |daemon| daemon.status()["healthy"] == true);
    let socket = folder.join("snin-sm.sock");
    let status = json!({ "command": "status" });
    let stranger = ask_as(STRANGERS, &socket, &status).unwrap_err();
    assert!(stranger.contains("PermissionError"), "{stranger}");
    let ask = |request: &Value| ask_as(OPERATORS, &socket, request);
    assert_eq!(ask(&status).unwrap()["state"], "master");
    ask(&json!({ "command": "sweep" })).unwrap();

    // The key is in the database that root has, and nowhere in what the group is told.
    let database =
        |secrets: bool| json!({ "command": "database", "name": "a", "secrets": secrets });
    let whole = daemon.ask(&database(true)).unwrap().to_string();
    assert!(whole.contains("12345678"), "{whole:.500}");
    let bare = ask(&database(false)).unwrap().to_string();
    assert!(bare.contains("snin-smdb") && !bare.contains("12345678"), "{bare:.500}");
    assert_eq!(
        ask(&database(true)).unwrap_err(),
        "M_Keys are shown to root and the manager's own user only: ask without --secrets"
    );
    for command in ["status", "managers", "dump", "events", "config-learn", "cluster"] {
        let told = format!("{:?}", ask(&json!({ "command": command })));
        assert!(!told.contains("12345678"), "{command}: {told:.500}");
    }
    // Nor does the manager read its own configuration aloud, whose lines an error would name.
    let own = folder.join("snin-sm.toml");
    for command in ["config-check", "config-diff", "config-apply"] {
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
        let mut asked = json!({ "command": command, "file": own });
        if command == "config-apply" {
            asked["force"] = json!(true);
        }
        let why = ask(&asked).unwrap_err();
        assert!(why.ends_with("chmod o+r") && !why.contains("m_key"), "{why}");
        let root = daemon.ask(&asked).unwrap_err();
        assert!(root.contains("snin-sm.toml:2: unknown field `m_key`"), "{root}");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o604)).unwrap();
        assert_eq!(ask(&asked).unwrap_err(), root, "what everybody may read");
    }
    daemon.end();
    Ok(())
}

#[test]
fn a_group_that_nobody_knows_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("sm.toml");
    fs::write(&config, "\nsocket_group = \"no-such-group\"\n").unwrap();
    let said = Command::new(SNIN_SM).arg("--config").arg(&config).arg("--ibsim").output().unwrap();
    let line = String::from_utf8(said.stderr).unwrap();
    let expected = format!(
        "snin-sm: {}:2: socket_group: there is no group no-such-group on this machine: `getent group` lists them, \
         and a number is taken as it is\n",
        config.display()
    );
    assert_eq!((said.status.code(), line), (Some(3), expected));
}

/// Those who ask nothing do not keep an operator out, and are counted.
#[test]
fn idle_clients_keep_nobody_out() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let page = "metrics_listen = \"127.0.0.1:0\"\n";
    let daemon = Daemon::start(&simulator, None, page);
    let socket = simulator.folder().join("snin-sm.sock");
    let idle: Vec<Connection> =
        (0..100).map(|_| Connection::open(&socket, Some(PATIENCE)).unwrap()).collect();
    let status = daemon.status();
    assert!(status["clients_turned_away"].as_u64().unwrap() >= 37, "{status:#}");
    drop(idle);
    daemon.end();
    Ok(())
}
