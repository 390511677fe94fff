//! A view as it comes in, and as its receiver has it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::dump::{guid2lid, lfts};
use snin_fabric::routing::{
    Engine, Order, Placement, Routing, RoutingOptions, TreeChoices, tables_hash,
};
use snin_fabric::view::{Pair, View};
use snin_fabric::{
    Addresses, Dlid, ForwardingTable, Guid, NodeIndex, PortIndex, Topology, TreeId, ibnet,
};

use super::{MAX_LEVEL, MAX_VIEW, ViewBegin, ViewError, ViewPart};
use crate::message::{UnusablePair, ViewChange};

/// A view of which parts come in.
#[derive(Clone, Debug)]
pub struct Assembly {
    begin: ViewBegin,
    bytes: Vec<u8>,
    next: u32,
}

impl Assembly {
    /// Nothing but its beginning is there.
    pub const fn new(begin: ViewBegin) -> Self {
        Self { begin, bytes: Vec::new(), next: 0 }
    }

    /// The next part. True when it was the last.
    ///
    /// # Errors
    /// When it is not the next, or the view becomes too large.
    pub fn add(&mut self, part: &ViewPart) -> Result<bool, ViewError> {
        if part.version != self.begin.version || part.number != self.next {
            return Err(ViewError::OutOfTurn { version: part.version, number: part.number });
        }
        if self.bytes.len() + part.bytes.len() > MAX_VIEW {
            return Err(ViewError::TooLarge(self.bytes.len() + part.bytes.len()));
        }
        self.bytes.extend_from_slice(&part.bytes);
        self.next += 1;
        Ok(self.next == self.begin.parts)
    }

    /// The view, under a version of the receiver's own. Computing its tables takes milliseconds to seconds.
    ///
    /// # Errors
    /// When the texts are none, or the tables come out otherwise than the manager's.
    pub fn finish(self, version: u64) -> Result<PublishedView, ViewError> {
        let Self { begin, bytes, .. } = self;
        let (topology, rest) = bytes.split_at((begin.topology as usize).min(bytes.len()));
        let (addresses, tables) = rest.split_at((begin.addresses as usize).min(rest.len()));
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let topology =
            ibnet::parse(topology).map_err(|error| ViewError::Topology(wrong(&error)))?;
        let addresses = guid2lid::parse(addresses, &topology)
            .map_err(|error| ViewError::Addresses(wrong(&error)))?;
        let given = (!tables.is_empty() || begin.engine == Engine::Found)
            .then(|| lfts::parse(tables, &topology))
            .transpose()
            .map_err(|error| ViewError::Tables(wrong(&error)))?;
        let (routing, placement) = match given {
            Some(tables) if begin.engine == Engine::Found => {
                let found = Routing::found(&topology.with_addresses(&addresses), tables);
                let found = found.map_err(|(_, error)| ViewError::Addresses(wrong(&error)))?;
                let placement = Placement::new(Vec::new(), &found.plan);
                (found, placement)
            }
            given => routed(&begin, &topology, &addresses, given)?,
        };
        let ours = tables_hash(&topology, &routing.tables);
        if ours != begin.tables {
            return Err(ViewError::OtherTables { theirs: begin.tables, ours });
        }
        let is_found = routing.engine == Engine::Found;
        let choices = is_found.then(|| Arc::new(TreeChoices::of(&topology, &routing, 0).0));
        let switches: BTreeMap<Guid, NodeIndex> =
            topology.switches().map(|switch| (topology.node(switch).guid, switch)).collect();
        let pair = |pair: &UnusablePair| Some((*switches.get(&pair.switch)?, pair.tree));
        let unusable = begin.unusable.iter().filter_map(pair).collect();
        let granted_sl = begin.granted_sl.min(MAX_LEVEL);
        Ok(PublishedView {
            version,
            topology,
            routing,
            addresses,
            placement,
            unusable,
            granted_sl,
            choices,
        })
    }
}

/// What the manager computed, computed again; `given` are its tables where they do not follow from the fabric.
fn routed(
    begin: &ViewBegin,
    topology: &Topology,
    addresses: &Addresses,
    given: Option<Vec<ForwardingTable>>,
) -> Result<(Routing, Placement), ViewError> {
    let unmanaged = usize::from(begin.unmanaged_trees);
    let order: Vec<NodeIndex> = begin.order.iter().map(|&place| NodeIndex(place.into())).collect();
    let order = if order.is_empty() { Order::Best } else { Order::Given(&order) };
    let engine = if given.is_none() { begin.engine } else { Engine::UpDown };
    let options = RoutingOptions {
        engine,
        lmc: Some(begin.lmc),
        unmanaged_trees: unmanaged,
        order,
        ..RoutingOptions::default()
    };
    let mut routing = Routing::with(topology, &options)?;
    if addresses != routing.plan.addresses() {
        routing.plan.settle(addresses);
    }
    let placement = Placement::new(begin.places.clone(), &routing.plan);
    if addresses != routing.plan.addresses() || !placement.is_planned(&routing.plan) {
        routing.tables = placement.tables(topology, &routing, addresses);
    }
    if let Some(tables) = given {
        (routing.engine, routing.tables) = (begin.engine, tables);
    }
    Ok((routing, placement))
}

/// A view as its receiver has it.
#[derive(Clone, Debug)]
pub struct PublishedView {
    version: u64,
    topology: Topology,
    routing: Routing,
    addresses: Addresses,
    placement: Placement,
    unusable: BTreeSet<Pair>,
    granted_sl: u8,
    /// Of tables that were found.
    choices: Option<Arc<TreeChoices>>,
}

impl PublishedView {
    /// The same, after a change: other pairs are unusable beside those of the view.
    #[must_use]
    pub fn with_unusable(mut self, change: &ViewChange) -> Self {
        let switches: BTreeMap<Guid, NodeIndex> = self
            .topology
            .switches()
            .map(|switch| (self.topology.node(switch).guid, switch))
            .collect();
        let pair = |pair: &UnusablePair| Some((*switches.get(&pair.switch)?, pair.tree));
        self.unusable.extend(change.unusable.iter().filter_map(pair));
        self.version = change.version;
        self
    }
}

impl View for PublishedView {
    fn version(&self) -> u64 {
        self.version
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn routing(&self) -> &Routing {
        &self.routing
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn dlid(&self, port: PortIndex, tree: TreeId) -> Option<Dlid> {
        self.placement.dlid(&self.routing, &self.addresses, port, tree)
    }

    fn unusable(&self) -> &BTreeSet<Pair> {
        &self.unusable
    }

    fn granted_sl(&self) -> u8 {
        self.granted_sl
    }

    fn choices(&self) -> Option<&TreeChoices> {
        self.choices.as_deref()
    }
}
