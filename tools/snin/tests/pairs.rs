//! Two controllers on three members of etcd, as processes: the one that leads is killed under load, and another
//! one stands still for longer than its lease.
#![cfg(feature = "etcd")]

mod daemons;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snin_judges::Program;

use daemons::{snin, wait};

const PAIR: [&str; 4] = ["--controllers", "2", "--etcd", "3"];

/// A `snin up` in a folder, while its script runs.
struct Up {
    child: Option<Child>,
    run: PathBuf,
    /// One at a time: two would take each other's processors.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Up {
    fn start(folder: &Path, script: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder.join("script");
        std::fs::write(&path, script).unwrap();
        let run = folder.join("run");
        let mut command = snin();
        command.args(["up", "clos:4,4,2", "--json"]).args(PAIR);
        command.arg("--script").arg(path).arg("--folder").arg(&run);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { child: Some(child), run, _alone: alone }
    }

    /// What a controller answers; none while it does not.
    fn ask(&self, controller: &str, arguments: &[&str]) -> Option<Value> {
        let mut command = snin();
        command.args(arguments).arg("--json");
        let socket = self.run.join(format!("{controller}.sock"));
        let output = command.arg("--socket").arg(socket).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn status(&self, controller: &str) -> Option<Value> {
        self.ask(controller, &["controller", "status"])
    }

    fn leader(&self) -> Option<&'static str> {
        ["controller", "controller-2"]
            .into_iter()
            .find(|name| self.status(name).is_some_and(|said| said["standby"] == false))
    }

    /// Events of one of them, in their order.
    fn events(&self, controller: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run.join(format!("{controller}.events")));
        let text = text.unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn count(&self, controller: &str, event: &str) -> usize {
        self.events(controller).iter().filter(|said| said["event"] == event).count()
    }

    /// The terms that were led in, in their order: no two controllers led in one.
    fn terms(&self) -> Vec<u64> {
        let both = ["controller", "controller-2"].into_iter().flat_map(|name| self.events(name));
        let leads = both.filter(|said| said["event"] == "LEADS");
        let mut terms: Vec<u64> = leads.map(|said| said["term"].as_u64().unwrap()).collect();
        terms.sort_unstable();
        assert!(terms.windows(2).all(|pair| pair[0] < pair[1]), "{terms:?}");
        terms
    }

    /// The leader's lease, and the one under which the last change was made: by etcd's own command.
    fn leases(&self) -> (i64, i64) {
        let text = std::fs::read_to_string(self.run.join("controller.toml")).unwrap();
        let store = text.lines().find_map(|line| line.strip_prefix("store = \"etcd://"));
        let members = store.unwrap().trim_end_matches('"');
        let get = |key: &str, form: &str| {
            let mut command = Command::new(Program::ETCDCTL.find().unwrap());
            command.env("ETCDCTL_API", "3").arg(format!("--endpoints={members}"));
            command.args(["get", form, &format!("snin-controller/{key}")]);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let leader: Value = serde_json::from_str(&get("leader", "--write-out=json")).unwrap();
        let written = get("written", "--print-value-only");
        let lease = written.split('/').next().unwrap().parse().unwrap();
        (leader["kvs"][0]["lease"].as_i64().unwrap(), lease)
    }

    /// What the run says when its script has ended.
    fn figures(&mut self) -> Value {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let figures: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        assert_eq!(output.status.code(), Some(0), "{figures:#}{error}");
        let owners = &figures["owners"];
        assert_eq!((&owners["clashes"], &owners["unjudged"]), (&0.into(), &0.into()), "{owners}");
        // All that was asked for was granted, sent and has arrived.
        assert_eq!(figures["connections"], figures["done"]);
        assert_eq!(figures["messages"]["delivered"], figures["messages"]["posted"]);
        figures
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let pid = Pid::from_raw(child.id() as i32).unwrap();
            // It ends all that it started.
            let _ = kill_process(pid, Signal::INT);
            let _ = child.wait();
        }
    }
}

