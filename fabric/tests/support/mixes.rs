//! A judge of what is under way while tables change: every mixture of old and new entries, by old and by new
//! service levels. It shares nothing with the planner.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::routing::{Replacing, Routing};
use snin_fabric::{Guid, Lid, NodeIndex, PortIndex, PortNum, Topology};

use crate::circles::{Waits, has_a_circle};

/// A fabric and its tables.
#[derive(Clone, Copy)]
pub(crate) struct State<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) routing: &'a Routing,
}

impl State<'_> {
    fn switch(&self, guid: Guid) -> Option<NodeIndex> {
        self.topology.switches().find(|&switch| self.topology.node(switch).guid == guid)
    }

    fn lids(&self, port: Guid) -> Vec<Lid> {
        let addresses = self.routing.plan.addresses();
        let own = |port: &PortIndex| addresses.base(*port).is_some();
        let found =
            self.topology.ports().filter(own).find(|&it| self.topology.port(it).guid == port);
        found.map(|port| addresses.of(port).collect()).unwrap_or_default()
    }

    fn level(&self, one: NodeIndex, other: NodeIndex) -> u8 {
        self.routing.lanes.as_ref().map_or(0, |lanes| lanes.of(one, other))
    }
}

/// The entries of one address, by switch of the new fabric.
struct Column {
    old: Vec<PortNum>,
    new: Vec<PortNum>,
}

/// By lane: which link waits for which.
pub(crate) type LaneWaits = BTreeMap<u8, Waits>;

