//! From cables to stages.

use std::collections::BTreeMap;

use super::irregular::most_common;
use super::{Clos, Level};
use super::{irregular, outside, stray};
use crate::hosts::Hosts;
use crate::{NodeIndex, Topology};

/// The least share of the cables of a complete Clos that have to be there for a fabric to be called one.
const LEAST_CABLED: f64 = 0.75;
/// In a three-stage Clos a core may carry a few hosts: at most this share of what the fullest leaf has.
pub(super) const CORE_HOST_SHARE: f64 = 0.25;

/// Why a fabric is no Clos.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotClos {
    /// The fabric has no host.
    #[error("no host hangs on any switch")]
    NoHosts,
    /// Hosts that are cabled to each other.
    #[error("hosts are cabled back to back, no switch is between them")]
    BackToBack,
    /// Parts that no cable joins.
    #[error("`{0}` and `{1}` are not connected")]
    Islands(String, String),
    /// A cable within a stage.
    #[error("`{0}` and `{1}` are cabled to each other, and other paths make them the same stage")]
    OddCycle(String, String),
    /// Too few cables to call it a Clos.
    #[error("only {present} of {pairs} pairs of {lower} and {upper} are cabled")]
    Sparse {
        /// Cabled pairs.
        present: usize,
        /// Pairs that a complete Clos cables.
        pairs: usize,
        /// The lower stage.
        lower: &'static str,
        /// The upper stage.
        upper: &'static str,
    },
    /// Three stages: a pod has more aggregation switches to a group of cores than most pods have.
    #[error(
        "`{0}` and `{1}`, of one pod, lead to the same cores, and other pods have fewer that do"
    )]
    SharedCores(String, String),
    /// Three stages: an aggregation switch without leaves.
    #[error("`{0}` has no leaf below it")]
    NoLeafBelow(String),
    /// One pod only, and switches above that reach only part of it.
    #[error("`{0}` has no host and reaches only {1} of {2} switches of the stage below")]
    PartialRoot(String, usize, usize),
    /// Hosts that routes of the form up-then-down do not join.
    #[error("no route up and then down joins hosts on `{0}` and `{1}`")]
    Unjoined(String, String),
    /// Each of these is a Clos, and cables between their upper switches join them.
    #[error(
        "it is {0} Clos that are joined: routed along trees within each, up and then down between them"
    )]
    Joined(usize),
}

/// Recognises two and three stages. A single switch is the smallest Clos: a leaf that needs no spine. Cables that
/// no Clos has are named and left to ordinary traffic, as long as they are few; a switch without any cable is
/// named and is in no stage. Switches that are in the way of a Clos which has most of the hosts are outside.
///
/// # Errors
/// Exactly why the fabric is neither.
pub fn recognise(topology: &Topology, hosts: &Hosts) -> Result<Clos, NotClos> {
    let whole = recognise_whole(topology, hosts);
    let misfits = |clos: &Clos, topology: &Topology| outside::misfits(topology, hosts, clos);
    let in_the_way = whole.as_ref().map(|clos| misfits(clos, topology)).unwrap_or_default();
    let may_be_part = match &whole {
        Ok(_) => !in_the_way.is_empty(),
        Err(reason) => {
            !matches!(reason, NotClos::NoHosts | NotClos::BackToBack | NotClos::Islands(..))
        }
    };
    if may_be_part {
        for outside in outside::candidates(topology, hosts, &in_the_way) {
            let rest = topology.without_cables(&outside::cables(topology, &outside));
            let part = recognise_whole(&rest, &Hosts::of(&rest));
            let part = part.ok().filter(|clos| !clos.roots.is_empty());
            if let Some(mut clos) = part.filter(|clos| misfits(clos, &rest).is_empty()) {
                for &switch in &outside {
                    clos.level[switch.index()] = Level::Outside;
                    (clos.pod[switch.index()], clos.group[switch.index()]) = (0, 0);
                }
                return Ok(named(topology, hosts, Clos { outside, ..clos }));
            }
        }
    }
    whole.map(|clos| named(topology, hosts, clos))
}

/// With everything that is not as it would be in a regular fabric.
fn named(topology: &Topology, hosts: &Hosts, clos: Clos) -> Clos {
    let apart = [clos.strays.clone(), outside::trunks(topology, &clos)].concat();
    let regular = topology.without_cables(&apart);
    Clos { irregularities: irregular::list(topology, &regular, hosts, &clos), ..clos }
}

