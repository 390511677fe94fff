//! Are the tests of the packer any good? Bugs are planted in a copy of the crate, one at a time, and the
//! tests must fail. `make soak-packing` plants them all; it takes minutes.

mod mutants;

use mutants::{Mutant, assert_can_be_planted, survivors};

const MUTANTS: [Mutant; 20] = [
    // Free links.
    ("packing/matrix.rs", "free_down[down] ^= first;", ""),
    ("packing/matrix.rs", "free_up[last] = free;\n        edges", "edges"),
    ("packing/matrix.rs", "side.free.copy_from_slice(&self.links);", ""),
    ("packing/matrix.rs", "self.down.other[place + down] = NO_ROW;", ""),
    ("packing/state.rs", ".map(|(free, &allowed)| free & allowed)", ".map(|(free, _)| free)"),
    // Chains.
    ("packing/matrix.rs", "owners.swap(came_by, left_by);", ""),
    (
        "packing/matrix.rs",
        "let (mut row, mut came) = (row, side == Side::Down);",
        "let (mut row, mut came) = (row, true);",
    ),
    ("packing/chain.rs", "if (side == Side::Down) == even {", "if (side == Side::Down) != even {"),
    ("packing/chain.rs", "even ^= round;", ""),
    (
        "packing/chain.rs",
        "self.at_up == NO_ROW && is_free(matrix.free_down(down.into()), self.a)",
        "self.at_up == NO_ROW",
    ),
    ("packing/chain.rs", "ends, wanted, usize::MAX);", "ends, wanted, 1);"),
    (
        "packing/rearrange.rs",
        "let other = leaves.owner_up(row, from);\n            !state.get(other).pinned() && ",
        "let other = leaves.owner_up(row, from);\n            ",
    ),
    ("packing/state.rs", "self.bound += usize::from(c.is_bound());", ""),
    // Whole patterns.
    ("packing/cold.rs", "used |= *tree ^ NO_TREE;", ""),
    ("packing/cold.rs", "limits |= Self::limits(request);", ""),
    ("packing/cold.rs", "if all_plain && some_within {", "if false {"),
    // Three stages.
    ("packing/state.rs", "add(self.pods[group].owner_down(down, column));", ""),
    ("packing/rearrange.rs", "state.exchange_pods(group, chain);", ""),
    // What is taken back, and what is told.
    ("packing/state.rs", "self.set_tree(id, before);", ""),
    (
        "packing/mod.rs",
        "if self.state.is_packed(id.0) {\n            self.state.lift(id.0);\n        }",
        "let _ = id;",
    ),
];

#[test]
fn every_bug_can_be_planted() {
    assert_can_be_planted(&MUTANTS);
}

#[test]
#[ignore = "compiles the crate once a bug"]
fn every_planted_bug_is_found() {
    let tests = ["packing_moves", "packing_soak", "exhaustive", "promises"];
    assert_eq!(survivors(&tests, &MUTANTS), [], "nobody noticed");
}
