//! An emulated fabric that the subnet manager's core has brought up, as hosts and controller see it.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_emulator::Fault;
use snin_fabric::hosts::Hosts;
use snin_fabric::view::View;
use snin_fabric::{
    Addresses, Dlid, ForwardingTable, Guid, Lid, Lmc, NodeIndex, PortIndex, Topology, TreeId,
};
use snin_protocol::Time;
use snin_sweep::FabricView;

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

/// The fabric and its manager.
pub struct Fabric {
    subnet: Subnet,
    view: Arc<FabricView>,
    topology: Topology,
    cost: Cost,
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
        Ok(Self { subnet, view, topology, cost, places, replaced })
    }

    /// From now on frames are forwarded by these tables; one a switch.
    pub fn replace_tables(&mut self, tables: Vec<ForwardingTable>) {
        self.replaced = Some(tables);
    }

    fn published(subnet: &Subnet) -> Result<Arc<FabricView>, VerbsLabError> {
        subnet.last_view().ok_or_else(|| VerbsLabError::Fabric("was never published".to_owned()))
    }

    /// A cable is pulled, and the manager deals with it. `port` is either end.
    ///
    /// # Errors
    /// When no view of that is published.
    pub(super) fn cut(&mut self, port: PortIndex) -> Result<(), VerbsLabError> {
        self.subnet.strike(Fault::Cut(port), PATIENCE);
        self.view = Self::published(&self.subnet)?;
        Ok(())
    }

    /// What the controller is told.
    pub(super) fn view(&self) -> Arc<dyn View> {
        Arc::clone(&self.view) as Arc<dyn View>
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
        let (addresses, tables) = self.subnet.read_back().ok_or_else(contradict)?;
        Ok((addresses, self.replaced.clone().unwrap_or(tables)))
    }

    /// What it took to bring it up.
    pub(super) const fn cost(&self) -> Cost {
        self.cost
    }
}
