//! A manager whose disk is full, or gives back something else: it serves the subnet, says so, and heals.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use snin_fabric::{Guid, Lid, Lmc, ibnet};
use snin_judges::{Disk, JudgeError, Simulator, ends_of, flipped};
use snin_protocol::Time;
use snin_sm::daemon::kept::KeptFile;
use snin_sm::daemon::memory::Memory;
use snin_sm_database::keys::KeySecret;
use snin_sm_database::saved::Saved;

use crate::daemon::{Daemon, SNIN_SM, fabric, get};

fn apply(daemon: &Daemon, file: &Path) -> Result<Value, String> {
    daemon.ask(&json!({ "command": "config-apply", "file": file, "by": "me", "force": true }))
}

fn config(state: &Path) -> String {
    format!(
        "state_dir = {state:?}\nsweep_interval = 1\nm_key_policy = \"one\"\n\
         metrics_listen = \"127.0.0.1:0\"\nlog_file = {:?}\n",
        state.with_extension("log")
    )
}

#[test]
fn a_full_disk_ends_no_manager_and_what_it_refuses_is_not_in_force() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let folder = simulator.folder().to_owned();
    let disk = Disk::mount(&folder.join("state"), 8)?;
    let filler = disk.fill("filler")?;
    let mut daemon = Daemon::start(&simulator, None, &config(disk.folder()));
    let status = daemon.status();
    assert_eq!((&status["state"], &status["healthy"]), (&json!("master"), &json!(false)));
    assert!(status["not_stored"].as_str().is_some_and(|why| why.contains("No space left")));
    let log = || fs::read_to_string(disk.folder().with_extension("log")).unwrap();
    let began = log();
    assert_eq!(began.matches("no M_Keys are given out until the next start").count(), 1, "{began}");
    let metrics = began.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
    let health = get(metrics.expect("an address"), "/healthz");
    assert!(health.contains(" 503 ") && health.contains("the state is not stored: "), "{health}");

    let learnt = daemon.ask(&json!({ "command": "config-learn" })).unwrap();
    let file = folder.join("expected.toml");
    fs::write(&file, learnt["text"].as_str().unwrap()).unwrap();
    let refused = apply(&daemon, &file).unwrap_err();
    assert!(refused.contains("No space left") && !refused.contains('\n'), "{refused}");
    let history = |daemon: &Daemon| daemon.ask(&json!({ "command": "config-history" })).unwrap();
    assert_eq!(history(&daemon)["versions"], json!([]));
    assert!(!disk.folder().join("configuration/versions").exists(), "no half of a file");

    disk.resize(16_384)?;
    fs::remove_file(filler).unwrap();
    daemon.until("stored", |daemon| daemon.status()["healthy"] == true);
    assert_eq!(apply(&daemon, &file).unwrap()["version"], 1);
    // A port is taken out of use while the disk is full: that is not forgotten.
    let filler = disk.fill("filler")?;
    let leaf = fabric("clos:4,2,2");
    let leaf = leaf.switches().map(|s| leaf.node(s).name.to_string()).next().unwrap();
    let quarantine =
        json!({ "command": "port-quarantine", "port": format!("{leaf}/1"), "why": "x" });
    daemon.ask(&quarantine).unwrap();
    daemon.until("told", |daemon| !daemon.status()["not_stored"].is_null());
    daemon.until("an event", |daemon| daemon.told("FAULT") > 0);
    fs::remove_file(filler).unwrap();
    daemon.until("stored", |daemon| daemon.status()["not_stored"].is_null());
    daemon.until("another event", |daemon| daemon.told("FAULT_OVER") > 0);
    let marks = fs::read_to_string(disk.folder().join("configuration/marks")).unwrap();
    assert!(marks.contains(" 1 quarantined x"), "{marks}");
    daemon.end();

    // Started again it has all of that, and M_Keys; also on a disk that is full.
    disk.fill("filler")?;
    let daemon = Daemon::start(&simulator, None, &config(disk.folder()));
    assert_eq!(history(&daemon)["versions"].as_array().unwrap().len(), 1);
    assert_eq!(log().matches("no M_Keys").count(), 1, "{}", log());
    daemon.end();

    // A store of versions that cannot be read is one line with its cure.
    fs::remove_file(disk.folder().join("filler")).unwrap();
    let versions = disk.folder().join("configuration/versions");
    let bytes = fs::read(&versions).unwrap();
    let once = || {
        let mut command = Command::new(SNIN_SM);
        command.args(["--once", "--ibsim", simulator.name(), "--state"]).arg(disk.folder());
        let said = command.env_remove("STATE_DIRECTORY").output().unwrap();
        (String::from_utf8_lossy(&said.stderr).into_owned(), said.status.code())
    };
    let cure = format!("`mv {0} {0}.bad` puts it aside", versions.display());
    for other in [&[][..], &bytes[..100], &bytes[..bytes.len() / 2], b"no store"] {
        fs::write(&versions, other).unwrap();
        let (told, code) = once();
        assert!(code == Some(3) && told.contains(&cure), "{told}");
        assert_eq!(told.lines().filter(|line| line.contains("snin-sm: ")).count(), 1, "{told}");
    }
    fs::rename(&versions, versions.with_extension("bad")).unwrap();
    assert_ne!(once().1, Some(3));
    Ok(())
}

