//! Two subnet managers on one subnet: the other one is OpenSM.

use std::fs;

use snin_fabric::ibnet;
use snin_judges::{JudgeError, OpenSm, Program, Simulator, finish};

use crate::daemon::{Daemon, fabric};

#[test]
fn another_master_is_given_way_to() -> Result<(), JudgeError> {
    let topology = fabric("clos:3,2,2");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let hosts: Vec<String> = topology
        .nodes()
        .filter(|&node| !topology.is_switch(node))
        .map(|node| format!("H-{:016x}", topology.node(node).guid.0))
        .collect();
    let opensm = OpenSm { host: Some(&hosts[0]), ..OpenSm::default() };
    let keeper = opensm.keep(&simulator)?;
    let (heard, mut daemon) = simulator.receive(|| {
        Daemon::start(&simulator, Some(&hosts[5]), "sm_priority = 15\nsweep_interval = 1\n")
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

    // Who asks is told so.
    let mut command = simulator.command(Program::SMINFO, Some(&hosts[1]))?;
    let said = finish(&mut command, simulator.folder(), std::time::Duration::from_secs(20))?;
    let said = String::from_utf8_lossy(&said.out).into_owned();
    assert!(said.contains("priority 15 state 3 SMINFO_MASTER"), "{said}");
    assert!(fs::metadata(simulator.folder()).is_ok());
    daemon.end();
    Ok(())
}
