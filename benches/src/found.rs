//! What connections can be granted on the tables of another manager: OpenSM's engines at LMC 0 to 5, on ibsim.
//!
//! Each figure is the share of the connections of random permutations that get links of their own in one window,
//! on the tables that OpenSM wrote, beside that on snin-sm's own tables at the same LMC. A connection within a
//! leaf needs no link, so no share is 0.

use std::io::Write as _;

use snin_controller_core::plan::{plan_on_found, plan_window};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing, TreeChoices};
use snin_fabric::traffic::{Pattern, Shape};
use snin_fabric::{Lmc, Topology, dump, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator, ibnetdiscover, shared};

use crate::{Hash, Outcome, Size};

const ENGINES: [&str; 4] = ["minhop", "updn", "ftree", "dfsssp"];
const DGX: &str = "topologies/dgx-gb200-2025.ibnetdiscover";
const FULL: [&str; 4] = ["clos:16,8,8", "fattree:8", DGX, "clos:36,18,18"];

/// Percent of connections, by fabric, engine and LMC. An engine that refuses a fabric has no line.
///
/// # Panics
/// Where OpenSM or ibsim is missing or fails.
pub fn run(size: Size) -> Vec<Outcome> {
    let (fabrics, lmcs, permutations) = match size {
        Size::Full => (&FULL[..], 0..=5, 20),
        Size::Small => (&["clos:4,4,2"][..], 1..=2, 2),
    };
    let mut outcomes = Vec::new();
    for name in fabrics {
        let Some(topology) = fabric(name) else { continue };
        for engine in ENGINES {
            for lmc in lmcs.clone().filter_map(Lmc::new) {
                let outcome = match found(&topology, engine, lmc) {
                    Ok(Some(found)) => share(name, engine, lmc, &found, permutations),
                    // It has no line in the table.
                    Ok(None) => continue,
                    Err(error) => {
                        told(&format!("{name} {engine} LMC {lmc}: {error}"));
                        assert_eq!(size, Size::Full, "{error}");
                        continue;
                    }
                };
                told(&format!("{}: {:.1} %", outcome.case, outcome.ours));
                outcomes.push(outcome);
            }
        }
    }
    outcomes
}

/// A line for who waits.
fn told(line: &str) {
    // Who does not look needs no line.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `None`: it is among what this machine has not.
fn fabric(name: &str) -> Option<Topology> {
    if name == DGX {
        return ibnet::parse(&shared(DGX)?.1).ok();
    }
    Some(name.parse::<Recipe>().expect("a recipe").build().expect("a fabric"))
}

/// The fabric with OpenSM's addresses, and its tables; `None` where the engine refuses.
fn found(
    topology: &Topology,
    engine: &str,
    lmc: Lmc,
) -> Result<Option<(Topology, Routing)>, JudgeError> {
    let netlist = ibnet::write(topology);
    let simulator = Simulator::start(&netlist)?;
    // Alone, an engine that refuses the fabric would be tried for ever.
    let named = format!("{engine},minhop");
    // On a switch OpenSM waits for ever for an answer of its own.
    let host = netlist.lines().find(|line| line.starts_with("Ca"));
    let host = host.and_then(|line| line.split('"').nth(1));
    let opensm = OpenSm { host, lmc: lmc.bits(), engine: Some(&named), ..OpenSm::default() };
    let up = opensm.bring_up(&simulator)?;
    if !up.log.contains(&format!("{engine} tables configured on all switches")) {
        return Ok(None);
    }
    let found = ibnet::parse(&ibnetdiscover(&simulator)?).expect("ibnetdiscover's own text");
    let tables = dump::lfts::parse(&up.tables, &found).expect("OpenSM's own dump");
    let routing = Routing::found(&found, tables).expect("addresses that OpenSM gave");
    Ok(Some((found, routing)))
}

fn share(
    name: &str,
    engine: &str,
    lmc: Lmc,
    (topology, routing): &(Topology, Routing),
    permutations: u64,
) -> Outcome {
    let (choices, _) = TreeChoices::of(topology, routing, 0);
    let own = Routing::compute(topology, Engine::Trees, Some(lmc));
    let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
    let shape = Shape { leaf_of: &leaf_of, uplinks: 1 };
    let (mut hash, mut sum, mut theirs, mut all) = (Hash::default(), 0, 0, 0);
    for seed in 0..permutations {
        let demands = Pattern::Permutation.generate(shape, seed).expect("a permutation");
        all += demands.len();
        let plan = plan_on_found(topology, routing, &choices, &demands);
        plan.grants.iter().for_each(|grant| hash.number(u64::from(grant.dlid.0.0)));
        sum += plan.grants.len();
        let granted = |own: &Routing| plan_window(topology, own, &demands).grants.len();
        theirs += own.as_ref().map_or(0, granted);
    }
    let percent = |count: usize| 100.0 * count as f64 / all.max(1) as f64;
    Outcome {
        bench: "found",
        case: format!("{name} {engine} LMC {lmc}"),
        unit: "%",
        ours: percent(sum),
        peer: percent(theirs),
        peer_name: "snin-sm's tables".to_owned(),
        paired: None,
        hash: hash.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small() {
        let outcomes = run(Size::Small);
        // ftree of OpenSM 3.3.23 routes at LMC 0 only.
        assert_eq!(outcomes.len(), 6, "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome.ours <= 100.0 && outcome.ours > 20.0));
    }
}
