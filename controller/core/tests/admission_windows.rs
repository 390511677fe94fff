//! Window after window on whole fabrics: patterns are done in their degree where nothing is missing.

use snin_controller_core::plan::plan_window;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::{Demand, Pattern, Shape};

fn degree(demands: &[Demand], hosts: usize) -> usize {
    let most = |end: fn(&Demand) -> usize| {
        let mut count = vec![0; hosts];
        demands.iter().for_each(|demand| count[end(demand)] += 1);
        count.into_iter().max().unwrap_or(0)
    };
    most(|demand| demand.source.index()).max(most(|demand| demand.destination.index()))
}

#[test]
fn planned_patterns_are_done_in_their_degree() {
    for recipe in ["clos:6,4,4", "clos:3,4,2,2", "clos:12,6,6", "fattree:4"] {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
        let shape = Shape { leaf_of: &leaf_of, uplinks: 4 };
        for pattern in [
            Pattern::AllToAll,
            Pattern::Stencil2d,
            Pattern::Stencil3d,
            Pattern::Incast,
            Pattern::Permutation,
        ] {
            let mut demands = pattern.generate(shape, 3).unwrap();
            let windows = degree(&demands, leaf_of.len());
            for window in 0..windows {
                let plan = plan_window(&topology, &routing, &demands);
                assert!(!plan.grants.is_empty(), "{recipe} {pattern:?}: window {window}");
                demands = plan.deferred.iter().map(|&(demand, _)| demands[demand]).collect();
            }
            assert_eq!(demands, [], "{recipe} {pattern:?}: not in {windows} windows");
        }
    }
}
