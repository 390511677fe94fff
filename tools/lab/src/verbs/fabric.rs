//! An emulated fabric that the subnet manager's core has brought up, as hosts and controller see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_emulator::Fault;
use snin_fabric::hosts::Hosts;
use snin_fabric::routing::Routing;
use snin_fabric::view::{PlannedView, View};
use snin_fabric::{
    Addresses, Dlid, ForwardingTable, Guid, Lid, Lmc, NodeIndex, PortIndex, Topology, TreeId,
};
use snin_protocol::Time;

use super::error::VerbsLabError;
use crate::subnet::{Cost, Subnet};

/// How much virtual time the manager has for what it does.
const PATIENCE: Time = Time::secs(60);

/// The most hosts: each is an interface, and has a queue pair to each other on every tree.
const MOST_HOSTS: usize = 64;

/// Where a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Its port in the fabric.
    pub(super) port: PortIndex,
    /// The port's GUID.
    pub(super) guid: Guid,
    /// The switch that it hangs on.
    pub(super) leaf: NodeIndex,
    /// Its first address.
    pub(super) base: Lid,
    /// How many it has.
    pub(super) lmc: Lmc,
}

/// What brought the fabric up.
enum Manager {
    Ours(Box<Subnet>, Cost),
    /// Another one: what it wrote.
    Another(Addresses, Vec<ForwardingTable>),
}

/// The fabric and its manager.
pub struct Fabric {
    manager: Manager,
    view: Arc<dyn View>,
    topology: Topology,
    places: Vec<Place>,
    /// Tables of another planner, in place of those that the switches hold.
    replaced: Option<Vec<ForwardingTable>>,
}

impl Fabric {
    /// Has the subnet manager bring an emulated fabric up. Base addresses lead along `unmanaged_trees` trees; 0:
    /// along all.
    ///
    /// # Errors
    /// When it does not come up, or is no Clos.
    pub fn bring_up(
        topology: &Topology,
        lmc: Option<Lmc>,
        unmanaged_trees: u16,
    ) -> Result<Self, VerbsLabError> {
        let lmc = lmc.map(Lmc::bits);
        let manager = snin_sm_database::config::Config {
            lmc,
            unmanaged_trees,
            ..snin_sm_database::config::Config::default()
        };
        let hardware = snin_emulator::Config::default();
        let mut subnet = Subnet::new(topology, hardware, manager)?;
        let cost = subnet.bring_up(PATIENCE);
        let failed = |what: String| VerbsLabError::Fabric(what);
        if let Some(missing) = subnet.missing().first() {
            return Err(failed(format!("did not come up: {missing}")));
        }
        let view = Self::published(&subnet)?;
        Self::of(topology, view, Manager::Ours(Box::new(subnet), cost))
    }

    /// The fabric as another manager brought it up: the addresses that the topology reports, and these tables.
    ///
    /// # Errors
    /// When addresses contradict each other, or the fabric is no Clos.
    pub fn found(topology: &Topology, tables: Vec<ForwardingTable>) -> Result<Self, VerbsLabError> {
        let routing = Routing::found(topology, tables.clone());
        let routing = routing.map_err(|(port, error)| {
            VerbsLabError::Fabric(format!("{}: {error}", topology.port_name(port)))
        })?;
        let manager = Manager::Another(routing.plan.addresses().clone(), tables);
        let view = PlannedView::new(1, topology.clone(), routing);
        Self::of(topology, Arc::new(view), manager)
    }

    fn of(
        topology: &Topology,
        view: Arc<dyn View>,
        manager: Manager,
    ) -> Result<Self, VerbsLabError> {
        let failed = |what: String| VerbsLabError::Fabric(what);
        if let Err(reason) = &view.routing().shape {
            return Err(failed(format!("is no Clos: {reason}")));
        }
        let hosts = Hosts::of(topology);
        if hosts.len() > MOST_HOSTS {
            return Err(failed(format!("has {} hosts, more than {MOST_HOSTS}", hosts.len())));
        }
        let mut places = Vec::new();
        for (_, host) in hosts.iter() {
            let base = view.addresses().base(host.port);
            let base =
                base.ok_or_else(|| failed(format!("gave host {} no address", places.len())))?;
            let guid = topology.port(host.port).guid;
            let lmc = view.addresses().lmc(host.port);
            places.push(Place { port: host.port, guid, leaf: host.switch, base, lmc });
        }
        let (topology, replaced) = (topology.clone(), None);
        Ok(Self { manager, view, topology, places, replaced })
    }

