//! A view made ready: hosts by GUID, links by lasting names, the packer's shape, and the way of a grant.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::hosts::{Host, HostId};
use snin_fabric::{Dlid, Guid, Lid, LinkRate, NodeIndex, PortIndex, PortNum, TreeId};
use snin_protocol::message::{Refusal, UnusablePair, ViewChange};

use crate::config::Policy;
use crate::packing::{LeafId, SetId, Shape};
use crate::plan::packing_shape;
use snin_fabric::view::{Pair, View};

/// What the way within a leaf is called, where trees make no difference.
const WITHIN_LEAF: TreeId = TreeId(0);

/// A directed link, by a number that it keeps from view to view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct LinkId(pub(super) u32);

/// Every directed link ever seen, by the port that sends on it. Views come and go while grants are in
/// force, so what a grant holds must be named by what does not change: node GUID and port number.
#[derive(Clone, Default, Debug)]
pub(super) struct LinkNames {
    known: BTreeMap<(Guid, PortNum), LinkId>,
}

impl LinkNames {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The directed link that leaves this port.
    pub(super) fn get(&self, node: Guid, port: PortNum) -> Option<LinkId> {
        self.known.get(&(node, port)).copied()
    }

    fn of(&mut self, node: Guid, port: PortNum) -> LinkId {
        let next = LinkId(self.known.len() as u32);
        *self.known.entry((node, port)).or_insert(next)
    }
}

/// The way of a connection along a tree.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Route {
    pub(super) tree: TreeId,
    pub(super) dlid: Dlid,
    /// Every switch and the port that the packet leaves it by.
    pub(super) hops: Vec<(NodeIndex, PortNum)>,
    /// The directed links, the source's own first.
    pub(super) links: Vec<LinkId>,
    /// Bit/s of the slowest of these; 0 where no rate is known.
    pub(super) rate: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Fabric {
    pub(super) view: Arc<dyn View>,
    /// The view's, or that of the change after it.
    pub(super) version: u64,
    /// What the view and the change after it call unusable.
    unusable: BTreeSet<Pair>,
    host_of: BTreeMap<Guid, HostId>,
    link_of_port: Vec<LinkId>,
    /// `None` where there are no trees.
    shape: Option<Shape>,
    leaf_of_host: Vec<LeafId>,
    /// The trees that each host has addresses on, by host; on tables that were found also by the switch that it is
    /// sent from: see `sources`.
    addressed: Vec<SetId>,
    /// Where the tables are another manager's: the place of each switch with hosts in `addressed`.
    sources: Option<BTreeMap<NodeIndex, usize>>,
    /// Why nothing is granted between leaves, or at all.
    pub(super) closed: Option<Refusal>,
}

impl Fabric {
    pub(super) fn new(view: Arc<dyn View>, policy: Policy, names: &mut LinkNames) -> Self {
        let topology = view.topology();
        let port_guid = |host: &Host| topology.port(host.port).guid;
        let host_of = view.routing().hosts.iter().map(|(id, host)| (port_guid(host), id)).collect();
        let name = |port: PortIndex| {
            names.of(topology.node(topology.port(port).node).guid, topology.num(port))
        };
        let link_of_port = topology.ports().map(name).collect();
        let mut fabric = Self {
            version: view.version(),
            unusable: view.unusable().clone(),
            host_of,
            link_of_port,
            shape: None,
            leaf_of_host: Vec::new(),
            addressed: Vec::new(),
            sources: None,
            closed: None,
            view,
        };
        fabric.set_policy(policy);
        fabric
    }

    /// What may be granted under a policy.
    pub(super) fn set_policy(&mut self, policy: Policy) {
        let routing = self.view.routing();
        let plan = &routing.plan;
        // What policy `strict` keeps free: the trees of base addresses.
        let unmanaged = match plan.unmanaged_trees() {
            [] => &[TreeId(0)],
            trees => trees,
        };
        // Another manager may lead base addresses along any tree.
        let everywhere = plan.is_rotated() || self.view.choices().is_some();
        let everywhere = everywhere || unmanaged.len() == routing.forest.len();
        self.closed = match policy {
            Policy::Off => Some(Refusal::Off),
            Policy::Strict if everywhere => Some(Refusal::StrictImpossible),
            Policy::Strict | Policy::Shared => None,
        };
        self.shape = None;
        self.leaf_of_host.clear();
        let Some((mut shape, leaf_of_host)) = packing_shape(self.view.topology(), routing) else {
            return;
        };
        (self.addressed, self.sources) = match self.view.choices() {
            None => {
                let set = |(_, host): (HostId, &Host)| {
                    let trees = routing.plan.trees(host.port);
                    shape.add_set(trees.filter(|&tree| self.view.dlid(host.port, tree).is_some()))
                };
                (routing.hosts.iter().map(set).collect(), None)
            }
            Some(choices) => {
                let switches = routing.hosts.iter().map(|(_, host)| host.switch);
                let switches: BTreeSet<NodeIndex> = switches.collect();
                let pairs = switches
                    .iter()
                    .flat_map(|&from| routing.hosts.iter().map(move |(to, _)| (from, to)));
                let set = |(from, to)| {
                    shape.add_set(choices.from(from, to).iter().map(|&(tree, _)| tree))
                };
                let sets = pairs.map(set).collect();
                (sets, Some(switches.into_iter().zip(0..).collect()))
            }
        };
        for (id, host) in routing.hosts.iter() {
            let leaf = leaf_of_host[id.index()];
            if policy == Policy::Strict {
                unmanaged.iter().for_each(|&tree| shape.set_unusable(leaf, tree));
            }
            let first = (host.switch, TreeId(0));
            for &(_, tree) in self.unusable.range(first..=(host.switch, TreeId(u16::MAX))) {
                if tree.index() < shape.trees() {
                    shape.set_unusable(leaf, tree);
                }
            }
        }
        self.shape = Some(shape);
        self.leaf_of_host = leaf_of_host;
    }

