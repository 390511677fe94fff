//! The hooks of Slurm as it calls them, process by process, beside a controller's daemon that knows a whole fabric
//! and the slices of many jobs. `scontrol` is Slurm's own; no slurmctld runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::generate::Recipe;
use snin_fabric::ibnet;

use super::{line, percentile};
use crate::{Outcome, Size, built};

/// What a user does not notice, in ms.
const GOAL: f64 = 100.0;
/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(300);
/// Hosts of every job.
const HOSTS: usize = 8;

struct Case {
    recipe: &'static str,
    known: usize,
    rounds: usize,
}

/// # Panics
/// Where the daemon does not come up, or a hook fails.
pub(super) fn run(size: Size) -> Vec<Outcome> {
    let case = match size {
        Size::Full => Case { recipe: "fattree:36", known: 500, rounds: 200 },
        Size::Small => Case { recipe: "fattree:8", known: 5, rounds: 3 },
    };
    let site = Site::start(case.recipe);
    for job in 0..case.known {
        let request =
            json!({ "command": "slice_create", "owner": format!("known/{job}"), "count": HOSTS });
        site.ask(&request);
    }
    let fabric = site.ask(&json!({ "command": "fabric" }));
    let hosts = names(&fabric["hosts"], "name");
    let taken: BTreeSet<String> = {
        let slices = site.ask(&json!({ "command": "slices" }));
        let slices = slices["slices"].as_array().expect("slices").clone();
        slices.iter().flat_map(|slice| names(&slice["hosts"], "")).collect()
    };
    let free: Vec<&String> = hosts.iter().filter(|name| !taken.contains(*name)).collect();
    let hooks = ["prolog-slurmctld", "prolog", "task-prolog", "epilog", "epilog-slurmctld"];
    let mut times = vec![Vec::new(); hooks.len()];
    for round in 0..case.rounds {
        let first = round * HOSTS % (free.len() - HOSTS + 1);
        let nodes: Vec<&str> =
            free[first..first + HOSTS].iter().map(|name| name.as_str()).collect();
        for (hook, times) in hooks.iter().zip(&mut times) {
            times.push(site.hook(hook, round, &nodes));
        }
    }
    let left = site.ask(&json!({ "command": "slices" }));
    assert_eq!(left["slices"].as_array().map(Vec::len), Some(case.known), "jobs gave all back");
    let outcomes = hooks.iter().zip(&times).flat_map(|(hook, times)| {
        [("p50", 0.5), ("p99", 0.99)].map(|(name, share)| {
            let known = format!("{} hosts and {} jobs known", hosts.len(), case.known);
            line(format!("{hook} {name}, {known}"), "ms", percentile(times, share), GOAL, 0)
        })
    });
    outcomes.collect()
}

/// Texts of an array, or of a member of its objects.
fn names(rows: &Value, member: &str) -> Vec<String> {
    let rows = rows.as_array().expect("rows").iter();
    let text = |row: &Value| if member.is_empty() { row.clone() } else { row[member].clone() };
    rows.map(|row| text(row).as_str().expect("a name").to_owned()).collect()
}

/// A controller and the hooks' settings. It ends when this is dropped.
struct Site {
    folder: tempfile::TempDir,
    controller: Child,
}

impl Site {
    fn start(recipe: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let d = folder.path().display();
        let put = |name: &str, text: String| {
            fs::write(folder.path().join(name), text).expect("a file");
        };
        let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
        put("fabric", ibnet::write(&topology));
        put(
            "controller.toml",
            format!(
                "listen = [\"unix://{d}/sessions\"]\ntopology = \"{d}/fabric\"\nname = \"ctl1\"\n\
                 state_dir = \"{d}/state\"\ncontrol_socket = \"{d}/control\"\nlog_file = \"{d}/log\"\n"
            ),
        );
        put(
            "jobs.toml",
            format!(
                "controller = \"{d}/control\"\nshared = \"{d}/shared\"\njobs = \"{d}/jobs\"\nagent = \"\"\n\
                 log_file = \"{d}/hooks\"\n"
            ),
        );
        // All that scontrol needs for reading a list of nodes.
        put("slurm.conf", "ClusterName=bench\nSlurmctldHost=localhost\n".to_owned());
        let mut command = Command::new(built("snin-controller"));
        command.arg("--config").arg(folder.path().join("controller.toml")).stdin(Stdio::null());
        let controller = command.spawn().expect("snin-controller");
        let site = Self { folder, controller };
        let begin = Instant::now();
        while site.asked(&json!({ "command": "slices" })).is_none() {
            assert!(begin.elapsed() < PATIENCE, "{}", site.read("log"));
            std::thread::sleep(Duration::from_millis(50));
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn asked(&self, request: &Value) -> Option<Value> {
        Connection::open(&self.path("control"), Some(PATIENCE)).ok()?.ask(request).ok()
    }

    fn ask(&self, request: &Value) -> Value {
        self.asked(request).unwrap_or_else(|| panic!("{request}: {}", self.read("log")))
    }

    /// Runs a hook for a job; how long that took, in ms.
    fn hook(&self, hook: &str, job: usize, nodes: &[&str]) -> f64 {
        let mut command = Command::new(built("snin"));
        command.args(["hook", hook, "--config"]).arg(self.path("jobs.toml"));
        command.env("SLURM_CONF", self.path("slurm.conf")).env("SLURM_JOB_ID", job.to_string());
        command.env("SLURM_JOB_NODELIST", nodes.join(",")).env("SLURM_JOB_UID", "0");
        command.env("SLURMD_NODENAME", nodes[0]).env("SLURM_PROCID", "0").stdin(Stdio::null());
        let begin = Instant::now();
        let output = command.output().expect("snin");
        let time = begin.elapsed().as_secs_f64() * 1e3;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{hook}: {said}{}", self.read("hooks"));
        time
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.controller.kill();
        let _ = self.controller.wait();
    }
}
