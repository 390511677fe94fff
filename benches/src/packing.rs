//! The packer against what else there is: whole patterns, insertions, fabrics with cables missing, jobs.
//!
//! Both sides of a comparison take turns in one process, a new pattern every turn, so that a machine which
//! is shared or changes its clock slows both. Every packing is checked here, outside of the time that counts.

mod certificate;
mod churn;
mod cold;
mod euler;
mod jobs;
mod large;
mod patterns;

use std::time::{Duration, Instant};

use crate::{Outcome, Size};

/// Everything that `make bench-packing` shows.
pub fn run(size: Size) -> Vec<Outcome> {
    let parts = [cold::run, large::run, churn::run, certificate::run, jobs::run];
    parts.into_iter().flat_map(|part| part(size)).collect()
}

/// How long something takes.
fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let begin = Instant::now();
    let value = std::hint::black_box(run());
    (begin.elapsed(), value)
}

/// How much of a core's time something takes: for what is shorter than a scheduler's turn, where one late
/// turn would be all that a percentile shows.
fn timed_on_core<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let begin = now();
    let value = std::hint::black_box(run());
    (now() - begin, value)
}

/// The middle one of some figures.
fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A result of this benchmark.
fn line(
    case: impl Into<String>,
    unit: &'static str,
    ours: f64,
    (peer, peer_name): (f64, &str),
    hash: u64,
) -> Outcome {
    let (case, peer_name) = (case.into(), peer_name.to_owned());
    Outcome { bench: "packing", case, unit, ours, peer, peer_name, paired: None, hash }
}

/// Millions a second.
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    #[test]
    fn small() {
        crate::assert_repeats(super::run);
    }
}
