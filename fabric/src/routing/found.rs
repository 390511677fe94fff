//! Tables that another manager wrote, read as choices of trees.
//!
//! An address of a host leads along the links that the tables in force give it. The route from a switch with hosts
//! to an address is walked. Where all of its links are links of one tree, the address is a choice of that tree for
//! that pair. The same address may lead along another tree from another switch, so choices are kept by source
//! switch.

mod connected;

use super::engine::Known;
use super::{AddressPlan, Engine, Forest, Ranks, Routing};
use crate::addresses::AddressError;
use crate::clos::recognise;
use crate::hosts::{HostId, Hosts};
use crate::{Dlid, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology, TreeId};

/// Which trees the addresses of every host lead along, from every switch that has hosts.
#[derive(Clone, Debug)]
pub struct TreeChoices {
    /// Place among the sources by switch; [`NO_SOURCE`] where no host hangs.
    source: Vec<u32>,
    hosts: usize,
    /// By source and host: where its choices begin in `choices`; one entry more ends the last.
    first: Vec<u32>,
    /// In order of address; a tree may come several times.
    choices: Vec<(TreeId, Lid)>,
}

const NO_SOURCE: u32 = u32::MAX;

/// Why a route is no choice of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OffTree {
    /// A table on the way has no port for the address, or one without a cable, or another port owns it.
    #[error("it does not arrive")]
    Lost,
    /// It goes round.
    #[error("it goes round for ever")]
    Loops,
    /// It goes up a second time: such a route can close a credit loop.
    #[error("it goes down and up again")]
    UpAgain,
    /// It arrives along links of different trees.
    #[error("its links belong to different trees")]
    Mixed,
}

/// A route that is no choice, by the names of what it joins.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct OffTreeRoute {
    /// The switch that it begins at.
    pub from: String,
    /// The host that it leads to.
    pub to: String,
    /// The address.
    pub dlid: u16,
    /// Why.
    pub why: String,
}

impl std::fmt::Display for OffTreeRoute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, to, dlid, why } = self;
        write!(f, "from {from} to LID {dlid} of {to}: {why}")
    }
}

/// What was found while routes were walked. A route is a pair (switch with hosts, address of a host elsewhere).
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct TreeChoicesReport {
    /// Routes walked.
    pub routes: u64,
    /// Those along the links of one tree.
    pub on_one_tree: u64,
    /// Those that do not arrive.
    pub lost: u64,
    /// Those that go round.
    pub looped: u64,
    /// Those that go down and up again.
    pub up_again: u64,
    /// Those along links of different trees.
    pub mixed: u64,
    /// The first of those that are no choice.
    pub off_tree: Vec<OffTreeRoute>,
}

impl TreeChoicesReport {
    /// Routes that are no choice.
    pub const fn off(&self) -> u64 {
        self.lost + self.looped + self.up_again + self.mixed
    }
}

impl Routing {
    /// The routing that is in force: the trees of the Clos, the reported addresses, and these tables. Its
    /// plan gives no tree an address: that is for [`TreeChoices`] to say.
    ///
    /// # Errors
    /// When the addresses that the topology reports contradict each other.
    pub fn found(
        topology: &Topology,
        tables: Vec<ForwardingTable>,
    ) -> Result<Self, (PortIndex, AddressError)> {
        let addresses = topology.reported_addresses()?;
        let hosts = Hosts::of(topology);
        let shape = recognise(topology, &hosts);
        let (forest, ranks) = match &shape {
            Ok(clos) => (Forest::grow(topology, clos), Some(Ranks::of_clos(topology, clos))),
            Err(_) => (Forest::bare(topology), None),
        };
        let plan = AddressPlan::without_trees(topology, addresses);
        let known = Known { hosts, shape, ranks };
        Ok(Self::of(Engine::Found, known, (forest, plan), (tables, Vec::new())))
    }
}

