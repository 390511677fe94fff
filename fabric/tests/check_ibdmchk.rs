//! Our checkers and ibdmchk, which shares nothing with them, say the same of good and of bad tables. ibdmchk
//! is right at one address a port only; beyond, the property tests of `check_credit` go on alone.

#[path = "support/ibdm.rs"]
mod ibdm;
#[path = "support/naive.rs"]
mod naive;

use std::path::Path;

use ibdm::Verdict;
use naive::{Subnet, any, build, clockwise, corrupt, cut, graph, ring};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use snin_fabric::Topology;
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::{credit, walk};

/// What both say; fails if they differ.
fn both_say(case: &str, subnet: &Subnet) -> Verdict {
    let Subnet { topology, addresses, tables } = subnet;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ibdmchk").join(case);
    let theirs = ibdm::ask(topology, addresses, tables, &folder);
    let walked = walk(topology, addresses, tables, 5);
    let credit = credit(topology, addresses, tables, Traffic::Hosts, |_, _| 0);
    let ours = Verdict {
        host_routes: walked.host_routes,
        lost: walked.host_routes_lost,
        credit_loop: (walked.host_routes_lost == 0).then_some(!credit.is_ok()),
    };
    assert_eq!(ours, theirs, "{case}: ours, theirs; {walked}\n{credit}");
    ours
}

/// A connected random graph: a random tree and some more cables.
fn random_graph(rng: &mut ChaCha8Rng) -> Topology {
    let switches = 7;
    let mut links: Vec<_> = (1..switches).map(|s| (rng.random_range(0..s), s)).collect();
    links.extend((0..4).map(|_| {
        let a = rng.random_range(0..switches);
        (a, (a + rng.random_range(1..switches)) % switches)
    }));
    graph(switches, 2, &links)
}

#[test]
fn whole_fabrics_are_good() {
    for recipe in ["clos:4,3,3", "clos:3,2,2,2", "fattree:4", "fattree:6,3"] {
        let subnet = Subnet::shortest(build(recipe), 0, |_, lid, choices| {
            choices[usize::from(lid.0) % choices.len()]
        });
        let verdict = both_say(&format!("whole-{recipe}"), &subnet);
        assert_eq!((verdict.lost, verdict.credit_loop), (0, Some(false)), "{recipe}");
    }
}

#[test]
fn rings_one_way_are_loops() {
    for switches in 3..9 {
        let verdict = both_say(&format!("ring-{switches}"), &clockwise(ring(switches, 2)));
        assert_eq!((verdict.lost, verdict.credit_loop), (0, Some(true)), "{switches}");
    }
}

#[test]
fn clos_fabrics_with_cut_cables() {
    let mut loops = [0, 0];
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // So few cables that shortest paths turn at leaves now and then.
        let topology = cut(&build("clos:6,3,2"), 7, &mut rng);
        if topology.switches().any(|switch| topology.switch_links(switch).next().is_none()) {
            continue;
        }
        let subnet = Subnet::shortest(topology, 0, any(&mut rng));
        if let Some(found) = both_say(&format!("cut-{seed}"), &subnet).credit_loop {
            loops[usize::from(found)] += 1;
        }
    }
    assert!(loops.iter().all(|&count| count >= 2), "good and bad: {loops:?}");
}

#[test]
fn graphs_of_any_shape() {
    let mut loops = [0, 0];
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let subnet = Subnet::shortest(random_graph(&mut rng), 0, any(&mut rng));
        let found = both_say(&format!("graph-{seed}"), &subnet).credit_loop.unwrap();
        loops[usize::from(found)] += 1;
    }
    assert!(loops.iter().all(|&count| count >= 2), "good and bad: {loops:?}");
}

#[test]
fn holes_loops_and_wrong_ports() {
    let mut lost = 0;
    for seed in 0..16 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let topology = match seed % 3 {
            0 => cut(&build("clos:5,4,3"), 3, &mut rng),
            1 => ring(6, 2),
            _ => random_graph(&mut rng),
        };
        let mut subnet = Subnet::shortest(topology, 0, any(&mut rng));
        corrupt(&mut subnet, 1 + seed as usize % 5, &mut rng);
        lost += u32::from(both_say(&format!("fault-{seed}"), &subnet).lost != 0);
    }
    assert!(lost >= 8, "{lost} of 16 cases lose routes");
}

#[test]
fn a_planted_loop_of_two_switches() {
    let mut subnet = Subnet::shortest(build("clos:3,2,2"), 0, |_, _, choices| choices[0]);
    let lid = subnet.lid(5);
    subnet.set("spine0", lid, 1);
    let verdict = both_say("loop", &subnet);
    // All of leaf0 and leaf1: leaf1 goes up to spine0 as well.
    assert_eq!(verdict.lost, 4);
}

#[test]
fn valleys_on_a_clos() {
    // leaf0 -> spine0 -> leaf1 -> spine1 -> leaf3 and leaf3 -> spine1 -> leaf2 -> spine0 -> leaf0.
    let mut subnet = Subnet::shortest(build("clos:4,2,1"), 0, |_, _, choices| choices[0]);
    for (switch, host, port) in [
        ("spine0", 3, 2),
        ("leaf1", 3, 3),
        ("leaf3", 0, 3),
        ("spine1", 0, 3),
        ("leaf2", 0, 2),
        ("leaf1", 2, 3),
    ] {
        let lid = subnet.lid(host);
        subnet.set(switch, lid, port);
    }
    let verdict = both_say("valleys", &subnet);
    assert_eq!((verdict.lost, verdict.credit_loop), (0, Some(true)));
}
