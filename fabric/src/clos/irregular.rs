//! Differences from a regular fabric, each by name.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::recognise::multiplicities;
use super::{Clos, Level};
use crate::hosts::{Hosts, is_aggregation_node};
use crate::{Guid, LinkRate, NodeIndex, NodeKind, PortIndex, Topology, place::Place};

/// One irregularity, with the name, GUID, LID and port of everything that it names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Irregularity {
    /// A cable that no Clos has: within a stage, past one, or into another pod or group. It carries ordinary
    /// traffic, and no tree uses it.
    StrayCable {
        /// One end.
        one: Place,
        /// The other end; of a loop on the same switch.
        other: Place,
    },
    /// A plug that leads a port back to itself.
    LoopbackPlug {
        /// The port.
        at: Place,
    },
    /// Fewer cables between two switches than the other pairs have.
    MissingCable {
        /// The lower switch.
        lower: Place,
        /// The upper one.
        upper: Place,
        /// Cables there.
        have: usize,
        /// Cables of a regular pair.
        want: usize,
    },
    /// More cables than the other pairs have; no tree uses them.
    ExtraCable {
        /// The lower switch.
        lower: Place,
        /// The upper one.
        upper: Place,
        /// Cables there.
        have: usize,
        /// Cables of a regular pair.
        want: usize,
    },
    /// A pod without the aggregation switch that leads to a group of cores.
    MissingAggregation {
        /// The pod, named by its first leaf.
        pod: Place,
        /// The group, named by its first core.
        group: Place,
    },
    /// A leaf with another number of hosts than most.
    UnequalHosts {
        /// The leaf.
        leaf: Place,
        /// Its hosts.
        hosts: usize,
        /// What most leaves have.
        usual: usize,
    },
    /// Fewer cables up than hosts: not every pattern fits.
    ShortOfUplinks {
        /// The switch.
        switch: Place,
        /// Hosts, or cables from below.
        below: usize,
        /// Cables up.
        uplinks: usize,
    },
    /// A host on a spine, core or aggregation switch.
    HostOffLeaf {
        /// The host.
        host: Place,
        /// Where it hangs.
        switch: Place,
        /// That switch's stage.
        stage: &'static str,
    },
    /// A switch that hangs on the Clos and is no part of it: no links are granted to or from its hosts.
    OutsideSwitch {
        /// The switch.
        switch: Place,
        /// Hosts on it.
        hosts: usize,
    },
    /// A router: addressed, no host.
    Router {
        /// Its port.
        router: Place,
        /// Where it hangs.
        switch: Place,
    },
    /// A cable slower or faster than most of its stage.
    OddRate {
        /// One end.
        one: Place,
        /// The other end.
        other: Place,
        /// Its rate.
        rate: String,
        /// The usual rate.
        usual: String,
    },
    /// A cable whose ends report different rates.
    RatesDisagree {
        /// One end.
        one: Place,
        /// Its rate.
        rate: String,
        /// The other end.
        other: Place,
        /// Its rate.
        other_rate: String,
    },
    /// Several switch chips in one chassis; each counts for itself.
    Chassis {
        /// SystemImageGUID.
        system_image: Guid,
        /// The chips.
        switches: Vec<Place>,
    },
    /// No leaf has a cable to every switch above: some of those cannot reach each other.
    NoTransit {
        /// The best there is.
        leaf: Place,
        /// How many switches above it reaches.
        reaches: usize,
        /// Of how many.
        of: usize,
    },
    /// An adapter that no cable joins to a switch, or a switch without any cable.
    Uncabled {
        /// Which.
        node: Place,
    },
}

