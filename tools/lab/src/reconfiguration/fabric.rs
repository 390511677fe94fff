//! The fabrics of the study: random irregular ones of 4-port switches, and the seed's Clos.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::generate::{Rates, Recipe, RecipeError};
use snin_fabric::topology::{Handle, TopologyBuilder, TopologyError};
use snin_fabric::{Guid, LinkRate, NodeIndex, NodeKind, PortNum, Speed, Topology, Width};

/// Ports of every switch.
pub const PORTS: u8 = 4;
/// Cables between switches, for every two switches: a switch has three on average, as many have all four in use.
const CABLES_OF_TWO: usize = 3;
/// How often another pair is drawn where one has no port free or is cabled already.
const DRAWS: usize = 64;

/// A random irregular fabric: switches in one part, no two cables between the same two, a host on every switch
/// that has a port free. Not all ports have a cable. The same numbers give the same fabric.
///
/// # Errors
/// More switches than a topology can have.
pub fn irregular(switches: u32, seed: u64) -> Result<Topology, TopologyError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = switches as usize;
    let mut cables: Vec<(usize, usize)> = Vec::new();
    let mut used = vec![0; count];
    let mut join = |a: usize, b: usize, used: &mut Vec<u8>| {
        cables.push((a, b));
        used[a] += 1;
        used[b] += 1;
    };
    // A random tree first, so that there is one part.
    for new in 1..count {
        let free: Vec<usize> = (0..new).filter(|&old| used[old] < PORTS).collect();
        if let Some(&old) = free.choose(&mut random) {
            join(old, new, &mut used);
        }
    }
    let mut pairs: std::collections::BTreeSet<(usize, usize)> = cables.iter().copied().collect();
    let wanted = count * CABLES_OF_TWO / 2;
    for _ in 0..wanted * DRAWS {
        if pairs.len() >= wanted || count < 3 {
            break;
        }
        let (a, b) = (random.random_range(0..count), random.random_range(0..count));
        let pair = (a.min(b), a.max(b));
        if a != b && used[a] < PORTS && used[b] < PORTS && pairs.insert(pair) {
            used[a] += 1;
            used[b] += 1;
        }
    }
    build(count, &pairs.into_iter().collect::<Vec<_>>())
}

fn build(switches: usize, cables: &[(usize, usize)]) -> Result<Topology, TopologyError> {
    let mut builder = TopologyBuilder::new();
    let mut next = vec![1; switches];
    let mut handles = Vec::with_capacity(switches);
    for number in 0..switches {
        let guid = Guid(0x0200_0100_0000_0000 | (number as u64) << 8);
        handles.push(builder.add(
            NodeKind::Switch,
            guid,
            PORTS.into(),
            &format!("switch{number}"),
        )?);
    }
    let plug = |builder: &mut TopologyBuilder, ends: [(Handle, u8); 2]| {
        let ends = ends.map(|(handle, port)| (handle, PortNum(port)));
        for (handle, port) in ends {
            builder.set_rate(handle, port, single())?;
        }
        builder.cable(ends[0], ends[1])
    };
    for &(a, b) in cables {
        plug(&mut builder, [(handles[a], next[a]), (handles[b], next[b])])?;
        next[a] += 1;
        next[b] += 1;
    }
    for number in (0..switches).filter(|&number| next[number] <= PORTS) {
        let guid = Guid(0x0200_1000_0000_0000 | (number as u64) << 8);
        let host = builder.add(NodeKind::Adapter, guid, 1, &format!("host{number}"))?;
        plug(&mut builder, [(handles[number], next[number]), (host, 1)])?;
    }
    builder.build()
}

/// 1X at 2.5 Gbit/s, 2 Gbit/s of data.
fn single() -> LinkRate {
    let width = Width::new(1).unwrap_or(Width::X4);
    LinkRate { width, speed: Speed::Sdr }
}

/// The seed's Clos: 4 leaves with a host each, 3 spines.
///
/// # Errors
/// None: the recipe is one that can be built.
pub fn clos() -> Result<Topology, RecipeError> {
    Recipe::Clos { leaves: 4, spines: 3, hosts: 1, planes: 1, rates: Rates::NDR4 }.build()
}

/// The switches that may be taken away: not the manager's own, and none without which the others are no longer
/// one part.
pub fn removable(topology: &Topology, home: NodeIndex) -> Vec<NodeIndex> {
    let stays_whole = |gone: NodeIndex| {
        let mut seen = vec![false; topology.switch_count()];
        seen[gone.index()] = true;
        let Some(first) = topology.switches().find(|&switch| switch != gone) else { return false };
        seen[first.index()] = true;
        let mut queue = vec![first];
        while let Some(switch) = queue.pop() {
            for (_, peer) in topology.switch_links(switch) {
                if !std::mem::replace(&mut seen[peer.index()], true) {
                    queue.push(peer);
                }
            }
        }
        seen.into_iter().all(|seen| seen)
    };
    topology.switches().filter(|&switch| switch != home && stays_whole(switch)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irregular_fabrics_are_one_part_and_differ_by_seed() {
        for switches in [8, 16, 24, 32, 64] {
            let mut hosts = 0;
            for seed in 1..=20 {
                let fabric = irregular(switches, seed).unwrap();
                assert_eq!(fabric.switch_count() as u32, switches);
                assert_eq!(irregular(switches, seed).unwrap(), fabric);
                assert_ne!(irregular(switches, seed + 1).unwrap(), fabric);
                hosts += fabric.node_count() - fabric.switch_count();
                let home = fabric.switches().next_back().unwrap();
                assert!(!removable(&fabric, home).contains(&home));
                assert!(!removable(&fabric, home).is_empty());
            }
            // The seed's fabric of 32 switches had 21 hosts.
            let share = f64::from(hosts as u32) / f64::from(20 * switches);
            assert!((0.55..0.9).contains(&share), "{switches} switches: {share}");
        }
    }

    #[test]
    fn the_clos_has_seven_switches_and_four_hosts() {
        let fabric = clos().unwrap();
        assert_eq!((fabric.switch_count(), fabric.node_count()), (7, 11));
        assert!(fabric.switches().all(|switch| fabric.node(switch).ports == PORTS));
    }
}
