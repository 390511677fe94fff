//! Two subnet managers on one subnet: the other one is OpenSM.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::json;
use snin_fabric::ibnet;
use snin_judges::{HeldNode, HeldPort, JudgeError, OpenSm, Program, Simulator, finish};

use crate::daemon::{Daemon, PATIENCE, fabric, hosts};

/// A manager is gone as if killed: its place in ibsim has to be freed.
fn free(simulator: &Simulator, host: &str) -> Result<(), JudgeError> {
    for client in simulator.clients()?.iter().filter(|client| client.node == host) {
        simulator.free(client)?;
    }
    Ok(())
}

/// Walks between hosts, by the tables that ibsim holds, that do not arrive.
fn lost(nodes: &BTreeMap<String, HeldNode>) -> usize {
    let hosts = nodes.iter().filter(|(_, node)| !node.switch);
    let ends: Vec<(&str, u16, &HeldPort)> = hosts
        .flat_map(|(name, node)| node.ports.values().map(move |port| (&**name, port)))
        .filter_map(|(name, port)| Some((name, port.address?.0, port)))
        .collect();
    let arrives = |from: &HeldPort, name: &str, lid: u16| {
        let mut at = from.peer.as_ref();
        for _ in 0..nodes.len() {
            let Some((next, _)) = at else { return false };
            let Some(node) = nodes.get(next).filter(|node| node.switch) else {
                return next == name;
            };
            let out = node.table.get(usize::from(lid)).and_then(|out| node.ports.get(out));
            at = out.and_then(|port| port.peer.as_ref());
        }
        false
    };
    let pairs = ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to)));
    pairs
        .filter(|((a, ..), (b, ..))| a != b)
        .filter(|((.., a), (b, lid, _))| !arrives(a, b, *lid))
        .count()
}

/// The walks that are lost, looked at again and again until it is so.
#[track_caller]
fn lost_until(simulator: &Simulator, what: &str, is_so: impl Fn() -> bool) -> Vec<usize> {
    let (begin, mut seen) = (Instant::now(), Vec::new());
    loop {
        let done = is_so();
        seen.push(lost(&simulator.held().unwrap()));
        if done {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "not {what}: {seen:?}");
    }
}

/// Ours is the senior one and is killed: an OpenSM that polls quickly follows it, is the one master, and what its
/// own rewriting loses comes back. Ours comes again, with the higher priority, and loses no walk.
#[test]
fn an_opensm_follows_ours_when_it_is_killed() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let (host, priority) = (Some(&*hosts[4]), Some(8));
    let opensm = OpenSm { host, priority, polls: Some((300, 2)), ..OpenSm::default() };
    let _keeper = opensm.keep(&simulator)?;
    let config = "sm_priority = 12\nlmc = 0\n";
    for turn in 0..2 {
        let name = format!("sm-{turn}");
        let ours = Daemon::begin(&simulator, &name, Some(&hosts[0]), config);
        let is_up = || ours.status()["state"] == "master" && ours.status()["healthy"] == true;
        let begun = || ours.ask(&json!({ "command": "status" })).is_ok();
        let seen = lost_until(&simulator, "master", || begun() && is_up());
        assert!(seen.iter().all(|&lost| lost == 0), "turn {turn}: walks are lost: {seen:?}");
        until_master(&simulator, &hosts[1], 12);
        drop(ours);
        free(&simulator, &hosts[0])?;
        let seen = lost_until(&simulator, "master", || {
            master(&simulator, &hosts[1]).contains("priority 8 state 3 SMINFO_MASTER")
        });
        assert_eq!((seen.first(), turn), (Some(&0), turn), "nothing is lost before OpenSM writes");
        let seen = lost_until(&simulator, "whole", || lost(&simulator.held().unwrap()) == 0);
        assert_eq!(seen.last(), Some(&0));
    }
    Ok(())
}

#[test]
fn another_master_is_given_way_to() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let opensm = OpenSm { host: Some(&hosts[0]), ..OpenSm::default() };
    let keeper = opensm.keep(&simulator)?;
    let (heard, daemon) = simulator.receive(|| {
        Daemon::start(&simulator, Some(&hosts[5]), "sm_priority = 0\nlmc = 0\nsweep_interval = 1\n")
    })?;
    assert_eq!(heard.table_writes(), 0, "{heard:?}");
    assert_eq!(daemon.status()["state"], "standby");
    let told = daemon.events();
    let other = told.iter().find(|event| event["event"] == "OTHER_SM").expect("an event");
    assert_eq!(other["state"], "master");

    drop(keeper);
    free(&simulator, &hosts[0])?;
    let lost = lost_until(&simulator, "master", || daemon.status()["healthy"] == true);
    assert!(lost.iter().all(|&lost| lost == 0), "walks are lost: {lost:?}");
    assert_eq!(daemon.status()["state"], "master");

    // A node that asks is told so.
    let mut command = simulator.command(Program::SMINFO, Some(&hosts[1]))?;
    let said = finish(&mut command, simulator.folder(), Duration::from_secs(20))?;
    let said = String::from_utf8_lossy(&said.out).into_owned();
    assert!(said.contains("priority 0 state 3 SMINFO_MASTER"), "{said}");
    assert!(fs::metadata(simulator.folder()).is_ok());
    daemon.end();
    Ok(())
}

