//! Forwarding tables alone: shape, trees and addresses are there, every switch's table is computed whole.

use snin_fabric::clos::recognise;
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::Hosts;
use snin_fabric::routing::{AddressPlan, Forest, Ranks, fill_tables};
use snin_fabric::{ForwardingTable, Lmc};

use crate::{Hash, Outcome, Size, median};

/// Recipe, LMC, the goal in milliseconds.
const FULL: [(&str, u8, f64); 3] =
    [("clos:64,32,32", 4, 20.0), ("fattree:48", 0, 100.0), ("fattree:36", 2, 100.0)];
const SMALL: [(&str, u8, f64); 2] = [("clos:8,4,4", 2, 20.0), ("fattree:8", 0, 100.0)];

/// Milliseconds for all tables of a fabric, on one core.
///
/// # Panics
/// Never: the fabrics are generated.
pub fn run(size: Size) -> Vec<Outcome> {
    let (cases, runs) = if size == Size::Full { (&FULL[..], 9) } else { (&SMALL[..], 1) };
    cases.iter().map(|&(recipe, lmc, goal)| case(recipe, lmc, goal, runs)).collect()
}

fn case(recipe: &str, lmc: u8, goal: f64, runs: usize) -> Outcome {
    let recipe_text = recipe;
    let recipe: Recipe = recipe.parse().expect("a recipe");
    let topology = recipe.build().expect("a fabric");
    let hosts = Hosts::of(&topology);
    let clos = recognise(&topology, &hosts).expect("a Clos");
    let ranks = Ranks::of_clos(&topology, &clos);
    let forest = Forest::grow(&topology, &clos);
    let plan =
        AddressPlan::new(&topology, Some((&clos, &forest)), Lmc::new(lmc), 0).expect("it fits");
    let (time, (tables, _)) = median(runs, || fill_tables(&topology, &ranks, &forest, &plan));
    let entries: usize = tables.iter().map(|table| table.iter().count()).sum();
    Outcome {
        bench: "tables",
        case: format!("{recipe_text} LMC {lmc}: {} hosts, {entries} entries", hosts.len()),
        unit: "ms",
        ours: time.as_secs_f64() * 1e3,
        peer: goal,
        peer_name: "goal".to_owned(),
        paired: None,
        hash: hash(&tables),
    }
}

fn hash(tables: &[ForwardingTable]) -> u64 {
    let mut hash = Hash::default();
    tables.iter().for_each(|table| table.entries().for_each(|entry| hash.bytes(&[entry])));
    hash.0
}

#[cfg(test)]
mod tests {
    #[test]
    fn small() {
        crate::assert_repeats(super::run);
    }
}
