//! Which addresses every port has, and which tree each address leads along.

use super::Forest;
use crate::addresses::Addresses;
use crate::clos::Clos;
use crate::{Dlid, Lid, Lmc, NodeIndex, PortIndex, Topology, TreeId};

/// Addresses that do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// More addresses than a subnet has.
    #[error(
        "{ports} end ports with LMC {lmc} and {switches} switches need {needed} LIDs; a subnet has {}: \
         at most LMC {fits} fits",
        Lid::MAX_UNICAST
    )]
    TooManyLids {
        /// End ports to be addressed.
        ports: usize,
        /// Switches, with one address each.
        switches: usize,
        /// The LMC asked for.
        lmc: Lmc,
        /// Addresses needed, alignment included.
        needed: usize,
        /// The most that would fit.
        fits: Lmc,
    },
    /// Too large for any LMC.
    #[error(
        "{ports} end ports and {switches} switches do not fit a subnet's {} LIDs, even at LMC 0",
        Lid::MAX_UNICAST
    )]
    TooManyPorts {
        /// End ports to be addressed.
        ports: usize,
        /// Switches.
        switches: usize,
    },
}

/// Base LIDs by (leaf GUID, leaf port), and the tree behind every offset.
///
/// Programs that do not ask use the base address. It is no tree's own: it leads along the port's home tree, and
/// home trees take turns from port to port, so that such traffic is spread over all trees. Tree `t` has offset
/// `1 + t` (further offsets are aliases). That takes one address more than there are trees; where 2^LMC is no
/// more than the number of trees, every port has 2^LMC trees of its own instead, rotated from port to port so
/// that together they cover all, and so do the base addresses. With one tree there is nothing to spread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressPlan {
    addresses: Addresses,
    lmc: Lmc,
    trees: usize,
    /// Place of every port among the end ports; [`NO_END`] for switches' and unused ports.
    end_of_port: Vec<u32>,
    /// The trees that are home trees, in the order in which ports take turns; empty where the base address is
    /// a tree's own.
    unmanaged: Vec<TreeId>,
    /// By switch with end ports: the home trees of these; and by end port: which of them, or [`NO_END`].
    homes: Vec<HomeTrees>,
    home_of_end: Vec<u32>,
    /// By end port: its turn among the home trees.
    turn_of_end: Vec<u32>,
    /// The trees of every end port's offsets, 2^LMC each; empty where tree `t` has the same offset everywhere.
    choices: Vec<TreeId>,
}

const NO_END: u32 = u32::MAX;

/// The trees that base addresses of one switch's ports lead along.
#[derive(Clone, PartialEq, Eq, Debug)]
struct HomeTrees {
    /// In turn.
    turns: Vec<TreeId>,
    /// Those of them that have the cable to the switch, and those that have not.
    covering: Vec<TreeId>,
    lacking: Vec<TreeId>,
}

impl HomeTrees {
    fn new(turns: &[TreeId], forest: &Forest, switch: NodeIndex) -> Self {
        let (covering, lacking) = turns.iter().partition(|&&tree| forest.covers(switch, tree));
        Self { turns: turns.to_vec(), covering, lacking }
    }

    /// The tree of turn number `turn`. Instead of a tree that lacks the cable another one is taken, and instead of
    /// each such tree a different one.
    fn of(&self, turn: usize) -> TreeId {
        let (round, own) = (turn / self.turns.len(), self.turns[turn % self.turns.len()]);
        let lacking = self.lacking.iter().position(|&tree| tree == own);
        let instead = lacking.and_then(|place| (place + round).checked_rem(self.covering.len()));
        instead.map_or(own, |place| self.covering[place])
    }
}