fn recognise_whole(topology: &Topology, hosts: &Hosts) -> Result<Clos, NotClos> {
    if topology.switch_count() == 0 && topology.cable_count() > 0 {
        return Err(NotClos::BackToBack);
    }
    if hosts.is_empty() {
        return Err(NotClos::NoHosts);
    }
    let mut strays = stray::loops(topology);
    let mut regular = topology.without_cables(&strays);
    let side = match two_sides(&regular) {
        Err(odd @ NotClos::OddCycle(..)) => {
            let within = stray::within_a_side(&regular, &hosts.per_switch(topology));
            let Some(within) = within else { return Err(odd) };
            regular = regular.without_cables(&within);
            strays.extend(within);
            // Where these cables join parts, they are no strays.
            two_sides(&regular).map_err(|_| odd)?
        }
        side => side?,
    };
    let mut cabled = topology.switches().filter(|&switch| is_cabled(&regular, switch));
    let mut clos = match (cabled.next(), cabled.next()) {
        (Some(leaf), None) => one_switch(topology, leaf),
        _ => of_two_sides(&regular, hosts, &side)?,
    };
    // What was left out on the way, besides.
    let regular = regular.without_cables(&clos.strays);
    clos.strays.extend(strays);
    clos.strays.sort_unstable();
    clos.transit = transit_leaf(&regular, &clos);
    Ok(clos)
}

/// The likeliest reading of a fabric whose cables all join its two sides.
fn of_two_sides(topology: &Topology, hosts: &Hosts, side: &[bool]) -> Result<Clos, NotClos> {
    let count = hosts.per_switch(topology);
    let hosts_on = |wanted: bool| -> usize {
        topology.switches().filter(|s| side[s.index()] == wanted).map(|s| count[s.index()]).sum()
    };
    let leaf_side = hosts_on(true) > hosts_on(false);
    let cabled = || topology.switches().filter(|&switch| is_cabled(topology, switch));
    let on_side = |wanted| cabled().filter(|s| side[s.index()] == wanted).collect();
    let lower: Vec<NodeIndex> = on_side(leaf_side);
    let upper: Vec<NodeIndex> = on_side(!leaf_side);

    let fullest = lower.iter().map(|s| count[s.index()]).max().unwrap_or(0);
    let few = (fullest as f64 * CORE_HOST_SHARE) as usize;
    let carries = |s: NodeIndex| count[s.index()] > 0;
    let three = |is_leaf: &dyn Fn(NodeIndex) -> bool| {
        let (leaves, cores): (Vec<_>, Vec<_>) = lower.iter().copied().partition(|&s| is_leaf(s));
        (!cores.is_empty()).then(|| {
            three_stages(topology, &leaves, &upper, &cores).or_else(|reason| {
                let strays = stray::astray(topology, &leaves, &cores).ok_or(reason)?;
                let regular = topology.without_cables(&strays);
                let clos = three_stages(&regular, &leaves, &upper, &cores)?;
                Ok(Clos { strays, ..clos })
            })
        })
    };
    let two = || Some(two_stages(topology, &lower, &upper));
    let core_carries_few = || three(&|s| count[s.index()] > few);
    // Switches of the leaf side without hosts are cores, or, where they lead to one pod of several, leaves whose
    // hosts are off; a core may carry a few hosts. The likeliest reading that holds is taken, else the likeliest
    // says why it does not.
    let mut readings = if lower.iter().all(|&s| carries(s)) {
        vec![two(), core_carries_few()]
    } else {
        let seeds: Vec<NodeIndex> = lower.iter().copied().filter(|&s| carries(s)).collect();
        let (pod, pods) =
            components(topology, &seeds, |s| side[s.index()] != leaf_side || carries(s));
        let leaves = |of: u32| seeds.iter().filter(|s| pod[s.index()] == of).count();
        let most = (0..pods).map(leaves).max().unwrap_or(0);
        // A core that has lost all cables but those to one pod has one switch there, and no leaf is lacking.
        let idle_leaf = |s| {
            only_pod(topology, &pod, s)
                .is_some_and(|pod| distinct_peers(topology, s) > 1 || leaves(pod) < most)
        };
        let hosts_are_off = three(&|s| carries(s) || idle_leaf(s));
        vec![hosts_are_off, three(&carries), core_carries_few(), two()]
    };
    let holds = readings.iter().position(|reading| matches!(reading, Some(Ok(_)))).unwrap_or(0);
    readings.swap_remove(holds).unwrap_or_else(|| two_stages(topology, &lower, &upper))
}

/// A leaf alone: its hosts reach each other without a tree.
fn one_switch(topology: &Topology, leaf: NodeIndex) -> Clos {
    let switches = topology.switch_count();
    Clos {
        leaves: vec![leaf],
        aggregation: Vec::new(),
        roots: Vec::new(),
        leaf_planes: 0,
        root_planes: 0,
        group_width: 1,
        transit: leaf,
        strays: Vec::new(),
        outside: Vec::new(),
        irregularities: Vec::new(),
        level: vec![Level::Leaf; switches],
        pod: vec![0; switches],
        group: vec![0; switches],
        place_in_group: vec![0; switches],
        pods: 1,
        groups: 0,
    }
}

