//! Real slurmctld, slurmd and munged: jobs have links of their own while daemons are killed.
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

mod asking;
mod cluster;
mod judge;
mod refused;

use std::collections::BTreeMap;
use std::time::Instant;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use cluster::Cluster;

const JOBS: usize = 100;

/// Submits a job of so many nodes and tenths of a second, which notes when it ran.
fn submit(cluster: &Cluster, nodes: usize, tenths: u32, options: &[&str]) {
    let ran = cluster.path("ran").display().to_string();
    let note = format!("date +%s.%N >> {ran}/$SLURM_JOB_ID.{nodes}");
    let script = format!("{note}; sleep 0.{tenths}; {note}");
    let nodes = format!("-N{nodes}");
    let usual = ["--parsable", "--output=/dev/null", "--requeue", &nodes, "--wrap", &script];
    let output = cluster.tried("sbatch", &[options, &usual[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Jobs that began and ended, and the node seconds that they had.
fn ran(cluster: &Cluster) -> (usize, f64) {
    let (mut ended, mut node_seconds) = (0, 0.0);
    for entry in std::fs::read_dir(cluster.path("ran")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let nodes: f64 = path.extension().unwrap().to_str().unwrap().parse().unwrap();
        if let [.., began, over] = times[..] {
            ended += 1;
            node_seconds += nodes * (over - began);
        }
    }
    (ended, node_seconds)
}

#[test]
fn jobs_have_links_of_their_own_whatever_is_killed_meanwhile() {
    let mut cluster = Cluster::start("clos:4,4,4");
    let mut rng = ChaCha8Rng::seed_from_u64(39);
    let began = Instant::now();
    for _ in 0..JOBS {
        let nodes = if rng.random_range(0..10) == 0 { 16 } else { rng.random_range(1..=8) };
        submit(&cluster, nodes, rng.random_range(1..5), &[]);
    }
    cluster.wait("20 jobs have ended", || ran(&cluster).0 >= 20);
    cluster.kill_controller();
    cluster.start_controller();
    cluster.wait("40 jobs have ended", || ran(&cluster).0 >= 40);
    cluster.kill_daemon("slurmctld.pid");
    cluster.start_slurmctld();
    cluster.wait("60 jobs have ended", || {
        cluster.recover();
        ran(&cluster).0 >= 60
    });
    cluster.kill_daemon("slurmd-host3.pid");
    // As Slurm itself would find after its time limit: what ran there goes back into the queue.
    let state = |state| ["update", "NodeName=host3", "Reason=killed", state];
    cluster.slurm("scontrol", &state("State=DOWN"));
    cluster.start_slurmd(3);
    cluster.slurm("scontrol", &state("State=RESUME"));
    cluster.wait("no job is left", || {
        cluster.recover();
        cluster.slurm("squeue", &["-h"]).is_empty()
    });
    let seconds = began.elapsed().as_secs_f64();
    cluster.wait("no slice is left", || cluster.slices().is_empty());

    let (ended, node_seconds) = ran(&cluster);
    assert_eq!(ended, JOBS, "{}", cluster.read("log/hooks"));
    let verdict = judge::judge(&cluster.read("log/events"), &cluster.topology);
    assert!(verdict.faults.is_empty(), "{:#?}", verdict.faults);
    assert_eq!(verdict.owners.len(), JOBS, "{}", cluster.read("log/hooks"));
    assert!(verdict.most > 1 && verdict.linked > JOBS / 4, "{verdict:?}");
    for folder in ["shared", "jobs"] {
        let left = std::fs::read_dir(cluster.path(folder)).unwrap().count();
        assert_eq!(left, 0, "{folder}");
    }
    let used = 100.0 * node_seconds / (cluster.hosts as f64 * seconds);
    println!(
        "{JOBS} jobs on {} nodes in {seconds:.1} s, {used:.0} % of the node time in programs; at most {} slices \
         at a time, {} with links between switches; faults 0",
        cluster.hosts, verdict.most, verdict.linked
    );
    asking::options(&cluster);
    asking::patterns(&cluster);
    asking::another_slurm(&cluster);
    asking::leaves(&cluster);
    asking::topology_is_kept(&cluster);
    asking::yaml(&cluster);
    asking::units();
    what_goes_wrong_is_a_line(&mut cluster);
}

/// In the same cluster: it takes a while to come up.
fn what_goes_wrong_is_a_line(cluster: &mut Cluster) {
    // A job that asks for nothing has nothing, and what cannot be understood is said.
    let environment = ["-N2", "bash", "-c", "echo $SNIN_JOB"];
    let said = cluster.slurm("srun", &[&["--comment=--snin=off"], &environment[..]].concat());
    assert_eq!(said.trim(), "");
    let said = cluster.slurm("srun", &environment);
    let jobs: BTreeMap<&str, usize> = said.lines().fold(BTreeMap::new(), |mut jobs, line| {
        *jobs.entry(line).or_default() += 1;
        jobs
    });
    assert!(jobs.len() == 1 && said.starts_with("slurm/"), "{said}");
    let output = cluster.tried("srun", &["--comment=--snin=all", "-N1", "hostname"]);
    assert!(!output.status.success());
    cluster.wait("the hook says why", || {
        cluster.read("log/hooks").contains("--snin=all: slice, pinned, off, or a pattern")
    });
    cluster.wait("no slice is left", || cluster.slices().is_empty());

    // No agent where programs need one: the prolog of the node fails, and the job's user is told.
    cluster.settle_with_agent(&cluster.text("no-agent"), "");
    let wanted = ["--parsable", "--output=/dev/null", "-w", "host5", "-N1", "--wrap", "true"];
    let job = cluster.slurm("sbatch", &wanted);
    let job = job.trim();
    let line = format!("AdminComment=snin: job slurm/{job} cannot run on host5: ");
    cluster.wait("its user is told that no agent answers", || {
        cluster.slurm("scontrol", &["show", "job", job]).contains(&line)
    });
    cluster.wait("the job is back in the queue, held", || {
        let state = cluster.slurm("squeue", &["-h", "-j", job, "-o", "%T %r"]);
        state.starts_with("PENDING") && state.contains("held")
    });
    cluster.slurm("scancel", &[job]);
    cluster.wait("the node is drained", || {
        cluster.slurm("sinfo", &["-h", "-N", "-t", "drain", "-o", "%N"]).contains("host5")
    });
    cluster.settle("");
    cluster.slurm("scontrol", &["update", "NodeName=host5", "State=RESUME"]);
    cluster.wait("no slice is left", || cluster.slices().is_empty());

    refused::a_node_that_the_fabric_has_not(cluster);
    refused::a_hook_of_a_user_who_may_not(cluster);

    // No controller: a job of its user's is refused, or runs and is told.
    cluster.kill_controller();
    cluster.settle("wait_ms = 100");
    let output = cluster.tried("srun", &["-N1", "hostname"]);
    assert!(!output.status.success());
    let log = cluster.read("log/hooks");
    assert!(log.lines().any(|line| line.contains("prolog-slurmctld slurm/")), "{log}");
    assert!(log.contains("does the daemon run?"), "{log}");
    cluster.settle("wait_ms = 100\nno_room = \"hold\"");
    let job = cluster.slurm("sbatch", &["--parsable", "--output=/dev/null", "--wrap", "true"]);
    let job = job.trim();
    cluster.wait("the job is held", || {
        let state = cluster.slurm("squeue", &["-h", "-j", job, "-o", "%T %r"]);
        state.starts_with("PENDING") && state.to_lowercase().contains("held")
    });
    let told = cluster.slurm("scontrol", &["show", "job", job]);
    assert!(told.contains("AdminComment=snin: "), "{told}");
    cluster.slurm("scancel", &[job]);
    cluster.settle("wait_ms = 100\nno_room = \"shared\"");
    let said = cluster.slurm("srun", &["-N1", "bash", "-c", "echo ran"]);
    assert!(said.contains("snin: this job has no links of its own: "), "{said}");
    assert!(said.lines().any(|line| line == "ran"), "{said}");
}
