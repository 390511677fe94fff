//! One group's tree: which switches are in it, and which ports each of them copies to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{MulticastTable, PortMask};
use crate::routing::{Forest, Ranks};
use crate::{Guid, Mlid, NodeIndex, PortIndex, PortNum, Topology};

/// The members of a group: ports of adapters and routers, and ports 0 of switches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Those that get every packet but their own; they may send too.
    pub full: BTreeSet<PortIndex>,
    /// Those that send and get nothing; who is in `full` too is full.
    pub send_only: BTreeSet<PortIndex>,
}

/// What the switches hold for one group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct McTree {
    top: Option<NodeIndex>,
    masks: BTreeMap<NodeIndex, PortMask>,
    unreached: Vec<PortIndex>,
}

impl McTree {
    /// The switch above all others of the tree; none without members.
    pub const fn top(&self) -> Option<NodeIndex> {
        self.top
    }

    /// The switches that forward the group's packets, and by which ports, by switch.
    pub fn masks(&self) -> impl ExactSizeIterator<Item = (NodeIndex, PortMask)> + '_ {
        self.masks.iter().map(|(&switch, &ports)| (switch, ports))
    }

    /// Members that hang on no switch, or on one that has no legal way to the others.
    pub fn unreached(&self) -> &[PortIndex] {
        &self.unreached
    }

    /// One table a switch, by switch, of the trees of all groups.
    pub fn tables<'a>(
        switches: usize,
        trees: impl IntoIterator<Item = (Mlid, &'a Self)>,
    ) -> Vec<MulticastTable> {
        let mut tables = vec![MulticastTable::default(); switches];
        for (mlid, tree) in trees {
            tree.masks().for_each(|(switch, ports)| tables[switch.index()].set(mlid, ports));
        }
        tables
    }
}

/// Grows the trees of a fabric's groups. A tree depends on the fabric, its own address and its own members, on
/// nothing else: so that a group that comes or goes moves no other, and a cable that is cut moves only those that
/// used it.
///
/// The *top* of a tree is the switch that reaches all members going only down, in the fewest hops over all of
/// their switches. Of many that do, as the spines of a Clos, the one is taken whose GUID and the group's
/// address give the greatest hash (rendezvous hashing): that shares groups out evenly without anybody counting
/// them.
pub struct Planner<'a> {
    topology: &'a Topology,
    ranks: &'a Ranks,
    forest: &'a Forest,
    /// By switch: the switches above and below that cables lead to.
    above: Vec<Vec<NodeIndex>>,
    below: Vec<Vec<NodeIndex>>,
    /// Switches without a multicast forwarding table.
    incapable: BTreeSet<NodeIndex>,
    /// By switch, where it was asked for: every switch above it, itself included, and the hops there.
    climbs: Vec<Vec<(NodeIndex, u32)>>,
}

/// What a group has on one switch.
#[derive(Clone, Copy, Default)]
struct Stop {
    /// Ports of the switch behind which there is a receiver.
    receive: PortMask,
    members: u32,
}

impl<'a> Planner<'a> {
    /// All parts belong to one topology.
    pub fn new(topology: &'a Topology, ranks: &'a Ranks, forest: &'a Forest) -> Self {
        let neighbours = |up: bool| {
            let of = |switch: NodeIndex| {
                let peers = topology.switch_links(switch).map(|(_, peer)| peer);
                let peers: BTreeSet<NodeIndex> =
                    peers.filter(|&peer| ranks.is_above(peer, switch) == up).collect();
                peers.into_iter().collect()
            };
            topology.switches().map(of).collect()
        };
        let climbs = vec![Vec::new(); topology.switch_count()];
        Self {
            topology,
            ranks,
            forest,
            above: neighbours(true),
            below: neighbours(false),
            incapable: BTreeSet::new(),
            climbs,
        }
    }

    /// Leaves out switches that cannot forward multicast, and all that only they lead to.
    #[must_use]
    pub fn without(mut self, incapable: &BTreeSet<NodeIndex>) -> Self {
        for (n, neighbours) in self.above.iter_mut().chain(&mut self.below).enumerate() {
            let switch = NodeIndex((n % self.topology.switch_count()) as u32);
            let cut = incapable.contains(&switch);
            neighbours.retain(|neighbour| !cut && !incapable.contains(neighbour));
        }
        self.incapable = incapable.clone();
        self
    }

