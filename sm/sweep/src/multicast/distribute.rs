//! Masks minus what the switches hold: the writes, in an order in which no packet is copied twice.
//!
//! While a group's tree changes, some switches hold the old masks and some the new ones. Where both together
//! are still a tree in which no switch has two neighbours above itself, every mixture of them is a part of
//! that tree: no copy goes twice, none goes round, and no credit loop closes. Then the new masks are written
//! in any order. Where they are not, as when a group moves to another spine, something is taken off first:
//!
//! 1. masks that only lose ports, if what is left then is such a tree together with the new masks;
//! 2. else every port that is in the old mask or the new one alone.
//!
//! A packet whose way is in both trees is delivered at all times.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::multicast::{BLOCK, MulticastTable, POSITION, PortMask};
use snin_fabric::routing::Ranks;
use snin_fabric::{Lid, Mlid, NodeIndex, PortIndex, Topology};
use snin_mad::port::Capabilities;

use super::McPlan;
use crate::graph::{Graph, Node};
use crate::mft_shadow::MaskBlock;
use crate::query::{NodeId, Query};
use crate::schedule::{Schedule, Step, StepId};
use crate::target::Target;

/// Adds every write that is due. What is taken off is taken off before `before`, where that is given;
/// everything else waits for `after`.
pub(crate) fn distribute(
    schedule: &mut Schedule,
    graph: &Graph,
    target: &Target,
    plan: &McPlan,
    (before, after): (Option<StepId>, Option<StepId>),
) {
    let changes = Changes::of(graph, target, plan);
    let cut = changes.writes(graph, target, plan, Phase::TakeOff);
    let steps: Vec<StepId> = cut.into_iter().map(|(id, write)| add(schedule, id, write)).collect();
    let taken_off = (!steps.is_empty()).then(|| {
        let taken_off = schedule.add(Step::Milestone);
        steps.into_iter().for_each(|step| schedule.wait(step, taken_off));
        before.into_iter().for_each(|before| schedule.wait(taken_off, before));
        taken_off
    });
    let mut last: BTreeMap<NodeId, Vec<StepId>> = BTreeMap::new();
    for (id, write) in changes.writes(graph, target, plan, Phase::Final) {
        let step = add(schedule, id, write);
        taken_off.into_iter().chain(after).for_each(|first| schedule.wait(first, step));
        last.entry(id).or_default().push(step);
    }
    for switch in target.discovered.topology.switches() {
        let id = target.discovered.id(switch);
        let Some(top) = other_top(graph, target, plan, switch) else { continue };
        let step = schedule.add(Step::MulticastTop(id, top));
        after.into_iter().for_each(|first| schedule.wait(first, step));
        let writes = last.remove(&id).unwrap_or_default();
        writes.into_iter().for_each(|first| schedule.wait(first, step));
    }
}

fn add(schedule: &mut Schedule, id: NodeId, write: MaskBlock) -> StepId {
    schedule.add(Step::Masks(id, Box::new(write)))
}

/// The blocks that some group is in, and all below.
fn blocks(groups: &super::Groups) -> u16 {
    groups.last_key_value().map_or(0, |(mlid, _)| (mlid.index() / BLOCK) as u16 + 1)
}

/// The parts of a switch's table that `blocks` blocks are.
fn parts(node: &Node, blocks: u16) -> impl Iterator<Item = (u16, u8)> + use<> {
    let capacity = node.switch.as_ref().map_or(0, |info| info.multicast_fdb_cap);
    let capacity = if node.masks.is_absent() { 0 } else { capacity };
    let blocks = blocks.min(capacity.div_ceil(BLOCK as u16));
    let positions = (node.ports.len().saturating_sub(1) / POSITION) as u8 + 1;
    (0..blocks).flat_map(move |block| (0..positions).map(move |position| (block, position)))
}

/// The switch is taken to hold this table, as far as these groups are in it.
pub(crate) fn presume(node: &mut Node, table: &MulticastTable, groups: &super::Groups) {
    for (block, position) in parts(node, blocks(groups)).collect::<Vec<_>>() {
        node.masks.set(block, position, &table.block(block, position));
    }
}