/// A change from one state to another.
pub(crate) struct Change<'a> {
    before: State<'a>,
    after: State<'a>,
    /// By switch: the same before.
    was: Vec<Option<NodeIndex>>,
    /// By address of today.
    columns: BTreeMap<Lid, Column>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(before: State<'a>, after: State<'a>) -> Self {
        let topology = after.topology;
        let was = topology.switches().map(|it| before.switch(topology.node(it).guid)).collect();
        let mut change = Self { before, after, was, columns: BTreeMap::new() };
        for (port, ..) in after.routing.plan.addresses().iter() {
            let former = before.lids(topology.port(port).guid);
            for (place, lid) in after.routing.plan.addresses().of(port).enumerate() {
                let column = change.column(former.get(place).copied(), lid);
                change.columns.insert(lid, column);
            }
        }
        change
    }

    /// What links wait for while entries that are old and entries that are new lie in tables, in the order that is
    /// said of an address: before anything but drops is written, and from then on. `by_former_levels`: whether
    /// programs still send by those then.
    fn waits(
        &self,
        replacing: impl Fn(Lid) -> Replacing,
        by_former_levels: bool,
    ) -> [LaneWaits; 2] {
        let routing = self.after.routing;
        let mut waits = [LaneWaits::new(), LaneWaits::new()];
        let sources: BTreeSet<NodeIndex> = routing.hosts.iter().map(|(_, it)| it.switch).collect();
        for (_, host) in routing.hosts.iter() {
            let to = host.switch;
            for lid in routing.plan.addresses().of(host.port) {
                let column = &self.columns[&lid];
                for &from in sources.iter().filter(|&&from| from != to) {
                    let new = self.after.level(from, to);
                    let former = self.former_level(from, to).unwrap_or(new);
                    let mut add = |phase: usize, waits_of: BTreeSet<(PortIndex, PortIndex)>| {
                        // At first tables are as they were when programs learnt their levels.
                        let levels = match phase {
                            0 => BTreeSet::from([former]),
                            _ if by_former_levels => BTreeSet::from([former, new]),
                            _ => BTreeSet::from([new]),
                        };
                        for level in levels {
                            let lane = waits[phase].entry(level).or_default();
                            for &(first, next) in &waits_of {
                                lane.entry(first).or_default().insert(next);
                            }
                        }
                    };
                    let walked = |old, new| self.walked(column, (from, to), old, new);
                    add(0, walked(true, None));
                    match replacing(lid) {
                        Replacing::Anyhow => add(1, walked(true, Some(false))),
                        Replacing::DownstreamFirst => add(1, walked(true, Some(true))),
                        Replacing::DroppedFirst => add(1, walked(false, Some(true))),
                    }
                }
            }
        }
        waits
    }

    /// Lanes that have a circle, of each of both.
    pub(crate) fn circles(
        &self,
        replacing: impl Fn(Lid) -> Replacing,
        by_former_levels: bool,
    ) -> [Vec<u8>; 2] {
        self.waits(replacing, by_former_levels).map(|waits| {
            let circles = waits.into_iter().filter(|(_, waits)| has_a_circle(waits.clone()));
            circles.map(|(lane, _)| lane).collect()
        })
    }

    /// Pairs of switches with hosts whose level is another.
    pub(crate) fn relevelled(&self) -> usize {
        let hosts = self.after.routing.hosts.iter().map(|(_, it)| it.switch);
        let hosts: BTreeSet<NodeIndex> = hosts.collect();
        let pairs =
            hosts.iter().flat_map(|&one| hosts.range(..one).map(move |&other| (one, other)));
        let is_other = |(one, other): &(NodeIndex, NodeIndex)| {
            let former = self.former_level(*one, *other);
            former.is_some_and(|former| former != self.after.level(*one, *other))
        };
        pairs.filter(is_other).count()
    }

    /// Entries for host ports that are other than they were.
    pub(crate) fn moved(&self) -> usize {
        let (topology, routing) = (self.after.topology, self.after.routing);
        let mut moved = 0;
        for (_, host) in routing.hosts.iter() {
            let former = self.before.lids(topology.port(host.port).guid);
            for (place, lid) in routing.plan.addresses().of(host.port).enumerate() {
                let column = &self.columns[&lid];
                if former.get(place).is_none() {
                    continue;
                }
                moved += column.old.iter().zip(&column.new).filter(|(old, new)| old != new).count();
            }
        }
        moved
    }

    /// What a switch holds at first of an address.
    pub(crate) fn held(&self, at: NodeIndex, lid: Lid) -> PortNum {
        self.columns[&lid].old[at.index()]
    }

    /// The service level that a pair had.
    pub(crate) fn former_level(&self, from: NodeIndex, to: NodeIndex) -> Option<u8> {
        let both = self.was[from.index()].zip(self.was[to.index()]);
        both.map(|(from, to)| self.before.level(from, to))
    }

    fn column(&self, former: Option<Lid>, lid: Lid) -> Column {
        let old = |was: Option<NodeIndex>| match was.zip(former) {
            Some((was, former)) => self.before.routing.tables[was.index()].get(former),
            None => PortNum::NONE,
        };
        let tables = &self.after.routing.tables;
        let new = |switch: NodeIndex| tables[switch.index()].get(lid);
        let switches = self.after.topology.switches();
        Column {
            old: self.was.iter().copied().map(old).collect(),
            new: switches.map(new).collect(),
        }
    }

    /// Pairs of links of which the first waits for the second. `old`: a walk begins in old entries. `new`: new
    /// entries are taken, too; with `Some(true)` no old one follows a new one.
    fn walked(
        &self,
        column: &Column,
        (from, to): (NodeIndex, NodeIndex),
        old: bool,
        new: Option<bool>,
    ) -> BTreeSet<(PortIndex, PortIndex)> {
        let topology = self.after.topology;
        let mut waits = BTreeSet::new();
        // Where a packet is, by which link it came, and whether it took a new entry.
        let mut met: BTreeSet<(NodeIndex, Option<PortIndex>, bool)> = BTreeSet::new();
        let mut next = vec![(from, None, !old)];
        while let Some(state) = next.pop() {
            let (at, by, is_new) = state;
            if at == to || !met.insert(state) {
                continue;
            }
            let mut taken: Vec<(PortNum, bool)> = Vec::new();
            if !is_new || new == Some(false) {
                taken.push((column.old[at.index()], is_new));
            }
            if new.is_some() {
                taken.push((column.new[at.index()], true));
            }
            for (port, is_new) in taken {
                // An entry that stays is neither.
                let stays = column.old[at.index()] == column.new[at.index()];
                let is_new = if stays { state.2 } else { is_new };
                let out = topology.port_of(at, port).filter(|_| port != PortNum::ZERO);
                let Some(out) = out else { continue };
                let Some(peer) = topology.peer_node(out).filter(|&it| topology.is_switch(it))
                else {
                    continue;
                };
                waits.extend(by.map(|by| (by, out)));
                next.push((peer, Some(out), is_new));
            }
        }
        waits
    }
}