impl fmt::Display for Irregularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StrayCable { one, other } => {
                write!(f, "stray cable: {one} to {other} is part of no Clos, no tree uses it")
            }
            Self::LoopbackPlug { at } => write!(f, "loopback plug: {at} leads back to itself"),
            Self::MissingCable { lower, upper, have, want } => {
                write!(f, "missing cable: {lower} to {upper} has {have} of {want}")
            }
            Self::ExtraCable { lower, upper, have, want } => {
                write!(f, "extra cable: {lower} to {upper} has {have}, trees use {want}")
            }
            Self::MissingAggregation { pod, group } => {
                write!(f, "missing aggregation switch: pod of {pod} has none to group of {group}")
            }
            Self::OutsideSwitch { switch, hosts } => {
                write!(
                    f,
                    "outside: {switch} hangs on the Clos and is no part of it, {hosts} hosts are on it"
                )
            }
            Self::UnequalHosts { leaf, hosts, usual } => {
                write!(f, "unequal leaf: {leaf} has {hosts} hosts, most have {usual}")
            }
            Self::ShortOfUplinks { switch, below, uplinks } => {
                write!(f, "short of uplinks: {switch} has {uplinks} cables up for {below} below")
            }
            Self::HostOffLeaf { host, switch, stage } => {
                write!(f, "host off the leaves: {host} hangs on {stage} {switch}")
            }
            Self::Router { router, switch } => write!(f, "router: {router} hangs on {switch}"),
            Self::OddRate { one, other, rate, usual } => {
                write!(f, "odd rate: {one} to {other} runs at {rate}, most at {usual}")
            }
            Self::RatesDisagree { one, rate, other, other_rate } => {
                write!(f, "rates disagree: {one} says {rate}, {other} says {other_rate}")
            }
            Self::Chassis { system_image, switches } => {
                write!(f, "chassis {system_image}: {} chips: ", switches.len())?;
                let names: Vec<String> = switches.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Self::NoTransit { leaf, reaches, of } => write!(
                f,
                "no transit leaf: {leaf} reaches the most, {reaches} of {of} switches above"
            ),
            Self::Uncabled { node } => write!(f, "uncabled: {node} hangs on no switch"),
        }
    }
}

/// Every irregularity of a recognised fabric, in a fixed order; `regular` is the fabric without stray cables.
pub(super) fn list(
    topology: &Topology,
    regular: &Topology,
    hosts: &Hosts,
    clos: &Clos,
) -> Vec<Irregularity> {
    let mut found = Vec::new();
    strays(topology, clos, &mut found);
    outside(topology, hosts, clos, &mut found);
    cables(regular, clos, &mut found);
    leaves(regular, hosts, clos, &mut found);
    end_nodes(regular, hosts, clos, &mut found);
    rates(regular, clos, &mut found);
    chassis(regular, &mut found);
    transit(regular, clos, &mut found);
    found
}

fn strays(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    for &port in &clos.strays {
        let Some(peer) = topology.peer(port) else { continue };
        let (one, other) = (Place::port(topology, port), Place::port(topology, peer));
        found.push(Irregularity::StrayCable { one, other });
    }
    let plugged = topology.ports().filter(|&port| topology.port(port).loopback);
    let plugs = plugged.map(|port| Irregularity::LoopbackPlug { at: Place::port(topology, port) });
    found.extend(plugs);
}

fn name(topology: &Topology, node: NodeIndex) -> Place {
    Place::node(topology, node)
}

fn cables(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let mut pair = |lower: NodeIndex, upper: NodeIndex, have: usize, want: usize| {
        let (lower, upper) = (name(topology, lower), name(topology, upper));
        if have < want {
            found.push(Irregularity::MissingCable { lower, upper, have, want });
        } else if have > want {
            found.push(Irregularity::ExtraCable { lower, upper, have, want });
        }
    };
    let mut stage = |lower: &[NodeIndex], upper: &dyn Fn(NodeIndex) -> Vec<NodeIndex>, want| {
        for &switch in lower {
            let there: BTreeMap<_, _> = multiplicities(topology, switch).into_iter().collect();
            for above in upper(switch) {
                pair(switch, above, there.get(&above).copied().unwrap_or(0), want);
            }
        }
    };
    if clos.stages() == 2 {
        stage(&clos.leaves, &|_| clos.roots.clone(), clos.leaf_planes);
        return;
    }
    let of_pod = |leaf| -> Vec<NodeIndex> {
        let same = |s: &NodeIndex| clos.pod(*s) == clos.pod(leaf);
        clos.aggregation.iter().copied().filter(same).collect()
    };
    let of_group = |switch| -> Vec<NodeIndex> {
        let same = |s: &NodeIndex| clos.group(*s) == clos.group(switch);
        clos.roots.iter().copied().filter(same).collect()
    };
    stage(&clos.leaves, &of_pod, clos.leaf_planes);
    stage(&clos.aggregation, &of_group, clos.root_cables());
    missing_aggregation(topology, clos, found);
}