    /// The tree of the group with this address and these members.
    pub fn tree(&mut self, mlid: Mlid, members: &Members) -> McTree {
        let mut tree = McTree::default();
        let mut stops: BTreeMap<NodeIndex, Stop> = BTreeMap::new();
        let mut homes: Vec<(PortIndex, NodeIndex)> = Vec::new();
        for &member in members.full.union(&members.send_only) {
            let Some((switch, port)) = self.home(member) else {
                tree.unreached.push(member);
                continue;
            };
            homes.push((member, switch));
            let stop = stops.entry(switch).or_default();
            stop.members += 1;
            if members.full.contains(&member) {
                stop.receive.insert(port);
            }
        }
        let Some(top) = self.top(mlid, &stops) else { return tree };
        let under = self.under(top);
        stops.retain(|switch, _| under.contains(switch));
        let lost = homes.into_iter().filter(|(_, switch)| !under.contains(switch));
        tree.unreached.extend(lost.map(|(member, _)| member));
        tree.unreached.sort_unstable();
        tree.top = Some(top);
        tree.masks = self.masks(&self.join(mlid, top, &under, &stops), mlid, &stops);
        tree
    }

    /// The switch that a port hangs on, and the port there.
    fn home(&self, member: PortIndex) -> Option<(NodeIndex, PortNum)> {
        let topology = self.topology;
        let node = topology.port(member).node;
        let at = if topology.is_switch(node) { member } else { topology.peer(member)? };
        let switch = topology.port(at).node;
        let forwards = topology.is_switch(switch) && !self.incapable.contains(&switch);
        forwards.then(|| (switch, topology.num(at)))
    }

    /// The switch that reaches most members going down, in the fewest hops.
    fn top(&mut self, mlid: Mlid, stops: &BTreeMap<NodeIndex, Stop>) -> Option<NodeIndex> {
        // By switch: members below it, and hops to their switches.
        let mut reached = vec![(0, Reverse(0)); self.topology.switch_count()];
        for (&switch, stop) in stops {
            for &(above, hops) in self.climb(switch) {
                let (members, sum) = &mut reached[above.index()];
                *members += stop.members;
                sum.0 += hops;
            }
        }
        let best = reached.iter().filter(|(members, _)| *members > 0).max()?;
        let best = self.topology.switches().filter(|switch| reached[switch.index()] == *best);
        self.heaviest(mlid, best)
    }

    /// Every switch above `switch`, itself included, and the hops there.
    fn climb(&mut self, switch: NodeIndex) -> &[(NodeIndex, u32)] {
        if self.climbs[switch.index()].is_empty() {
            let mut climb = vec![(switch, 0)];
            let mut met = BTreeSet::from([switch]);
            let mut next = 0;
            while let Some(&(at, hops)) = climb.get(next) {
                next += 1;
                let above = self.above[at.index()].iter().filter(|&&above| met.insert(above));
                climb.extend(above.map(|&above| (above, hops + 1)));
            }
            self.climbs[switch.index()] = climb;
        }
        &self.climbs[switch.index()]
    }

    /// Every switch that is reached from `top` going down, itself included.
    fn under(&self, top: NodeIndex) -> BTreeSet<NodeIndex> {
        let mut under = BTreeSet::from([top]);
        let mut todo = vec![top];
        while let Some(at) = todo.pop() {
            let below = &self.below[at.index()];
            todo.extend(below.iter().filter(|&&below| under.insert(below)));
        }
        under
    }