impl AddressPlan {
    /// Plans addresses: `lmc` where given, else the least that gives every tree an address of its own beside
    /// the base address, else the most that fits. At most `unmanaged_trees` trees are home trees; 0: all.
    ///
    /// # Errors
    /// When the LMC asked for, or even LMC 0, needs more LIDs than there are.
    pub fn new(
        topology: &Topology,
        shape: Option<(&Clos, &Forest)>,
        lmc: Option<Lmc>,
        unmanaged_trees: usize,
    ) -> Result<Self, PlanError> {
        let trees = shape.map_or(0, |(_, forest)| forest.len());
        let ends = end_ports(topology);
        let (ports, switches) = (ends.len(), topology.switch_count());
        let fits = (0..=7)
            .rev()
            .filter_map(Lmc::new)
            .find(|&lmc| lids_needed(ports, switches, lmc) <= Lid::MAX_UNICAST.index());
        let Some(fits) = fits else { return Err(PlanError::TooManyPorts { ports, switches }) };
        let addresses = if trees > 1 { trees + 1 } else { 1 };
        let wanted = Lmc::at_least(addresses).unwrap_or(Lmc::MAX);
        let lmc = lmc.unwrap_or_else(|| wanted.min(fits));
        if lmc > fits {
            let needed = lids_needed(ports, switches, lmc);
            return Err(PlanError::TooManyLids { ports, switches, lmc, needed, fits });
        }
        let addresses = assign(topology, &ends, lmc);
        let mut end_of_port = vec![NO_END; topology.port_count()];
        for (n, end) in ends.iter().enumerate() {
            end_of_port[end.port.index()] = n as u32;
        }
        let (unmanaged, homes, choices) = (Vec::new(), Vec::new(), Vec::new());
        let (home_of_end, turn_of_end) = (vec![NO_END; ends.len()], vec![0; ends.len()]);
        let mut plan = Self {
            addresses,
            lmc,
            trees,
            end_of_port,
            unmanaged,
            homes,
            home_of_end,
            turn_of_end,
            choices,
        };
        match shape.filter(|_| trees > 1) {
            Some((_, forest)) if trees < lmc.addresses() => {
                plan.unmanaged = in_turn(forest);
                let most = if unmanaged_trees == 0 { trees } else { unmanaged_trees };
                plan.unmanaged.truncate(most);
                for (n, end) in ends.iter().enumerate() {
                    if n == 0 || ends[n - 1].switch != end.switch {
                        plan.homes.push(HomeTrees::new(&plan.unmanaged, forest, end.switch));
                    }
                    plan.home_of_end[n] = plan.homes.len() as u32 - 1;
                }
                let planned = plan.addresses.clone();
                plan.settle(&planned);
            }
            Some((clos, forest)) => plan.rotate(topology, clos, forest, &ends),
            None => {}
        }
        Ok(plan)
    }

    /// Addresses that another manager gave; nothing is known of trees.
    pub(super) fn without_trees(topology: &Topology, addresses: Addresses) -> Self {
        let ends = end_ports(topology);
        let lmc = ends.iter().map(|end| addresses.lmc(end.port)).min().unwrap_or(Lmc::ZERO);
        let end_of_port = vec![NO_END; topology.port_count()];
        Self {
            addresses,
            lmc,
            trees: 0,
            end_of_port,
            unmanaged: Vec::new(),
            homes: Vec::new(),
            home_of_end: Vec::new(),
            turn_of_end: Vec::new(),
            choices: Vec::new(),
        }
    }

    /// One address a port, leading along the tree that D-mod-K gives the host: uplinks of a leaf, then of
    /// an aggregation switch, in turn over the hosts (Zahavi, "D-Mod-K routing", 2010).
    ///
    /// # Errors
    /// When even one address a port does not fit.
    pub fn d_mod_k(topology: &Topology, clos: &Clos, forest: &Forest) -> Result<Self, PlanError> {
        let mut plan = Self::new(topology, Some((clos, forest)), Some(Lmc::ZERO), 0)?;
        if forest.is_empty() {
            return Ok(plan);
        }
        let turns = in_turn(forest);
        let choice = |end: usize| turns[end % turns.len()];
        plan.choices = (0..end_ports(topology).len()).map(choice).collect();
        Ok(plan)
    }

    /// The addresses of all ports.
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// LMC of every end port; switches have one address.
    pub const fn lmc(&self) -> Lmc {
        self.lmc
    }

    /// Whether each port has trees of its own choice, because it has fewer addresses than the base address and
    /// all trees take.
    pub const fn is_rotated(&self) -> bool {
        !self.choices.is_empty()
    }

    /// The home trees, in the order in which ports take turns; none where the base address is a tree's own.
    pub fn unmanaged_trees(&self) -> &[TreeId] {
        &self.unmanaged
    }

    /// The least offset that a tree may have.
    pub const fn first_offset(&self) -> u16 {
        !self.unmanaged.is_empty() as u16
    }

