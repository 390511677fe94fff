//! Fabrics that are no plain Clos, and ports that are no use.

use serde_json::Value;
use snin_judges::JudgeError;

use crate::odd_fabrics::{back_to_back, dual_ported};
use crate::support::{Lab, id};

/// Two servers have both ports in the subnet, and hosts hang on spines.
#[test]
fn a_clos_with_hosts_on_spines_and_dual_ported_servers_comes_up_whole() -> Result<(), JudgeError> {
    let lab = Lab::new(&dual_ported())?;
    let report = lab.once(&[]);
    assert_eq!((&report["healthy"], &report["subnet"]["hosts"]), (&true.into(), &146.into()));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    assert_eq!(lab.held()?.fault(None), None);
    Ok(())
}

#[test]
fn two_adapters_back_to_back_come_up() -> Result<(), JudgeError> {
    let lab = Lab::new(&back_to_back())?;
    let report = lab.once(&[]);
    assert_eq!((&report["healthy"], &report["subnet"]["nodes"]), (&true.into(), &2.into()));
    let held = lab.held()?;
    assert_eq!(held.wrong, [] as [String; 0]);
    assert!(held.manager.is_some_and(|lid| lid != 0));
    Ok(())
}

/// It says so, and its exit code does.
#[test]
fn a_port_without_a_cable_is_not_healthy() -> Result<(), JudgeError> {
    let lab = Lab::new(&back_to_back())?;
    lab.simulator.unlink(&id(&lab.topology, lab.home), None)?;
    let said = lab.command().args(["--once", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &report["healthy"]), (Some(1), &false.into()), "{report:#}");
    let missing = report["missing"].as_array().unwrap();
    assert!(
        missing.iter().any(|what| what.as_str().unwrap().starts_with("no link at ")),
        "{report:#}"
    );
    Ok(())
}
