//! The checkers on a fabric of 11,664 hosts with four addresses each: 78 million table entries.

#[path = "support/naive.rs"]
mod naive;

use naive::{Subnet, build};
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::tree::{CheckedTree, Stages};
use snin_fabric::check::{credit, trees, walk};
use snin_fabric::{Lid, NodeIndex, Topology};

const HALF: usize = 18;
const LEAVES: u32 = 648;
const AGGREGATION: u32 = 648;

/// Every address has a core; ever other ones, so that all are used.
fn core(lid: Lid) -> usize {
    (usize::from(lid.0) * 77) % (HALF * HALF)
}

fn fabric(topology: Topology) -> Subnet {
    Subnet::shortest(topology, 2, |switch, lid, choices| match choices {
        &[only] => only,
        choices if switch.0 < LEAVES => choices[core(lid) / HALF],
        choices => choices[core(lid) % HALF],
    })
}

#[test]
fn the_largest_fabric_is_checked() {
    let Subnet { topology, addresses, tables } = fabric(build("fattree:36"));

    let walked = walk(&topology, &addresses, &tables, 5);
    assert!(walked.is_ok(), "{walked}");
    assert_eq!(walked.host_routes, 11_664 * 11_663 * 4);
    assert_eq!(walked.hop_range(), Some((1, 5)));

    let credit = credit(&topology, &addresses, &tables, Traffic::Hosts, |_, _| 0);
    assert!(credit.is_ok(), "{credit}");
    // Every cable between switches, both ways.
    assert_eq!(credit.links, 2 * 2 * 648 * 18);

    let root = |tree| CheckedTree::new(NodeIndex(LEAVES + AGGREGATION + tree), 0);
    let all: Vec<_> = (0..(HALF * HALF) as u32).map(root).collect();
    let tree_of = |lid| Some(core(lid));
    let report = trees(&topology, &addresses, &tables, &all, Stages::Three, tree_of, 5);
    assert!(report.is_ok(), "{report}");
    assert_eq!((report.routes, report.no_cable), (11_664 * 4 * 647, 0));
}
