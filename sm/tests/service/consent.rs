//! Two managers and a real cluster's service: etcd.

use std::fs;

use serde_json::{Value, json};
use snin_fabric::{Topology, ibnet};
use snin_judges::{Etcd, JudgeError, Simulator};

use crate::daemon::{Daemon, fabric, hosts};

/// What is expected: the port of the last host at its leaf is disabled.
fn expected(topology: &Topology) -> String {
    let leaf = topology.switches().next().unwrap();
    let spare = topology.cables(leaf).filter(|&(_, peer)| {
        let node = topology.port(peer).node;
        !topology.is_switch(node)
    });
    let (port, _) = spare.last().unwrap();
    let (node, port) = (topology.node(leaf), topology.num(port));
    format!(
        "[[switch]]\nguid = \"{}\"\nname = \"{}\"\nport = [{{ num = {port}, state = \"disabled\" }}]\n",
        node.guid, node.name
    )
}

fn ask(daemon: &Daemon, command: &str) -> Value {
    daemon.ask(&json!({ "command": command })).unwrap_or_default()
}

fn is(daemon: &Daemon, state: &str, verdict: &str) -> bool {
    let found = ask(daemon, "cluster");
    ask(daemon, "status")["state"] == state && found["verdict"] == verdict
}

/// Whether it has disabled a port, and whether it says that it enforces.
fn enforces(daemon: &Daemon) -> (bool, bool) {
    let disables = |event: &Value| event["event"] == "PORT" && event["action"] == "disable";
    let disabled = daemon.events().iter().any(disables);
    (disabled, ask(daemon, "port-status")["enforced"] == true)
}

fn guid(daemon: &Daemon) -> String {
    let said = ask(daemon, "managers");
    said["managers"][0]["guid"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_cluster_chooses_a_manager_and_another_when_that_is_blacklisted() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let mut etcd = Etcd::new(simulator.folder(), 3, None)?;
    let file = simulator.folder().join("expected.toml");
    fs::write(&file, expected(&topology)).unwrap();
    let config = |priority: u8| {
        format!(
            "sm_priority = {priority}\nsweep_interval = 1\ncluster = {:?}\n\
             expected_configuration = {file:?}\n",
            etcd.address()
        )
    };
    let mut first = Daemon::begin(&simulator, "first", Some(&hosts[0]), &config(5));
    first.until("master", |first| ask(first, "status")["healthy"] == true);
    let mut second = Daemon::begin(&simulator, "second", Some(&hosts[5]), &config(3));

    // A cold fabric comes up without the cluster's service; nothing is enforced.
    first.until("without consent", |first| is(first, "master", "unreachable"));
    second.until("standby", |second| is(second, "standby", "unreachable"));
    assert_eq!((enforces(&first), enforces(&second)), ((false, false), (false, false)));

    // The service comes: the master is chosen.
    etcd.start()?;
    first.until("chosen", |first| is(first, "master", "granted"));
    first.until("enforcing", |first| enforces(first) == (true, true));
    assert_eq!(etcd.get("configuration-manager")?, guid(&first));
    second.until("told", |second| is(second, "standby", "other"));
    assert_eq!(enforces(&second), (false, false));

    // It is blacklisted: the standby takes over, and enforces.
    etcd.put(&format!("blacklist/{}", guid(&first)), "its disk is failing")?;
    first.until("barred", |first| is(first, "standby", "barred"));
    second.until("chosen", |second| is(second, "master", "granted"));
    second.until("enforcing", |second| enforces(second) == (true, true));
    assert_eq!(etcd.get("configuration-manager")?, guid(&second));
    assert!(!enforces(&first).1);

    // One member's end changes nothing; without a majority there is no consent, and no other master.
    etcd.kill(0);
    etcd.put("health/0x1", "ok")?;
    assert!(is(&second, "master", "granted"));
    etcd.kill(1);
    second.until("without consent", |second| is(second, "master", "unreachable"));
    assert!(!enforces(&second).1);
    etcd.start_member(0)?;
    second.until("chosen again", |second| is(second, "master", "granted"));

    // What a manager attached goes when it ends well.
    let own = format!("managers/{}", guid(&first));
    assert!(etcd.get(&own)?.starts_with("state=standby"));
    first.end();
    assert_eq!(etcd.get(&own)?, "");
    second.end();
    Ok(())
}
