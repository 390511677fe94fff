//! Jobs: how much of a fabric a list of them uses through the controller, in virtual time; whether one notices
//! another beside it; and how long a job's hooks take while the controller's daemon knows 500 others.

mod hooks;
mod queue;
mod victim;

use snin_controller_core::slices::Replay;

use crate::{Hash, Outcome, Size};

/// All of it.
pub fn run(size: Size) -> Vec<Outcome> {
    [queue::run(size), victim::run(size), hooks::run(size)].concat()
}

/// A result of this benchmark.
fn line(case: String, unit: &'static str, ours: f64, goal: f64, hash: u64) -> Outcome {
    let peer_name = "goal".to_owned();
    Outcome { bench: "jobs", case, unit, ours, peer: goal, peer_name, paired: None, hash }
}

/// How much of the fabric a list of so many jobs used, in per cent, and a hash of when each started.
///
/// # Panics
/// Where one never started.
pub(crate) fn used(replay: &Replay, jobs: usize) -> (f64, u64) {
    assert_eq!(replay.started.len(), jobs, "no job is too large");
    let mut hash = Hash::default();
    for start in &replay.started {
        hash.number(start.job.id.0);
        hash.number(start.at);
    }
    (replay.utilisation().expect("they did not start at once") * 100.0, hash.0)
}

/// The smallest of some figures that this share of them does not exceed.
fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_unstable_by(f64::total_cmp);
    let rank = (figures.len() as f64 * share).ceil() as usize;
    figures.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use crate::Size;

    #[test]
    fn small() {
        let outcomes = super::run(Size::Small);
        let used = outcomes.iter().find(|outcome| outcome.unit == "%").expect("what was used");
        assert!(used.ours > 50.0, "{used:?}");
        assert_eq!(used.hash, super::queue::run(Size::Small)[0].hash, "same seed, same answers");
    }
}
