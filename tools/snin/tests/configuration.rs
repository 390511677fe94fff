//! `snin config`, `snin port` and `snin replay` beside processes that run: an emulated fabric and its subnet
//! manager.

#[allow(dead_code, reason = "another test needs the rest of it")]
mod emulation;

use std::path::PathBuf;
use std::process::{Command, Output};

use emulation::{Emulation, manager, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snin_daemon::record::Recording;
use snin_fabric::Lid;
use snin_judges::{JudgeError, Running, Simulated as _, iblinkinfo};
use snin_mad::sa::{ComponentMask, NodeRecord, SaRequest};
use snin_mad::{Method, QKey};
use snin_sm::daemon::recording::{self, Made, Recorded};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};
use snin_sm_core::Event;

struct Managed {
    emulation: Emulation,
    manager: Option<Running>,
    socket: PathBuf,
}

impl Managed {
    fn start(recipe: &str, settings: &str) -> Result<Self, JudgeError> {
        let emulation = Emulation::start(recipe, &[])?;
        let folder = emulation.folder();
        let socket = folder.join("sm.sock");
        let text = format!(
            "control_socket = {:?}\nstate_dir = {:?}\nsweep_interval = 1\n{settings}",
            socket,
            folder.join("state")
        );
        std::fs::write(folder.join("sm.toml"), text).unwrap();
        let mut managed = Self { emulation, manager: None, socket };
        managed.restart()?;
        Ok(managed)
    }

    /// Another manager after this one, which is killed.
    fn restart(&mut self) -> Result<(), JudgeError> {
        self.manager = None;
        let folder = self.emulation.folder();
        let mut command = Command::new(manager());
        command.args(["--ibsim", self.emulation.name(), "--config"]).arg(folder.join("sm.toml"));
        command.arg("--record").arg(folder.join("sm.record"));
        self.manager = Some(Running::start(&mut command, folder, "snin-sm")?);
        wait("the subnet", || self.snin(&["sm", "status"]).status.success());
        Ok(())
    }

    fn snin(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.args(arguments).arg("--socket").arg(&self.socket).output().unwrap()
    }

    /// What the command prints, at any exit code.
    fn text(&self, arguments: &[&str]) -> String {
        let output = self.snin(arguments);
        String::from_utf8_lossy(if output.stdout.is_empty() {
            &output.stderr
        } else {
            &output.stdout
        })
        .into_owned()
    }

    fn ask(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        serde_json::from_slice(&self.snin(&all).stdout).unwrap_or_default()
    }

