//! Routing trees: one a root and plane, and which switches each of them covers.

use crate::clos::{Clos, Level, parallel};
use crate::{NodeIndex, PortNum, Topology, TreeId};

/// One routing tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutingTree {
    /// Its number.
    pub id: TreeId,
    /// The spine or core it grows from.
    pub root: NodeIndex,
    /// Which of the root's cables to a leaf it uses, with three stages to a pod, from 0: those over the pod's
    /// first aggregation switch come first.
    pub plane: u16,
    /// Trees of one group share the links between leaves and the switches above: with three stages a
    /// (group of cores, aggregation switch of each pod, leaf plane), with two the tree alone.
    pub group: u32,
}

/// Every routing tree of a Clos, numbered from 0 by (root GUID, plane).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forest {
    trees: Vec<RoutingTree>,
    groups: u32,
    /// `up[switch * (trees + 1) + tree]`: the port of a leaf or aggregation switch towards the tree's root,
    /// 0xFF where the tree does not cover the switch (all the way to its root) or the switch is a root.
    up: Vec<u8>,
    /// Place among the roots of every switch; `u32::MAX` for others.
    root_place: Vec<u32>,
    root_planes: usize,
    /// By switch: the groups with trees that cover it from above, in `groups_of`.
    first_group: Vec<u32>,
    group_list: Vec<u32>,
}

impl Forest {
    /// Grows the trees.
    pub fn grow(topology: &Topology, clos: &Clos) -> Self {
        let trees = number_trees(clos);
        let groups = trees.iter().map(|tree| tree.group + 1).max().unwrap_or(0);
        let mut root_place = vec![u32::MAX; topology.switch_count()];
        for (place, root) in clos.roots.iter().enumerate() {
            root_place[root.index()] = place as u32;
        }
        let up = vec![PortNum::NONE.0; topology.switch_count() * (trees.len() + 1)];
        let root_planes = clos.root_planes;
        let (first_group, group_list) = (Vec::new(), Vec::new());
        let mut forest =
            Self { trees, groups, up, root_place, root_planes, first_group, group_list };
        // Aggregation switches first: a leaf is covered where the switch above it is.
        for &switch in &clos.aggregation {
            forest.connect_to_roots(topology, clos, switch);
        }
        for &leaf in &clos.leaves {
            match clos.stages() {
                2 => forest.connect_to_roots(topology, clos, leaf),
                _ => forest.connect_to_aggregation(topology, clos, leaf),
            }
        }
        forest.list_groups(topology);
        forest
    }

    /// No trees: for fabrics that are no Clos.
    pub fn bare(topology: &Topology) -> Self {
        let root_place = vec![u32::MAX; topology.switch_count()];
        let mut forest = Self {
            trees: Vec::new(),
            groups: 0,
            up: vec![PortNum::NONE.0; topology.switch_count()],
            root_place,
            root_planes: 0,
            first_group: Vec::new(),
            group_list: Vec::new(),
        };
        forest.list_groups(topology);
        forest
    }

    /// Number of trees.
    pub const fn len(&self) -> usize {
        self.trees.len()
    }

    /// True without trees.
    pub const fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Every tree, by number.
    pub fn trees(&self) -> &[RoutingTree] {
        &self.trees
    }

    /// Number of groups of trees; each of two stages' trees is its own.
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// The port of `switch` towards the root of `tree`; `None` where the tree does not cover it and at
    /// the root itself.
    pub fn up(&self, switch: NodeIndex, tree: TreeId) -> Option<PortNum> {
        let port = self.ups(switch)[tree.index()];
        (port != PortNum::NONE.0).then_some(PortNum(port))
    }

    /// The ports of `switch` towards every tree's root, by tree; 0xFF as in a forwarding table. One entry
    /// more says the same of no tree.
    pub(super) fn ups(&self, switch: NodeIndex) -> &[u8] {
        let row = self.len() + 1;
        &self.up[switch.index() * row..][..row]
    }

    /// The groups with trees that cover `switch` from above, lowest first; none for roots.
    pub(super) fn groups_of(&self, switch: NodeIndex) -> &[u32] {
        let range = self.first_group[switch.index()]..self.first_group[switch.index() + 1];
        &self.group_list[range.start as usize..range.end as usize]
    }

