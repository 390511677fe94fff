//! ibdmchk judges our tables at LMC 0, the only one it knows: every pair of hosts joined, no credit loop.

#[path = "support/ibdm.rs"]
mod ibdm;

use snin_fabric::generate::{Recipe, cut_cables};
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Lmc, Topology};

fn generated(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

fn accepted(name: &str, topology: &Topology, engine: Engine) {
    let routing = Routing::compute(topology, engine, Lmc::new(0)).unwrap();
    let folder = std::env::temp_dir().join(format!("snin-ibdmchk-{}-{name}", std::process::id()));
    let verdict = ibdm::ask(topology, routing.plan.addresses(), &routing.tables, &folder);
    std::fs::remove_dir_all(&folder).unwrap();
    let hosts = routing.hosts.len() as u64;
    assert_eq!(verdict.host_routes, hosts * (hosts - 1), "{name}: {verdict:?}");
    assert_eq!(verdict.lost, 0, "{name}: {verdict:?}");
    assert_eq!(verdict.credit_loop, Some(false), "{name}: {verdict:?}");
}

#[test]
fn ibdmchk_accepts_our_tables() {
    for recipe in ["clos:4,3,2,2", "clos:36,18,18", "fattree:8"] {
        accepted(&recipe.replace([':', ','], "-"), &generated(recipe), Engine::Trees);
    }
    accepted("dmodk", &generated("clos:8,4,4"), Engine::DModK);
}

#[test]
fn ibdmchk_accepts_our_tables_where_cables_are_missing() {
    for (recipe, cuts) in [("clos:36,18,18", 60), ("clos:6,4,3", 9), ("fattree:8,4", 12)] {
        let name = format!("{}-cut-{cuts}", recipe.replace([':', ','], "-"));
        accepted(&name, &cut_cables(&generated(recipe), cuts, 3), Engine::Trees);
    }
}