/// OpenSM ignores a manager of another sm_key and stays master. Ours says so, writes nothing beside it, though it
/// has the higher priority, and goes on by itself when the operator has ended OpenSM.
#[test]
fn beside_an_opensm_with_another_key_nothing_is_written() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let opensm = OpenSm { host: Some(&hosts[0]), ..OpenSm::default() };
    let keeper = opensm.keep(&simulator)?;
    let is_told =
        |daemon: &Daemon| daemon.events().iter().any(|event| event["event"] == "FOREIGN_SM");
    let (heard, mut daemon) = simulator.receive(|| {
        let config = "sm_priority = 14\nsm_key = \"0x77\"\nsweep_interval = 1\n";
        let mut daemon = Daemon::begin(&simulator, "snin-sm", Some(&hosts[5]), config);
        daemon.until("told of the other master", is_told);
        // Sweeps go by, and nothing is written by any of them.
        sleep(Duration::from_secs(3));
        daemon
    })?;
    assert_eq!(heard.table_writes(), 0, "{heard:?}");
    let status = daemon.status();
    assert!(status["healthy"] != true, "{status}");
    until_master(&simulator, &hosts[1], 0);
    drop(keeper);
    free(&simulator, &hosts[0])?;
    daemon.until("master alone", |daemon| daemon.status()["healthy"] == true);
    until_master(&simulator, &hosts[1], 14);
    daemon.end();
    Ok(())
}

/// What a manager's database says of nodes, cables, addresses and groups. The stamp of an address is each
/// manager's own.
fn database(daemon: &Daemon) -> Vec<String> {
    let said = daemon.ask(&json!({ "command": "database", "name": "x" })).unwrap();
    let text = said["database"].as_str().unwrap().to_owned();
    let kinds = ["group", "member", "service", "subscription", "lid", "node", "link"];
    let kept = text.lines().filter_map(|line| {
        let (kind, rest) = line.split_once(' ').filter(|(kind, _)| kinds.contains(kind))?;
        let address = rest.split_once(' ').filter(|_| kind == "lid");
        Some(format!("{kind} {}", address.map_or(rest, |(_, address)| address)))
    });
    kept.collect()
}

/// The standby mirrors in a session over this machine's own network, and takes over from that.
#[test]
fn a_standby_mirrors_in_a_session_and_takes_over() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    let begin = |name: &str, host: usize, rank: usize| {
        let (own, other) = (ports[rank], ports[1 - rank]);
        let config = format!(
            "sm_priority = {}\nlmc = 0\nm_key = \"0x77\"\nmirror_listen = [\"plain://127.0.0.1:{own}\"]\n\
             mirror_of = [\"plain://127.0.0.1:{other}\"]\n",
            [5, 1][rank]
        );
        Daemon::begin(&simulator, name, Some(&hosts[host]), &config)
    };
    let mut first = begin("first", 0, 0);
    first.until("master", |daemon| daemon.told("SUBNET_UP") > 0);
    let mut second = begin("second", 5, 1);
    second.until("a mirror", |daemon| daemon.told("MIRROR") > 0);
    let said = second.ask(&json!({ "command": "managers" })).unwrap();
    assert_eq!(said["managers"][1]["mirror"]["whole"], true, "{said}");
    let before = database(&first);
    assert!(before.iter().any(|line| line.starts_with("group ")), "{before:?}");
    assert_eq!(database(&second), before);

    drop(first);
    free(&simulator, &hosts[0])?;
    second.until("master", |daemon| daemon.told("TOOK_OVER") > 0 && daemon.told("SUBNET_UP") > 0);
    until_master(&simulator, &hosts[1], 1);
    assert_eq!(second.told("LFT_CHANGE"), 0);
    assert_eq!(database(&second), before);
    second.end();
    Ok(())
}

/// The port at which it sits loses its cable: it goes on at its other one, and every host is told so.
#[test]
fn a_manager_with_two_ports_outlives_either_cable() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let both = [&hosts[0], &hosts[5]];
    let named = format!("{},{}", both[0], both[1]);
    let mut daemon = Daemon::start(&simulator, Some(&named), "sweep_interval = 1\n");
    until_master(&simulator, &hosts[1], 0);
    let guid = |host: &str| format!("0x{}", &host["H-".len()..]);
    for cut in [0, 1] {
        let before = daemon.status()["port"]["lid"].clone();
        simulator.unlink(both[cut], Some(1))?;
        daemon.until("at its other port", |daemon| {
            let port = &daemon.status()["port"];
            port["lid"] != before && port["guid"] != guid(both[cut])
        });
        until_master(&simulator, &hosts[1], 0);
        assert_eq!(daemon.status()["state"], "master");
        simulator.relink(both[cut], Some(1))?;
        daemon.until("whole", |daemon| daemon.status()["healthy"] == true);
        assert_ne!(daemon.status()["port"]["lid"], before);
    }
    daemon.end();
    Ok(())
}

