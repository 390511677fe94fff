//! Addresses and trees to one forwarding table a switch.

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
pub fn fill(
    topology: &Topology,
    ranks: &Ranks,
    forest: &Forest,
    plan: &AddressPlan,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let links = Links::new(topology, ranks);
    let mut reach = Reach::new(&links);
    let top = plan.addresses().top();
    let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
    let mut unreachable = Vec::new();
    let switches: Vec<NodeIndex> = topology.switches().collect();
    // By switch and place in the batch: where addresses go that no tree of the switch's leads to.
    let mut nearest = vec![[NO_PORT; BATCH]; switches.len()];
    for batch in switches.chunks(BATCH) {
        let mut columns: Vec<Column> = Vec::with_capacity(BATCH);
        for (place, &destination) in batch.iter().enumerate() {
            reach.compute(&links, ranks, destination);
            reach.ports(&links, |switch, port| nearest[switch][place] = port);
            let column = Column::new(topology, forest, plan, destination);
            if forest.is_empty() {
                column.spread(&reach, &links, &mut tables);
            }
            columns.push(column);
        }
        for &switch in &switches {
            let entries = tables[switch.index()].entries_mut();
            for (column, &nearest) in columns.iter().zip(&nearest[switch.index()]) {
                if nearest == NO_PORT {
                    unreachable.push(Unreachable { from: switch, to: column.destination });
                    continue;
                }
                entries[column.own.index()] = nearest;
                if !column.ends.is_empty() && !forest.is_empty() {
                    column.fill(forest, switch, nearest, entries);
                }
            }
        }
        for column in &columns {
            deliver(topology, plan, column.destination, &mut tables[column.destination.index()]);
            column.descend(topology, forest, &mut tables);
        }
    }
    unreachable.sort_by_key(|pair| (pair.to, pair.from));
    (tables, unreachable)
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

    /// Fills in what one switch's table holds of the ports' addresses.
    fn fill(&self, forest: &Forest, switch: NodeIndex, nearest: u8, entries: &mut [u8]) {
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
