//! Hooks as slurmctld calls them for a job that is there, where what they ask for is refused: one line, at the job
//! too.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use super::cluster::{Cluster, SNIN};

/// A job that waits, so that its hooks are called by this test alone.
fn held(cluster: &Cluster) -> String {
    let job = ["--parsable", "-H", "-N2", "--output=/dev/null", "--wrap", "true"];
    cluster.slurm("sbatch", &job).trim().to_owned()
}

/// What a hook says for a job that has these nodes, as a user of this number.
fn hook(cluster: &Cluster, name: &str, job: &str, nodes: &str, user: u32) -> Output {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={user}"), "--clear-groups", SNIN, "hook", name, "--config"]);
    command.arg(cluster.path("jobs.toml")).env("SLURM_CONF", cluster.path("slurm.conf"));
    command.env("SLURM_JOB_ID", job).env("SLURM_JOB_NODELIST", nodes).env("SLURM_JOB_UID", "0");
    command.env("SLURMD_NODENAME", "host0").env("SLURM_PROCID", "0");
    command.output().expect("setpriv")
}

fn line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

pub(super) fn a_node_that_the_fabric_has_not(cluster: &Cluster) {
    let job = held(cluster);
    let output = hook(cluster, "prolog-slurmctld", &job, "host0,stranger", 0);
    let why = "snin: node stranger is no host of the fabric (`snin controller fabric`)";
    assert_eq!(line(&output), why);
    assert!(!output.status.success(), "the job goes back into the queue");
    let told = cluster.slurm("scontrol", &["show", "job", &job]);
    assert!(told.contains(&format!("AdminComment={why}")), "{told}");
    assert!(cluster.slices().is_empty());
    cluster.slurm("scancel", &[&job]);
}

/// Who may change slices goes by user, or by certificate: there are no tokens that could be wrong.
pub(super) fn a_hook_of_a_user_who_may_not(cluster: &Cluster) {
    let open = |name: &str, mode: u32| {
        fs::set_permissions(cluster.path(name), Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [("", 0o755), ("log", 0o777), ("log/hooks", 0o666), ("control", 0o666)] {
        open(name, mode);
    }
    let job = held(cluster);
    let output = hook(cluster, "prolog-slurmctld", &job, "host0,host1", 4711);
    assert_eq!(
        line(&output),
        "snin: user/4711 may not change slices: only operators and launchers may"
    );
    assert!(!output.status.success());
    let log = cluster.read("log/hooks");
    let written = format!("slurm/{job}: user/4711 may not change slices");
    assert!(log.lines().any(|line| line.contains(&written)), "{log}");
    assert!(cluster.slices().is_empty());

    // By another rule the job runs, and its user is told by its first task.
    cluster.settle("wait_ms = 100\nno_room = \"shared\"");
    fs::create_dir_all(cluster.path("shared")).unwrap();
    open("shared", 0o777);
    let output = hook(cluster, "prolog-slurmctld", &job, "host0,host1", 4711);
    assert!(output.status.success(), "{}", line(&output));
    let output = hook(cluster, "task-prolog", &job, "host0,host1", 0);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim_end(),
        "print snin: this job has no links of its own: user/4711 may not change slices: only operators \
         and launchers may"
    );
    fs::remove_dir_all(cluster.path("shared")).unwrap();
    cluster.settle("");
    cluster.slurm("scancel", &[&job]);
}