/// Of two managers, who is master by what SMInfo of the subnet's master says.
fn master(simulator: &Simulator, host: &str) -> String {
    let Ok(mut command) = simulator.command(Program::SMINFO, Some(host)) else {
        return String::new();
    };
    let said = finish(&mut command, simulator.folder(), Duration::from_secs(20));
    said.map(|said| String::from_utf8_lossy(&said.out).into_owned()).unwrap_or_default()
}

/// Until the port of `host` is told of a master with this priority.
#[track_caller]
fn until_master(simulator: &Simulator, host: &str, priority: u8) {
    let (begin, wanted) = (Instant::now(), format!("priority {priority} state 3 SMINFO_MASTER"));
    loop {
        let said = master(simulator, host);
        if said.contains(&wanted) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "not master with priority {priority}: {said}");
        sleep(Duration::from_millis(100));
    }
}

/// What a host's questions came to, asked one after the other all the time.
#[derive(Debug, Default)]
struct Asked {
    answered: usize,
    /// In a row, at most.
    failed: usize,
}

fn ask_until(done: &AtomicBool, simulator: &Simulator, host: &str) -> Asked {
    let (mut asked, mut failed) = (Asked::default(), 0);
    while !done.load(Ordering::Relaxed) {
        let mut command = simulator.command(Program::SAQUERY, Some(host)).unwrap();
        command.arg("PR").args(["--src-to-dst", "1:1"]);
        let said = finish(&mut command, simulator.folder(), PATIENCE);
        let is_answer = |said: &snin_judges::Said| {
            String::from_utf8_lossy(&said.out).contains("PathRecord dump")
        };
        if said.as_ref().is_ok_and(is_answer) {
            (asked.answered, failed) = (asked.answered + 1, 0);
        } else {
            failed += 1;
            asked.failed = asked.failed.max(failed);
        }
    }
    asked
}

/// Mastership comes from OpenSM, goes back, and comes and goes again, by priority; a host asks all the time.
///
/// OpenSM is there first: one that begins as a standby says so by trap 144, and waits for ever for the
/// TrapRepress, which ibsim drops.
#[test]
fn mastership_is_handed_over_in_both_directions() -> Result<(), JudgeError> {
    let topology = fabric("clos:4,2,3");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let opensm = OpenSm { host: Some(&hosts[4]), priority: Some(8), ..OpenSm::default() };
    let _keeper = opensm.keep(&simulator)?;
    let config = "sm_priority = 5\nlmc = 0\nsweep_interval = 1\n";
    let mut daemon = Daemon::start(&simulator, Some(&hosts[0]), config);
    assert_eq!(daemon.status()["state"], "standby");
    let done = AtomicBool::new(false);
    let asked = scope(|threads| {
        let asking = threads.spawn(|| ask_until(&done, &simulator, &hosts[7]));
        // The other thread ends, even if this one fails.
        let turns = threads.spawn(|| {
            for turn in 0..4 {
                let priority = if turn % 2 == 0 { 12 } else { 3 };
                daemon.ask(&json!({ "command": "priority", "value": priority })).unwrap();
                let state = if priority == 12 { "master" } else { "standby" };
                daemon.until(state, |daemon| daemon.status()["state"] == state);
                until_master(&simulator, &hosts[9], priority.max(8));
                sleep(Duration::from_secs(1));
            }
        });
        let turns = turns.join();
        done.store(true, Ordering::Relaxed);
        let asked = asking.join().unwrap();
        turns.map(|()| asked).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let said = daemon.ask(&json!({ "command": "managers" })).unwrap();
    let states: Vec<_> = said["managers"].as_array().unwrap().iter().collect();
    assert_eq!(states.len(), 2, "{said}");
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&json!("standby"), &json!("master")));
    // OpenSM answers nothing from the moment at which it hands over: the question that is on its way then is
    // lost with all its repetitions, the next one is not.
    assert!(asked.answered >= 10 && asked.failed <= 1, "{asked:?}");
    let told = daemon.events();
    let controls: Vec<_> = told.iter().filter(|event| event["event"] == "SM_CONTROL").collect();
    assert_eq!(controls.len(), 2, "{controls:?}");
    assert!(controls.iter().all(|event| event["told"] == "HANDOVER"), "{controls:?}");
    daemon.end();
    Ok(())
}
