//! Which switches are above which, where no stages say it: of several orders the one by which the most loaded link
//! carries least.
//!
//! With one lane up*/down* routes of a torus or a random fabric pass by few links at its top, and how many there
//! are follows from the order. None is best for all: breadth first keeps routes short, depth first (Sancho,
//! Robles, Duato, 2000) leaves fewer turns that are forbidden. So several are tried, as many as a bound on the
//! work allows.

use super::Ranks;
use std::collections::{BTreeMap, BTreeSet};

use super::balanced::{self, Cost, Ends};
use super::ranks::distances;
use super::reach::{Links, UpDown};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Guid, Lid, NodeIndex, Topology};

/// Steps that all trials may take together: entries that are looked at. Some tenths of a second.
const MOST_STEPS: usize = 30_000_000;
/// Larger fabrics are routed by one order.
const MOST_SWITCHES: usize = 4096;
/// How many switches of a connected part take their turn at the top.
const TOPS: usize = 6;

/// How the switch that comes next is found.
#[derive(Clone, Copy)]
enum Walk {
    /// The one that was met first.
    Breadth,
    /// A neighbour of the last one.
    Depth(Next),
}

/// Of several neighbours: the one with the lowest number, with the most cables to switches that have come, or with
/// the fewest to those that have not.
#[derive(Clone, Copy)]
enum Next {
    Lowest,
    MostBehind,
    FewestAhead,
}

const WALKS: [Walk; 4] = [
    Walk::Depth(Next::MostBehind),
    Walk::Depth(Next::FewestAhead),
    Walk::Breadth,
    Walk::Depth(Next::Lowest),
];

