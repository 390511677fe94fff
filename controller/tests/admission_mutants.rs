//! Are the tests of admission any good? Bugs are planted in a copy of the crate, one at a time, and the
//! tests must fail. `cargo test -p snin-controller --test admission_mutants -- --ignored` takes minutes.

mod mutants;

use mutants::{Mutant, assert_can_be_planted, survivors};

const MUTANTS: [Mutant; 20] = [
    // The busiest lanes.
    ("admission/cover.rs", "== greatest;", "== greatest && lane != 1;"),
    ("admission/cover.rs", "for side in Side::BOTH", "for side in [Side::Sends]"),
    ("admission/cover.rs", "< self.greatest", "<= self.greatest"),
    ("admission/cover.rs", "if before == NONE", "if before != id"),
    ("admission/cover.rs", "*seen == room.search ||", "*seen != 0 ||"),
    ("admission/cover.rs", "> self.goal.until", "> self.goal.until + 1"),
    // The oldest first.
    (
        "admission/fill.rs",
        "table.arrival(id) < table.arrival(held)",
        "table.arrival(id) > table.arrival(held)",
    ),
    ("admission/fill.rs", "matching.free(Side::Sends, lane);", ""),
    (
        "admission/turn.rs",
        "Lap::UpToStart => self.up_to_start(next)",
        "Lap::UpToStart => self.up_to_start(self.start)",
    ),
    // Those that have waited too long.
    ("admission.rs", "if oldest != NONE && self", "if oldest == NONE && self"),
    ("admission.rs", ">= self.overdue_after", "> self.overdue_after"),
    (
        "admission.rs",
        "let until = window.saturating_sub(self.overdue_after);",
        "let until = oldest;",
    ),
    ("admission/table.rs", "if self.cohort == oldest", "if self.cohort.is_some()"),
    // Counting.
    ("admission/table.rs", "self.count(id, |degree| *degree -= 1);", ""),
    ("admission/table.rs", "self.count(id, |degree| *degree -= left);", "let _ = left;"),
    ("admission.rs", "*cursor = self.table.next(side, id);", "*cursor += 0;"),
    // Rates.
    ("admission/matching.rs", ">= rate)", "> 0)"),
    ("admission/matching.rs", "-= links.unit();", "-= 0;"),
    ("admission/matching.rs", "for _ in room..count", "for _ in count..count"),
    (
        "admission.rs",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize])",
        "lanes.min_by_key(|&lane| self.table.degrees(side)[lane as usize] * 0)",
    ),
];

#[test]
fn every_bug_can_be_planted() {
    assert_can_be_planted(&MUTANTS);
}

#[test]
#[ignore = "compiles the crate once a bug"]
fn every_planted_bug_is_found() {
    assert_eq!(survivors(&["admission"], &MUTANTS), [], "nobody noticed");
}