impl TreeChoices {
    /// Walks every route of a routing that was [found](Routing::found), and names the first `limit` that are no
    /// choice.
    pub fn of(topology: &Topology, routing: &Routing, limit: usize) -> (Self, TreeChoicesReport) {
        let mut report = TreeChoicesReport {
            routes: 0,
            on_one_tree: 0,
            lost: 0,
            looped: 0,
            up_again: 0,
            mixed: 0,
            off_tree: Vec::new(),
        };
        let mut source = vec![NO_SOURCE; topology.switch_count()];
        let mut sources: Vec<NodeIndex> = Vec::new();
        for (_, host) in routing.hosts.iter() {
            let place = &mut source[host.switch.index()];
            if *place == NO_SOURCE {
                *place = sources.len() as u32;
                sources.push(host.switch);
            }
        }
        let mut choices =
            Self { source, hosts: routing.hosts.len(), first: vec![0], choices: Vec::new() };
        let mut walker = Walker { topology, routing, along: Vec::new() };
        for &from in &sources {
            for (_, host) in routing.hosts.iter() {
                let elsewhere = host.switch != from;
                for dlid in routing.plan.addresses().of(host.port).filter(|_| elsewhere) {
                    report.routes += 1;
                    match walker.walk(from, host.switch, host.switch_port, dlid) {
                        Ok(trees) => {
                            report.on_one_tree += 1;
                            choices.choices.extend(trees.iter().map(|&tree| (tree, dlid)));
                        }
                        Err(why) => {
                            *match why {
                                OffTree::Lost => &mut report.lost,
                                OffTree::Loops => &mut report.looped,
                                OffTree::UpAgain => &mut report.up_again,
                                OffTree::Mixed => &mut report.mixed,
                            } += 1;
                            if report.off_tree.len() < limit {
                                report.off_tree.push(OffTreeRoute {
                                    from: topology.node(from).name.to_string(),
                                    to: topology.port_name(host.port),
                                    dlid: dlid.0,
                                    why: why.to_string(),
                                });
                            }
                        }
                    }
                }
                choices.first.push(choices.choices.len() as u32);
            }
        }
        (choices, report)
    }

    /// The trees that lead from a switch to a host, each with the address that does, in order of address; a tree
    /// may come several times. None from a switch without hosts.
    pub fn from(&self, switch: NodeIndex, host: HostId) -> &[(TreeId, Lid)] {
        match self.source.get(switch.index()) {
            Some(&source) if source != NO_SOURCE && host.index() < self.hosts => {
                let at = source as usize * self.hosts + host.index();
                &self.choices[self.first[at] as usize..self.first[at + 1] as usize]
            }
            _ => &[],
        }
    }

    /// The address that leads from a switch to a host along a tree.
    pub fn dlid(&self, switch: NodeIndex, host: HostId, tree: TreeId) -> Option<Dlid> {
        let found = self.from(switch, host).iter().find(|(along, _)| *along == tree);
        found.map(|&(_, dlid)| Dlid(dlid))
    }

    /// The same with only the first 2^`lmc` addresses of every host, as if there were no others.
    #[must_use]
    pub fn with_lmc(&self, routing: &Routing, lmc: crate::Lmc) -> Self {
        let mut limited = Self { first: vec![0], choices: Vec::new(), ..self.clone() };
        for pair in self.first.windows(2) {
            let host = HostId((limited.first.len() - 1) as u32 % self.hosts.max(1) as u32);
            let base =
                routing.hosts.get(host).and_then(|host| routing.plan.addresses().base(host.port));
            let end = base.map_or(0, |base| base.index() + lmc.addresses());
            let of_pair = &self.choices[pair[0] as usize..pair[1] as usize];
            limited.choices.extend(of_pair.iter().filter(|(_, dlid)| dlid.index() < end));
            limited.first.push(limited.choices.len() as u32);
        }
        limited
    }
}

struct Walker<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    /// The trees that all links so far belong to.
    along: Vec<TreeId>,
}

