//! A switch taken away and put back: snin-sm beside OpenSM, both as processes on the same fabric, which ibsim
//! simulates. Each run is on a fabric that was just switched on. `snin study reconfiguration` has the same
//! change in virtual time.

use snin_fabric::generate::Recipe;
use snin_fabric::{NodeIndex, Topology};
use snin_lab::reconfiguration::{irregular, removable};

use crate::sm::{Case, cut};
use crate::{Outcome, Size};

/// Milliseconds to the last table and until the fabric is up, and SMPs, each beside OpenSM's.
///
/// # Panics
/// Where a program is missing, or does not mend the fabric.
pub fn run(size: Size) -> Vec<Outcome> {
    let (clos, switches, runs) = match size {
        Size::Small => ("clos:6,3,3", 12, 1),
        Size::Full => ("clos:36,18,18", 200, 5),
    };
    let recipe = clos.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
    let random = irregular(switches, 1).expect("a fabric");
    let fabrics = [(clos.to_owned(), recipe), (format!("{switches} random switches"), random)];
    let mut outcomes = Vec::new();
    for (name, topology) in fabrics {
        let switch = a_switch(&topology);
        let piece = cut::Piece::switch(&topology, switch);
        let case = Case::of("reconfiguration", &name, topology, 0, runs);
        let measured = cut::run(&case, &piece, case.runs);
        outcomes.extend(measured.unwrap_or_else(|error| panic!("{name}: {error}")));
    }
    outcomes
}

/// Both managers sit on the fabric's first switch. Of the others that can go, the last with the most cables to
/// switches and no host; where all have hosts, with the most cables.
fn a_switch(topology: &Topology) -> NodeIndex {
    let home = topology.switches().next().expect("a switch");
    let rank = |&switch: &NodeIndex| {
        let links = topology.switch_links(switch).count();
        (links == topology.cables(switch).count(), links)
    };
    removable(topology, home).into_iter().max_by_key(rank).expect("a switch that can go")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On both fabrics, away and back.
    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        assert_eq!(outcomes.len(), 2 * 2 * 3);
        for one in &outcomes {
            assert!(one.ours > 0.0 && one.peer > 0.0, "{one:?}");
        }
        // OpenSM asks everything anew.
        let asked = |one: &&Outcome| one.unit == "SMPs";
        assert!(outcomes.iter().filter(asked).all(|one| one.ours < one.peer), "{outcomes:?}");
    }
}