    /// Gives each end port its turn among the home trees, where ports have these addresses: by the base address,
    /// so that who comes or goes changes few neighbours' turns. Where ports of one switch have the same turn,
    /// since they keep what another manager gave them, those with higher addresses take the next free turns.
    pub fn settle(&mut self, addresses: &Addresses) {
        let mut of_home: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.homes.len()];
        for (port, base, _) in addresses.iter() {
            let end = self.end_of_port.get(port.index()).map_or(NO_END, |&end| end) as usize;
            let Some(&home) = self.home_of_end.get(end) else { continue };
            if let Some(of_home) = of_home.get_mut(home as usize) {
                of_home.push((base.index() / self.lmc.addresses(), end));
            }
        }
        for (homes, ends) in self.homes.iter().zip(&mut of_home) {
            ends.sort_unstable();
            let count = homes.turns.len();
            let mut taken = vec![0; count];
            for &(turn, end) in &*ends {
                let least = taken.iter().copied().min().unwrap_or(0);
                let free = (turn..turn + count).find(|turn| taken[turn % count] == least);
                let turn = free.unwrap_or(turn);
                taken[turn % count] += 1;
                self.turn_of_end[end] = turn as u32;
            }
        }
    }

    /// The tree that a base address of an end port leads along, where it is no tree's own: by its turn
    /// ([`Self::settle`]). `None` where that tree lacks the cable to the port's switch, so that each route there
    /// is chosen by itself; but where ordinary traffic has only some of the trees, another one of those.
    pub fn home(&self, port: PortIndex) -> Option<TreeId> {
        let (own, home) = self.turn(port)?;
        (home == own || self.unmanaged.len() < self.trees).then_some(home)
    }

    /// The offset of the tree that a base address leads along before routes around gaps are chosen: of
    /// [`Self::home`], or of the tree that takes its place.
    pub(super) fn home_offset(&self, port: PortIndex) -> Option<u16> {
        self.home_or_instead(port).map(|tree| 1 + tree.0)
    }

    /// The tree behind that offset.
    pub(super) fn home_or_instead(&self, port: PortIndex) -> Option<TreeId> {
        self.turn(port).map(|(_, home)| home)
    }

    /// The tree whose turn it is, and the one that is taken.
    fn turn(&self, port: PortIndex) -> Option<(TreeId, TreeId)> {
        let end = self.end_of_port[port.index()] as usize;
        let homes = self.homes.get(*self.home_of_end.get(end)? as usize)?;
        let turn = *self.turn_of_end.get(end)? as usize;
        Some((homes.turns[turn % homes.turns.len()], homes.of(turn)))
    }

    /// Takes over the home trees of a part of the fabric, which has a plan of its own for the same ports.
    pub(super) fn adopt_homes(&mut self, part: &Self) {
        let first = self.homes.len() as u32;
        self.homes.extend_from_slice(&part.homes);
        for (&end, &of_part) in self.end_of_port.iter().zip(&part.end_of_port) {
            let home = part.home_of_end.get(of_part as usize).filter(|home| **home != NO_END);
            if let (Some(own), Some(home)) = (self.home_of_end.get_mut(end as usize), home) {
                *own = first + home;
                self.turn_of_end[end as usize] = part.turn_of_end[of_part as usize];
            }
        }
    }

    /// The tree that the address `base + offset` of an end port leads along; `None` for base addresses that are
    /// no tree's own ([`Self::home`]), for all other ports, offsets beyond 2^LMC and fabrics without trees.
    pub fn tree(&self, port: PortIndex, offset: u16) -> Option<TreeId> {
        let (end, offset) = (self.end_of_port[port.index()], usize::from(offset));
        if end == NO_END || offset >= self.lmc.addresses() || self.trees == 0 {
            return None;
        }
        if self.choices.is_empty() {
            let place = offset.checked_sub(usize::from(self.first_offset()))?;
            return Some(TreeId((place % self.trees) as u16));
        }
        self.choices.get(end as usize * self.lmc.addresses() + offset).copied()
    }

    /// The address of `port` along `tree`; aliases are never given.
    pub fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        let base = self.addresses.base(port)?;
        let offset = self.trees(port).position(|along| along == tree)?;
        Some(Dlid(Lid(base.0 + self.first_offset() + offset as u16)))
    }

    /// The trees of the addresses of `port` from [`Self::first_offset`] on, one an offset, aliases left out.
    pub fn trees(&self, port: PortIndex) -> impl Iterator<Item = TreeId> + '_ {
        let granted = self.lmc.addresses().min(self.trees) as u16;
        let first = self.first_offset();
        (first..first + granted).map_while(move |offset| self.tree(port, offset))
    }

    fn rotate(&mut self, topology: &Topology, clos: &Clos, forest: &Forest, ends: &[EndPort]) {
        let rotation = Rotation::new(forest);
        let leaf_in_pod = places_in_pod(topology, clos);
        for end in ends {
            // By port number: who comes or goes changes no neighbour's trees.
            let place = topology.peer(end.port).map_or(0, |port| usize::from(topology.num(port).0));
            let own = forest.rooted_at(end.switch);
            for k in 0..self.lmc.addresses() {
                // All that hangs on a root is reached through that root, in every tree.
                let tree = match &own {
                    Some(own) => TreeId((own.start + k % own.len()) as u16),
                    None => rotation.tree(place, leaf_in_pod[end.switch.index()], k),
                };
                self.choices.push(tree);
            }
        }
    }
}

