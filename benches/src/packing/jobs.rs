//! Slices for a list of jobs, first come, first served: how much of the fabric is used until the last one
//! starts, and how long the searches take, those that fail among them.

use snin_controller_core::packing::{LeafId, Shape};
use snin_controller_core::slices::{JobId, Limits, Refusal, Room, Slices, generate, replay};

use super::{line, timed_on_core};
use crate::jobs::used;
use crate::{Outcome, Size};

/// What shall be used, in per cent, and how long a search may take at the 99th percentile, in us.
const USED: f64 = 96.0;
const SEARCH: f64 = 1000.0;

/// # Panics
/// Never: the fabric is made for it.
pub(super) fn run(size: Size) -> Vec<Outcome> {
    // Half the ports of a switch, as in `large`.
    let (half, count) = if size == Size::Full { (18, 10_000) } else { (4, 200) };
    let leaves = 2 * half * half;
    let pod_of_leaf = (0..leaves).map(|leaf| leaf / half).collect();
    let group_of_tree = (0..half * half).map(|tree| tree / half).collect();
    let shape = Shape::three_stage(pod_of_leaf, group_of_tree);
    let hosts = leaves * half;
    let leaf_of_host: Vec<LeafId> = (0..hosts).map(|host| LeafId(host / half)).collect();
    let slices =
        Slices::new(&shape, &leaf_of_host, Limits::default()).expect("a fabric for slices");
    let jobs = generate(count, 1, hosts);
    let mut timed = Timed { slices, times: Vec::new(), failed: Vec::new() };
    let replay = replay(&mut timed, &jobs);
    let (used, hash) = used(&replay, jobs.len());
    let held = |what: &str, unit, ours, goal| {
        let case = format!("{count} jobs on {hosts} hosts, {what}");
        line(case, unit, ours, (goal, "goal"), hash)
    };
    vec![
        held("used", "%", used, USED),
        held("search p99, time on a core", "us", p99(timed.times), SEARCH),
        held("failing search p99, time on a core", "us", p99(timed.failed), SEARCH),
    ]
}

/// Slices whose searches are timed, in us.
struct Timed {
    slices: Slices,
    times: Vec<f64>,
    failed: Vec<f64>,
}

impl Room for Timed {
    fn hosts(&self) -> usize {
        self.slices.hosts()
    }

    fn begin(&mut self, job: JobId, hosts: u32, _now: u64) -> Result<(), Refusal> {
        let (time, answer) = timed_on_core(|| self.slices.allocate(job, hosts).map(drop));
        self.times.push(time.as_secs_f64() * 1e6);
        if answer.is_err() {
            self.failed.push(time.as_secs_f64() * 1e6);
        }
        answer
    }

    fn end(&mut self, job: JobId, _now: u64) {
        self.slices.release(job);
    }
}

fn p99(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().unwrap_or(0.0)
}
