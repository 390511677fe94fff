use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::generate::Recipe;
use crate::routing::{Engine, Routing};

/// Hosts on equal leaves of `per_leaf`, with as many uplinks.
fn generate(pattern: Pattern, hosts: u32, per_leaf: u32, seed: u64) -> Vec<Demand> {
    let leaf_of: Vec<u32> = (0..hosts).map(|host| host / per_leaf).collect();
    pattern.generate(Shape { leaf_of: &leaf_of, uplinks: per_leaf }, seed).unwrap()
}

fn pairs(pattern: Pattern, hosts: u32) -> Vec<(u32, u32)> {
    let demands = generate(pattern, hosts, 4, 1);
    demands.iter().map(|demand| (demand.source.0, demand.destination.0)).collect()
}

#[test]
fn every_listed_name_is_read_and_written() {
    for Listed { name, meaning, .. } in Pattern::LIST {
        let name = name.replace('K', "3");
        assert_eq!(name.parse::<Pattern>().unwrap().to_string(), name);
        assert!(!meaning.is_empty());
    }
    for bad in ["shift", "shift:", "shift:x", "shift:-1", "shift3"] {
        assert_eq!(bad.parse::<Pattern>(), Err(PatternError::Shift(bad.to_owned())));
    }
    let error = "hypercube".parse::<Pattern>().unwrap_err();
    assert!(error.to_string().starts_with("`hypercube` is no pattern (expected permutation, sh"));
}

#[test]
fn degrees_are_as_listed() {
    for Listed { name, degree, .. } in Pattern::LIST {
        // 36 hosts: 6 x 6, 4 x 3 x 3.
        let demands = generate(name.replace('K', "5").parse().unwrap(), 36, 6, 1);
        let most = |end: fn(&Demand) -> u32| {
            let mut count = BTreeMap::new();
            demands.iter().for_each(|demand| *count.entry(end(demand)).or_insert(0) += 1);
            count.into_values().max().unwrap_or(0)
        };
        let found = most(|demand| demand.source.0).max(most(|demand| demand.destination.0));
        let listed = if *degree == "hosts - 1" { 35 } else { degree.parse().unwrap() };
        assert_eq!(found, listed, "{name}");
    }
}

