//! Addresses and trees to one forwarding table a switch.

use std::collections::BTreeMap;

use super::balanced::{self, Ends, NextHops};
use super::layered::Layers;
use super::reach::{Links, Reach, UpDown};
use super::shortest::Shortest;
use super::spread::{MOST_ROUTES, Spread};
use super::{AddressPlan, Forest, Lanes, Ranks, layered};
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology, TreeId};

/// A switch that has no legal route to the addresses on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreachable {
    /// The switch without a route.
    pub from: NodeIndex,
    /// The switch whose own address, and those of the hosts on it, it cannot reach.
    pub to: NodeIndex,
}

/// Routes that are walked to spread them where there are no trees. Some tenths of a second.
const MOST_STEPS: usize = 500_000;
/// Destinations filled in together: what one table gets of them lies close together, and what all tables
/// get of them stays in the cache.
const BATCH: usize = 64;

/// Fills the tables, one a switch: among legal next hops the tree's own link first, then the nearest: by turns
/// of the addresses, but the lowest port where an address is on no tree that reaches its switch. Without trees the
/// nearest are balanced, so that no link has more than it has to. Also says which pairs of switches have no legal
/// route. All parts belong to one topology.
///
/// A regular Clos has few tables that are filled in whole: the others share one's but for what makes them
/// differ.
pub fn fill(
    topology: &Topology,
    ranks: &Ranks,
    forest: &Forest,
    plan: &AddressPlan,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let links = Links::new(topology, ranks);
    let kin = Kin::of(topology, &links, forest);
    fill_by(&kin, &links, topology, ranks, forest, plan)
}

fn fill_by(
    kin: &Kin,
    links: &Links,
    topology: &Topology,
    ranks: &Ranks,
    forest: &Forest,
    plan: &AddressPlan,
) -> (Vec<ForwardingTable>, Vec<Unreachable>) {
    let mut reach = Reach::new(links);
    let top = plan.addresses().top();
    let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
    let mut unreachable = Vec::new();
    // By switch: columns in which it differs from the one it is like, its nearest port there, and its detours.
    let mut apart: Vec<Vec<(&Column, u8, Vec<PortNum>)>> =
        vec![Vec::new(); topology.switch_count()];
    let detours = |reach: &Reach, switch: NodeIndex| {
        let mut ports = Vec::new();
        if forest.lacks_trees(switch) {
            reach.nearest(links, switch, &mut ports);
        }
        ports
    };
    let columns: Vec<Column> = topology
        .switches()
        .map(|destination| Column::new(topology, forest, plan, destination))
        .collect();
    // By head and place in the batch: where addresses go that no tree of the switch's leads to.
    let mut nearest = vec![[NO_PORT; BATCH]; kin.heads.len()];
    // The same of the heads that lack trees, in turn.
    let lacking: Vec<NodeIndex> =
        kin.heads.iter().copied().filter(|&head| forest.lacks_trees(head)).collect();
    let mut around: Vec<Vec<Vec<PortNum>>> = vec![Vec::new(); lacking.len()];
    let mut row = Vec::new();
    for batch in columns.chunks(BATCH) {
        for (place, column) in batch.iter().enumerate() {
            let destination = column.destination;
            reach.compute(links, ranks, destination);
            let without = reach.without_route(links);
            unreachable.extend(without.map(|from| Unreachable { from, to: destination }));
            for (nearest, &head) in nearest.iter_mut().zip(&kin.heads) {
                nearest[place] = reach.port(links, head);
            }
            for (around, &head) in around.iter_mut().zip(&lacking) {
                around.push(detours(&reach, head));
            }
            kin.differing(destination, reach.above(), |switch| {
                let port = reach.port(links, switch);
                apart[switch.index()].push((column, port, detours(&reach, switch)));
            });
        }
        let own: Vec<Lid> = batch.iter().map(|column| column.own).collect();
        let runs_of_own = runs(&own);
        for (nearest, &switch) in nearest.iter().zip(&kin.heads) {
            let table = &mut tables[switch.index()];
            for &(first, end) in &runs_of_own {
                table.set_row(own[first as usize], &nearest[first as usize..end as usize]);
            }
            let around = lacking.iter().position(|&head| head == switch).map(|n| &around[n]);
            for (place, (column, &nearest)) in batch.iter().zip(nearest).enumerate() {
                let detours = around.map_or(&[][..], |around| &around[place]);
                column.fill(forest, switch, (nearest, detours), &mut row, table);
            }
        }
        around.iter_mut().for_each(Vec::clear);
    }
    for switch in topology.switches() {
        if let Some(model) = kin.like[switch.index()].model() {
            tables[switch.index()] = tables[model.index()].clone();
        }
        let table = &mut tables[switch.index()];
        for (column, nearest, detours) in &apart[switch.index()] {
            table.set(column.own, PortNum(*nearest));
            column.fill(forest, switch, (*nearest, detours), &mut row, table);
        }
    }
    if forest.is_empty() {
        let ends = columns.iter().map(|it| Ends { switch: it.destination, lids: &it.ends });
        let ends: Vec<Ends<'_>> = ends.collect();
        let (mut up_down, offsets) = (UpDown::new(links, ranks), plan.lmc().addresses());
        balanced::fill(topology, &mut up_down, &ends, offsets, &mut tables);
        let bases = layered::bases(&ends, offsets);
        if bases.len().saturating_mul(topology.switch_count()) <= MOST_ROUTES {
            let spread = Spread::new(topology, bases, (&mut up_down, &|_| true), tables);
            tables = spread.improved(MOST_STEPS, |_, _| true);
        }
    }
    for column in &columns {
        deliver(topology, plan, column.destination, &mut tables[column.destination.index()]);
        column.descend(topology, forest, &mut tables);
    }
    unreachable.sort_by_key(|pair| (pair.to, pair.from));
    (tables, unreachable)
}

