//! In which order the entries of an address may be replaced where routes are in lanes.
//!
//! While tables are written a packet meets old and new entries in turn, and it is on the lane of the old service
//! level or of the new one. What such ways have links wait for is added to what links of the lane wait for when
//! all is written. Where no circle closes, entries may be replaced as they come. Where one closes, fewer mixtures
//! may be: at first old entries and then new ones, and at last none.

use std::collections::{BTreeMap, BTreeSet};

use super::lanes::{Assignment, Lanes, Wait};
use super::{Ranks, Routing};
use crate::{Addresses, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// How the entries of an address are replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacing {
    /// In any order.
    Anyhow,
    /// Each after those that its new route passes.
    DownstreamFirst,
    /// Every entry that changes drops before any new one is written.
    DroppedFirst,
}

/// Tables that are to be replaced.
#[derive(Clone, Copy)]
pub struct Replaced<'a> {
    /// The fabric as it is.
    pub topology: &'a Topology,
    /// The addresses.
    pub addresses: &'a Addresses,
    /// The tables as they shall be, with their lanes.
    pub routing: &'a Routing,
    /// The entries as they are.
    pub held: &'a dyn Fn(NodeIndex, Lid) -> PortNum,
}

impl Replaced<'_> {
    /// How the entries of each address with some that change are replaced; `None` where all routes share one lane.
    pub fn replacing(&self) -> Option<BTreeMap<Lid, Replacing>> {
        let lanes = self.routing.lanes.as_ref().filter(|lanes| lanes.count() > 1)?;
        let ranks = self.routing.ranks.as_ref()?;
        let columns = self.columns();
        if columns.iter().all(|column| !column.changes()) {
            return Some(BTreeMap::new());
        }
        let changed = columns.iter().filter(|column| column.changes());
        if !lanes.is_followed() {
            // A manager that begins does not know by which levels programs send.
            return Some(changed.map(|column| (column.lid, Replacing::DroppedFirst)).collect());
        }
        let mut judge = Judge::new(self, ranks, lanes, &columns);
        Some(changed.map(|column| (column.lid, judge.replacing(column))).collect())
    }

    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for (port, ..) in self.addresses.iter() {
            let node = self.topology.port(port).node;
            let is_host = !self.topology.is_switch(node);
            let end = if is_host { self.topology.peer_node(port) } else { Some(node) };
            let Some(to) = end.filter(|&end| self.topology.is_switch(end)) else { continue };
            for lid in self.addresses.of(port) {
                let old = self.topology.switches().map(|switch| (self.held)(switch, lid));
                let new = self.routing.tables.iter().map(|table| table.get(lid));
                columns.push(Column { lid, to, is_host, old: old.collect(), new: new.collect() });
            }
        }
        columns
    }
}

/// The entries of an address, by switch.
struct Column {
    lid: Lid,
    to: NodeIndex,
    is_host: bool,
    old: Vec<PortNum>,
    new: Vec<PortNum>,
}

impl Column {
    fn changes(&self) -> bool {
        self.old != self.new
    }
}

/// What links wait for when all is written, and meanwhile.
struct Judge<'a> {
    topology: &'a Topology,
    lanes: &'a Lanes,
    /// Switches with hosts.
    sources: Vec<NodeIndex>,
    assignment: Assignment<'a>,
}

impl<'a> Judge<'a> {
    fn new(
        replaced: &Replaced<'a>,
        ranks: &'a Ranks,
        lanes: &'a Lanes,
        columns: &[Column],
    ) -> Self {
        let Replaced { topology, routing, .. } = *replaced;
        let hosts = routing.hosts.per_switch(topology);
        let sources = topology.switches().filter(|switch| hosts[switch.index()] > 0).collect();
        let mut assignment = Assignment::new(topology, ranks, super::MOST_LANES);
        assignment.settle(lanes);
        let mut judge = Self { topology, lanes, sources, assignment };
        // A lane that a pair had may no longer hold its routes. That is said elsewhere.
        for had in [false, true] {
            for column in columns.iter().filter(|column| column.is_host) {
                for (level, from) in judge.by_level(column.to, had) {
                    let waits = judge.waits(column, &from, Mixture::New);
                    judge.assignment.put_in_lane(level, &waits);
                }
            }
        }
        judge
    }