    /// These pairs are unusable now, beside those of the view.
    pub(super) fn set_unusable(&mut self, change: &ViewChange, policy: Policy) {
        let topology = self.view.topology();
        let switches: BTreeMap<Guid, NodeIndex> =
            topology.switches().map(|switch| (topology.node(switch).guid, switch)).collect();
        let pair = |pair: &UnusablePair| Some((*switches.get(&pair.switch)?, pair.tree));
        let known = change.unusable.iter().filter_map(pair);
        self.unusable = self.view.unusable().iter().copied().chain(known).collect();
        self.version = change.version;
        self.set_policy(policy);
    }

    /// Whether a grant between these hosts may use the tree.
    pub(super) fn may_use(&self, ends: (HostId, HostId), (tree, dlid): (TreeId, Dlid)) -> bool {
        let switches = [ends.0, ends.1].map(|host| self.host(host).map(|host| host.switch));
        // After a view with other trees another one may have the number that this one had.
        if let (Some(choices), Some(from)) = (self.view.choices(), switches[0])
            && switches[0] != switches[1]
            && choices.dlid(from, ends.1, tree) != Some(dlid)
        {
            return false;
        }
        let unusable = |switch: Option<NodeIndex>| {
            switch.is_none_or(|switch| self.unusable.contains(&(switch, tree)))
        };
        switches[0] == switches[1] || !switches.into_iter().any(unusable)
    }

    pub(super) const fn shape(&self) -> Option<&Shape> {
        self.shape.as_ref()
    }

