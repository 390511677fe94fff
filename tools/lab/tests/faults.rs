//! The whole system under faults: none breaks a promise, the same seed gives the same bytes, and what is planted
//! is found.
//!
//! `SNIN_FAULTS` says how many (1,000), `SNIN_SEED` from which seed.

use snin_fabric::generate::Recipe;
use snin_lab::faults::{FaultKind, Planted, Setup, Summary, run};

fn setup(seed: u64, faults: u32) -> Setup {
    let topology = "clos:4,3,2".parse::<Recipe>().unwrap().build().unwrap();
    let (managers, controllers) = (2, 2);
    Setup { seed, faults, topology, managers, controllers, planted: None, keeps_log: true }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn well(setup: Setup) -> Summary {
    let seed = setup.seed;
    let (summary, log) = run(setup, |_| {}).unwrap();
    let last = log[log.len().saturating_sub(30)..].join("\n");
    assert_eq!(summary.violation, None, "seed {seed}, {summary:?}\n{last}");
    summary
}

#[test]
fn no_fault_breaks_a_promise() {
    let faults = number("SNIN_FAULTS", 1_000) as u32;
    let summary = well(setup(number("SNIN_SEED", 1), faults));
    assert_eq!(summary.faults.values().sum::<u32>(), faults);
    assert_eq!(summary.faults.len(), FaultKind::ALL.len(), "every kind: {summary:?}");
    // It was a run worth judging.
    assert!(summary.pieces > 20 * u64::from(faults) && summary.lost > 0, "{summary:?}");
    assert!(summary.terms > 10 && summary.masters > 10 && summary.writes > 100, "{summary:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let runs = [5, 5, 6].map(|seed| {
        let (summary, log) = run(setup(seed, 100), |_| {}).unwrap();
        (summary.hash, format!("{summary:?}"), log)
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].0, runs[2].0);
}

/// Three managers and three controllers, on a fabric of another shape.
#[test]
fn more_of_them_do_as_well() {
    let topology = "clos:3,4,3".parse::<Recipe>().unwrap().build().unwrap();
    well(Setup { topology, managers: 3, controllers: 3, ..setup(2, 200) });
}

#[test]
fn what_is_planted_is_found() {
    for (planted, rules) in [
        (Planted::ConfirmsAtOnce, &["two owners of a link"][..]),
        (Planted::ClearAtOnce, &["two owners of a link"]),
        (Planted::ClockJumps, &["outside its grant"]),
    ] {
        let found = (1..=12).find_map(|seed| {
            let planted = Some(planted);
            let (summary, _) = run(Setup { planted, ..setup(seed, 300) }, |_| {}).unwrap();
            summary.violation.map(|violation| (seed, violation))
        });
        let (seed, violation) = found.unwrap_or_else(|| panic!("{planted:?} is not found"));
        assert!(rules.contains(&violation.rule), "{planted:?}, seed {seed}: {violation:?}");
    }
}