    /// Gives every switch of the tree but the top the one above it, from the bottom up: one that is in the tree
    /// already, else the one with most below it that still look for one. The result is in the order of joining.
    fn join(
        &self,
        mlid: Mlid,
        top: NodeIndex,
        under: &BTreeSet<NodeIndex>,
        stops: &BTreeMap<NodeIndex, Stop>,
    ) -> Vec<(NodeIndex, NodeIndex)> {
        let place = |switch: NodeIndex| (self.ranks.place(switch), switch);
        let mut open: BTreeSet<(u32, NodeIndex)> = stops.keys().map(|&s| place(s)).collect();
        let mut joined = Vec::new();
        while let Some((_, switch)) = open.pop_last() {
            if switch == top {
                continue;
            }
            let above = &self.above[switch.index()];
            let above = || above.iter().copied().filter(|above| under.contains(above));
            let waiting = |above: NodeIndex| {
                let below = self.below[above.index()].iter();
                below.filter(|&&below| open.contains(&place(below))).count()
            };
            let worth = |above: NodeIndex| (open.contains(&place(above)), waiting(above));
            let best = above().map(worth).max();
            let best = above().filter(|&above| Some(worth(above)) == best);
            // Every switch below the top has a switch above it that belongs to the tree too.
            let Some(best) = self.heaviest(mlid, best) else { continue };
            open.insert(place(best));
            joined.push((switch, best));
        }
        joined
    }

    /// The ports to which each switch copies a packet: a receiver is behind each of them.
    fn masks(
        &self,
        joined: &[(NodeIndex, NodeIndex)],
        mlid: Mlid,
        stops: &BTreeMap<NodeIndex, Stop>,
    ) -> BTreeMap<NodeIndex, PortMask> {
        let receivers = |stop: &Stop| stop.receive.iter().count();
        let all: usize = stops.values().map(receivers).sum();
        if stops.values().map(|stop| stop.members).sum::<u32>() < 2 {
            return BTreeMap::new(); // A sender gets no copy of its own packet.
        }
        let mut masks: BTreeMap<NodeIndex, PortMask> =
            stops.iter().map(|(&switch, stop)| (switch, stop.receive)).collect();
        let mut below: BTreeMap<NodeIndex, usize> =
            stops.iter().map(|(&switch, stop)| (switch, receivers(stop))).collect();
        for &(switch, above) in joined {
            let received = below.get(&switch).copied().unwrap_or(0);
            *below.entry(above).or_default() += received;
            let Some((up, down)) = self.cable(mlid, switch, above) else { continue };
            if received > 0 {
                masks.entry(above).or_default().insert(down);
            }
            if received < all {
                masks.entry(switch).or_default().insert(up);
            }
        }
        masks.retain(|_, ports| !ports.is_empty());
        masks
    }

    /// One of the cables between two switches: the port at each end.
    fn cable(&self, mlid: Mlid, low: NodeIndex, high: NodeIndex) -> Option<(PortNum, PortNum)> {
        let topology = self.topology;
        let cables = topology.cables(low).filter(|&(_, far)| topology.port(far).node == high);
        let guid = topology.node(low).guid.0;
        let weight = |near: PortIndex| {
            let port = topology.num(near);
            (hash(Guid(guid.rotate_left(8) ^ u64::from(port.0)), mlid), Reverse(port))
        };
        let (near, far) = cables.max_by_key(|&(near, _)| weight(near))?;
        Some((topology.num(near), topology.num(far)))
    }

    /// The one with the greatest weight.
    fn heaviest(
        &self,
        mlid: Mlid,
        mut switches: impl Iterator<Item = NodeIndex>,
    ) -> Option<NodeIndex> {
        let first = switches.next()?;
        let Some(second) = switches.next() else { return Some(first) };
        let all = [first, second].into_iter().chain(switches);
        all.max_by_key(|&switch| (self.weight(mlid, switch), Reverse(switch)))
    }

    /// A switch weighs as much as the heaviest root that a routing tree joins it to: so a group whose members are
    /// all in one pod has its top below the core that it has when others join it.
    fn weight(&self, mlid: Mlid, switch: NodeIndex) -> u64 {
        let guid = |switch| self.topology.node(switch).guid;
        let trees = self.forest.trees().iter();
        let roots = trees.filter(|tree| self.forest.covers(switch, tree.id)).map(|tree| tree.root);
        let heaviest = roots.map(|root| hash(guid(root), mlid)).max();
        heaviest.unwrap_or_else(|| hash(guid(switch), mlid))
    }
}

/// A number that differs in every bit for neighbouring GUIDs and addresses, and is the same on every machine
/// and in every version: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014), once over each.
const fn hash(guid: Guid, mlid: Mlid) -> u64 {
    const fn mix(value: u64) -> u64 {
        let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ value >> 31
    }
    mix(mix(guid.0) ^ mlid.index() as u64)
}