impl Walker<'_> {
    /// The trees that all links of a route belong to: one, or within a pod all of a group.
    fn walk(
        &mut self,
        from: NodeIndex,
        to: NodeIndex,
        to_port: PortNum,
        dlid: Lid,
    ) -> Result<&[TreeId], OffTree> {
        let forest = &self.routing.forest;
        let trees = forest.trees().iter().map(|tree| tree.id);
        self.along.clear();
        self.along.extend(trees.filter(|&tree| forest.covers(from, tree)));
        let (mut at, mut is_down, mut is_mixed) = (from, false, false);
        for _ in 0..=self.topology.switch_count() {
            let port = self.routing.tables[at.index()].get(dlid);
            if at == to && port == to_port {
                return if is_mixed { Err(OffTree::Mixed) } else { Ok(&self.along) };
            }
            let out = self.topology.port_of(at, port).filter(|_| port != PortNum::ZERO);
            let peer = out.and_then(|out| self.topology.peer(out)).ok_or(OffTree::Lost)?;
            let next = self.topology.port(peer).node;
            if !self.topology.is_switch(next) {
                return Err(OffTree::Lost);
            }
            let back = self.topology.num(peer);
            let goes_up = |tree: TreeId| forest.up(at, tree) == Some(port);
            let goes_down = |tree: TreeId| forest.up(next, tree) == Some(back);
            let mut all = forest.trees().iter().map(|tree| tree.id);
            if all.any(goes_up) {
                if is_down {
                    return Err(self.up_again(next, dlid));
                }
                self.along.retain(|&tree| goes_up(tree));
            } else {
                is_down = true;
                self.along.retain(|&tree| goes_down(tree));
            }
            is_mixed |= self.along.is_empty();
            at = next;
        }
        Err(OffTree::Loops)
    }

    /// A route that goes up again: whether it goes on for ever.
    fn up_again(&self, mut at: NodeIndex, dlid: Lid) -> OffTree {
        for _ in 0..=self.topology.switch_count() {
            let port = self.routing.tables[at.index()].get(dlid);
            let out = self.topology.port_of(at, port).filter(|_| port != PortNum::ZERO);
            let Some(next) = out.and_then(|out| self.topology.peer_node(out)) else {
                return OffTree::Lost;
            };
            if !self.topology.is_switch(next) {
                return OffTree::UpAgain;
            }
            at = next;
        }
        OffTree::Loops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lmc;
    use crate::generate::Recipe;

    fn planned(recipe: &str, lmc: u8) -> (Topology, Routing) {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let ours = Routing::compute(&topology, Engine::Trees, Lmc::new(lmc)).unwrap();
        (topology.with_addresses(ours.plan.addresses()), ours)
    }

    /// Read back from our own tables, the plan is what it was.
    #[test]
    fn our_own_tables_say_what_our_plan_says() {
        for (recipe, lmc) in
            [("clos:6,4,4", 2), ("clos:4,2,3,2", 2), ("fattree:4", 2), ("clos:6,4,4", 1)]
        {
            let (topology, ours) = planned(recipe, lmc);
            let found = Routing::found(&topology, ours.tables.clone()).unwrap();
            let (choices, report) = TreeChoices::of(&topology, &found, 10);
            assert_eq!(report.on_one_tree, report.routes, "{recipe}: {report:?}");
            for (_, source) in ours.hosts.iter() {
                for (id, host) in ours.hosts.iter().filter(|(_, host)| host.switch != source.switch)
                {
                    let clos = ours.shape.as_ref().unwrap();
                    let in_pod =
                        clos.stages() == 3 && clos.pod(host.switch) == clos.pod(source.switch);
                    for tree in ours.plan.trees(host.port) {
                        let read = choices.dlid(source.switch, id, tree);
                        // Within a pod an address leads along all trees of a group: the first one is read.
                        let planned = ours.plan.dlid(host.port, tree);
                        assert!(read == planned || in_pod && read.is_some(), "{recipe} {tree:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_entries_are_named_and_no_choice() {
        let (topology, ours) = planned("clos:4,2,2", 1);
        let (leaf, spine) = (NodeIndex(0), NodeIndex(4));
        let host = *ours.hosts.get(HostId(7)).unwrap();
        let dlid = ours.plan.addresses().base(host.port).unwrap();
        let port = |from: NodeIndex, to: NodeIndex| {
            let cable = topology.cables(from).find(|(_, peer)| topology.port(*peer).node == to);
            topology.num(cable.unwrap().0)
        };
        let plant = |switch: NodeIndex, entry: PortNum| {
            let mut tables = ours.tables.clone();
            tables[switch.index()].set(dlid, entry);
            let found = Routing::found(&topology, tables).unwrap();
            let (choices, report) = TreeChoices::of(&topology, &found, 10);
            let left = choices.from(leaf, HostId(7)).iter().any(|(_, lid)| *lid == dlid);
            (report, left)
        };
        let along = ours.tables[leaf.index()].get(dlid);
        let up = topology.peer_node(topology.port_of(leaf, along).unwrap()).unwrap();
        let (report, left) = plant(up, PortNum::NONE);
        assert_eq!((report.lost, left), (3, false), "{report:?}");
        // The spine sends it back to another leaf, which sends it up again.
        let (report, _) = plant(up, port(up, NodeIndex(1)));
        assert!(report.looped > 0 && report.on_one_tree < report.routes, "{report:?}");
        let (report, left) = plant(leaf, PortNum::ZERO);
        assert_eq!((report.lost, left), (1, false), "{report:?} {spine:?}");
        assert_eq!((report.off(), report.off_tree.len()), (1, 1));
    }
}