    fn cables(&self, state: &str) -> u64 {
        self.emulation.ask(&["status"])["cables"][state].as_u64().unwrap()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.emulation.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

/// The first proof of an expected configuration: one pair of swapped cables.
#[test]
fn swapped_cables_are_found_named_and_disabled_and_pass_when_they_are_swapped_back()
-> Result<(), JudgeError> {
    let mut managed = Managed::start("clos:4,2,2", "consent = \"static\"\n")?;
    let all = managed.cables("all");
    wait("all links", || managed.cables("active") == all);
    let learnt = managed.text(&["config", "learn", "--test"]);
    let quick = format!("[tests]\nquality_ms = 50\nquality_mads = 10\n\n{learnt}");
    let file = managed.file("expected.toml", &quick);
    assert_eq!(managed.text(&["config", "check", &file]), "");
    let applied = managed.ask(&["config", "apply", &file]);
    assert_eq!((&applied["version"], &applied["enforced"]), (&1.into(), &true.into()));
    // What is in use is tested too, and stays in use.
    let passed = || {
        let ports = managed.ask(&["port", "status"])["ports"].clone();
        ports.as_array().is_some_and(|ports| {
            !ports.is_empty() && ports.iter().all(|port| port["state"] == "passed")
        })
    };
    wait("all ports pass", passed);
    assert_eq!(managed.cables("active"), all);
    assert_eq!(managed.text(&["config", "diff"]), "");

    // Hosts of two leaves, neither of them the manager's.
    managed.emulation.ask(&["fault", "swap", "leaf1/1", "leaf2/1"]);
    let failed = || {
        let ports = managed.ask(&["port", "status"])["ports"].clone();
        let ports = ports.as_array().cloned().unwrap_or_default();
        let failed = ports.iter().filter(|port| port["state"] == "failed");
        failed.map(|port| format!("{} {}", port["at"], port["why"])).collect::<Vec<_>>()
    };
    wait("both are found", || failed().len() == 2);
    let named = failed().join("\n");
    assert!(named.contains("\"leaf1/1\" \"miswired: ") && named.contains("\"leaf2/1\""), "{named}");
    assert_eq!(managed.snin(&["port", "status"]).status.code(), Some(1));
    wait("both are disabled", || managed.cables("down") == 2);
    assert_eq!(managed.cables("active"), all - 2, "and only they are");
    // Another program sees it.
    let disabled = iblinkinfo(&managed.emulation)?;
    let disabled = disabled.lines().filter(|line| line.contains("Disabled")).count();
    assert_eq!(disabled, 2);

    // Swapped back they stay as they are until an operator says that they may.
    managed.emulation.ask(&["fault", "swap", "leaf1/1", "leaf2/1"]);
    assert_eq!(managed.cables("down"), 2);
    assert!(managed.snin(&["port", "release", "leaf1/1"]).status.success());
    assert!(managed.snin(&["port", "release", "leaf2/1"]).status.success());
    wait("both come up", || managed.cables("active") == all && passed());
    assert_eq!(managed.text(&["config", "diff"]), "");
    // A port that an operator took out of use stays so after every restart.
    let quarantine = ["port", "quarantine", "leaf3/2", "--why", "cable exchange"];
    assert!(managed.snin(&quarantine).status.success());
    wait("it is disabled", || managed.cables("down") == 1);
    let events = managed.text(&["sm", "events"]);
    managed.restart()?;
    let is_kept = || managed.text(&["port", "status"]).contains("leaf3/2 quarantined");
    wait("it is remembered", is_kept);
    assert_eq!(managed.cables("down"), 1);
    let history = managed.ask(&["config", "history"]);
    assert_eq!(history["versions"].as_array().map(Vec::len), Some(1));
    for action in ["fail", "release", "enable", "pass"] {
        assert!(events.contains(&format!("\"action\":\"{action}\"")), "{action}: {events}");
    }
    Ok(())
}

#[test]
fn what_would_cut_the_fabric_is_refused_and_without_consent_nothing_is_enforced()
-> Result<(), JudgeError> {
    let managed = Managed::start("clos:2,2,2", "")?;
    let all = managed.cables("all");
    wait("all links", || managed.cables("active") == all);
    let learnt = managed.text(&["config", "learn"]);
    let off = learnt.replace("\"enabled\"", "\"disabled\"");
    let file = managed.file("off.toml", &off);
    let said = managed.text(&["config", "check", &file]);
    assert!(said.contains("no way would lead there any more"), "{said}");
    assert!(said.contains("the manager's own port"), "{said}");
    let refused = managed.snin(&["config", "apply", &file]);
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("--force applies it nevertheless") && said.lines().count() == 1,
        "{said}"
    );
    // Nothing was applied, and there is no consent.
    assert!(managed.text(&["config", "diff"]).contains("nothing is expected"));
    let file = managed.file("on.toml", &learnt.replace("num = 4", "num = 44"));
    assert_eq!(managed.ask(&["config", "apply", &file])["enforced"], false);
    managed.emulation.ask(&["fault", "swap", "leaf0/2", "leaf1/1"]);
    wait("the difference", || managed.text(&["config", "diff"]).contains("is there, expected"));
    wait("all links", || managed.cables("active") == all);
    let wrong =
        managed.file("wrong.toml", &learnt.replace("state = \"enabled\"", "state = \"on\""));
    let said = managed.text(&["config", "check", &wrong]);
    assert!(said.contains("wrong.toml:5: unknown variant `on`"), "{said}");
    Ok(())
}

/// Requests come faster than their answers go out: answers and requests wait, and some are dropped. When they did
/// is in the recording, so that the same comes out of it again.
#[test]
fn a_recording_of_a_crowded_port_is_told_again() -> Result<(), JudgeError> {
    let mut managed = Managed::start("clos:2,2,2", "")?;
    let all = managed.cables("all");
    wait("all links", || managed.cables("active") == all);
    let lid: u64 = managed.ask(&["sm", "status"])["port"]["lid"].as_u64().unwrap();
    let mut host = IbsimPort::attach(managed.emulation.name(), Some("host3")).unwrap();
    let q_key = QKey(0x8001_0000);
    let to = Address { lid: Lid(lid as u16), qp: 1, sl: 0, q_key, p_key_index: 0 };
    let every = NodeRecord::default();
    let request = SaRequest::new(Method::Get, &every, ComponentMask::of(&[1]));
    let mut answered = 0;
    for id in 1..=20_000 {
        let mad = request.clone().transaction(id).mad();
        while host.send(&mad, &to).unwrap() != Sent::Yes {
            answered += u64::from(host.receive().unwrap().is_some());
        }
    }
    wait("answers", || {
        while host.receive().unwrap().is_some() {
            answered += 1;
        }
        answered > 1_000
    });
    let manager = managed.manager.as_mut().unwrap();
    kill_process(Pid::from_raw(manager.id() as i32).unwrap(), Signal::TERM).unwrap();
    wait("the end", || manager.ended().unwrap().is_some());
    let file = managed.emulation.folder().join("sm.record");
    let mut recording = Recording::<Made>::open(&file, recording::CORE).unwrap();
    let mut crowded = 0;
    while let Some(entry) = recording.entry::<Recorded<Event<'_>>>().unwrap() {
        crowded += u32::from(matches!(entry.event, Some(Recorded::Event(Event::Crowded(true)))));
    }
    assert!(crowded > 1, "{crowded} times");
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    let again = command.arg("replay").arg(&file).arg("--json").output().unwrap();
    let error = String::from_utf8_lossy(&again.stderr);
    let report: Value = serde_json::from_slice(&again.stdout).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!((again.status.code(), &report["same"]), (Some(0), &true.into()), "{report}");
    assert_eq!(report["recorded"]["digest"], report["digest"]);
    Ok(())
}
