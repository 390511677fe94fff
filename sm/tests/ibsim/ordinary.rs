//! What programs that do not ask get, beside OpenSM's engines on the same netlist: pairs of hosts on the most
//! loaded link, at base addresses, counted on tables that infiniband-diags read back, by a walker of this file's.

use std::collections::BTreeMap;

use snin_fabric::generate::cut_cables;
use snin_fabric::hosts::Hosts;
use snin_fabric::{Lid, PortIndex, PortNum, Topology, dump, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover};

use crate::support::{Lab, fabric};

/// Loads of links between switches: the greatest, and the mean of those that are used.
struct Load {
    most: u64,
    mean: f64,
}

fn load(simulator: &Simulator) -> Result<Load, JudgeError> {
    let found = ibnet::parse(&ibnetdiscover(simulator)?).unwrap();
    let addresses = found.reported_addresses().unwrap();
    let tables = dump::lfts::parse(&dump_fts(simulator)?, &found).unwrap();
    let hosts: Vec<(PortIndex, Lid)> = Hosts::of(&found)
        .iter()
        .map(|(_, host)| (host.port, addresses.base(host.port).unwrap()))
        .collect();
    let mut load: BTreeMap<PortIndex, u64> = BTreeMap::new();
    for &(to, lid) in &hosts {
        for &(from, _) in hosts.iter().filter(|(from, _)| *from != to) {
            let mut at = found.peer(from).unwrap();
            for hop in 0.. {
                assert!(hop < 64, "LID {} is not reached", lid.0);
                let switch = found.port(at).node;
                let port = tables[switch.index()].get(lid);
                assert_ne!(port, PortNum::NONE, "LID {}", lid.0);
                let out = found.port_of(switch, port).unwrap();
                at = found.peer(out).unwrap();
                if at == to {
                    break;
                }
                *load.entry(out).or_default() += 1;
            }
        }
    }
    let sum: u64 = load.values().sum();
    let mean = sum as f64 / load.len().max(1) as f64;
    Ok(Load { most: load.values().copied().max().unwrap_or(0), mean })
}

/// Ours at the default LMC, then each engine's at LMC 0.
fn beside(topology: &Topology, engines: &[&str]) -> Result<(Load, Vec<Load>), JudgeError> {
    let lab = Lab::new(topology)?;
    lab.once(&[]);
    let ours = load(&lab.simulator)?;
    let mut theirs = Vec::new();
    for engine in engines {
        let simulator = Simulator::start(&ibnet::write(topology))?;
        OpenSm { engine: Some(engine), ..OpenSm::default() }.bring_up(&simulator)?;
        theirs.push(load(&simulator)?);
    }
    Ok((ours, theirs))
}

/// At most `part` hundredths of what the best of them has.
fn assert_not_worse(
    name: &str,
    topology: &Topology,
    engines: &[&str],
    part: u64,
) -> Result<(), JudgeError> {
    let (ours, theirs) = beside(topology, engines)?;
    let all: Vec<String> = engines
        .iter()
        .zip(&theirs)
        .map(|(engine, load)| format!("{engine} {} (mean {:.0})", load.most, load.mean))
        .collect();
    println!("{name}: ours {} (mean {:.0}); {}", ours.most, ours.mean, all.join(", "));
    let best = theirs.iter().map(|load| load.most).min().unwrap();
    assert!(
        ours.most * 100 <= best * part,
        "{name}: {} pairs on a link, {}",
        ours.most,
        all.join(", ")
    );
    Ok(())
}

#[test]
fn a_clos_is_as_evenly_loaded_as_opensms_best() -> Result<(), JudgeError> {
    assert_not_worse("clos:16,8,8", &fabric("clos:16,8,8"), &["minhop", "updn", "ftree"], 100)?;
    assert_not_worse("fattree:8", &fabric("fattree:8"), &["minhop", "updn", "ftree"], 100)?;
    // Two aggregation switches of each pod lead to the same cores.
    let shared = "pods:4,4,4,8,4,2";
    assert_not_worse(shared, &fabric(shared), &["minhop", "updn", "ftree"], 100)
}

#[test]
fn a_clos_of_648_hosts_has_630_pairs_a_link() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:36,18,18"))?;
    lab.once(&[]);
    assert_eq!(load(&lab.simulator)?.most, 630);
    Ok(())
}

/// Some cables are missing: what went along them is spread over those that are left. OpenSM weighs each link's
/// load while it routes; ours follow the trees where they can, which costs up to a sixth.
#[test]
fn a_clos_with_gaps_is_about_as_evenly_loaded_as_opensms_best() -> Result<(), JudgeError> {
    for (recipe, cut) in [("clos:16,8,8", 2), ("clos:16,8,8", 12), ("fattree:8", 12)] {
        let topology = cut_cables(&fabric(recipe), cut, 5);
        assert_not_worse(&format!("{recipe} less {cut}"), &topology, &["minhop", "updn"], 117)?;
    }
    Ok(())
}

/// Where there are no trees: beside the engines that close no credit loop with one lane.
#[test]
fn without_trees_links_are_no_more_loaded_than_opensms_best_without_loops() -> Result<(), JudgeError>
{
    for recipe in ["torus:6,6,2", "dragonfly:9,4,2", "random:40,6,2"] {
        assert_not_worse(recipe, &fabric(recipe), &["nue"], 100)?;
    }
    Ok(())
}