    fn list_groups(&mut self, topology: &Topology) {
        self.first_group.push(0);
        for switch in topology.switches() {
            let covering = self.trees.iter().filter(|tree| self.up(switch, tree.id).is_some());
            let mut groups: Vec<u32> = covering.map(|tree| tree.group).collect();
            groups.sort_unstable();
            groups.dedup();
            self.group_list.extend(groups);
            self.first_group.push(self.group_list.len() as u32);
        }
    }

    /// The trees that grow from `switch`, if it is a root.
    pub fn rooted_at(&self, switch: NodeIndex) -> Option<std::ops::Range<usize>> {
        let place = self.root_place[switch.index()];
        let first = place as usize * self.root_planes;
        (place != u32::MAX).then_some(first..first + self.root_planes)
    }

    /// Whether the switch has no port to some tree: of any group, but for an aggregation switch, which is of one.
    /// What goes along that tree makes a detour there. What is outside the Clos has no port to any tree.
    pub(super) fn lacks_trees(&self, switch: NodeIndex) -> bool {
        let groups = self.groups_of(switch);
        let is_own = |tree: &&RoutingTree| groups.len() != 1 || groups.contains(&tree.group);
        let mut own = self.trees.iter().filter(is_own);
        self.rooted_at(switch).is_none() && own.any(|tree| self.up(switch, tree.id).is_none())
    }

    /// Whether `tree` joins `switch` to its root: the pair is *usable* for grants.
    pub fn covers(&self, switch: NodeIndex, tree: TreeId) -> bool {
        self.trees[tree.index()].root == switch || self.up(switch, tree).is_some()
    }

    /// Spines for leaves of two stages, cores for aggregation switches of three: plane n is the n-th of
    /// the parallel cables. A pair with fewer cables has the lower planes, so that what is missing is
    /// missing from the same trees everywhere.
    fn connect_to_roots(&mut self, topology: &Topology, clos: &Clos, switch: NodeIndex) {
        let row = switch.index() * (self.len() + 1);
        for (place, &root) in clos.roots.iter().enumerate() {
            if clos.stages() == 3 && clos.group(root) != clos.group(switch) {
                continue;
            }
            let first = clos.place_in_group(switch) as usize * clos.root_cables();
            let cables = parallel(topology, switch, root).take(clos.root_cables());
            for (plane, port) in (first..).zip(cables) {
                self.up[row + place * self.root_planes + plane] = port.0;
            }
        }
    }

    fn connect_to_aggregation(&mut self, topology: &Topology, clos: &Clos, leaf: NodeIndex) {
        let count = self.len();
        let above: Vec<NodeIndex> =
            clos.aggregation.iter().copied().filter(|&s| clos.pod(s) == clos.pod(leaf)).collect();
        for switch in above {
            let cables: Vec<PortNum> = parallel(topology, leaf, switch).collect();
            for tree in 0..count {
                let plane = self.trees[tree].group as usize % clos.leaf_planes;
                if let (Some(port), Some(_)) =
                    (cables.get(plane), self.up(switch, TreeId(tree as u16)))
                {
                    self.up[leaf.index() * (count + 1) + tree] = port.0;
                }
            }
        }
    }
}

fn number_trees(clos: &Clos) -> Vec<RoutingTree> {
    let mut trees = Vec::with_capacity(clos.roots.len() * clos.root_planes);
    let mut taken = vec![0usize; clos.groups() as usize * clos.group_width];
    for &root in &clos.roots {
        for plane in 0..clos.root_planes {
            let id = TreeId(trees.len() as u16);
            let group = match clos.stages() {
                2 => u32::from(id.0),
                // The trees of a group take turns on the leaves' parallel cables.
                _ => {
                    let above =
                        clos.group(root) as usize * clos.group_width + plane / clos.root_cables();
                    let leaf_plane = taken[above] % clos.leaf_planes;
                    taken[above] += 1;
                    (above * clos.leaf_planes + leaf_plane) as u32
                }
            };
            trees.push(RoutingTree { id, root, plane: plane as u16, group });
        }
    }
    debug_assert!(trees.iter().all(|tree| clos.level(tree.root) == Level::Root));
    trees
}