/// What every file of the state can be: as written, cut, empty, with a flipped bit. It is read, or named with what
/// is lost with it and the command that puts it aside.
#[test]
fn a_file_of_the_state_that_is_damaged_is_read_or_told_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |byte| KeySecret { secret: [byte; 32], generation: 1 };
    let saved = Saved {
        lmc: Lmc::new(2),
        lids: (1..9).map(|n| (Guid(n), (Lid(n as u16 * 4), Lmc::ZERO))).collect(),
        trees: (0..8).map(|n| ((Guid(0x200 + u64::from(n / 2)), n % 2), n)).collect(),
        keys: Some(secret(0xA5)),
        former_keys: vec![secret(0x5A)],
        ..Saved::default()
    };
    Memory::open(Some(folder.path())).unwrap().0.save(&saved).unwrap();
    let alias = |n| format!("alias 0x{n:016x} 1 0x0202c90300a1b2c3 @7.1@0x0000000000000077\n");
    fs::write(folder.path().join("administration"), (1..9).map(alias).collect::<String>()).unwrap();
    let mut told = 0;
    for name in ["guid2lid", "trees", "subnets", "m_keys", "administration"] {
        let path = folder.path().join(name);
        let bytes = fs::read(&path).unwrap();
        let cut =
            ends_of(bytes.len()).map(|end| (bytes[..end].to_owned(), format!("cut at {end}")));
        let bits = (0..bytes.len() * 8).step_by(11);
        let others = bits.map(|bit| (flipped(&bytes, bit), format!("bit {bit}")));
        for (other, what) in cut.chain(others) {
            fs::write(&path, &other).unwrap();
            let memory = Memory::open(Some(folder.path())).map(drop);
            let kept = KeptFile::open(Some(folder.path()), Time::ZERO).map(drop);
            for error in [memory, kept].into_iter().filter_map(Result::err) {
                let (error, path) = (error.to_string(), path.display());
                let cure = format!("; `mv {path} {path}.bad` puts it aside");
                assert!(error.starts_with(&path.to_string()), "{name}, {what}: {error}");
                let is_named = error.contains("; lost with it: ") && error.ends_with(&cure);
                assert!(is_named && !error.contains('\n'), "{name}, {what}: {error}");
                told += 1;
            }
        }
        fs::write(&path, &bytes).unwrap();
        assert_eq!(Memory::open(Some(folder.path())).unwrap().1, saved);
    }
    assert!(told > 50, "{told}");
}
