//! Does every address lead along its tree, wherever the cables allow?

use std::fmt;

use super::Findings;
use super::wiring::{Column, Step, Wiring, each_column};
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, NodeKind, PortIndex, PortNum, Topology};

/// A routing tree, as plain data.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CheckedTree {
    /// The spine or core it is rooted at.
    pub root: NodeIndex,
    /// In two stages, which of the parallel cables of a leaf and the root: the n-th, from 0, in order of the
    /// leaf's port numbers. Not looked at in three stages.
    pub plane: u16,
    /// The switches below the root that it leads over, and no others; `None`: all that cables lead to.
    pub below: Option<Vec<NodeIndex>>,
}

impl CheckedTree {
    /// A tree that leads over all switches that cables lead to.
    pub const fn new(root: NodeIndex, plane: u16) -> Self {
        Self { root, plane, below: None }
    }
}

/// Stages of the Clos: how far below their roots the leaves are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stages {
    /// Leaf, spine.
    Two,
    /// Leaf, aggregation, core.
    Three,
}

/// A route that left a tree on which the cables would have let it stay.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Strayed {
    /// The switch where it begins.
    pub from: String,
    /// The destination address.
    pub dlid: u16,
    /// The port that owns the address.
    pub owner: String,
    /// The tree.
    pub tree: usize,
    /// The tree's root.
    pub root: String,
    /// The way it goes instead: switches and the ports it leaves them by.
    pub way: String,
}

impl fmt::Display for Strayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, dlid, owner, tree, root, way } = self;
        write!(f, "from {from} to LID {dlid} ({owner}): goes {way}, not tree {tree} over {root}")
    }
}

/// What [`trees()`] found. A *route* is a pair (switch with hosts, address of a host on another switch).
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct TreeReport {
    /// Routes that have a tree to go along.
    pub routes: u64,
    /// Those that go along it.
    pub on_tree: u64,
    /// Those that cannot: a cable of the tree's is missing at one of their ends.
    pub no_cable: u64,
    /// Those that could, but do not.
    pub strayed: Findings<Strayed>,
}

impl TreeReport {
    /// True when no route strays.
    pub const fn is_ok(&self) -> bool {
        self.strayed.is_empty()
    }
}

impl fmt::Display for TreeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { routes, on_tree, no_cable, strayed } = self;
        write!(
            f,
            "trees: {on_tree} of {routes} routes go along their tree, {no_cable} lack a cable, {} stray\
             {strayed}",
            strayed.total
        )
    }
}

/// Checks, for every address of a host that `tree_of` gives a tree (an index into `trees`), whether it leads
/// along that tree from every switch with hosts. An address without a tree, or with one beyond `trees`, is
/// not looked at: compare `routes` with what is expected. Records the first `limit` routes that stray.
///
/// In two stages that is: up the plane's cable to the root, down the plane's cable to the destination's
/// leaf; hosts on the root itself need only one of them. In three: up over an aggregation switch to the
/// root and down again, or, within a pod, over an aggregation switch that has a cable to the root.
pub fn trees(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    trees: &[CheckedTree],
    stages: Stages,
    tree_of: impl Fn(Lid) -> Option<usize>,
    limit: usize,
) -> TreeReport {
    let mut is_root = vec![false; topology.switch_count()];
    trees.iter().for_each(|tree| is_root[tree.root.index()] = true);
    let hosts = hosts_by_switch(topology);
    let branches = trees.iter().map(|tree| Branches::of(topology, tree, &is_root, &hosts, stages));
    let branches: Vec<Branches> = branches.collect();
    let sources: Vec<NodeIndex> =
        topology.switches().filter(|switch| hosts[switch.index()] > 0).collect();
    let wiring = Wiring::of(topology);
    let mut report =
        TreeReport { routes: 0, on_tree: 0, no_cable: 0, strayed: Findings::new(limit) };
    each_column(topology, addresses, tables, |column| {
        let Some(home) = home_of_host(topology, column.owner) else { return };
        let Some(tree) = tree_of(column.lid).filter(|&tree| tree < trees.len()) else { return };
        for &from in sources.iter().filter(|&&from| from != home) {
            report.routes += 1;
            if branches[tree].carries(&wiring, &column, from, home) {
                report.on_tree += 1;
            } else if !(branches[tree].has(from) && branches[tree].has(home)) {
                report.no_cable += 1;
            } else {
                report.strayed.add(|| Strayed {
                    from: topology.node(from).name.to_string(),
                    dlid: column.lid.0,
                    owner: topology.port_name(column.owner),
                    tree,
                    root: topology.node(trees[tree].root).name.to_string(),
                    way: way(topology, &wiring, &column, from),
                });
            }
        }
    });
    report
}

/// How a switch hangs on a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Branch {
    /// By no cable of the tree's.
    None,
    /// It is the root.
    Root,
    /// Two stages: by the plane's cable, its port here and its port at the root.
    Cable { up: PortNum, down: PortNum },
    /// Three stages: by a cable to the root.
    NextToRoot,
    /// Three stages: by a cable to a switch next to the root.
    Below,
}

/// How every switch hangs on one tree.
struct Branches {
    root: NodeIndex,
    stages: Stages,
    of: Vec<Branch>,
}

