//! Addresses and trees to one forwarding table a switch.

use std::collections::BTreeMap;

use super::reach::{Links, Reach};
use super::{AddressPlan, Forest, Ranks};
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology, TreeId};

/// A switch that has no legal route to the addresses on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// The switch without a route.
    pub from: NodeIndex,
    /// The switch whose own address, and those of the hosts on it, it cannot reach.
    pub to: NodeIndex,
}

/// Destinations filled in together: what one table gets of them lies close together, and what all tables
/// get of them stays in the cache.
const BATCH: usize = 64;

/// Fills the tables, one a switch: among legal next hops the tree's own link first, then the nearest, then -
/// with trees - the lowest port, without them each address in turn. Also says which pairs of switches have no
/// legal route. All parts belong to one topology.
///
/// Twins - the leaves of a pod, the cores of a group - hold the same but for what leads to themselves. One
/// table is filled for all of them, and copied.
pub fn fill(
    topology: &Topology,
    ranks: &Ranks,
    forest: &Forest,
    plan: &AddressPlan,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let links = Links::new(topology, ranks);
    let mut reach = Reach::new(&links);
    let twins = Twins::of(topology, &links, forest);
    let top = plan.addresses().top();
    let mut tables = vec![ForwardingTable::default(); topology.switch_count()];
    twins.firsts().for_each(|switch| tables[switch.index()] = ForwardingTable::up_to(top));
    let mut unreachable = Vec::new();
    // What twins of a destination hold of it, where the first twin is that destination.
    let mut apart = Vec::new();
    let columns: Vec<Column> = topology
        .switches()
        .map(|destination| Column::new(topology, forest, plan, destination))
        .collect();
    // By set of twins and place in the batch: where addresses go that no tree of the switch's leads to.
    let mut nearest = vec![[NO_PORT; BATCH]; twins.sets.len()];
    for batch in columns.chunks(BATCH) {
        for (place, column) in batch.iter().enumerate() {
            let destination = column.destination;
            reach.compute(&links, ranks, destination);
            for (nearest, set) in nearest.iter_mut().zip(&twins.sets) {
                nearest[place] = reach.port(&links, set[0]);
                let without_route = |&&switch: &&NodeIndex| {
                    switch != destination && reach.port(&links, switch) == NO_PORT
                };
                if nearest[place] == NO_PORT || set[0] == destination {
                    let from = set.iter().filter(without_route);
                    unreachable.extend(from.map(|&from| Unreachable { from, to: destination }));
                }
                if set[0] == destination {
                    apart.extend(set[1..].iter().map(|&s| (s, column, reach.port(&links, s))));
                }
            }
            if forest.is_empty() {
                column.spread(&reach, &links, &mut tables);
            }
        }
        let own: Vec<Lid> = batch.iter().map(|column| column.own).collect();
        let runs_of_own = runs(&own);
        for (nearest, switch) in nearest.iter().zip(twins.firsts()) {
            let entries = tables[switch.index()].entries_mut();
            for &(first, end) in &runs_of_own {
                let ports = &nearest[first as usize..end as usize];
                entries[own[first as usize].index()..][..ports.len()].copy_from_slice(ports);
            }
            for (column, &nearest) in batch.iter().zip(nearest) {
                if !column.ends.is_empty() && column.destination != switch {
                    column.fill(forest, switch, nearest, entries);
                }
            }
        }
    }
    for set in &twins.sets {
        for &twin in &set[1..] {
            tables[twin.index()] = tables[set[0].index()].clone();
        }
    }
    for (switch, column, nearest) in apart {
        let entries = tables[switch.index()].entries_mut();
        entries[column.own.index()] = nearest;
        column.fill(forest, switch, nearest, entries);
    }
    for column in &columns {
        deliver(topology, plan, column.destination, &mut tables[column.destination.index()]);
        column.descend(topology, forest, &mut tables);
    }
    unreachable.sort_by_key(|pair| (pair.to, pair.from));
    (tables, unreachable)
}

/// Switches that answer alike whatever is asked, themselves aside: the same cables up and down, and the same
/// ports towards the roots of the trees.
struct Twins {
    sets: Vec<Vec<NodeIndex>>,
}

impl Twins {
    fn of(topology: &Topology, links: &Links, forest: &Forest) -> Self {
        let mut by_cables: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        let mut sets: Vec<Vec<NodeIndex>> = Vec::new();
        for switch in topology.switches() {
            let alike = by_cables.entry(links.twins(switch)).or_default();
            let same = |&&set: &&usize| {
                let first = sets[set][0];
                // Without trees a switch's ports take turns by address.
                !forest.is_empty()
                    && forest.ups(first) == forest.ups(switch)
                    && forest.groups_of(first) == forest.groups_of(switch)
            };
            match alike.iter().find(same) {
                Some(&set) => sets[set].push(switch),
                None => {
                    alike.push(sets.len());
                    sets.push(vec![switch]);
                }
            }
        }
        Self { sets }
    }

    /// The first of each set.
    fn firsts(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.sets.iter().map(|set| set[0])
    }
}

const NO_PORT: u8 = PortNum::NONE.0;

/// Everything that all tables hold for the addresses on one switch.
struct Column {
    destination: NodeIndex,
    /// The switch's own address, on no tree.
    own: Lid,
    /// The addresses of the ports on it, lowest first.
    ends: Vec<Lid>,
    /// The tree that each leads along - where that tree covers the destination: a cable missing there makes
    /// the detour start at the source. `forest.len()` where there is none.
    tree: Vec<u16>,
    /// Places in `ends` where consecutive addresses begin and end.
    runs: Vec<(u32, u32)>,
    /// Places in `ends` by the group of their tree: `of_group[first_of_group[g]..first_of_group[g + 1]]`.
    of_group: Vec<u32>,
    first_of_group: Vec<u32>,
}

