//! `snin-sm` as it is installed: brings a fabric up, says so, and says in one line what keeps it from it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use snin_fabric::dump::lfts;
use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};
use snin_judges::{JudgeError, Program, Simulator, dump_fts, finish, iblinkinfo};

const SNIN_SM: &str = env!("CARGO_BIN_EXE_snin-sm");

fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

fn snin_sm(arguments: &[&str]) -> Output {
    Command::new(SNIN_SM).args(arguments).env_remove("STATE_DIRECTORY").output().unwrap()
}

fn json(output: &Output) -> Value {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn once_brings_the_subnet_up_and_says_how() -> Result<(), JudgeError> {
    let topology = fabric("clos:6,3,3");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let said = json(&snin_sm(&["--ibsim", simulator.name(), "--once", "--json"]));
    assert_eq!(said["subnet"]["switches"], 9);
    assert_eq!(said["subnet"]["hosts"], 18);
    assert_eq!((&said["subnet"]["trees"], &said["subnet"]["lmc"]), (&3.into(), &2.into()));
    assert_eq!((&said["healthy"], &said["state"]), (&true.into(), &"master".into()));
    assert!(said["up_after_seconds"].as_f64().unwrap() < 60.0);
    // It is gone from the fabric, its work is not.
    assert_eq!(simulator.clients()?, []);
    let tables = dump_fts(&simulator)?;
    let tables = lfts::parse(&tables, &topology).unwrap();
    let full = |table: &&snin_fabric::ForwardingTable| table.iter().count() >= 9 + 18 * 4 - 1;
    assert_eq!(tables.iter().filter(full).count(), 9);
    let links = iblinkinfo(&simulator)?;
    assert!(links.contains("Active") && !links.contains("Initialize"), "{links}");
    // Another program, through the library and its preload, finds nothing left to be written.
    let mut command = simulator.command(Program { name: SNIN_SM, package: "" }, None)?;
    command.args(["--once", "--json"]);
    // It ends as soon as it is done, long before its receiving thread looks by itself whether it shall end.
    let again = finish(&mut command, simulator.folder(), Duration::from_secs(20))?;
    let again: Value = serde_json::from_slice(&again.out).unwrap();
    assert_eq!(again["subnet"]["nodes"], 27);
    assert_eq!(again["smps"]["lft_blocks"], 0);
    Ok(())
}

/// One line, which says all of `parts`.
fn refused(output: &Output, parts: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    // The preloaded library says that it is there.
    let own = said.lines().filter(|line| !line.starts_with("ibwarn: "));
    let said = own.collect::<Vec<_>>().join("\n");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("snin-sm: "), "{said}");
    for part in parts {
        assert!(said.contains(part), "{said} lacks {part}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn what_keeps_it_from_starting_is_one_line() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    refused(&snin_sm(&["--ibsim", "snin-nobody", "--once"]), &["no ibsim listens at snin-nobody"]);
    let config = file("sm.toml", "# mine\nlmc = 2\nsweep_intervall = 3\n");
    refused(
        &snin_sm(&["--config", &config]),
        &[&format!("{config}:3: there is no key sweep_intervall: sweep_interval is meant?")],
    );
    let config = file("lmc.toml", "lmc = 9\n");
    refused(&snin_sm(&["--config", &config]), &[&format!("{config}:1: lmc is 9: 0 to 7")]);
    let (state, addresses) =
        (folder.path().display(), file("guid2lid", "0x77 0x8 0xb\n\x7fELF\0\n"));
    refused(
        &snin_sm(&["--state", &state.to_string(), "--ibsim", "snin-nobody"]),
        &[&format!("{addresses}:2: this is no guid2lid text (binary data)")],
    );
    // A machine without InfiniBand: what a fresh root of files does not have.
    if !Path::new("/sys/class/infiniband_mad/abi_version").exists() {
        refused(&snin_sm(&["--once"]), &["no umad here", "modprobe ib_umad"]);
    }
    // The wrong port of a machine that has one.
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:2,2,1")))?;
    let through_the_library = |arguments: &[&str]| {
        let mut command = simulator.command(Program { name: SNIN_SM, package: "" }, None).unwrap();
        command.args(arguments).output().unwrap()
    };
    refused(
        &through_the_library(&["--once", "--ca", "mlx5_7"]),
        &["no InfiniBand port is --ca mlx5_7; there is ibsim0/0 (0x"],
    );
    refused(&through_the_library(&["--once", "--port", "3"]), &["--port 3; there is ibsim0/0"]);
    Ok(())
}
