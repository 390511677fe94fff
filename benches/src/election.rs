//! Two managers and three members of etcd, as processes, on a fabric that ibsim simulates: how long it takes until
//! a cold fabric's master may enforce, until another does after that was blacklisted, and until there is a new
//! master after a kill.
//!
//! A consent is waited for as long as one that was given before may count (3 s), and a manager is dead after four
//! polls in silence (1 s): the *time-outs alone*.

use std::io::Write as _;
use std::time::Instant;

use snin_fabric::generate::Recipe;
use snin_fabric::ibnet;
use snin_judges::{Etcd, JudgeError, Simulator};
use snin_protocol::operator::manager::{GetCluster, GetStatus, State, Verdict};

use crate::failover::ours::Manager;
use crate::failover::{hosts, kill, number};
use crate::{Outcome, Size};

/// What is measured, and what of it are time-outs, in seconds.
const CASES: [(&str, f64); 3] = [
    ("cold to consented", 3.0),
    ("blacklisted to handed over", 3.0),
    ("killed to new master", 1.0),
];

/// Seconds: the median and the 99th percentile of each case, beside the time-outs alone.
///
/// # Panics
/// Where a program is missing, or no manager takes over.
pub fn run(size: Size) -> Vec<Outcome> {
    let (recipe, runs) = match size {
        Size::Small => ("clos:2,2,2", 1),
        Size::Full => ("clos:18,9,9", number("SNIN_RUNS", 100)),
    };
    let mut all: [Vec<f64>; 3] = Default::default();
    for run in 1..=runs {
        let one = measure(recipe).unwrap_or_else(|error| panic!("{recipe}: {error}"));
        if size == Size::Full {
            // It takes half an hour: what was measured is not lost with a run that fails.
            let _ = writeln!(std::io::stderr(), "{run} of {runs}: {one:.3?}");
        }
        all.iter_mut().zip(one).for_each(|(all, one)| all.push(one));
    }
    let mut lines = Vec::new();
    for ((case, peer), mut seconds) in CASES.into_iter().zip(all) {
        seconds.sort_by(f64::total_cmp);
        for (name, place) in [("p50", runs / 2), ("p99", runs * 99 / 100)] {
            lines.push(Outcome {
                bench: "election",
                case: format!("{recipe}, {runs} runs: {case}, {name}"),
                unit: "s",
                ours: seconds[place.min(runs - 1)],
                peer,
                peer_name: "the time-outs alone".to_owned(),
                paired: None,
                hash: 0,
            });
        }
    }
    lines
}

/// What the cluster's consent is to a manager.
fn verdict(manager: &Manager) -> Option<Verdict> {
    Some(manager.ask(&GetCluster {})?.verdict)
}

/// Seconds of each case, on a fabric of its own.
fn measure(recipe: &str) -> Result<[f64; 3], JudgeError> {
    let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let mut etcd = Etcd::new(simulator.folder(), 3, None)?;
    etcd.start()?;
    let names = hosts(&topology);
    let at = [&names[0], names.last().expect("hosts")];
    let start = |place: usize| {
        let text =
            format!("lmc = 0\nsm_priority = {}\ncluster = {:?}\n", 5 - place, etcd.address());
        Manager::begin(&simulator, at[place], place, &text)
    };
    let begin = Instant::now();
    let managers = [start(0)?, start(1)?];
    let is_consented =
        |manager: &Manager| verdict(manager) == Some(Verdict::Granted) && manager.is(State::Master);
    // On a busy machine the second may be the first to register.
    managers[0].until("one of both consented", |_| managers.iter().any(is_consented));
    let [first, second] = match is_consented(&managers[0]) {
        true => [&managers[0], &managers[1]],
        false => [&managers[1], &managers[0]],
    };
    let cold = begin.elapsed().as_secs_f64();

    second.until("registered", |manager| verdict(manager) == Some(Verdict::Other));
    let guid = first.ask(&GetStatus {}).expect("its status").port.guid;
    let begin = Instant::now();
    etcd.put(&format!("blacklist/{guid}"), "measured")?;
    second.until("consented", is_consented);
    let handed_over = begin.elapsed().as_secs_f64();

    etcd.delete(&format!("blacklist/{guid}"))?;
    first.until("standby", |manager| manager.is(State::Standby));
    let begin = Instant::now();
    kill(second.running.id());
    first.until("master", |manager| manager.is(State::Master));
    Ok([cold, handed_over, begin.elapsed().as_secs_f64()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        assert_eq!(outcomes.len(), 6);
        assert!(outcomes.iter().all(|outcome| outcome.ours > 0.0));
    }
}