    /// From now on frames are forwarded by these tables; one a switch.
    pub fn replace_tables(&mut self, tables: Vec<ForwardingTable>) {
        self.replaced = Some(tables);
    }

    fn published(subnet: &Subnet) -> Result<Arc<dyn View>, VerbsLabError> {
        let view = subnet.last_view().map(|view| view as Arc<dyn View>);
        view.ok_or_else(|| VerbsLabError::Fabric("was never published".to_owned()))
    }

    /// A cable is pulled, and the manager deals with it. `port` is either end.
    ///
    /// # Errors
    /// When no view of that is published.
    pub(super) fn cut(&mut self, port: PortIndex) -> Result<(), VerbsLabError> {
        let Manager::Ours(subnet, _) = &mut self.manager else {
            return Err(VerbsLabError::Fabric("has another manager".to_owned()));
        };
        subnet.strike(Fault::Cut(port), PATIENCE);
        self.view = Self::published(subnet)?;
        Ok(())
    }

    /// What the controller is told.
    pub(super) fn view(&self) -> Arc<dyn View> {
        Arc::clone(&self.view)
    }

    /// Nodes and cables, all of them.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its hosts, by number.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// How many routing trees there are.
    pub fn trees(&self) -> u16 {
        self.view.routing().forest.len() as u16
    }

    /// Where a tree grows from.
    pub fn root(&self, tree: TreeId) -> NodeIndex {
        self.view.routing().forest.trees()[usize::from(tree.0)].root
    }

    /// The port by which a leaf reaches a tree's root.
    pub(super) fn uplink(&self, leaf: NodeIndex, tree: TreeId) -> Option<PortIndex> {
        let port = self.view.routing().forest.up(leaf, tree)?;
        self.topology.port_of(leaf, port)
    }

    /// A host's address along a tree.
    pub(super) fn address(&self, host: usize, tree: TreeId) -> Option<Lid> {
        self.view.dlid(self.places[host].port, tree).map(|dlid| dlid.0)
    }

    /// All addresses, by port and tree.
    pub(super) fn dlids(&self) -> BTreeMap<(Guid, TreeId), Dlid> {
        let all = |host: usize| (0..self.trees()).map(move |tree| (host, TreeId(tree)));
        let dlid = |(host, tree): (usize, TreeId)| {
            Some(((self.places[host].guid, tree), Dlid(self.address(host, tree)?)))
        };
        (0..self.places.len()).flat_map(all).filter_map(dlid).collect()
    }

    /// What ports and switches themselves hold, and so what frames are forwarded by.
    ///
    /// # Errors
    /// When addresses contradict each other.
    pub fn tables(&self) -> Result<(Addresses, Vec<ForwardingTable>), VerbsLabError> {
        let contradict = || VerbsLabError::Fabric("has ports with the same address".to_owned());
        let (addresses, tables) = match &self.manager {
            Manager::Ours(subnet, _) => subnet.read_back().ok_or_else(contradict)?,
            Manager::Another(addresses, tables) => (addresses.clone(), tables.clone()),
        };
        Ok((addresses, self.replaced.clone().unwrap_or(tables)))
    }

    /// SMPs that it took to bring it up; none of ours where another manager did.
    pub(super) const fn smps(&self) -> u64 {
        match &self.manager {
            Manager::Ours(_, cost) => cost.smps,
            Manager::Another(..) => 0,
        }
    }

    /// Whether the tables are another manager's, so that no address leads along one tree from everywhere.
    pub(super) fn is_found(&self) -> bool {
        self.view.choices().is_some()
    }
}