    fn replacing(&mut self, column: &Column) -> Replacing {
        if !column.is_host {
            // What goes to switches is no data; it only has to come to an end.
            let waits =
                self.waits(column, &self.topology.switches().collect::<Vec<_>>(), Mixture::Any);
            return if has_circle(&waits) { Replacing::DownstreamFirst } else { Replacing::Anyhow };
        }
        let mut by_level = self.by_level(column.to, false);
        for (level, from) in self.by_level(column.to, true) {
            by_level.entry(level).or_default().extend(from);
        }
        for (mixture, replacing) in
            [(Mixture::Any, Replacing::Anyhow), (Mixture::OldThenNew, Replacing::DownstreamFirst)]
        {
            let mut added: Vec<(u8, Vec<Wait>)> = Vec::new();
            let fits = by_level.iter().all(|(&level, from)| {
                let waits = self.waits(column, from, mixture);
                let fits = self.assignment.put_in_lane(level, &waits);
                added.extend(fits.then_some((level, waits)));
                fits
            });
            if fits {
                return replacing;
            }
            added.iter().for_each(|(level, waits)| self.assignment.take_out_of_lane(*level, waits));
        }
        Replacing::DroppedFirst
    }

    /// Switches with hosts that send to one, by service level. `had`: by others that they had.
    fn by_level(&self, to: NodeIndex, had: bool) -> BTreeMap<u8, Vec<NodeIndex>> {
        let mut by_level: BTreeMap<u8, Vec<NodeIndex>> = BTreeMap::new();
        for &from in self.sources.iter().filter(|&&from| from != to) {
            let own = self.lanes.of(from, to);
            let levels: Vec<u8> = match had {
                true => {
                    let had = self.lanes.had(from, to).into_iter().flatten();
                    had.filter(|&level| level != own).collect()
                }
                false => vec![own],
            };
            levels.into_iter().for_each(|level| by_level.entry(level).or_default().push(from));
        }
        by_level
    }

    /// What the ways of packets from some switches have links wait for.
    fn waits(&self, column: &Column, from: &[NodeIndex], mixture: Mixture) -> Vec<Wait> {
        let mut waits = BTreeSet::new();
        // By link that a packet came by, and whether it took a new entry.
        let mut is_met = vec![[false; 2]; self.topology.port_count()];
        let is_new = mixture == Mixture::New;
        let mut next: Vec<(NodeIndex, Option<PortIndex>, bool)> =
            from.iter().map(|&from| (from, None, is_new)).collect();
        while let Some((at, by, is_new)) = next.pop() {
            if at == column.to {
                continue;
            }
            let (old, new) = (column.old[at.index()], column.new[at.index()]);
            let takes_old = !is_new || mixture == Mixture::Any;
            // An entry that stays is neither old nor new.
            let taken = [(old, is_new, takes_old), (new, is_new || old != new, true)];
            for (port, is_new, _) in taken.into_iter().filter(|&(.., is_taken)| is_taken) {
                let out = self.topology.port_of(at, port).filter(|_| port != PortNum::ZERO);
                let Some(out) = out else { continue };
                let Some(peer) = self.topology.peer_node(out) else { continue };
                if !self.topology.is_switch(peer) {
                    continue;
                }
                waits.extend(by.map(|by| (by, out)));
                let met = &mut is_met[out.index()][usize::from(is_new)];
                if !std::mem::replace(met, true) {
                    next.push((peer, Some(out), is_new));
                }
            }
        }
        waits.into_iter().collect()
    }
}

/// Which entries a packet may meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mixture {
    New,
    /// No old one after a new one.
    OldThenNew,
    Any,
}

/// Whether links wait for each other in a circle.
fn has_circle(waits: &[Wait]) -> bool {
    let mut left: BTreeMap<PortIndex, Vec<PortIndex>> = BTreeMap::new();
    let mut waiting: BTreeMap<PortIndex, usize> = BTreeMap::new();
    for &(first, next) in waits {
        left.entry(first).or_default().push(next);
        waiting.entry(first).or_default();
        *waiting.entry(next).or_default() += 1;
    }
    let free = waiting.iter().filter(|&(_, &count)| count == 0);
    let mut free: Vec<PortIndex> = free.map(|(&link, _)| link).collect();
    let mut met = 0;
    while let Some(link) = free.pop() {
        met += 1;
        for next in left.remove(&link).unwrap_or_default() {
            let Some(count) = waiting.get_mut(&next) else { continue };
            *count -= 1;
            if *count == 0 {
                free.push(next);
            }
        }
    }
    met < waiting.len()
}