fn missing_aggregation(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let mut there = vec![0; (clos.pods() * clos.groups()) as usize];
    for &switch in clos.aggregation.iter().filter(|&&s| clos.group(s) < clos.groups()) {
        there[(clos.pod(switch) * clos.groups() + clos.group(switch)) as usize] += 1;
    }
    let lacking = |place: u32| clos.group_width - there[place as usize];
    for place in (0..there.len() as u32).flat_map(|place| vec![place; lacking(place)]) {
        let (pod, group) = (place / clos.groups(), place % clos.groups());
        let leaf = clos.leaves.iter().find(|&&leaf| clos.pod(leaf) == pod);
        let core = clos.roots.iter().find(|&&core| clos.group(core) == group);
        if let (Some(&leaf), Some(&core)) = (leaf, core) {
            let (pod, group) = (name(topology, leaf), name(topology, core));
            found.push(Irregularity::MissingAggregation { pod, group });
        }
    }
}

fn outside(topology: &Topology, hosts: &Hosts, clos: &Clos, found: &mut Vec<Irregularity>) {
    let count = hosts.per_switch(topology);
    let switches = clos.outside.iter().map(|&switch| {
        let (hosts, switch) = (count[switch.index()], name(topology, switch));
        Irregularity::OutsideSwitch { switch, hosts }
    });
    found.extend(switches);
}

fn leaves(topology: &Topology, hosts: &Hosts, clos: &Clos, found: &mut Vec<Irregularity>) {
    let count = hosts.per_switch(topology);
    let usual = most_common(clos.leaves.iter().map(|leaf| count[leaf.index()])).unwrap_or(0);
    for &leaf in &clos.leaves {
        let hosts = count[leaf.index()];
        if hosts != usual {
            let leaf = name(topology, leaf);
            found.push(Irregularity::UnequalHosts { leaf, hosts, usual });
        }
    }
    let below = |switch: NodeIndex| match clos.level(switch) {
        Level::Leaf => count[switch.index()],
        _ => {
            let leaf = |&(_, peer): &(_, NodeIndex)| clos.level(peer) == Level::Leaf;
            topology.switch_links(switch).filter(leaf).count()
        }
    };
    // A single switch needs none.
    let needs_uplinks = !clos.roots.is_empty();
    for &switch in clos.leaves.iter().chain(&clos.aggregation).filter(|_| needs_uplinks) {
        let (below, uplinks) = (below(switch), clos.uplinks(topology, switch));
        if uplinks < below {
            let switch = name(topology, switch);
            found.push(Irregularity::ShortOfUplinks { switch, below, uplinks });
        }
    }
}