/// The pod that all of `switch`'s cables lead to, as a leaf's do. Aggregation switches that no leaf with hosts
/// leads to count as one more pod: a core leads to others besides.
fn only_pod(topology: &Topology, pod: &[u32], switch: NodeIndex) -> Option<u32> {
    let mut pods = topology.switch_links(switch).map(|(_, peer)| pod[peer.index()]);
    let first = pods.next()?;
    pods.all(|other| other == first).then_some(first)
}

pub(super) fn name(topology: &Topology, switch: NodeIndex) -> String {
    topology.node(switch).name.to_string()
}

fn is_cabled(topology: &Topology, switch: NodeIndex) -> bool {
    topology.cables(switch).next().is_some()
}

/// Colours the switches so that every cable joins the two colours; the first switch is `false`, and so is one
/// without cables.
fn two_sides(topology: &Topology) -> Result<Vec<bool>, NotClos> {
    let mut side: Vec<Option<bool>> = vec![None; topology.switch_count()];
    let cabled = |&switch: &NodeIndex| is_cabled(topology, switch);
    topology.switches().filter(|s| !cabled(s)).for_each(|s| side[s.index()] = Some(false));
    let first = topology.switches().find(cabled).unwrap_or(NodeIndex(0));
    side[first.index()] = Some(false);
    let mut reached = vec![first];
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        let own = side[switch.index()];
        for (_, peer) in topology.switch_links(switch) {
            let seen = &mut side[peer.index()];
            if seen.is_none() {
                *seen = own.map(|side| !side);
                reached.push(peer);
            } else if *seen == own {
                return Err(NotClos::OddCycle(name(topology, switch), name(topology, peer)));
            }
        }
    }
    let islands = |s: NodeIndex| NotClos::Islands(name(topology, first), name(topology, s));
    topology.switches().map(|s| side[s.index()].ok_or_else(|| islands(s))).collect()
}

fn two_stages(
    topology: &Topology,
    leaves: &[NodeIndex],
    spines: &[NodeIndex],
) -> Result<Clos, NotClos> {
    let pairs = leaves.len() * spines.len();
    let planes = planes(topology, leaves, pairs, "leaf", "spine")?;
    let switches = topology.switch_count();
    let mut level = vec![Level::Leaf; switches];
    let mut group = vec![0; switches];
    for (place, spine) in spines.iter().enumerate() {
        level[spine.index()] = Level::Root;
        group[spine.index()] = place as u32;
    }
    Ok(Clos {
        leaves: leaves.to_vec(),
        aggregation: Vec::new(),
        roots: spines.to_vec(),
        leaf_planes: planes,
        root_planes: planes,
        group_width: 1,
        transit: leaves[0],
        strays: Vec::new(),
        outside: Vec::new(),
        irregularities: Vec::new(),
        level,
        pod: vec![0; switches],
        group,
        place_in_group: vec![0; switches],
        pods: 1,
        groups: spines.len() as u32,
    })
}

