//! What is not as it would be in a regular fabric, each by name.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::recognise::{multiplicities, name};
use super::{Clos, Level};
use crate::hosts::{Hosts, is_aggregation_node};
use crate::{Guid, LinkRate, NodeIndex, NodeKind, Topology};

/// One irregularity. Names are those of the topology.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Irregularity {
    /// Fewer cables between two switches than the other pairs have.
    MissingCable {
        /// The lower switch.
        lower: String,
        /// The upper one.
        upper: String,
        /// Cables there.
        have: usize,
        /// Cables of a regular pair.
        want: usize,
    },
    /// More cables than the other pairs have; no tree uses them.
    ExtraCable {
        /// The lower switch.
        lower: String,
        /// The upper one.
        upper: String,
        /// Cables there.
        have: usize,
        /// Cables of a regular pair.
        want: usize,
    },
    /// A pod without the aggregation switch that leads to a group of cores.
    MissingAggregation {
        /// The pod, named by its first leaf.
        pod: String,
        /// The group, named by its first core.
        group: String,
    },
    /// A leaf with another number of hosts than most.
    UnequalHosts {
        /// The leaf.
        leaf: String,
        /// Its hosts.
        hosts: usize,
        /// What most leaves have.
        usual: usize,
    },
    /// Fewer cables up than hosts: not every pattern fits.
    ShortOfUplinks {
        /// The switch.
        switch: String,
        /// Hosts, or cables from below.
        below: usize,
        /// Cables up.
        uplinks: usize,
    },
    /// A host on a spine, core or aggregation switch.
    HostOffLeaf {
        /// The host.
        host: String,
        /// Where it hangs.
        switch: String,
        /// That switch's stage.
        stage: &'static str,
    },
    /// An aggregation node on a spine, core or aggregation switch: addressed, no host.
    AggregationNodeOffLeaf {
        /// Its GUID, since all have one name.
        guid: String,
        /// Where it hangs.
        switch: String,
    },
    /// A router: addressed, no host.
    Router {
        /// Its name.
        router: String,
        /// Where it hangs.
        switch: String,
    },
    /// A cable slower or faster than most of its stage.
    OddRate {
        /// One end, `switch/port`.
        cable: String,
        /// Its rate.
        rate: String,
        /// The usual rate.
        usual: String,
    },
    /// A cable whose ends report different rates.
    RatesDisagree {
        /// One end, `node/port`.
        one: String,
        /// Its rate.
        rate: String,
        /// The other end.
        other: String,
        /// Its rate.
        other_rate: String,
    },
    /// Several switch chips in one chassis; each counts for itself.
    Chassis {
        /// SystemImageGUID.
        system_image: String,
        /// The chips.
        switches: Vec<String>,
    },
    /// No leaf has a cable to every switch above: some of those cannot reach each other.
    NoTransit {
        /// The best there is.
        leaf: String,
        /// How many switches above it reaches.
        reaches: usize,
        /// Of how many.
        of: usize,
    },
    /// An adapter that no cable joins to a switch.
    Uncabled {
        /// Its name.
        adapter: String,
    },
}

impl fmt::Display for Irregularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingCable { lower, upper, have, want } => {
                write!(f, "missing cable: {lower} to {upper} has {have} of {want}")
            }
            Self::ExtraCable { lower, upper, have, want } => {
                write!(f, "extra cable: {lower} to {upper} has {have}, trees use {want}")
            }
            Self::MissingAggregation { pod, group } => {
                write!(f, "missing aggregation switch: pod of {pod} has none to group of {group}")
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
            Self::AggregationNodeOffLeaf { guid, switch } => {
                write!(f, "aggregation node off the leaves: {guid} hangs on {switch}")
            }
            Self::Router { router, switch } => write!(f, "router: {router} hangs on {switch}"),
            Self::OddRate { cable, rate, usual } => {
                write!(f, "odd rate: {cable} runs at {rate}, most at {usual}")
            }
            Self::RatesDisagree { one, rate, other, other_rate } => {
                write!(f, "rates disagree: {one} says {rate}, {other} says {other_rate}")
            }
            Self::Chassis { system_image, switches } => {
                write!(f, "chassis {system_image}: {} chips: ", switches.len())?;
                f.write_str(&switches.join(", "))
            }
            Self::NoTransit { leaf, reaches, of } => write!(
                f,
                "no transit leaf: {leaf} reaches the most, {reaches} of {of} switches above"
            ),
            Self::Uncabled { adapter } => write!(f, "uncabled: {adapter} hangs on no switch"),
        }
    }
}