/// Whether all is known of a switch's table that these groups are in.
pub(crate) fn is_read(node: &Node, groups: &super::Groups) -> bool {
    parts(node, blocks(groups)).all(|(block, position)| node.masks.knows(block, position))
}

/// What has to be read before these groups can be served.
pub(crate) fn unread(graph: &Graph, groups: &super::Groups) -> Vec<Query> {
    let blocks = blocks(groups);
    let of = |(id, node): (NodeId, &Node)| {
        let unknown = parts(node, blocks).filter(|&(block, at)| !node.masks.knows(block, at));
        unknown.map(move |(block, at)| Query::ReadMasks(id, block, at)).collect::<Vec<_>>()
    };
    graph.managed().filter(|(_, node)| node.is_switch()).flat_map(of).collect()
}

/// MulticastFDBTop for so many groups: the end of the last block, as far as the table goes.
fn multicast_top(groups: &super::Groups, capacity: u16) -> Option<Lid> {
    let end = usize::from(blocks(groups)) * BLOCK;
    let last = end.min(usize::from(capacity)).checked_sub(1)?;
    Mlid::nth(last).map(Mlid::lid)
}

/// The top that a switch shall have and has not: one below which everything is known. Blocks above it drop,
/// even if another manager left entries there. Without the capability there is no top (IBA 14.2.5.4).
fn other_top(graph: &Graph, target: &Target, plan: &McPlan, switch: NodeIndex) -> Option<Lid> {
    let node = graph.node(target.discovered.id(switch));
    let info = node.switch.as_ref().filter(|_| !node.masks.is_absent())?;
    let port0 = node.ports.first()?.info.as_ref()?;
    let top = multicast_top(plan.groups(), info.multicast_fdb_cap)?;
    let has_top = port0.capabilities.has(Capabilities::MULTICAST_FDB_TOP);
    let held = info.multicast_fdb_top;
    let unlimited = held == Lid::NONE;
    let forwards = plan.table(switch).is_some_and(|table| table.top().is_some());
    let is_low = held < top && forwards && !unlimited;
    let forwarded =
        if unlimited { usize::MAX } else { held.index().saturating_sub(Mlid::MIN.lid().index()) };
    let unknown = |(block, position): (u16, u8)| {
        usize::from(block) * BLOCK <= forwarded && !node.masks.knows(block, position)
    };
    let is_high = (unlimited || held > top) && parts(node, u16::MAX).any(unknown);
    (has_top && (is_low || is_high)).then_some(top)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    TakeOff,
    Final,
}

/// What a switch holds for one address once everything is taken off that has to be.
type Kept = BTreeMap<(Mlid, NodeIndex), PortMask>;

struct Changes {
    kept: Kept,
    /// Switches that hold something else than they shall.
    switches: Vec<NodeIndex>,
}

impl Changes {
    fn of(graph: &Graph, target: &Target, plan: &McPlan) -> Self {
        let topology = &target.discovered.topology;
        let (mut kept, mut switches) = (Kept::new(), Vec::new());
        let Some(ranks) = &target.routing.ranks else { return Self { kept, switches } };
        let mut mlids = BTreeSet::new();
        for switch in topology.switches() {
            let held = graph.node(target.discovered.id(switch)).masks.held();
            let Some(wanted) = plan.table(switch).filter(|wanted| *wanted != held) else {
                continue;
            };
            switches.push(switch);
            let differs = |&(mlid, ports): &(Mlid, PortMask)| held.get(mlid) != ports;
            mlids.extend(wanted.iter().filter(differs).map(|(mlid, _)| mlid));
            let differs = |&(mlid, ports): &(Mlid, PortMask)| wanted.get(mlid) != ports;
            mlids.extend(held.iter().filter(differs).map(|(mlid, _)| mlid));
        }
        for mlid in mlids {
            let mask = |switch: NodeIndex| {
                let held = graph.node(target.discovered.id(switch)).masks.held().get(mlid);
                (held, plan.table(switch).map_or(PortMask::EMPTY, |table| table.get(mlid)))
            };
            keep(topology, ranks, mlid, mask, &mut kept);
        }
        Self { kept, switches }
    }