fn end_nodes(topology: &Topology, hosts: &Hosts, clos: &Clos, found: &mut Vec<Irregularity>) {
    let in_a_stage = |switch: NodeIndex| clos.level(switch) != Level::Outside;
    let off_leaf = |switch: NodeIndex| in_a_stage(switch) && clos.level(switch) != Level::Leaf;
    for (_, host) in hosts.iter().filter(|(_, host)| off_leaf(host.switch)) {
        found.push(Irregularity::HostOffLeaf {
            host: Place::port(topology, host.port),
            switch: Place::port(topology, topology.peer(host.port).unwrap_or(host.port)),
            stage: match (clos.level(host.switch), clos.stages()) {
                (Level::Root, 2) => "spine",
                (Level::Root, _) => "core",
                _ => "aggregation switch",
            },
        });
    }
    let alone =
        topology.switches().filter(|&s| in_a_stage(s) && topology.cables(s).next().is_none());
    found.extend(alone.map(|switch| Irregularity::Uncabled { node: name(topology, switch) }));
    for node in topology.nodes().skip(topology.switch_count()) {
        let mut cables = topology.cables(node);
        let Some((port, peer)) =
            cables.find(|&(_, peer)| topology.is_switch(topology.port(peer).node))
        else {
            found.push(Irregularity::Uncabled { node: name(topology, node) });
            continue;
        };
        // An aggregation node may hang on any switch, as each has one built in.
        if topology.node(node).kind == NodeKind::Router {
            let (router, switch) = (Place::port(topology, port), Place::port(topology, peer));
            found.push(Irregularity::Router { router, switch });
        }
    }
}

/// Rates are compared among the cables between the same two stages; those to aggregation nodes, which have a rate
/// of their own, with each other.
fn rates(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let stage = |node: NodeIndex| match topology.is_switch(node) {
        true => clos.level(node) as u8,
        false if is_aggregation_node(topology, node) => u8::MAX - 1,
        false => u8::MAX,
    };
    let mut of_stages: BTreeMap<(u8, u8), Vec<(LinkRate, PortIndex)>> = BTreeMap::new();
    for index in topology.ports() {
        let Some(peer) = topology.peer(index).filter(|&peer| index < peer) else { continue };
        let (port, other) = (topology.port(index), topology.port(peer));
        let (Some(rate), Some(other_rate)) = (port.rate, other.rate) else { continue };
        if rate != other_rate {
            found.push(Irregularity::RatesDisagree {
                one: Place::port(topology, index),
                rate: rate.to_string(),
                other: Place::port(topology, peer),
                other_rate: other_rate.to_string(),
            });
        }
        let (a, b) = (stage(port.node), stage(other.node));
        // Of an aggregation node, wherever it hangs.
        let (a, b) = if a.max(b) == u8::MAX - 1 { (a.max(b), a.max(b)) } else { (a, b) };
        let stages = of_stages.entry((a.min(b), a.max(b))).or_default();
        stages.push((rate.min(other_rate), index));
    }
    for cables in of_stages.into_values() {
        let Some(usual) = most_common(cables.iter().map(|(rate, _)| *rate)) else { continue };
        for (rate, port) in cables.into_iter().filter(|(rate, _)| *rate != usual) {
            let Some(peer) = topology.peer(port) else { continue };
            let (one, other) = (Place::port(topology, port), Place::port(topology, peer));
            let (rate, usual) = (rate.to_string(), usual.to_string());
            found.push(Irregularity::OddRate { one, other, rate, usual });
        }
    }
}

fn chassis(topology: &Topology, found: &mut Vec<Irregularity>) {
    let mut chips: BTreeMap<Guid, Vec<NodeIndex>> = BTreeMap::new();
    for switch in topology.switches() {
        chips.entry(topology.node(switch).system_image).or_default().push(switch);
    }
    for (image, chips) in chips {
        if image.0 != 0 && chips.len() > 1 {
            let switches = chips.into_iter().map(|chip| name(topology, chip)).collect();
            found.push(Irregularity::Chassis { system_image: image, switches });
        }
    }
}

fn transit(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let reaches = multiplicities(topology, clos.transit).len();
    let of = match clos.stages() {
        2 => clos.roots.len(),
        _ => {
            let pod = clos.pod(clos.transit);
            clos.aggregation.iter().filter(|&&s| clos.pod(s) == pod).count()
        }
    };
    if reaches < of {
        found.push(Irregularity::NoTransit { leaf: name(topology, clos.transit), reaches, of });
    }
}

/// The most frequent value, of equally frequent ones the greatest.
pub(super) fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut often = BTreeMap::new();
    for value in values {
        *often.entry(value).or_insert(0usize) += 1;
    }
    often.into_iter().max_by_key(|&(value, count)| (count, value)).map(|(value, _)| value)
}
