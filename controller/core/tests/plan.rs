//! Whole windows on whole fabrics: demands in, and every grant's path judged by the independent checker.

use snin_controller_core::plan::{Plan, Refuse, Wait, plan_window};
use snin_fabric::check::owner::{PlannedPath, owner};
use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::hosts::HostId;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::{Demand, Pattern, Shape};
use snin_fabric::{Lmc, Topology, ibnet};
use snin_judges::shared;

fn generated(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

fn routed(topology: &Topology) -> Routing {
    Routing::compute(topology, Engine::Trees, None).unwrap()
}

fn permutation(routing: &Routing, seed: u64) -> Vec<Demand> {
    let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
    let shape = Shape { leaf_of: &leaf_of, uplinks: 1 };
    Pattern::Permutation.generate(shape, seed).unwrap()
}

/// Plans a window; everything is accounted for, and the checker agrees with every path.
fn planned(name: &str, topology: &Topology, routing: &Routing, demands: &[Demand]) -> Plan {
    let plan = plan_window(topology, routing, demands);
    let answered = plan.grants.len() + plan.deferred.len() + plan.refused.len();
    assert_eq!(answered, demands.len(), "{name}");
    assert!(plan.grants.len() <= plan.bound, "{name}");
    let port = |host: HostId| routing.hosts.get(host).unwrap().port;
    let paths: Vec<PlannedPath> = plan
        .grants
        .iter()
        .map(|grant| PlannedPath {
            source: port(demands[grant.demand].source),
            destination: port(demands[grant.demand].destination),
            dlid: grant.dlid.0,
            path: grant.path.iter().map(|hop| (hop.switch, hop.port)).collect(),
        })
        .collect();
    let report = owner(topology, routing.plan.addresses(), &routing.tables, &paths, 3);
    assert!(report.is_ok(), "{name}: {report}");
    assert!(report.max_link_load <= 1, "{name}: {report}");
    plan
}

#[test]
fn full_permutations_on_regular_fabrics_are_granted_whole() {
    for recipe in
        ["clos:2,1,1", "clos:4,4,4", "clos:6,3,6,2", "clos:36,18,18", "clos:8,12,7", "fattree:4"]
    {
        let topology = generated(recipe);
        let routing = routed(&topology);
        for seed in 0..20 {
            let demands = permutation(&routing, seed);
            let plan = planned(recipe, &topology, &routing, &demands);
            assert_eq!(plan.grants.len(), demands.len(), "{recipe}, seed {seed}");
            assert_eq!(plan.bound, demands.len(), "{recipe}");
        }
    }
    // Three stages with an address for each of 16, 36, 16 and 12 trees; in two, several aggregation switches of a
    // pod lead to the same cores.
    for (recipe, lmc) in
        [("fattree:8", 4), ("fattree:12,6", 6), ("pods:4,4,4,8,4,2", 5), ("pods:3,2,6,6,3,3", 5)]
    {
        let topology = generated(recipe);
        let routing = Routing::compute(&topology, Engine::Trees, Lmc::new(lmc)).unwrap();
        for seed in 0..5 {
            let demands = permutation(&routing, seed);
            let plan = planned(recipe, &topology, &routing, &demands);
            assert_eq!(plan.grants.len(), demands.len(), "{recipe}, seed {seed}");
        }
    }
}

/// Every pattern of the smallest fabrics: each host sends to any other or to none, and receives from one
/// at most.
#[test]
fn every_pattern_of_the_smallest_fabrics_is_granted_whole() {
    fn patterns(
        hosts: u32,
        sender: u32,
        demands: &mut Vec<Demand>,
        each: &mut dyn FnMut(&[Demand]),
    ) {
        if sender == hosts {
            return each(demands);
        }
        patterns(hosts, sender + 1, demands, each);
        for receiver in (0..hosts).filter(|&r| r != sender) {
            if demands.iter().all(|d| d.destination.0 != receiver) {
                demands.push(Demand::new(sender, receiver));
                patterns(hosts, sender + 1, demands, each);
                demands.pop();
            }
        }
    }
    for recipe in ["clos:2,2,2", "clos:3,2,2", "clos:2,3,3", "clos:3,1,2,2", "clos:5,1,1"] {
        let topology = generated(recipe);
        let routing = routed(&topology);
        let mut count = 0;
        patterns(routing.hosts.len() as u32, 0, &mut Vec::new(), &mut |demands| {
            let plan = plan_window(&topology, &routing, demands);
            assert_eq!(plan.grants.len(), demands.len(), "{recipe}: {demands:?}");
            if count % 17 == 0 {
                planned(recipe, &topology, &routing, demands);
            }
            count += 1;
        });
        assert!(count > 40, "{recipe}: {count} patterns");
    }
}

/// What is deferred above what leaf degrees force is at most 2 % of the pattern.
fn assert_near_bound(name: &str, plan: &Plan, demands: &[Demand]) {
    let above = plan.bound - plan.grants.len();
    assert!(above * 50 <= demands.len(), "{name}: {} of bound {}", plan.grants.len(), plan.bound);
    assert_eq!(plan.refused, [], "{name}");
}

#[test]
fn missing_cables_defer_what_leaf_degrees_force() {
    for cuts in [10, 60] {
        for seed in 0..5 {
            let topology = cut_cables(&generated("clos:36,18,18"), cuts, seed);
            let routing = routed(&topology);
            let demands = permutation(&routing, seed);
            let name = format!("{cuts} cuts, seed {seed}");
            let plan = planned(&name, &topology, &routing, &demands);
            assert_near_bound(&name, &plan, &demands);
        }
    }
}

#[test]
fn sixteen_addresses_for_thirty_two_trees_carry_nearly_everything() {
    let topology = generated("clos:64,32,32");
    let routing = routed(&topology);
    assert_eq!((routing.plan.lmc().addresses(), routing.forest.len()), (16, 32));
    for seed in 0..3 {
        let demands = permutation(&routing, seed);
        let plan = planned("64 x 32", &topology, &routing, &demands);
        assert!(plan.grants.len() * 100 > 99 * demands.len(), "{} granted", plan.grants.len());
    }
}

#[test]
fn three_stages_of_11_664_hosts_with_four_addresses_each_drain_in_four_windows() {
    let topology = generated("fattree:36");
    let routing = routed(&topology);
    assert_eq!((routing.plan.lmc().addresses(), routing.forest.len()), (4, 324));
    let mut demands = permutation(&routing, 1);
    let first = planned("fattree:36", &topology, &routing, &demands);
    assert!(first.grants.len() * 100 > 74 * demands.len(), "{} in the first", first.grants.len());
    for _ in 1..4 {
        let plan = planned("fattree:36", &topology, &routing, &demands);
        demands = plan.deferred.iter().map(|&(demand, _)| demands[demand]).collect();
    }
    assert_eq!(demands, []);
}

#[test]
fn busy_hosts_wait_and_impossible_demands_are_refused() {
    let topology = generated("clos:2,2,2");
    let routing = routed(&topology);
    let mut demands =
        vec![Demand::new(0, 2), Demand::new(0, 3), Demand::new(1, 2), Demand::new(1, 1)];
    demands.push(Demand { rate: Some(800_000_000_000), ..Demand::new(3, 0) });
    let plan = planned("busy", &topology, &routing, &demands);
    // Host 0 has two to send and host 2 two to receive: one connection serves both, and two windows do all.
    assert_eq!((plan.grants.len(), plan.grants[0].demand), (1, 0));
    assert!(
        plan.deferred
            .iter()
            .all(|(_, why)| matches!(why, Wait::SourceBusy | Wait::DestinationBusy))
    );
    assert_eq!(plan.refused[0], (3, Refuse::Itself));
    let text = plan.refused[1].1.to_string();
    assert!(text.contains("800000000000") && text.contains("400000000000"), "{text}");
}

#[test]
fn connections_within_a_leaf_use_no_tree() {
    let topology = generated("clos:2,2,2");
    let routing = routed(&topology);
    let plan = planned("leaf", &topology, &routing, &[Demand::new(0, 1)]);
    let grant = &plan.grants[0];
    let host = routing.hosts.get(HostId(1)).unwrap();
    assert_eq!((grant.tree.0, grant.path.len()), (0, 1));
    assert_eq!(Some(grant.dlid.0), routing.plan.addresses().base(host.port));
}

/// A generated fabric with one more host on each of the switches named.
fn with_hosts_on(recipe: &str, switches: &[&str]) -> Topology {
    let mut text = ibnet::write(&generated(recipe));
    for (n, name) in switches.iter().enumerate() {
        // One port more on the switch, and the host's own record at the end.
        let named = format!("# \"{name}\"");
        let is_header = |line: &&str| line.starts_with("Switch") && line.contains(&named);
        let header = text.lines().find(is_header).unwrap();
        let (word, rest) = header.split_once('\t').unwrap();
        let (ports, rest) = rest.split_once(' ').unwrap();
        let port = ports.parse::<u32>().unwrap() + 1;
        let id = rest.split('"').nth(1).unwrap().to_owned();
        let line =
            format!("{word}\t{port} {rest}\n[{port}]\t\"odd{n}\"[1]\t# \"odd{n}\" lid 0 4xNDR");
        let record = format!(
            "\nCa\t1 \"odd{n}\"\n[1]\t\"{id}\"[{port}]\t# lid 0 lmc 0 \"{name}\" lid 0 4xNDR\n"
        );
        text = text.replacen(header, &line, 1) + &record;
    }
    ibnet::parse(text.as_bytes()).unwrap()
}

#[test]
fn hosts_on_spines_and_cores_take_part() {
    for (recipe, odd) in
        [("clos:5,4,3", &["spine1", "spine3"][..]), ("fattree:8", &["core4", "agg2"])]
    {
        let topology = with_hosts_on(recipe, odd);
        let lmc = Lmc::new(4);
        let routing = Routing::compute(&topology, Engine::Trees, lmc).unwrap();
        assert!(routing.shape.is_ok(), "{recipe}");
        let clos = routing.shape.as_ref().unwrap();
        let off_leaf =
            |host: HostId| !clos.leaves.contains(&routing.hosts.get(host).unwrap().switch);
        let mut granted_off_leaf = 0;
        for seed in 0..30 {
            let demands = permutation(&routing, seed);
            let plan = planned(recipe, &topology, &routing, &demands);
            // A host on a core has one tree: on a full fabric that may be one too few.
            assert!(plan.deferred.len() * 50 <= demands.len(), "{recipe}, seed {seed}");
            // Two roots have no tree in common: what goes between them is refused, not deferred.
            for (demand, _) in &plan.refused {
                let Demand { source, destination, .. } = demands[*demand];
                assert!(off_leaf(source) && off_leaf(destination), "{recipe}, seed {seed}");
            }
            let off = |d: &Demand| off_leaf(d.source) || off_leaf(d.destination);
            granted_off_leaf += plan.grants.iter().filter(|g| off(&demands[g.demand])).count();
        }
        assert!(granted_off_leaf > 60, "{recipe}: {granted_off_leaf}");
    }
}

#[test]
fn static_routing_grants_what_its_only_paths_allow() {
    let topology = generated("clos:36,18,18");
    let trees = routed(&topology);
    let demands = permutation(&trees, 1);
    for engine in [Engine::MinHop, Engine::DModK] {
        let routing = Routing::compute(&topology, engine, None).unwrap();
        let plan = planned("static", &topology, &routing, &demands);
        let share = plan.grants.len() as f64 / demands.len() as f64;
        assert!((0.3..0.7).contains(&share), "{engine}: {share}");
        let taken = |(_, why): &(usize, Wait)| matches!(why, Wait::LinkTaken(_));
        assert!(plan.deferred.iter().all(taken));
    }
}

#[test]
fn the_real_dgx_fabric() {
    let Some((_, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return;
    };
    let topology = ibnet::parse(&text).unwrap();
    let routing = routed(&topology);
    let clos = routing.shape.as_ref().unwrap();
    assert_eq!((clos.leaves.len(), clos.roots.len(), clos.root_planes), (31, 9, 2));
    assert_eq!(routing.hosts.len(), 542);
    assert_eq!(routing.unreachable, []);
    for seed in 0..10 {
        let demands = permutation(&routing, seed);
        let name = format!("DGX, seed {seed}");
        let plan = planned(&name, &topology, &routing, &demands);
        assert_near_bound(&name, &plan, &demands);
    }
}