impl Column {
    fn new(
        topology: &Topology,
        forest: &Forest,
        plan: &AddressPlan,
        destination: NodeIndex,
    ) -> Self {
        let mut lids = Vec::new();
        for port in ports_on(topology, destination) {
            for (offset, lid) in plan.addresses().of(port).enumerate() {
                let tree = plan.tree(port, offset as u16);
                let tree = tree.filter(|&tree| forest.covers(destination, tree));
                lids.push((lid, tree.map_or(forest.len() as u16, |tree| tree.0)));
            }
        }
        lids.sort_unstable();
        let (ends, tree): (Vec<Lid>, Vec<u16>) = lids.into_iter().unzip();
        let own = plan.addresses().base(topology.port0(destination)).unwrap_or(Lid::NONE);
        let runs = runs(&ends);
        let (of_group, first_of_group) = by_group(forest, &tree);
        Self { destination, own, ends, tree, runs, of_group, first_of_group }
    }

    /// Fills in what another switch's table holds of the ports' addresses: nothing where it has no route.
    fn fill(&self, forest: &Forest, switch: NodeIndex, nearest: u8, entries: &mut [u8]) {
        if nearest == NO_PORT || forest.is_empty() {
            return;
        }
        let ups = forest.ups(switch);
        let groups = forest.groups_of(switch);
        let or_nearest = |own: u8| if own == NO_PORT { nearest } else { own };
        if groups.len() + 1 == self.first_of_group.len() {
            for &(first, end) in &self.runs {
                let trees = &self.tree[first as usize..end as usize];
                let row = &mut entries[self.ends[first as usize].index()..][..trees.len()];
                for (entry, &tree) in row.iter_mut().zip(trees) {
                    *entry = or_nearest(ups[usize::from(tree)]);
                }
            }
            return;
        }
        for &(first, end) in &self.runs {
            let start = self.ends[first as usize].index();
            entries[start..start + (end - first) as usize].fill(nearest);
        }
        for &group in groups {
            let places =
                self.first_of_group[group as usize]..self.first_of_group[group as usize + 1];
            for &place in &self.of_group[places.start as usize..places.end as usize] {
                let own = ups[usize::from(self.tree[place as usize])];
                entries[self.ends[place as usize].index()] = or_nearest(own);
            }
        }
    }

    /// Without trees: the addresses take a switch's nearest ports in turn.
    fn spread(&self, reach: &Reach, links: &Links, tables: &mut [ForwardingTable]) {
        let mut ports = Vec::new();
        for (switch, table) in tables.iter_mut().enumerate() {
            let switch = NodeIndex(switch as u32);
            if switch == self.destination {
                continue;
            }
            reach.nearest(links, switch, &mut ports);
            for &lid in self.ends.iter().filter(|_| !ports.is_empty()) {
                table.set(lid, ports[lid.index() % ports.len()]);
            }
        }
    }

    /// From the root of each address's tree down to the destination: the cables by which the tree covers
    /// it.
    fn descend(&self, topology: &Topology, forest: &Forest, tables: &mut [ForwardingTable]) {
        for (&lid, &tree) in
            self.ends.iter().zip(&self.tree).filter(|&(_, &tree)| usize::from(tree) < forest.len())
        {
            let mut below = self.destination;
            while let Some(port) = forest.up(below, TreeId(tree)) {
                let cable = topology.port_of(below, port).and_then(|port| topology.peer(port));
                let Some(peer) = cable else { break };
                let above = topology.port(peer).node;
                tables[above.index()].set(lid, topology.num(peer));
                below = above;
            }
        }
    }
}

/// Places where consecutive addresses begin and end.
fn runs(lids: &[Lid]) -> Vec<(u32, u32)> {
    let mut start = 0;
    let runs = lids.chunk_by(|a, b| a.0 + 1 == b.0).map(|run| {
        let first = start;
        start += run.len() as u32;
        (first, start)
    });
    runs.collect()
}

/// Places of trees, by group: the places, and where those of each group begin.
fn by_group(forest: &Forest, trees: &[u16]) -> (Vec<u32>, Vec<u32>) {
    let group = |tree: u16| forest.trees().get(usize::from(tree)).map(|tree| tree.group as usize);
    let mut first = vec![0; forest.groups() as usize + 1];
    trees.iter().filter_map(|&tree| group(tree)).for_each(|group| first[group + 1] += 1);
    for group in 1..first.len() {
        first[group] += first[group - 1];
    }
    let mut next = first.clone();
    let mut places = vec![0; next[next.len() - 1] as usize];
    for (place, &tree) in trees.iter().enumerate() {
        if let Some(group) = group(tree) {
            places[next[group] as usize] = place as u32;
            next[group] += 1;
        }
    }
    (places, first)
}

/// The end ports cabled to `switch`.
fn ports_on(topology: &Topology, switch: NodeIndex) -> impl Iterator<Item = PortIndex> + '_ {
    let ends = topology.cables(switch).map(|(_, peer)| peer);
    ends.filter(|&peer| !topology.is_switch(topology.port(peer).node))
}

/// At the destination switch itself: each address to the port it hangs on, its own to port 0.
fn deliver(
    topology: &Topology,
    plan: &AddressPlan,
    switch: NodeIndex,
    table: &mut ForwardingTable,
) {
    plan.addresses().of(topology.port0(switch)).for_each(|lid| table.set(lid, PortNum::ZERO));
    for (port, peer) in topology.cables(switch) {
        if !topology.is_switch(topology.port(peer).node) {
            plan.addresses().of(peer).for_each(|lid| table.set(lid, topology.num(port)));
        }
    }
}
