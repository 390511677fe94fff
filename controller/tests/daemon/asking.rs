//! Answers of the control socket, and refusals of the daemon.

use std::process::Command;

use serde_json::json;

use super::agents::Agents;
use super::process::Controller;
use super::watcher::Watcher;

#[test]
fn it_says_who_owns_what_and_which_way_it_goes() {
    let controller = Controller::of("clos:4,4,2", "window_us = 40000\nclock_error_us = 4000\n");
    let watcher = Watcher::new(controller.topology.clone());
    let agents = Agents::start(watcher, &controller.sessions(), 3);
    agents.send_more(50);
    let status = controller.until(|status| status["counters"]["holding"].as_u64() > Some(0));
    assert_eq!(
        (&status["name"], &status["healthy"], &status["term"]),
        (&json!("controller/ctl1"), &json!(true), &json!(1))
    );
    let fabric = controller.ask(&json!({ "command": "fabric" })).unwrap();
    assert_eq!(
        (fabric["hosts"].as_array().unwrap().len(), fabric["switches"].as_u64()),
        (8, Some(8))
    );
    // A grant, its way, and whose that way's first link is: all of one moment.
    let began = std::time::Instant::now();
    loop {
        let grants = controller.ask(&json!({ "command": "grants" })).unwrap();
        let Some(grant) = grants.as_array().unwrap().first().cloned() else { continue };
        let (from, to) = (grant["from_port"].clone(), grant["to_port"].clone());
        let path = controller.ask(&json!({ "command": "path", "from": from, "to": to })).unwrap();
        let hop = &path["hops"][0];
        let link = format!("{}/{}", hop["switch"].as_str().unwrap(), hop["port"]);
        let owner = controller.ask(&json!({ "command": "owner", "port": link })).unwrap();
        if path["grant"]["connection"] == grant["connection"]
            && owner["owners"][0]["from_port"] == grant["from_port"]
            && path["dlid"] == grant["dlid"]
        {
            break;
        }
        assert!(began.elapsed() < super::process::PATIENCE, "{path:#} {owner:#}");
    }
    let windows = controller.ask(&json!({ "command": "windows", "count": 5 })).unwrap();
    assert!(
        windows
            .as_array()
            .unwrap()
            .iter()
            .all(|window| window["max_link_load"].as_u64() <= Some(1))
    );
    // Nothing is granted any more.
    controller.ask(&json!({ "command": "policy", "set": "off" })).unwrap();
    controller.until(|status| status["counters"]["holding"] == 0);
    for (request, told) in [
        (
            json!({ "command": "policy", "set": "loud" }),
            "`loud` is no policy: strict, shared or off",
        ),
        (json!({ "command": "owner", "port": "nowhere/1" }), "no node is called nowhere"),
        (json!({ "command": "path", "from": "0", "to": "x" }), "no host has description `x`"),
    ] {
        assert_eq!(controller.ask(&request).unwrap_err(), told);
    }
    let events = controller.ask(&json!({ "command": "events" })).unwrap();
    let names: Vec<&str> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["event"].as_str())
        .collect();
    assert!(["VIEW", "READY", "POLICY"].iter().all(|name| names.contains(name)), "{names:?}");
}

#[test]
fn what_it_cannot_use_it_refuses_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("controller.toml");
    for (text, told) in [
        (
            "topology = \"/no/such/file\"\nstate_dir = \"STATE\"\ncontrol_socket = \"STATE/c\"",
            "/no/such/file: No such file",
        ),
        ("topolgy = \"f\"", "controller.toml:1: there is no key topolgy: topology is meant?"),
    ] {
        let text = text.replace("STATE", &folder.path().display().to_string());
        std::fs::write(&file, text).unwrap();
        let said = Command::new(env!("CARGO_BIN_EXE_snin-controller"))
            .arg("--config")
            .arg(&file)
            .output()
            .unwrap();
        let error = String::from_utf8(said.stderr).unwrap();
        let last = error.lines().last().unwrap();
        assert!(last.starts_with("snin-controller: ") && last.contains(told), "{error}");
        assert_eq!(said.status.code(), Some(3));
    }
}