/// Every irregularity of a recognised fabric, in a fixed order.
pub(super) fn list(topology: &Topology, hosts: &Hosts, clos: &Clos) -> Vec<Irregularity> {
    let mut found = Vec::new();
    cables(topology, clos, &mut found);
    leaves(topology, hosts, clos, &mut found);
    end_nodes(topology, hosts, clos, &mut found);
    rates(topology, clos, &mut found);
    chassis(topology, &mut found);
    transit(topology, clos, &mut found);
    found
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
    stage(&clos.aggregation, &of_group, clos.root_planes);
    missing_aggregation(topology, clos, found);
}

fn missing_aggregation(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let mut there = vec![false; (clos.pods() * clos.groups()) as usize];
    for &switch in clos.aggregation.iter().filter(|&&s| clos.group(s) < clos.groups()) {
        there[(clos.pod(switch) * clos.groups() + clos.group(switch)) as usize] = true;
    }
    for place in (0..there.len() as u32).filter(|&place| !there[place as usize]) {
        let (pod, group) = (place / clos.groups(), place % clos.groups());
        let leaf = clos.leaves.iter().find(|&&leaf| clos.pod(leaf) == pod);
        let core = clos.roots.iter().find(|&&core| clos.group(core) == group);
        if let (Some(&leaf), Some(&core)) = (leaf, core) {
            let (pod, group) = (name(topology, leaf), name(topology, core));
            found.push(Irregularity::MissingAggregation { pod, group });
        }
    }
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
    for &switch in clos.leaves.iter().chain(&clos.aggregation) {
        let (below, uplinks) = (below(switch), clos.uplinks(topology, switch));
        if uplinks < below {
            let switch = name(topology, switch);
            found.push(Irregularity::ShortOfUplinks { switch, below, uplinks });
        }
    }
}

fn end_nodes(topology: &Topology, hosts: &Hosts, clos: &Clos, found: &mut Vec<Irregularity>) {
    for (_, host) in hosts.iter().filter(|(_, host)| clos.level(host.switch) != Level::Leaf) {
        found.push(Irregularity::HostOffLeaf {
            host: name(topology, topology.port(host.port).node),
            switch: name(topology, host.switch),
            stage: match (clos.level(host.switch), clos.stages()) {
                (Level::Root, 2) => "spine",
                (Level::Root, _) => "core",
                _ => "aggregation switch",
            },
        });
    }
    for node in topology.nodes().skip(topology.switch_count()) {
        let switch = topology.cables(node).map(|(_, peer)| topology.port(peer).node);
        let Some(switch) = switch.into_iter().find(|&peer| topology.is_switch(peer)) else {
            found.push(Irregularity::Uncabled { adapter: name(topology, node) });
            continue;
        };
        if topology.node(node).kind == NodeKind::Router {
            let (router, switch) = (name(topology, node), name(topology, switch));
            found.push(Irregularity::Router { router, switch });
        } else if clos.level(switch) != Level::Leaf && is_aggregation_node(topology, node) {
            let (guid, switch) = (topology.node(node).guid.to_string(), name(topology, switch));
            found.push(Irregularity::AggregationNodeOffLeaf { guid, switch });
        }
    }
}

/// Rates are compared among the cables between the same two stages.
fn rates(topology: &Topology, clos: &Clos, found: &mut Vec<Irregularity>) {
    let stage = |node: NodeIndex| {
        if topology.is_switch(node) { clos.level(node) as u8 } else { u8::MAX }
    };
    let mut of_stages: BTreeMap<(u8, u8), Vec<(LinkRate, String)>> = BTreeMap::new();
    for index in topology.ports() {
        let Some(peer) = topology.peer(index).filter(|&peer| index < peer) else { continue };
        let (port, other) = (topology.port(index), topology.port(peer));
        let (Some(rate), Some(other_rate)) = (port.rate, other.rate) else { continue };
        if rate != other_rate {
            found.push(Irregularity::RatesDisagree {
                one: topology.port_name(index),
                rate: rate.to_string(),
                other: topology.port_name(peer),
                other_rate: other_rate.to_string(),
            });
        }
        let (a, b) = (stage(port.node), stage(other.node));
        let stages = of_stages.entry((a.min(b), a.max(b))).or_default();
        stages.push((rate.min(other_rate), topology.port_name(index)));
    }
    for cables in of_stages.into_values() {
        let Some(usual) = most_common(cables.iter().map(|(rate, _)| *rate)) else { continue };
        for (rate, cable) in cables.into_iter().filter(|(rate, _)| *rate != usual) {
            let (rate, usual) = (rate.to_string(), usual.to_string());
            found.push(Irregularity::OddRate { cable, rate, usual });
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
            found.push(Irregularity::Chassis { system_image: image.to_string(), switches });
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
fn most_common<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut often = BTreeMap::new();
    for value in values {
        *often.entry(value).or_insert(0usize) += 1;
    }
    often.into_iter().max_by_key(|&(value, count)| (count, value)).map(|(value, _)| value)
}