    /// The links that slices can be made of. On tables that were found these are the trees along which leaves
    /// reach all of each other's hosts: every pair inside then has every tree of its slice.
    pub(super) fn shape_of_slices(&self) -> Option<Cow<'_, Shape>> {
        let shape = self.shape.as_ref()?;
        let Some(choices) = self.view.choices() else { return Some(Cow::Borrowed(shape)) };
        let (routing, mut shape) = (self.view.routing(), shape.clone());
        let connected = choices.fully_connected(routing);
        for (id, host) in routing.hosts.iter() {
            for tree in (0..shape.trees() as u16).map(TreeId) {
                if !connected.contains(&(host.switch, tree)) {
                    shape.set_unusable(self.leaf_of_host[id.index()], tree);
                }
            }
        }
        Some(Cow::Owned(shape))
    }

    pub(super) fn leaf(&self, host: HostId) -> Option<LeafId> {
        self.leaf_of_host.get(host.index()).copied()
    }

    /// The leaf of every host; empty where there are no trees.
    pub(super) fn leaves(&self) -> &[LeafId] {
        &self.leaf_of_host
    }

    /// The trees that the second host has addresses on, for what the first one sends.
    pub(super) fn addressed(&self, ends: (HostId, HostId)) -> Option<SetId> {
        let from = match &self.sources {
            None => 0,
            Some(sources) => *sources.get(&self.host(ends.0)?.switch)?,
        };
        self.addressed.get(from * self.hosts() + ends.1.index()).copied()
    }

    /// Whether another manager's tables are about to change: no pair of a switch and a tree is usable until they
    /// are read.
    pub(super) fn is_paused(&self) -> bool {
        let Some(sources) = self.sources.as_ref() else { return false };
        self.unusable.len() >= sources.len() * self.view.routing().forest.len()
    }

    /// Whether the tables are another manager's.
    pub(super) fn is_found(&self) -> bool {
        self.view.choices().is_some()
    }

    pub(super) fn hosts(&self) -> usize {
        self.view.routing().hosts.len()
    }

    pub(super) fn host_of(&self, port: Guid) -> Option<HostId> {
        self.host_of.get(&port).copied()
    }

    pub(super) fn host(&self, host: HostId) -> Option<&Host> {
        self.view.routing().hosts.get(host)
    }

    /// Bit/s of a host's link, where that is known.
    pub(super) fn rate(&self, host: HostId) -> Option<u64> {
        let rate = self.view.topology().port(self.host(host)?.port).rate?;
        Some(rate.bits_per_second())
    }

    /// The GUID of a host's port.
    pub(super) fn port(&self, host: HostId) -> Option<Guid> {
        Some(self.view.topology().port(self.host(host)?.port).guid)
    }

    /// The address along a tree of the second host, for what the first one sends from another leaf.
    pub(super) fn address(&self, ends: (HostId, HostId), tree: TreeId) -> Option<Dlid> {
        let destination = self.host(ends.1)?.port;
        if self.on_one_leaf(ends) {
            // Any address of the host leads there.
            let own = self.view.dlid(destination, tree);
            return own.or_else(|| self.view.addresses().base(destination).map(Dlid));
        }
        match self.view.choices() {
            None => self.view.dlid(destination, tree),
            Some(choices) => choices.dlid(self.host(ends.0)?.switch, ends.1, tree),
        }
    }

    /// The directed links to an address, and bit/s of the slowest of them, 0 where no rate is known.
    pub(super) fn way_to(&self, ends: (HostId, HostId), dlid: Dlid) -> Option<(Vec<LinkId>, u64)> {
        let hops = self.walk(ends, dlid.0)?;
        Some((self.links(ends.0, &hops)?, self.slowest(ends.0, &hops)))
    }

    pub(super) fn on_one_leaf(&self, ends: (HostId, HostId)) -> bool {
        let switch = |host| self.host(host).map(|host| host.switch);
        switch(ends.0) == switch(ends.1)
    }

    /// The way along a tree; within a leaf all trees have the same way, and it is called tree 0.
    pub(super) fn route(&self, ends: (HostId, HostId), tree: TreeId) -> Result<Route, Refusal> {
        self.host(ends.1).ok_or(Refusal::UnknownDestination)?;
        self.host(ends.0).ok_or(Refusal::UnknownSource)?;
        // Queue pairs along that tree are there already.
        let tree = if self.on_one_leaf(ends) { WITHIN_LEAF } else { tree };
        let dlid = self.address(ends, tree).ok_or(Refusal::NotAddressed)?;
        let hops = self.walk(ends, dlid.0).ok_or(Refusal::NoRoute)?;
        let links = self.links(ends.0, &hops).ok_or(Refusal::NoRoute)?;
        let rate = self.slowest(ends.0, &hops);
        Ok(Route { tree, dlid, hops, links, rate })
    }

    /// The directed links that a packet from `source` to the address uses, if it arrives at all.
    pub(super) fn links_to(&self, ends: (HostId, HostId), dlid: Dlid) -> Option<Vec<LinkId>> {
        self.links(ends.0, &self.walk(ends, dlid.0)?)
    }

    fn links(&self, source: HostId, hops: &[(NodeIndex, PortNum)]) -> Option<Vec<LinkId>> {
        let topology = self.view.topology();
        let own = self.host(source)?.port;
        let out = hops.iter().map(|&(switch, port)| topology.port_of(switch, port));
        let link = |port: Option<PortIndex>| self.link_of_port.get(port?.index()).copied();
        std::iter::once(Some(own)).chain(out).map(link).collect()
    }

    /// Bit/s of the slowest link of a way; 0 where no rate is known.
    fn slowest(&self, source: HostId, hops: &[(NodeIndex, PortNum)]) -> u64 {
        let topology = self.view.topology();
        let own = self.host(source).map(|host| host.port);
        let out = hops.iter().filter_map(|&(switch, port)| topology.port_of(switch, port));
        // Both ends of a cable have one rate, but perhaps only one of them says so.
        let ends = own.into_iter().chain(out).flat_map(|end| [Some(end), topology.peer(end)]);
        let rates = ends.flatten().filter_map(|end| topology.port(end).rate);
        rates.map(LinkRate::bits_per_second).min().unwrap_or(0)
    }

    /// What the tables do with the address, from the source's switch to the destination.
    pub(super) fn walk(
        &self,
        ends: (HostId, HostId),
        lid: Lid,
    ) -> Option<Vec<(NodeIndex, PortNum)>> {
        let (topology, tables) = (self.view.topology(), &self.view.routing().tables);
        let mut hops = Vec::with_capacity(5);
        let mut switch = self.host(ends.0)?.switch;
        while hops.len() <= topology.switch_count() {
            let port = tables.get(switch.index())?.get(lid);
            hops.push((switch, port));
            let out = topology.port_of(switch, port).filter(|_| port != PortNum::ZERO)?;
            let peer = topology.peer(out)?;
            let next = topology.port(peer).node;
            if !topology.is_switch(next) {
                return (peer == self.host(ends.1)?.port).then_some(hops);
            }
            switch = next;
        }
        None
    }
}