/// Which order is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// The best.
    Best,
    /// The one that was, from the top to the bottom, while it is about as good: a change of the order moves most
    /// routes, and a cut is to move few.
    Former(&'a [Guid]),
    /// This order, as the view of a manager has it.
    Given(&'a [NodeIndex]),
}

/// The order that was given, or that was before; with the roots at the top where there are any.
pub(super) fn given(topology: &Topology, order: Order<'_>, roots: &[Guid]) -> Option<Ranks> {
    let is_root = |switch: &NodeIndex| roots.contains(&topology.node(*switch).guid);
    let tops: Vec<NodeIndex> = topology.switches().filter(is_root).collect();
    match order {
        Order::Given(order) => {
            let mut places = vec![usize::MAX; topology.switch_count()];
            for (place, switch) in order.iter().enumerate() {
                places.get_mut(switch.index()).into_iter().for_each(|at| *at = place);
            }
            Some(nearest(topology, |switch| places[switch.index()]))
        }
        _ if !tops.is_empty() => {
            let from: Vec<Vec<u32>> = tops.iter().map(|&top| distances(topology, top).0).collect();
            let nearest_top =
                |switch: NodeIndex| from.iter().map(|from| from[switch.index()]).min();
            Some(nearest(topology, |switch| {
                nearest_top(switch).map_or(usize::MAX, |far| far as usize)
            }))
        }
        Order::Former(order) if !order.is_empty() => {
            let places: BTreeMap<Guid, usize> = order.iter().copied().zip(0..).collect();
            let place = |switch: NodeIndex| places.get(&topology.node(switch).guid).copied();
            Some(nearest(topology, |switch| place(switch).unwrap_or(usize::MAX)))
        }
        Order::Former(_) | Order::Best => None,
    }
}

/// The order that is wanted. Of those that there is time to try [`Ranks::of_any`] is the first, and wins where it
/// is as good as any.
pub(super) fn choose(
    topology: &Topology,
    hosts: &Hosts,
    order: Order<'_>,
    roots: &[Guid],
) -> Ranks {
    let usual = || Ranks::of_any(topology, hosts);
    let has_roots = topology.switches().any(|switch| roots.contains(&topology.node(switch).guid));
    let former = match (given(topology, order, roots), order) {
        (Some(ranks), Order::Given(_)) => return ranks,
        (Some(ranks), _) if has_roots => return ranks,
        (former, _) => former,
    };
    let trial = Trial::new(topology, hosts);
    let others = trial.affordable().saturating_sub(1);
    if others == 0 || topology.switch_count() > MOST_SWITCHES {
        return usual();
    }
    let usual = usual();
    let parts = parts(topology);
    let turns = (0..TOPS).flat_map(|top| WALKS.map(|walk| (top, walk)));
    let mut best = (trial.cost(topology, &usual), usual);
    for (top, walk) in turns.take(others) {
        let ranks = along(topology, &parts, top, walk);
        let cost = trial.cost(topology, &ranks);
        if cost < best.0 {
            best = (cost, ranks);
        }
    }
    let ((most, _), ranks) = best;
    let is_kept = |former: &Ranks| trial.cost(topology, former).0 * 4 <= most * 5;
    former.filter(is_kept).unwrap_or(ranks)
}

/// The order that keeps most to these places, and in which each switch but one of every connected part is cabled
/// to one before it, so that it has a way up.
fn nearest(topology: &Topology, place: impl Fn(NodeIndex) -> usize) -> Ranks {
    let keys = topology.switches().map(|switch| (place(switch), switch));
    let keys: Vec<(usize, NodeIndex)> = keys.collect();
    let mut all = keys.clone();
    all.sort_unstable();
    let mut met = vec![false; keys.len()];
    let mut rank = vec![0; keys.len()];
    let mut descending = Vec::with_capacity(keys.len());
    for start in all {
        if std::mem::replace(&mut met[start.1.index()], true) {
            continue;
        }
        let (distance, part) = distances(topology, start.1);
        part.iter().for_each(|switch| rank[switch.index()] = distance[switch.index()]);
        let mut next = BTreeSet::from([start]);
        while let Some((_, switch)) = next.pop_first() {
            descending.push(switch);
            for (_, peer) in topology.switch_links(switch) {
                if !std::mem::replace(&mut met[peer.index()], true) {
                    next.insert(keys[peer.index()]);
                }
            }
        }
    }
    Ranks::of(rank, descending)
}

/// What is routed to compare orders: one address a host.
struct Trial {
    /// By switch.
    lids: Vec<(NodeIndex, Vec<Lid>)>,
    hosts: usize,
    steps: usize,
}

impl Trial {
    fn new(topology: &Topology, hosts: &Hosts) -> Self {
        let mut lids: Vec<(NodeIndex, Vec<Lid>)> = Vec::new();
        for (id, host) in hosts.iter() {
            let lid = Lid(id.0 as u16 + 1);
            match lids.last_mut() {
                Some((switch, lids)) if *switch == host.switch => lids.push(lid),
                _ => lids.push((host.switch, vec![lid])),
            }
        }
        let cables: usize = topology.switches().map(|s| topology.switch_links(s).count()).sum();
        // Reach and hops of every switch, then its hosts' routes, all of it twice.
        let steps = (lids.len() + hosts.len()).saturating_mul(2 * cables);
        Self { lids, hosts: hosts.len(), steps }
    }

    /// How many orders there is time for.
    fn affordable(&self) -> usize {
        MOST_STEPS.checked_div(self.steps).unwrap_or(0)
    }

    fn cost(&self, topology: &Topology, ranks: &Ranks) -> Cost {
        let top = Lid(self.hosts as u16);
        let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
        let ends = self.lids.iter().map(|(switch, lids)| Ends { switch: *switch, lids });
        let ends: Vec<Ends<'_>> = ends.collect();
        let links = Links::new(topology, ranks);
        balanced::fill(topology, &mut UpDown::new(&links, ranks), &ends, 1, &mut tables)
    }
}

/// The connected parts, in each the switch first that is nearest to all others.
fn parts(topology: &Topology) -> Vec<Vec<NodeIndex>> {
    let mut seen = vec![false; topology.switch_count()];
    let mut parts = Vec::new();
    for switch in topology.switches() {
        if seen[switch.index()] {
            continue;
        }
        let mut part = distances(topology, switch).1;
        part.iter().for_each(|switch| seen[switch.index()] = true);
        part.sort_by_cached_key(|&switch| {
            let (distance, part) = distances(topology, switch);
            let farthest = part.last().map_or(0, |last| distance[last.index()]);
            let sum: u64 = part.iter().map(|switch| u64::from(distance[switch.index()])).sum();
            (farthest, sum, switch)
        });
        parts.push(part);
    }
    parts
}

/// The order in which a walk from one of each part's switches meets the others: from the nearest to all others to
/// the farthest, at even steps.
fn along(topology: &Topology, parts: &[Vec<NodeIndex>], top: usize, walk: Walk) -> Ranks {
    let mut rank = vec![0; topology.switch_count()];
    let mut descending = Vec::with_capacity(rank.len());
    for part in parts {
        let start = part[(part.len() - 1) * top / (TOPS - 1)];
        let (distance, met) = distances(topology, start);
        met.iter().for_each(|switch| rank[switch.index()] = distance[switch.index()]);
        match walk {
            Walk::Breadth => descending.extend(met),
            Walk::Depth(next) => descending.extend(depth_first(topology, start, next)),
        }
    }
    Ranks::of(rank, descending)
}

fn depth_first(topology: &Topology, start: NodeIndex, next: Next) -> Vec<NodeIndex> {
    let mut met = vec![false; topology.switch_count()];
    let (mut order, mut way) = (vec![start], vec![start]);
    met[start.index()] = true;
    while let Some(&switch) = way.last() {
        let behind = |peer: NodeIndex| {
            topology.switch_links(peer).filter(|(_, other)| met[other.index()]).count()
        };
        let key = |&peer: &NodeIndex| {
            let first = match next {
                Next::Lowest => 0,
                Next::MostBehind => -(behind(peer) as isize),
                Next::FewestAhead => {
                    topology.switch_links(peer).count() as isize - behind(peer) as isize
                }
            };
            (first, peer)
        };
        let peers = topology.switch_links(switch).map(|(_, peer)| peer);
        match peers.filter(|peer| !met[peer.index()]).min_by_key(key) {
            Some(peer) => {
                met[peer.index()] = true;
                order.push(peer);
                way.push(peer);
            }
            None => drop(way.pop()),
        }
    }
    order
}