impl Branches {
    fn of(
        topology: &Topology,
        tree: &CheckedTree,
        is_root: &[bool],
        hosts: &[usize],
        stages: Stages,
    ) -> Self {
        let mut of = vec![Branch::None; topology.switch_count()];
        // Another tree's root is on this tree's level: to pass it is to go down and up again.
        let mut is_below = vec![tree.below.is_none(); topology.switch_count()];
        tree.below.iter().flatten().for_each(|switch| is_below[switch.index()] = true);
        let below = |switch: NodeIndex| !is_root[switch.index()] && is_below[switch.index()];
        // In three stages a switch next to a root with more hosts than any other below it is a leaf that a stray
        // cable joins to the root.
        let is_leaf = |switch: NodeIndex| {
            let others = topology.switch_links(switch).filter(|&(_, other)| below(other));
            others.map(|(_, other)| hosts[other.index()]).max() < Some(hosts[switch.index()])
        };
        for (_, switch) in topology.switch_links(tree.root).filter(|&(_, switch)| below(switch)) {
            of[switch.index()] = match stages {
                Stages::Two => plane_cable(topology, switch, tree),
                Stages::Three if is_leaf(switch) => continue,
                Stages::Three => Branch::NextToRoot,
            };
        }
        let next_to_root = |of: &[Branch]| -> Vec<NodeIndex> {
            topology.switches().filter(|n| of[n.index()] == Branch::NextToRoot).collect()
        };
        for next in next_to_root(&of) {
            for (_, leaf) in topology.switch_links(next).filter(|&(_, leaf)| below(leaf)) {
                if of[leaf.index()] == Branch::None {
                    of[leaf.index()] = Branch::Below;
                }
            }
        }
        of[tree.root.index()] = Branch::Root;
        Self { root: tree.root, stages, of }
    }

    /// True when the tree has a way between `switch` and its root.
    fn has(&self, switch: NodeIndex) -> bool {
        self.of[switch.index()] != Branch::None
    }

    /// True when the address goes along this tree from the switch `from` to its owner's, `home`.
    fn carries(
        &self,
        wiring: &Wiring,
        column: &Column<'_>,
        from: NodeIndex,
        home: NodeIndex,
    ) -> bool {
        let delivered = || wiring.step(home, column.port(home)) == Step::Arrived(column.owner);
        let along = match self.stages {
            Stages::Two => self.carries_in_two(column, from, home),
            Stages::Three => self.carries_in_three(wiring, column, from, home),
        };
        along && delivered()
    }

    /// The cables are known, so the two entries are compared with them.
    fn carries_in_two(&self, column: &Column<'_>, from: NodeIndex, home: NodeIndex) -> bool {
        let up = match self.of[from.index()] {
            Branch::Root => true,
            Branch::Cable { up, .. } => column.port(from) == up,
            _ => false,
        };
        let down = match self.of[home.index()] {
            Branch::Root => true,
            Branch::Cable { down, .. } => column.port(self.root) == down,
            _ => false,
        };
        up && down
    }

    /// Up, each switch nearer to the root than the last, and then down: no more than five switches.
    fn carries_in_three(
        &self,
        wiring: &Wiring,
        column: &Column<'_>,
        from: NodeIndex,
        home: NodeIndex,
    ) -> bool {
        let (mut at, mut down) = (from, false);
        while at != home {
            let Step::Switch(next, _) = wiring.step(at, column.port(at)) else { return false };
            let (Some(height), Some(reached)) = (self.height(at), self.height(next)) else {
                return false;
            };
            if reached + 1 == height {
                down = true;
            } else if down || reached != height + 1 {
                return false;
            }
            at = next;
        }
        true
    }

    fn height(&self, switch: NodeIndex) -> Option<u8> {
        match self.of[switch.index()] {
            Branch::Root => Some(2),
            Branch::NextToRoot => Some(1),
            Branch::Below => Some(0),
            Branch::None | Branch::Cable { .. } => None,
        }
    }
}

/// The cable of the tree's plane between `leaf` and the root, if there are that many.
fn plane_cable(topology: &Topology, leaf: NodeIndex, tree: &CheckedTree) -> Branch {
    let mut parallel =
        topology.cables(leaf).filter(|&(_, end)| topology.port(end).node == tree.root);
    match parallel.nth(usize::from(tree.plane)) {
        Some((up, down)) => Branch::Cable { up: topology.num(up), down: topology.num(down) },
        None => Branch::None,
    }
}

fn hosts_by_switch(topology: &Topology) -> Vec<usize> {
    let on = |switch| {
        let ends = topology.cables(switch).map(|(_, end)| end);
        ends.filter(|&end| home_of_host(topology, end).is_some()).count()
    };
    topology.switches().map(on).collect()
}

/// The switch that an adapter's port hangs on.
fn home_of_host(topology: &Topology, port: PortIndex) -> Option<NodeIndex> {
    let host = topology.node(topology.port(port).node).kind == NodeKind::Adapter;
    Wiring::switch_of(topology, port).filter(|_| host)
}

/// The switches of a route and the ports it leaves them by, as far as it goes or until it comes back.
fn way(topology: &Topology, wiring: &Wiring, column: &Column<'_>, from: NodeIndex) -> String {
    let mut names = Vec::new();
    let mut met = vec![false; topology.switch_count()];
    let mut at = from;
    while !std::mem::replace(&mut met[at.index()], true) {
        let out = column.port(at);
        names.push(format!("{}/{out}", topology.node(at).name));
        match wiring.step(at, out) {
            Step::Switch(next, _) => at = next,
            _ => break,
        }
    }
    names.join(" ")
}
