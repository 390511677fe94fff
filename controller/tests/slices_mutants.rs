//! Are the tests of slices any good? Bugs are planted in a copy of the crate, one at a time, and the
//! tests must fail. `cargo test -p snin-controller --test slices_mutants -- --ignored` takes minutes.

mod mutants;

use mutants::{Mutant, assert_can_be_planted, survivors};

const MUTANTS: [Mutant; 12] = [
    // What a job needs.
    ("slices/condition.rs", "count.min(all - count)", "count.min(all)"),
    ("slices/condition.rs", "missing_twice |= missing & !place.free;", ""),
    ("slices/condition.rs", "at_others & free & by_all", "at_others & by_all"),
    ("slices/condition.rs", "& !part, most - need)", "& !part, 0)"),
    ("slices/condition.rs", "count_ones() < most", "count_ones() <= most"),
    ("slices/assign.rs", "let by_all = pods.groups(None, groups);", "let by_all = groups;"),
    ("slices/assign.rs", "(by_all, by_all | ", "(by_all, by_all & "),
    // What is free.
    ("slices/layout.rs", "!reaches(l, group) || layout.is_usable(l, tree)", "reaches(l, group)"),
    ("slices.rs", "self.links.toggle_pod(pod, group, set)", "self.links.toggle_pod(pod, group, 0)"),
    ("slices.rs", "self.links.toggle_leaf(leaf, set)", "self.links.toggle_leaf(leaf, set & 1)"),
    // What is tried.
    ("slices/exhaust.rs", "if alike { taken }", "if !alike { taken }"),
    ("slices/exhaust.rs", "(0..=self.view.free(leaf)", "(1..=self.view.free(leaf)"),
];

#[test]
fn every_bug_can_be_planted() {
    assert_can_be_planted(&MUTANTS);
}

#[test]
#[ignore = "compiles the crate once a bug"]
fn every_planted_bug_is_found() {
    assert_eq!(survivors(&["slices"], &MUTANTS), [], "nobody noticed");
}