/// Fills the tables with shortest paths, and finds the lane of each; `None` where `most` do not suffice. They are
/// spread, or go by the lowest ports, as those to switches do.
pub(super) fn fill_shortest(
    topology: &Topology,
    ranks: &Ranks,
    plan: &AddressPlan,
    wanted: &Layers<'_>,
) -> Option<(Vec<ForwardingTable>, Vec<Unreachable>, Lanes)> {
    let bare = Forest::bare(topology);
    let top = plan.addresses().top();
    let mut tables = vec![ForwardingTable::up_to(top); topology.switch_count()];
    let columns: Vec<Column> =
        topology.switches().map(|to| Column::new(topology, &bare, plan, to)).collect();
    let mut unreachable = Vec::new();
    for &Column { destination: to, own, .. } in &columns {
        let mut is_met = vec![false; topology.switch_count()];
        is_met[to.index()] = true;
        Shortest::LowestPort.find(topology, to, &|_| true, &mut |switch, ports| {
            is_met[switch.index()] = true;
            ports.first().into_iter().for_each(|&port| tables[switch.index()].set(own, port));
        });
        let without = topology.switches().filter(|switch| !is_met[switch.index()]);
        unreachable.extend(without.map(|from| Unreachable { from, to }));
    }
    let ends: Vec<Ends<'_>> =
        columns.iter().map(|it| Ends { switch: it.destination, lids: &it.ends }).collect();
    let lanes = layered::fill(topology, ranks, &ends, plan, &mut tables, wanted)?;
    for column in &columns {
        deliver(topology, plan, column.destination, &mut tables[column.destination.index()]);
    }
    Some((tables, unreachable, lanes))
}

/// How a switch's table follows from an earlier one's.
#[derive(Clone, Copy)]
enum Like {
    /// It does not: the table is filled in whole.
    Nobody,
    /// The same cables up and down, and the same ports towards the roots - the leaves of a pod, the cores of a
    /// group: alike in everything but the columns of the two themselves.
    Twin(NodeIndex),
    /// The same cables up, and the same ports towards the roots - the aggregation switches that share their
    /// cores: alike in the columns of what is below neither.
    Cousin(NodeIndex),
}

impl Like {
    const fn model(self) -> Option<NodeIndex> {
        match self {
            Self::Nobody => None,
            Self::Twin(model) | Self::Cousin(model) => Some(model),
        }
    }
}

/// Which tables follow from which. A switch's model comes before it.
struct Kin {
    like: Vec<Like>,
    /// By switch: whose model it is.
    followers: Vec<Vec<NodeIndex>>,
    /// The switches that have no twin before them.
    heads: Vec<NodeIndex>,
}

impl Kin {
    fn of(topology: &Topology, links: &Links, forest: &Forest) -> Self {
        let mut by_cables_up: BTreeMap<u32, Vec<NodeIndex>> = BTreeMap::new();
        let mut kin = Self {
            like: Vec::new(),
            followers: vec![Vec::new(); topology.switch_count()],
            heads: Vec::new(),
        };
        for switch in topology.switches() {
            let (up, down) = links.twins(switch);
            let met = by_cables_up.entry(up).or_default();
            let kindred = |&&other: &&NodeIndex| {
                // Without trees each route is chosen by itself.
                !forest.is_empty()
                    && forest.ups(other) == forest.ups(switch)
                    && forest.groups_of(other) == forest.groups_of(switch)
            };
            let mut kindred = met.iter().filter(kindred).copied();
            // Everything is below a root.
            let cousin = kindred.clone().next().filter(|_| forest.rooted_at(switch).is_none());
            let twin = kindred.find(|&other| links.twins(other).1 == down);
            let like = twin.map_or_else(|| cousin.map_or(Like::Nobody, Like::Cousin), Like::Twin);
            if twin.is_none() {
                met.push(switch);
            }
            match like.model() {
                Some(model) => kin.followers[model.index()].push(switch),
                None => kin.heads.push(switch),
            }
            kin.like.push(like);
        }
        kin
    }