/// The rule by which ports with fewer addresses than trees share the trees out among them.
struct Rotation {
    of_group: Vec<Vec<TreeId>>,
}

impl Rotation {
    fn new(forest: &Forest) -> Self {
        let mut of_group = vec![Vec::new(); forest.groups() as usize];
        forest.trees().iter().for_each(|tree| of_group[tree.group as usize].push(tree.id));
        Self { of_group }
    }

    /// Successive addresses lie in successive groups, from one that depends on the place on the leaf; the
    /// tree within a group depends on the leaf's place in its pod alone. So in three stages only hosts of
    /// one leaf share a tree within their pod, and cables from cores down never clash between leaves: 75 %
    /// of a permutation of 11,664 hosts with 4 addresses each fits one window, where shifting the core with
    /// the address gives 68 %. In two stages a group is one tree, and the leaf's place moves the start.
    fn tree(&self, place: usize, leaf: usize, k: usize) -> TreeId {
        let groups = self.of_group.len();
        let trees = self.of_group[0].len().max(1);
        let group = &self.of_group[(place + leaf / trees + k) % groups];
        group[(leaf + k / groups) % group.len()]
    }
}

/// All trees, those of different groups in turn: as D-mod-K takes the uplinks of a leaf, then of an aggregation
/// switch, over consecutive hosts (Zahavi, "D-Mod-K routing", 2010).
fn in_turn(forest: &Forest) -> Vec<TreeId> {
    let of_group = Rotation::new(forest).of_group;
    let longest = of_group.iter().map(Vec::len).max().unwrap_or(0);
    let round = |n: usize| of_group.iter().filter_map(move |group| group.get(n).copied());
    (0..longest).flat_map(round).collect()
}

/// Place of every switch among those of its pod and stage.
fn places_in_pod(topology: &Topology, clos: &Clos) -> Vec<usize> {
    let mut place = vec![0; topology.switch_count()];
    for stage in [&clos.leaves, &clos.aggregation] {
        let mut next = vec![0; clos.pods() as usize];
        for &switch in stage {
            let next = &mut next[clos.pod(switch) as usize];
            place[switch.index()] = *next;
            *next += 1;
        }
    }
    place
}

/// A port that gets 2^LMC addresses.
struct EndPort {
    port: PortIndex,
    /// What it hangs on.
    switch: NodeIndex,
}

/// Adapter and router ports on switches, by (switch GUID, switch port): hosts, aggregation nodes and
/// routers alike. Without a switch: the ports of a cable that joins two of them.
fn end_ports(topology: &Topology) -> Vec<EndPort> {
    if topology.switch_count() == 0 {
        let cables = topology.nodes().flat_map(|node| topology.cables(node));
        let end = |(port, peer)| EndPort { port, switch: topology.port(peer).node };
        return cables.map(end).collect();
    }
    let on = |switch: NodeIndex| {
        topology.cables(switch).filter_map(move |(_, port)| {
            (!topology.is_switch(topology.port(port).node)).then_some(EndPort { port, switch })
        })
    };
    topology.switches().flat_map(on).collect()
}

/// The highest LID that [`assign`] gives.
fn lids_needed(ports: usize, switches: usize, lmc: Lmc) -> usize {
    let block = lmc.addresses();
    (switches + 1).next_multiple_of(block) + ports * block - 1
}

/// Switches from LID 1, end ports from the first block after them. All fits: the caller has counted.
fn assign(topology: &Topology, ends: &[EndPort], lmc: Lmc) -> Addresses {
    let mut addresses = Addresses::none(topology.port_count());
    let mut give = |port, lid: usize, lmc| {
        let given = addresses.assign(port, Lid(lid as u16), lmc);
        debug_assert_eq!(given, Ok(()), "lids_needed counts what assign gives");
    };
    for (n, switch) in topology.switches().enumerate() {
        give(topology.port0(switch), n + 1, Lmc::ZERO);
    }
    let first = (topology.switch_count() + 1).next_multiple_of(lmc.addresses());
    for (n, end) in ends.iter().enumerate() {
        give(end.port, first + n * lmc.addresses(), lmc);
    }
    addresses
}