/// The slice's hosts.
fn hosts(slices: &Value) -> Vec<&str> {
    let slices = slices["slices"].as_array().unwrap();
    let own = slices.iter().filter(|slice| slice["owner"] == "kept");
    own.flat_map(|slice| slice["hosts"].as_array().unwrap()).flat_map(Value::as_str).collect()
}

#[test]
fn another_controller_grants_on_when_the_one_that_leads_is_killed_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(
        folder.path(),
        "windows 90\nkill controller @window 60\nkill controller @window 75\n",
    );
    wait("a controller leads", || up.leader().is_some());
    let first = up.leader().unwrap();
    let other = if first == "controller" { "controller-2" } else { "controller" };
    wait("a slice is made", || {
        up.ask(first, &["slice", "create", "kept", "--on", "host0,host3"]).is_some()
    });
    wait("the other one stands by", || {
        up.status(other).is_some_and(|said| said["leader"] == format!("controller/{first}"))
    });
    // A standby promises nothing.
    assert_eq!(up.ask(other, &["slice", "create", "lost", "--count", "2"]), None);
    wait("the other one leads", || up.leader() == Some(other));
    let slices = up.ask(other, &["slice", "list"]).unwrap();
    assert_eq!(hosts(&slices), ["host0", "host3"], "{slices}");
    let figures = up.figures();
    let failovers = figures["failovers"].as_array().unwrap();
    let to: Vec<&str> = failovers.iter().flat_map(|failover| failover["to"].as_str()).collect();
    assert_eq!(to, [other, first], "{figures:#}");
    let terms = up.terms();
    let last = terms.last().unwrap();
    assert!(terms.len() >= 3 && figures["controller"]["term"] == *last, "{terms:?}");
}

#[test]
fn a_controller_that_stood_still_for_longer_than_its_lease_writes_and_grants_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(
        folder.path(),
        "windows 60\nstop controller @window 10\ncontinue controller @window 20\n",
    );
    wait("a controller leads", || up.leader().is_some());
    let first = up.leader().unwrap();
    let other = if first == "controller" { "controller-2" } else { "controller" };
    wait("the other one leads", || up.count(other, "LEADS") > 0);
    wait("the first one has gone on", || up.count(first, "STANDS_BY") > 0);
    let epochs = |name: &str| -> BTreeMap<u64, u64> {
        let said = up.ask(name, &["controller", "windows", "--count", "256"]).unwrap();
        let windows = said["windows"].as_array().unwrap().iter();
        let number = |window: &Value, key: &str| window[key].as_u64().unwrap();
        windows.map(|window| (number(window, "epoch"), number(window, "granted"))).collect()
    };
    let (before, after) = (epochs(first), epochs(other));
    // All on this machine have one clock, by which windows are numbered.
    let last = before.last_key_value().unwrap();
    let began = after.iter().find(|(_, granted)| **granted > 0).unwrap();
    assert!(last < began, "the first one decided window {last:?}, the other one {began:?}");
    wait("it follows the other one", || {
        let said = up.status(first).unwrap();
        assert!(
            said["standby"] == true && said["counters"].as_object().unwrap().is_empty(),
            "{said}"
        );
        said["leader"] == format!("controller/{other}")
    });
    let (leader, written) = up.leases();
    assert_eq!(leader, written, "the last change is the leader's");
    let figures = up.figures();
    assert_eq!(figures["failovers"].as_array().unwrap().len(), 1, "{figures:#}");
    let terms = up.terms();
    let last = terms.last().unwrap();
    assert!(terms.len() >= 2 && figures["controller"]["term"] == *last, "{terms:?}");
}

#[test]
fn several_controllers_without_a_store_are_refused() {
    let output = snin().args(["up", "clos:2,2,1", "--controllers", "2"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("--controllers 2 share their state: add --etcd 3"), "{error}");
}