    /// Calls `apart` for every switch that may differ from its model in what leads to `destination`; `above`:
    /// the destination itself and what is above it.
    fn differing(
        &self,
        destination: NodeIndex,
        above: &[NodeIndex],
        mut apart: impl FnMut(NodeIndex),
    ) {
        let differs = |switch: NodeIndex, met: NodeIndex| match self.like[switch.index()] {
            Like::Nobody => false,
            Like::Twin(_) => met == destination,
            Like::Cousin(_) => true,
        };
        for &met in above {
            let followers = self.followers[met.index()].iter().copied();
            followers.chain([met]).filter(|&s| differs(s, met)).for_each(&mut apart);
        }
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
    /// How many addresses each port has.
    block: usize,
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
                let home = || plan.home_or_instead(port);
                let tree = plan.tree(port, offset as u16).or_else(home);
                let tree = tree.filter(|&tree| forest.covers(destination, tree));
                lids.push((lid, tree.map_or(forest.len() as u16, |tree| tree.0)));
            }
        }
        lids.sort_unstable();
        let (ends, tree): (Vec<Lid>, Vec<u16>) = lids.into_iter().unzip();
        let own = plan.addresses().base(topology.port0(destination)).unwrap_or(Lid::NONE);
        let runs = runs(&ends);
        let (of_group, first_of_group) = by_group(forest, &tree);
        let block = plan.lmc().addresses();
        Self { destination, own, ends, tree, block, runs, of_group, first_of_group }
    }

    /// Fills in what another switch's table holds of the ports' addresses: nothing where it has no route. Where
    /// the switch has no port to an address's tree, the address takes one of the detours in turn, or the nearest
    /// port where there are none. `row` is used on the way.
    fn fill(
        &self,
        forest: &Forest,
        switch: NodeIndex,
        (nearest, detours): (u8, &[PortNum]),
        row: &mut Vec<u8>,
        table: &mut ForwardingTable,
    ) {
        let nothing_to_say = nearest == NO_PORT || forest.is_empty();
        if nothing_to_say || self.ends.is_empty() || self.destination == switch {
            return;
        }
        let ups = forest.ups(switch);
        let groups = forest.groups_of(switch);
        let or_nearest = |place: usize| match ups[usize::from(self.tree[place])] {
            NO_PORT if usize::from(self.tree[place]) == forest.len() => nearest,
            NO_PORT => {
                let turn = self.ends[place].index() / self.block / forest.len();
                turn.checked_rem(detours.len()).map_or(nearest, |turn| detours[turn].0)
            }
            own => own,
        };
        row.clear();
        if !detours.is_empty() || groups.len() + 1 == self.first_of_group.len() {
            row.extend((0..self.ends.len()).map(or_nearest));
        } else {
            row.resize(self.ends.len(), nearest);
            for &group in groups {
                let places =
                    self.first_of_group[group as usize]..self.first_of_group[group as usize + 1];
                for &place in &self.of_group[places.start as usize..places.end as usize] {
                    row[place as usize] = or_nearest(place as usize);
                }
            }
        }
        for &(first, end) in &self.runs {
            table.set_row(self.ends[first as usize], &row[first as usize..end as usize]);
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

#[cfg(test)]
mod tests {
    use rand::seq::IndexedRandom;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::clos::recognise;
    use crate::generate::{Recipe, cut_cables};
    use crate::hosts::Hosts;

    #[test]
    fn a_table_that_follows_from_another_is_what_filling_it_in_whole_gives() {
        for seed in 0..120 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let recipes = ["clos:8,4,4", "clos:8,4,2,2", "fattree:4", "fattree:6"];
            let recipe = recipes.choose(&mut random).unwrap();
            let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
            let topology = cut_cables(&topology, random.random_range(0..6), seed);
            let Ok(clos) = recognise(&topology, &Hosts::of(&topology)) else { continue };
            let ranks = Ranks::of_clos(&topology, &clos);
            let forest = Forest::grow(&topology, &clos);
            let plan = AddressPlan::new(&topology, Some((&clos, &forest)), None, 0).unwrap();
            let links = Links::new(&topology, &ranks);
            let strangers = Kin {
                like: vec![Like::Nobody; topology.switch_count()],
                followers: vec![Vec::new(); topology.switch_count()],
                heads: topology.switches().collect(),
            };
            let whole = fill_by(&strangers, &links, &topology, &ranks, &forest, &plan);
            assert!(fill(&topology, &ranks, &forest, &plan) == whole, "{recipe}, seed {seed}");
        }
    }
}