    /// The writes of one phase, block by block over all switches.
    fn writes(
        &self,
        graph: &Graph,
        target: &Target,
        plan: &McPlan,
        phase: Phase,
    ) -> Vec<(NodeId, MaskBlock)> {
        let mut writes = Vec::new();
        for &switch in &self.switches {
            let id = target.discovered.id(switch);
            let node = graph.node(id);
            let Some(wanted) = plan.table(switch) else { continue };
            let mut kept = node.masks.held().clone();
            let mlids = node.masks.held().iter().map(|(mlid, _)| mlid);
            for mlid in mlids.filter(|&mlid| self.kept.contains_key(&(mlid, switch))) {
                kept.set(mlid, self.kept[&(mlid, switch)]);
            }
            let (from, to) = match phase {
                Phase::TakeOff => (node.masks.held(), &kept),
                Phase::Final => (&kept, wanted),
            };
            let highest = from.top().max(to.top()).map_or(0, |mlid| mlid.index() / BLOCK + 1);
            for (block, position) in parts(node, highest as u16) {
                let entries = to.block(block, position);
                if entries != from.block(block, position) {
                    writes.push((id, MaskBlock { block, position, entries }));
                }
            }
        }
        writes.sort_by_key(|(id, write)| (write.block, *id, write.position));
        writes
    }
}

/// Finds what every switch keeps of a group's old masks; only what is not everything is added.
fn keep(
    topology: &Topology,
    ranks: &Ranks,
    mlid: Mlid,
    mask: impl Fn(NodeIndex) -> (PortMask, PortMask),
    kept: &mut Kept,
) {
    let all: Vec<(NodeIndex, PortMask, PortMask)> = topology
        .switches()
        .map(|switch| (switch, mask(switch)))
        .map(|(switch, (held, wanted))| (switch, held, wanted))
        .filter(|(_, held, wanted)| !held.is_empty() || !wanted.is_empty())
        .collect();
    let is_tree = |keeps: &dyn Fn(&PortMask, &PortMask) -> PortMask| {
        let union =
            all.iter().map(|(switch, held, wanted)| (*switch, keeps(held, wanted).or(wanted)));
        is_tree(topology, ranks, union)
    };
    let everything = |held: &PortMask, _: &PortMask| *held;
    // Masks that only lose ports lose them.
    let shrunk =
        |held: &PortMask, wanted: &PortMask| if held.covers(wanted) { *wanted } else { *held };
    let both = |held: &PortMask, wanted: &PortMask| held.and(wanted);
    let keeps: &dyn Fn(&PortMask, &PortMask) -> PortMask = if is_tree(&everything) {
        return;
    } else if is_tree(&shrunk) {
        &shrunk
    } else {
        &both
    };
    for (switch, held, wanted) in &all {
        let left = keeps(held, wanted);
        if left != *held {
            kept.insert((mlid, *switch), left);
        }
    }
}

/// Whether the cables that any of these masks names are a tree, or several, and none of its switches has two
/// neighbours above itself: then packets that go along it in any direction go up, then down.
fn is_tree(
    topology: &Topology,
    ranks: &Ranks,
    masks: impl Iterator<Item = (NodeIndex, PortMask)>,
) -> bool {
    let mut links: BTreeSet<(PortIndex, PortIndex)> = BTreeSet::new();
    for (switch, ports) in masks {
        let ends = ports.iter().filter_map(|num| {
            let port = topology.port_of(switch, num).filter(|_| num.0 != 0)?;
            let peer = topology.peer(port)?;
            topology.is_switch(topology.port(peer).node).then_some((port, peer))
        });
        links.extend(ends.map(|(port, peer)| (port.min(peer), port.max(peer))));
    }
    // With one neighbour above at most, a packet in a circle would go up all the way.
    let mut has_above = BTreeSet::new();
    links.into_iter().all(|(one, other)| {
        let (one, other) = (topology.port(one).node, topology.port(other).node);
        has_above.insert(if ranks.is_above(one, other) { other } else { one })
    })
}
