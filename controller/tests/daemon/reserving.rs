//! Slices and requests for later, at a daemon that is killed meanwhile.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use snin_daemon::clock::Clock;

use super::agents::Agents;
use super::process::{Controller, PATIENCE};
use super::watcher::Watcher;

const TIMES: &str =
    "window_us = 40000\nlead_us = 4000\nlease = 4\nclock_error_us = 4000\ndrain_us = 1000\n";

fn create(controller: &Controller, owner: &str, hosts: u32) -> Result<Value, String> {
    controller.ask(&json!({ "command": "slice_create", "owner": owner, "count": hosts }))
}

fn explain(controller: &Controller, owner: &str) -> Value {
    controller.ask(&json!({ "command": "slice_explain", "owner": owner })).unwrap()
}

fn until_ready(controller: &Controller, owner: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let slice = explain(controller, owner);
        if slice["ready"] == true {
            return slice;
        }
        assert!(began.elapsed() < PATIENCE, "{slice:#}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Pieces that were sent from then on: those of members to each other on the slice's links, all others not.
fn judge(watcher: &Watcher, slice: &Value, since: snin_protocol::Time) -> (usize, usize) {
    let ports: BTreeSet<String> =
        slice["ports"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect();
    let pairs: BTreeSet<(String, u16)> = slice["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| {
            (pair["leaf"].as_str().unwrap().to_owned(), pair["tree"].as_u64().unwrap() as u16)
        })
        .collect();
    let (mut inside, mut outside) = (0, 0);
    for (sent, used) in watcher.trees_used(since) {
        let member = |port: &snin_fabric::Guid| ports.contains(&port.to_string());
        if member(&sent.from) && member(&sent.to) {
            inside += 1;
            let strays = used.iter().find(|pair| !pairs.contains(pair));
            assert_eq!(strays, None, "{sent:?} leaves the slice {pairs:?}");
        } else {
            outside += 1;
            let enters = used.iter().find(|pair| pairs.contains(pair));
            assert_eq!(enters, None, "{sent:?} is in the slice {pairs:?}");
        }
    }
    (inside, outside)
}

#[test]
fn a_slice_made_under_traffic_is_its_jobs_alone_and_outlives_a_kill() {
    let mut controller = Controller::of("clos:4,4,2", TIMES);
    let watcher = Watcher::new(controller.topology.clone());
    let agents = Agents::start(watcher, &controller.sessions(), 5);
    agents.send_more(100);
    let made = create(&controller, "job/1", 4).unwrap();
    assert_eq!((&made["created"], made["hosts"].as_array().unwrap().len()), (&json!(true), 4));
    assert_eq!(create(&controller, "job/1", 4).unwrap()["created"], false, "it has it already");
    let slice = until_ready(&controller, "job/1");
    let since = Clock::system().now();
    agents.send_more(600);
    controller.kill();
    controller.start();
    let again = until_ready(&controller, "job/1");
    assert_eq!((&again["ports"], &again["pairs"]), (&slice["ports"], &slice["pairs"]));
    agents.send_more(600);
    // It grows, and then it is gone.
    let grown = json!({ "command": "slice_resize", "owner": "job/1", "count": 5 });
    assert_eq!(controller.ask(&grown).unwrap()["hosts"].as_array().unwrap().len(), 5);
    let resized = Clock::system().now();
    agents.send_more(100);
    let gone = json!({ "command": "slice_delete", "owner": "job/1" });
    assert_eq!(controller.ask(&gone).unwrap()["deleted"], true);
    assert_eq!(controller.ask(&gone).unwrap()["deleted"], false);
    controller.kill();
    controller.start();
    let slices = controller.ask(&json!({ "command": "slices" })).unwrap();
    assert_eq!((&slices["slices"], &slices["free_hosts"]), (&json!([]), &json!(8)));
    agents.send_more(100);
    let status = controller.status();
    assert_eq!(status["counters"]["certificate_failures"], 0);
    let watcher = agents.watcher.clone();
    drop(agents);
    let watcher = watcher.lock().unwrap();
    assert!(watcher.clash().is_none());
    let (inside, outside) = judge(&watcher.before(resized), &slice, since);
    assert!(inside > 50 && outside > 200, "{inside} inside, {outside} outside");
}

#[test]
fn requests_for_later_outlive_a_kill_and_end_by_themselves() {
    let mut controller = Controller::of("clos:4,4,2", TIMES);
    let topology = &controller.topology;
    let routing =
        snin_fabric::routing::Routing::compute(topology, snin_fabric::routing::Engine::Trees, None);
    let ports: Vec<String> = routing
        .unwrap()
        .hosts
        .iter()
        .map(|(_, host)| topology.port(host.port).guid.to_string())
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = |ahead: u64| now.as_nanos() as u64 + ahead * 1_000_000_000;
    let request = |from: usize, to: usize, at_ns: u64, for_ns: u64| {
        json!({
            "command": "request", "from": ports[from], "to": ports[to], "at_ns": at_ns, "for_ns": for_ns,
        })
    };
    let later = controller.ask(&request(0, 7, at(3600), 60_000_000_000)).unwrap();
    assert_eq!(later["state"], "waits for its time");
    let why = controller.ask(&request(0, 5, at(3630), 60_000_000_000)).unwrap_err();
    assert!(why.starts_with("request 0 has the sending port then: it ends in "), "{why}");
    let short = controller.ask(&request(1, 6, at(0), 1_000_000_000)).unwrap();
    assert_eq!(short["state"], "has its ports");
    controller.kill();
    controller.start();
    let requests = controller.ask(&json!({ "command": "requests" })).unwrap();
    let kept =
        requests["requests"].as_array().unwrap().iter().find(|r| r["id"] == later["id"]).unwrap();
    let drift = kept["at_ns"].as_u64().unwrap().abs_diff(later["at_ns"].as_u64().unwrap());
    assert!(drift < 1_000_000_000, "{kept:#}");
    assert_eq!((&kept["owner"], &kept["to"]), (&later["owner"], &later["to"]));
    let began = std::time::Instant::now();
    let left = |controller: &Controller| {
        let requests = controller.ask(&json!({ "command": "requests" })).unwrap();
        requests["requests"].as_array().unwrap().len()
    };
    while left(&controller) > 1 {
        assert!(began.elapsed() < PATIENCE, "request 1 is over");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let release = json!({ "command": "release", "id": later["id"] });
    assert_eq!(controller.ask(&release).unwrap()["released"], true);
    let gone = format!("there is no request {}", later["id"]);
    assert_eq!(controller.ask(&release).unwrap_err(), gone);
    controller.kill();
    controller.start();
    assert_eq!(left(&controller), 0);
}

/// A launcher changes the slices whose names begin as its own do; another user only looks.
#[test]
fn a_launcher_changes_its_own_slices_only() {
    let settings = "launchers = { 4711 = \"slurm/\" }\n";
    let controller = Controller::of("clos:4,4,2", &format!("{TIMES}{settings}"));
    create(&controller, "other/1", 2).unwrap();
    let asked = |user: u32, command: &str, owner: &str| {
        let mut request = json!({ "command": command, "owner": owner });
        if command != "slice_delete" {
            request["count"] = 2.into();
        }
        controller.ask_as(user, &request)
    };
    assert_eq!(asked(4711, "slice_create", "slurm/1").unwrap()["created"], true);
    for command in ["slice_create", "slice_resize", "slice_delete"] {
        let refused = asked(4711, command, "other/1").unwrap_err();
        let why = "user/4711 may not change the slice of other/1, which is not its own: only operators may";
        assert!(refused.contains(why), "{command}: {refused}");
        let refused = asked(4712, command, "slurm/1").unwrap_err();
        let why = "user/4712 may not change slices: only operators and launchers may";
        assert!(refused.contains(why), "{command}: {refused}");
    }
    assert_eq!(asked(4711, "slice_delete", "slurm/1").unwrap()["deleted"], true);
    let slices = controller.ask_as(4712, &json!({ "command": "slices" })).unwrap();
    let slices = slices["slices"].clone();
    assert_eq!(slices.as_array().map(Vec::len), Some(1), "{slices}");
    assert_eq!(controller.log().matches("may not change").count(), 6, "one line each");
}
