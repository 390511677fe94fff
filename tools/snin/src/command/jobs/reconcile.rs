//! Slices of jobs that ended while a controller, a slurmctld or a machine was down.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use serde_json::json;
use snin_protocol::Time;
use snin_protocol::operator::controller::GetSlices;

use super::hooks::run_slurm;
use super::settings::Checked;
use super::{ask, end, read};
use crate::Verdict;
use crate::cli::jobs::JobSettings;
use crate::failure::Failure;
use crate::output::{Output, Target, note};

/// Once, or again and again.
pub(super) fn run<W: Write>(
    every: Option<Time>,
    asked: &JobSettings,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let settings = read(asked)?;
    let Some(every) = every else {
        let ended = reconcile(&settings)?;
        let json = Target::open(asked.format.json.as_deref())?;
        let answer = json!({ "given_back": ended });
        out.report(json, &answer, |out| {
            ended.iter().try_for_each(|job| out.line(format!("links of {job} are given back")))
        })?;
        return Ok(Verdict::Well);
    };
    loop {
        // A controller or slurmctld that is down now is asked again.
        match reconcile(&settings) {
            Ok(ended) => {
                for job in ended {
                    note(format!("links of {job} are given back"));
                }
            }
            Err(failure) => note(failure),
        }
        std::thread::sleep(Duration::from_nanos(every.nanos()));
    }
}

/// Gives back what no job of squeue's has; the owners. Slices are listed first: a job that begins meanwhile has
/// none in that list, so nothing is taken from it.
fn reconcile(settings: &Checked) -> Result<Vec<String>, Failure> {
    let slices = ask(settings, &GetSlices {})?.answer.slices;
    let owners = slices.into_iter().map(|slice| slice.owner).collect();
    let said = run_slurm("squeue", &["--noheader", "--states=all", "--format=%A %T"])?;
    let mut ended = Vec::new();
    for owner in surplus(owners, &said) {
        end(settings, &owner)?;
        ended.push(owner);
    }
    Ok(ended)
}

/// Owners of slices that are no job which holds nodes.
fn surplus(owners: Vec<String>, squeue: &str) -> Vec<String> {
    let holds = |line: &str| {
        let (job, state) = line.trim().split_once(' ')?;
        let has_nodes =
            ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING"]
                .contains(&state.trim());
        has_nodes.then(|| format!("slurm/{job}"))
    };
    let jobs: BTreeSet<String> = squeue.lines().filter_map(holds).collect();
    owners
        .into_iter()
        .filter(|owner| owner.starts_with("slurm/") && !jobs.contains(owner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slices_of_jobs_without_nodes_are_given_back() {
        let owners = ["slurm/1", "slurm/2", "slurm/3", "slurm/4", "pbs/5"];
        let owners = owners.map(str::to_owned).into();
        let squeue = "1 RUNNING\n2 COMPLETED\n3 COMPLETING\n6 PENDING\n";
        let found = surplus(owners, squeue);
        assert_eq!(found, ["slurm/2", "slurm/4"]);
    }
}
