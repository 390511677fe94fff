//! Two subnet managers on one subnet: the other one is OpenSM.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::json;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, OpenSm, Program, Simulator, finish};

use crate::daemon::{Daemon, PATIENCE, fabric, hosts};

#[test]
fn another_master_is_given_way_to() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts = hosts(&topology);
    let opensm = OpenSm { host: Some(&hosts[0]), ..OpenSm::default() };
    let keeper = opensm.keep(&simulator)?;
    let (heard, mut daemon) = simulator.receive(|| {
        Daemon::start(&simulator, Some(&hosts[5]), "sm_priority = 0\nsweep_interval = 1\n")
    })?;
    assert_eq!(heard.table_writes(), 0, "{heard:?}");
    assert_eq!(daemon.status()["state"], "standby");
    let told = daemon.events();
    let other = told.iter().find(|event| event["event"] == "OTHER_SM").expect("an event");
    assert_eq!(other["state"], "master");

    // It is gone, as if killed: its place in ibsim has to be freed.
    drop(keeper);
    for client in simulator.clients()? {
        if client.node == hosts[0] {
            simulator.free(&client)?;
        }
    }
    daemon.until("master", |daemon| daemon.status()["healthy"] == true);
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
    assert!(daemon.status()["healthy"] != true);
    until_master(&simulator, &hosts[1], 0);
    drop(keeper);
    for client in simulator.clients()?.iter().filter(|client| client.node == hosts[0]) {
        simulator.free(client)?;
    }
    daemon.until("master alone", |daemon| daemon.status()["healthy"] == true);
    until_master(&simulator, &hosts[1], 14);
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