fn three_stages(
    topology: &Topology,
    leaves: &[NodeIndex],
    aggregation: &[NodeIndex],
    cores: &[NodeIndex],
) -> Result<Clos, NotClos> {
    let switches = topology.switch_count();
    let mut level = vec![Level::Leaf; switches];
    aggregation.iter().for_each(|s| level[s.index()] = Level::Aggregation);
    cores.iter().for_each(|s| level[s.index()] = Level::Root);

    // A pod is what hangs together without the cores, a group what hangs together without the leaves.
    let (pod, pods) = components(topology, leaves, |s| level[s.index()] != Level::Root);
    let (group, groups) = components(topology, cores, |s| level[s.index()] != Level::Leaf);
    if let Some(&lonely) = aggregation.iter().find(|s| pod[s.index()] == u32::MAX) {
        return Err(NotClos::NoLeafBelow(name(topology, lonely)));
    }
    if pods == 1 {
        let reach = |core: NodeIndex| distinct_peers(topology, core);
        let poorest = cores.iter().copied().min_by_key(|&core| reach(core)).unwrap_or(cores[0]);
        let (reached, all) = (reach(poorest), aggregation.len());
        return Err(NotClos::PartialRoot(name(topology, poorest), reached, all));
    }
    let mut together: BTreeMap<(u32, u32), Vec<NodeIndex>> = BTreeMap::new();
    for &switch in aggregation.iter().filter(|s| group[s.index()] != u32::MAX) {
        together.entry((pod[switch.index()], group[switch.index()])).or_default().push(switch);
    }
    let group_width = most_common(together.values().map(Vec::len)).unwrap_or(1);
    if let Some(more) = together.values().find(|switches| switches.len() > group_width) {
        return Err(NotClos::SharedCores(name(topology, more[0]), name(topology, more[1])));
    }
    let mut place_in_group = vec![0; switches];
    for switches in together.values() {
        (0..).zip(switches).for_each(|(place, switch)| place_in_group[switch.index()] = place);
    }
    let in_pods: usize = (0..pods)
        .map(|p| {
            let count = |set: &[NodeIndex]| set.iter().filter(|s| pod[s.index()] == p).count();
            count(leaves) * count(aggregation)
        })
        .sum();
    let leaf_planes = planes(topology, leaves, in_pods, "leaf", "aggregation switch")?;
    let complete = cores.len() * pods as usize * group_width;
    let root_planes = planes(topology, cores, complete, "core", "pod")? * group_width;
    Ok(Clos {
        leaves: leaves.to_vec(),
        aggregation: aggregation.to_vec(),
        roots: cores.to_vec(),
        leaf_planes,
        root_planes,
        group_width,
        transit: leaves[0],
        strays: Vec::new(),
        outside: Vec::new(),
        irregularities: Vec::new(),
        level,
        pod,
        group,
        place_in_group,
        pods,
        groups,
    })
}

/// Numbers the connected parts of the switches that `within` admits, in order of `seeds`; switches that
/// no seed reaches have `u32::MAX`.
fn components(
    topology: &Topology,
    seeds: &[NodeIndex],
    within: impl Fn(NodeIndex) -> bool,
) -> (Vec<u32>, u32) {
    let mut part = vec![u32::MAX; topology.switch_count()];
    let mut parts = 0;
    for &seed in seeds {
        if part[seed.index()] != u32::MAX {
            continue;
        }
        part[seed.index()] = parts;
        let mut reached = vec![seed];
        while let Some(switch) = reached.pop() {
            for (_, peer) in topology.switch_links(switch) {
                if within(peer) && part[peer.index()] == u32::MAX {
                    part[peer.index()] = parts;
                    reached.push(peer);
                }
            }
        }
        parts += 1;
    }
    (part, parts)
}

fn distinct_peers(topology: &Topology, switch: NodeIndex) -> usize {
    multiplicities(topology, switch).len()
}

/// The switches cabled to `switch`, with the number of parallel cables to each.
pub(super) fn multiplicities(topology: &Topology, switch: NodeIndex) -> Vec<(NodeIndex, usize)> {
    let mut peers: Vec<NodeIndex> = topology.switch_links(switch).map(|(_, peer)| peer).collect();
    peers.sort_unstable();
    peers.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect()
}

/// The usual number of parallel cables of `switches` to their peers, if enough pairs are cabled.
fn planes(
    topology: &Topology,
    switches: &[NodeIndex],
    pairs: usize,
    lower: &'static str,
    upper: &'static str,
) -> Result<usize, NotClos> {
    let mut how_often = BTreeMap::new();
    let mut present = 0;
    for &switch in switches {
        for (_, cables) in multiplicities(topology, switch) {
            *how_often.entry(cables).or_insert(0usize) += 1;
            present += 1;
        }
    }
    if (present as f64) < pairs as f64 * LEAST_CABLED {
        return Err(NotClos::Sparse { present, pairs, lower, upper });
    }
    let usual = how_often.iter().max_by_key(|&(&cables, &often)| (often, cables));
    Ok(usual.map_or(1, |(&cables, _)| cables))
}

/// The leaf with cables to the most switches above it - in three stages in the pod whose aggregation
/// switches have the most cores - and among those the one with the lowest GUID.
fn transit_leaf(topology: &Topology, clos: &Clos) -> NodeIndex {
    let mut cores_below = vec![0; clos.pods() as usize];
    for &switch in &clos.aggregation {
        let cores = topology
            .switch_links(switch)
            .filter(|&(_, peer)| clos.level(peer) == Level::Root)
            .map(|(_, peer)| peer);
        let mut cores: Vec<NodeIndex> = cores.collect();
        cores.sort_unstable();
        cores.dedup();
        cores_below[clos.pod(switch) as usize] += cores.len();
    }
    let reach =
        |leaf: NodeIndex| (cores_below[clos.pod(leaf) as usize], distinct_peers(topology, leaf));
    let best =
        clos.leaves.iter().copied().max_by_key(|&leaf| (reach(leaf), std::cmp::Reverse(leaf)));
    best.unwrap_or(clos.leaves[0])
}