#[test]
fn fixed_patterns_are_what_their_names_say() {
    assert_eq!(pairs(Pattern::Shift(3), 5), [(0, 3), (1, 4), (2, 0), (3, 1), (4, 2)]);
    assert_eq!(pairs(Pattern::Shift(10), 5), []);
    assert_eq!(pairs(Pattern::Shift(u64::MAX), 2), [(0, 1), (1, 0)]);
    assert_eq!(pairs(Pattern::Ring, 3), [(0, 1), (1, 2), (2, 0)]);
    // Ten hosts: a square of nine.
    assert_eq!(pairs(Pattern::Transpose, 10), [(1, 3), (2, 6), (3, 1), (5, 7), (6, 2), (7, 5)]);
    // Nine hosts: three bits.
    assert_eq!(pairs(Pattern::BitReverse, 9), [(1, 4), (3, 6), (4, 1), (6, 3)]);
    assert_eq!(pairs(Pattern::Incast, 4), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(pairs(Pattern::AllToAll, 3), [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
    // 3 x 2: left and right are one host.
    let mut of_host_0 = pairs(Pattern::Stencil2d, 6);
    of_host_0.truncate(3);
    assert_eq!(of_host_0, [(0, 1), (0, 4), (0, 2)]);
}

#[test]
fn grids_are_as_near_to_cubes_as_can_be() {
    assert_eq!(factors::<2>(648), [27, 24]);
    assert_eq!(factors::<3>(648), [9, 9, 8]);
    assert_eq!(factors::<3>(11_664), [27, 24, 18]);
    assert_eq!(factors::<2>(13), [13, 1]);
    assert_eq!(factors::<3>(1), [1, 1, 1]);
    assert_eq!(factors::<3>(0), [0, 0, 0]);
}

#[test]
fn one_seed_makes_one_pattern() {
    for pattern in [Pattern::Permutation, Pattern::Bisection] {
        assert_eq!(generate(pattern, 100, 10, 7), generate(pattern, 100, 10, 7));
        assert_ne!(generate(pattern, 100, 10, 7), generate(pattern, 100, 10, 8));
    }
    // What a seed means never changes: plans and reports name it.
    let to: Vec<u32> =
        generate(Pattern::Permutation, 12, 4, 1).iter().map(|d| d.destination.0).collect();
    assert_eq!(to, [3, 8, 5, 2, 7, 9, 11, 0, 4, 1, 6, 10]);
}

#[test]
fn the_adversary_fills_one_uplink_of_each_leaf() {
    let (leaves, per_leaf) = (36, 18);
    let demands = generate(Pattern::Adversarial, leaves * per_leaf, per_leaf, 0);
    for leaf in demands.chunks(per_leaf as usize) {
        let remainder = leaf[0].destination.0 % per_leaf;
        for demand in leaf {
            assert_eq!(demand.destination.0 % per_leaf, remainder);
            assert_ne!(demand.destination.0 / per_leaf, demand.source.0 / per_leaf);
        }
    }
}

#[test]
fn d_mod_k_falls_for_the_adversary() {
    let topology = "clos:6,4,4".parse::<Recipe>().unwrap().build().unwrap();
    let routing = Routing::compute(&topology, Engine::DModK, None).unwrap();
    let host = |id| routing.hosts.get(id).unwrap();
    let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
    let shape = Shape { leaf_of: &leaf_of, uplinks: 4 };
    let mut used = BTreeMap::<_, BTreeSet<_>>::new();
    for demand in Pattern::Adversarial.generate(shape, 0).unwrap() {
        let leaf = host(demand.source).switch;
        let lid = routing.plan.addresses().base(host(demand.destination).port).unwrap();
        used.entry(leaf).or_default().insert(routing.tables[leaf.index()].get(lid));
    }
    // A remainder has six hosts and a leaf four: a third of the leaves are dealt two remainders.
    let uplinks: Vec<usize> = used.values().map(BTreeSet::len).collect();
    assert_eq!(uplinks, [1, 2, 1, 1, 2, 1]);
}

#[test]
fn too_much_is_refused_with_numbers() {
    let leaf_of = vec![0; 11_664];
    let error = Pattern::AllToAll.generate(Shape { leaf_of: &leaf_of, uplinks: 18 }, 0);
    let text = error.unwrap_err().to_string();
    assert_eq!(text, "`alltoall` of 11664 hosts has 136037232 demands (16777216 are possible)");
}

proptest! {
    #[test]
    fn permutations_send_and_receive_once(hosts in 2_u32..200, per_leaf in 1_u32..20, seed: u64) {
        for pattern in [Pattern::Permutation, Pattern::Adversarial, Pattern::Bisection] {
            let demands = generate(pattern, hosts, per_leaf, seed);
            let silent = if pattern == Pattern::Bisection { hosts % 2 } else { 0 };
            prop_assert_eq!(demands.len() as u32, hosts - silent);
            let mut to: Vec<u32> = demands.iter().map(|demand| demand.destination.0).collect();
            to.sort_unstable();
            to.dedup();
            prop_assert_eq!(to.len(), demands.len());
            if pattern == Pattern::Bisection {
                for d in &demands {
                    prop_assert!(demands.contains(&Demand::new(d.destination.0, d.source.0)));
                }
            }
        }
    }

    #[test]
    fn no_pattern_names_a_stranger_or_oneself(hosts in 0_u32..70, k: u64, seed: u64) {
        for Listed { name, .. } in Pattern::LIST {
            let pattern = name.replace('K', &k.to_string()).parse::<Pattern>().unwrap();
            for demand in generate(pattern, hosts, 4, seed) {
                prop_assert!(demand.source.0 < hosts && demand.destination.0 < hosts);
                prop_assert_ne!(demand.source, demand.destination);
            }
        }
    }

    #[test]
    fn stencils_are_mutual(hosts in 1_u32..120) {
        for pattern in [Pattern::Stencil2d, Pattern::Stencil3d] {
            let demands = generate(pattern, hosts, 4, 0);
            for demand in &demands {
                let back = Demand::new(demand.destination.0, demand.source.0);
                prop_assert_eq!(demands.iter().filter(|&d| *d == back).count(), 1);
            }
        }
    }
}
