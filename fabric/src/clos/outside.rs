//! Switches that hang on a Clos and are no part of it: a few more racks, a storage ring, an older cluster. What is
//! left without them is the Clos, and keeps its trees.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::recognise::CORE_HOST_SHARE;
use super::{Clos, Level};
use crate::hosts::Hosts;
use crate::{NodeIndex, PortIndex, Topology};

/// At least one host of so many is in the Clos.
const LEAST_HOSTS: usize = 2;
/// So many switches that each has cables to are a lot: who has more is not looked for in a corner.
const MOST_PEERS: usize = 16;
/// Cables that are followed to find the switches that alone join others to the rest.
const MOST_STEPS: usize = 5_000_000;

/// Spines of two stages that have hosts as leaves have, and cables to less than half of the leaves: switches that
/// hang below leaves, and took for spines only because of the side that they are on.
pub(super) fn misfits(topology: &Topology, hosts: &Hosts, clos: &Clos) -> Vec<NodeIndex> {
    let count = hosts.per_switch(topology);
    let fullest = clos.leaves.iter().map(|leaf| count[leaf.index()]).max().unwrap_or(0);
    let few = (fullest as f64 * CORE_HOST_SHARE) as usize;
    let is_one = |&root: &NodeIndex| {
        let peers: BTreeSet<NodeIndex> =
            topology.switch_links(root).map(|(_, peer)| peer).collect();
        count[root.index()] > few && peers.len() * 2 < clos.leaves.len()
    };
    if clos.stages() == 2 {
        clos.roots.iter().copied().filter(is_one).collect()
    } else {
        Vec::new()
    }
}

/// Sets of switches that may be outside, the likeliest first: what looks like a spine and is none, what hangs on
/// the rest by one switch, then what has cables to ever more switches. None has most of the hosts.
pub(super) fn candidates(
    topology: &Topology,
    hosts: &Hosts,
    misfits: &[NodeIndex],
) -> Vec<Vec<NodeIndex>> {
    let count = hosts.per_switch(topology);
    let rest = |taken: &[bool]| -> Option<Vec<bool>> {
        let main = main_part(topology, &count, taken)?;
        let has = |switch: &NodeIndex| main[switch.index()];
        let inside: usize = topology.switches().filter(has).map(|s| count[s.index()]).sum();
        (inside * LEAST_HOSTS >= hosts.len()).then_some(main)
    };
    let mut taken = vec![false; topology.switch_count()];
    misfits.iter().for_each(|switch| taken[switch.index()] = true);
    let mut found = vec![rest(&taken)];
    let behind = behind_one_switch(topology, &count, hosts.len());
    behind.iter().for_each(|switch| taken[switch.index()] = true);
    found.push(rest(&taken));
    for least in 2..=MOST_PEERS {
        peel(topology, least, &mut taken);
        found.push(rest(&taken));
    }
    let mut sets: Vec<Vec<NodeIndex>> = Vec::new();
    for main in found.into_iter().flatten() {
        let cabled = |switch: &NodeIndex| topology.cables(*switch).next().is_some();
        let outside = topology.switches().filter(|s| !main[s.index()]).filter(cabled);
        let outside: Vec<NodeIndex> = outside.collect();
        if !outside.is_empty() && sets.last() != Some(&outside) {
            sets.push(outside);
        }
    }
    sets
}

/// All cables of these switches, those to their hosts too.
pub(super) fn cables(topology: &Topology, outside: &[NodeIndex]) -> Vec<PortIndex> {
    outside.iter().flat_map(|&switch| topology.cables(switch)).map(|(port, _)| port).collect()
}

/// Their cables to switches.
pub(super) fn trunks(topology: &Topology, clos: &Clos) -> Vec<PortIndex> {
    let outside = || topology.switches().filter(|&switch| clos.level(switch) == Level::Outside);
    let trunk = |(_, peer): &(PortIndex, PortIndex)| topology.is_switch(topology.port(*peer).node);
    outside()
        .flat_map(|switch| topology.cables(switch))
        .filter(trunk)
        .map(|(port, _)| port)
        .collect()
}

/// The connected part with most hosts of what is not taken; of equal ones the first.
fn main_part(topology: &Topology, count: &[usize], taken: &[bool]) -> Option<Vec<bool>> {
    let mut seen = taken.to_vec();
    let mut parts: Vec<Vec<NodeIndex>> = Vec::new();
    for switch in topology.switches() {
        if !seen[switch.index()] {
            parts.push(part_of(topology, switch, &mut seen));
        }
    }
    let hosts = |part: &[NodeIndex]| -> usize { part.iter().map(|s| count[s.index()]).sum() };
    let part = parts.iter().max_by_key(|part| (hosts(part), Reverse(part[0])))?;
    let mut is_main = vec![false; topology.switch_count()];
    part.iter().for_each(|switch| is_main[switch.index()] = true);
    Some(is_main)
}

/// The switches that hang together with this one over switches that were not seen.
fn part_of(topology: &Topology, first: NodeIndex, seen: &mut [bool]) -> Vec<NodeIndex> {
    seen[first.index()] = true;
    let mut part = vec![first];
    let mut next = 0;
    while let Some(&switch) = part.get(next) {
        next += 1;
        for (_, peer) in topology.switch_links(switch) {
            if !std::mem::replace(&mut seen[peer.index()], true) {
                part.push(peer);
            }
        }
    }
    part
}

/// Switches that only one other switch joins to the part with most hosts, if that has at least half of all.
fn behind_one_switch(topology: &Topology, count: &[usize], hosts: usize) -> Vec<NodeIndex> {
    let ends: usize = topology.switches().map(|s| topology.switch_links(s).count()).sum();
    if ends.saturating_mul(topology.switch_count()) > MOST_STEPS {
        return Vec::new();
    }
    let mut behind = vec![false; topology.switch_count()];
    for alone in topology.switches().filter(|s| topology.switch_links(*s).count() > 1) {
        let mut taken = vec![false; topology.switch_count()];
        taken[alone.index()] = true;
        let Some(main) = main_part(topology, count, &taken) else { continue };
        let cut = topology.switches().filter(|&s| s != alone && !main[s.index()]);
        let cut: Vec<NodeIndex> = cut.collect();
        let cut_hosts: usize = cut.iter().map(|switch| count[switch.index()]).sum();
        if cut_hosts * LEAST_HOSTS <= hosts {
            cut.iter().for_each(|switch| behind[switch.index()] = true);
        }
    }
    topology.switches().filter(|switch| behind[switch.index()]).collect()
}

/// Takes switches with cables to fewer others than `least`, until each has as many that are not taken.
fn peel(topology: &Topology, least: usize, taken: &mut [bool]) {
    loop {
        let is_thin = |switch: &NodeIndex| {
            let peers = topology.switch_links(*switch).map(|(_, peer)| peer);
            let peers: BTreeSet<NodeIndex> = peers.filter(|peer| !taken[peer.index()]).collect();
            !taken[switch.index()] && peers.len() < least
        };
        let thin: Vec<NodeIndex> = topology.switches().filter(is_thin).collect();
        if thin.is_empty() {
            return;
        }
        thin.iter().for_each(|switch| taken[switch.index()] = true);
    }
}
