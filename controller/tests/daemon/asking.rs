//! Answers of the control socket, and refusals of the daemon.

use std::process::Command;

use serde_json::json;
use snin_daemon::session::Address;

use super::agents::Agents;
use super::process::{Controller, answer};
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
        let Some(grant) = grants["grants"].as_array().unwrap().first().cloned() else { continue };
        let (from, to) = (grant["from_port"].clone(), grant["to_port"].clone());
        let path = controller.ask(&json!({ "command": "path", "from": from, "to": to })).unwrap();
        let why = json!({ "command": "why", "from": grant["from_port"], "to": grant["to_port"] });
        let why = controller.ask(&why).unwrap();
        let hop = &path["hops"][0];
        let link = format!("{}/{}", hop["switch"].as_str().unwrap(), hop["port"]);
        let owner = controller.ask(&json!({ "command": "owner", "port": link })).unwrap();
        if path["grant"]["connection"] == grant["connection"]
            && owner["owners"][0]["from_port"] == grant["from_port"]
            && path["dlid"] == grant["dlid"]
            && why["granted"] == true
            && why["connections"][0]["tree"] == grant["tree"]
        {
            break;
        }
        assert!(began.elapsed() < super::process::PATIENCE, "{path:#} {owner:#} {why:#}");
    }
    let nothing = json!({ "command": "why", "from": "0", "to": "0" });
    let nothing = controller.ask(&nothing).unwrap();
    assert_eq!((&nothing["granted"], &nothing["connections"]), (&json!(false), &json!([])));
    let windows = controller.ask(&json!({ "command": "windows", "count": 5 })).unwrap();
    assert!(
        windows["windows"]
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
            "`set`: unknown variant `loud`, expected one of `strict`, `shared`, `off`",
        ),
        (json!({ "command": "owner", "port": "nowhere/1" }), "no node is called nowhere"),
        (json!({ "command": "path", "from": "0", "to": "x" }), "no host is called `x`"),
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

/// The API by curl: at a Unix socket each user may do what it may do at the control socket, over TCP look.
#[test]
fn the_api_does_for_a_user_what_the_control_socket_does() {
    let settings = "api = [\"unix://FOLDER/api.sock\"]\nlaunchers = { 4711 = \"slurm/\" }\n";
    let controller = Controller::of("clos:4,4,2", settings);
    let status = controller.status();
    let own = rustix::process::geteuid().as_raw();
    let ask = |user: u32, verb: &str, path: &str, body: &str| {
        let url = format!("http://snin{path}");
        let body: &[&str] = if body.is_empty() { &[] } else { &["--data", body] };
        controller.curl_as(user, &[&["--request", verb, &url], body].concat())
    };
    let (code, said) = ask(own, "GET", "/v1/status", "");
    assert_eq!((code, &said["name"], &said["term"]), (200, &status["name"], &status["term"]));
    let hosts = ask(4712, "GET", "/v1/fabric", "").1["hosts"].as_array().unwrap().len();
    assert_eq!(hosts, 8, "any user looks");
    let path = ask(4712, "GET", "/v1/path?from=0&to=7", "").1;
    let hop =
        format!("{}/{}", path["hops"][0]["switch"].as_str().unwrap(), path["hops"][0]["port"]);
    assert_eq!(ask(4712, "GET", &format!("/v1/owner?port={hop}"), "").1["link"], json!(hop));
    let made = r#"{"owner": "slurm/7", "count": 2}"#;
    for (user, verb, path, body, code) in [
        (4712, "POST", "/v1/slices", made, 403),
        (4711, "POST", "/v1/slices", made, 200),
        (4711, "POST", "/v1/slices", r#"{"owner": "other/7", "count": 2}"#, 403),
        (4711, "POST", "/v1/slices", r#"{"owner": "slurm/8", "count": 200}"#, 409),
        (4711, "POST", "/v1/slices", r#"{"owner": "slurm/8"}"#, 400),
        (4711, "POST", "/v1/slices", "[1]", 400),
        (4711, "PUT", "/v1/slices/slurm/7", r#"{"count": 3}"#, 200),
        (4712, "GET", "/v1/slices/slurm/7", "", 200),
        (4712, "GET", "/v1/slices/slurm/8", "", 404),
        (4712, "GET", "/v1/room?count=2", "", 200),
        (4712, "GET", "/v1/trees?owner=slurm/7&uid=4712", "", 200),
        (4712, "DELETE", "/v1/slices/slurm/7", "", 403),
        (4711, "POST", "/v1/requests", r#"{"from": "0", "to": "5", "for_ns": 60000000000}"#, 200),
        (4711, "POST", "/v1/requests", r#"{"from": "0", "to": "6"}"#, 409),
        (4712, "DELETE", "/v1/requests/0", "", 403),
        (4711, "DELETE", "/v1/requests/0", "", 200),
        (4711, "DELETE", "/v1/requests/0", "", 404),
        (4711, "DELETE", "/v1/requests/x", "", 400),
        (4711, "PUT", "/v1/policy", r#"{"set": "strict"}"#, 403),
        (own, "PUT", "/v1/policy", r#"{"set": "strict"}"#, 200),
        (4711, "GET", "/v1/everything", "", 404),
        (4711, "POST", "/v1/status", "", 405),
    ] {
        let (found, said) = ask(user, verb, path, body);
        assert_eq!(found, code, "{user}: {verb} {path} {body}: {said}");
    }
    assert_eq!(controller.status()["policy"], "strict");
    let slices = controller.ask(&json!({ "command": "slices" })).unwrap();
    assert_eq!(slices, ask(4712, "GET", "/v1/slices", "").1);
    assert_eq!(slices["slices"][0]["hosts"].as_array().unwrap().len(), 3);
    let metrics = ask(4712, "GET", "/metrics", "").1;
    assert!(
        metrics.as_str().unwrap().contains("snin_controller_not_permitted_total 5\n"),
        "{metrics}"
    );
    assert_eq!(controller.log().matches("may not").count(), 5, "one line each");

    let tcp = Controller::of("clos:4,4,2", "api = [\"plain://127.0.0.1:0\"]\n");
    assert_eq!(tcp.status()["healthy"], true);
    let Address::Tls(address) = tcp.api() else { panic!() };
    let ask = |arguments: &[&str], path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--write-out", "\n%{http_code}"]).args(arguments);
        answer(curl.arg(format!("http://{address}{path}")))
    };
    assert_eq!(ask(&[], "/v1/windows?count=1").0, 200);
    let (code, said) = ask(&["--data", made], "/v1/slices");
    assert_eq!(
        (code, &said["error"]),
        (
            403,
            &json!(
                "a program of an unknown user may not change slices: only operators and launchers may"
            )
        )
    );
}
