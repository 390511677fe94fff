//! From a topology to addresses, trees and tables: a job that knows nothing of packets or time.
//!
//! The planner numbers everything from scratch. What was given before is put back by renaming: a port that
//! keeps other addresses than the planned ones has the planned columns of every table moved there, and a
//! tree that had another number before keeps its place among the addresses of each port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::dump::lfts;
use snin_fabric::routing::{
    Engine, Former, Order, Placement, Routing, RoutingError, RoutingOptions,
};
use snin_fabric::{Addresses, ForwardingTable, Guid, Lid, Lmc, NodeIndex, PortIndex, Topology};

use super::address::{self, Wishes};
use crate::discovered::Discovered;
use crate::multicast::{Groups, McPlan};
use crate::target::Target;
use snin_sm_database::saved::Saved;

/// A computation that takes milliseconds to seconds: run it wherever that does no harm.
#[derive(Debug)]
pub struct Job {
    pub(crate) number: u64,
    pub(crate) work: Work,
    pub(crate) groups: Arc<Groups>,
    /// Switches without a multicast forwarding table, by place in the topology.
    pub(crate) incapable: BTreeSet<NodeIndex>,
}

/// What is to be computed.
#[derive(Debug)]
pub(crate) enum Work {
    /// Everything.
    Fabric(Arc<Found>),
    /// All but the trees of groups was computed before, of the same.
    Known(Arc<Found>, Arc<Target>),
    /// What another manager keeps: the trees of the Clos beside addresses and tables that were read.
    Read(Arc<Read>),
    /// The trees of groups over a fabric that is as it was, and how they were.
    Groups(Arc<Target>, Arc<McPlan>),
}

/// What is known of a fabric. Of the same the same is computed.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) discovered: Arc<Discovered>,
    pub(crate) saved: Arc<Saved>,
    pub(crate) held: Vec<Lid>,
    pub(crate) lmc: Option<Lmc>,
    pub(crate) unmanaged_trees: usize,
    pub(crate) engine: Engine,
    /// The data lanes that every link between switches has.
    pub(crate) lanes: u8,
    pub(crate) roots: Vec<Guid>,
    /// The administrator's own tables.
    pub(crate) lfts: Arc<String>,
    pub(crate) most: Lid,
    pub(crate) own: Option<PortIndex>,
    /// Where there were no trees: the switches from the top to the bottom.
    pub(crate) former: Arc<Vec<Guid>>,
    /// How the fabric was to be, where its routes were in lanes.
    pub(crate) laned: Option<FormerTarget>,
}

/// A fabric as another manager keeps it.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub(crate) discovered: Arc<Discovered>,
    pub(crate) addresses: Addresses,
    /// By switch, in the topology's order.
    pub(crate) tables: Vec<ForwardingTable>,
    pub(crate) own: Option<PortIndex>,
}

impl Read {
    /// Whether two readings say the same of the fabric; nodes may have been met in another order.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        self.discovered.topology == other.discovered.topology
            && self.addresses == other.addresses
            && self.tables == other.tables
            && self.own == other.own
    }

    /// Whether every route that both know is the same one: switches and the cables between them are the same, and
    /// so is every entry for an address that both have. Hosts may have come or gone.
    pub(crate) fn moves_nothing(&self, other: &Self) -> bool {
        let [ours, theirs] = [self, other].map(|read| &read.discovered.topology);
        let trunks = |topology: &Topology| {
            let end = |port: PortIndex| {
                (topology.node(topology.port(port).node).guid, topology.num(port))
            };
            let is_trunk = |port: PortIndex, peer: PortIndex| {
                [port, peer].iter().all(|&end| topology.is_switch(topology.port(end).node))
            };
            let pairs = topology.ports().filter_map(|port| Some((port, topology.peer(port)?)));
            let pairs = pairs.filter(|&(port, peer)| is_trunk(port, peer));
            pairs.map(|(port, peer)| (end(port), end(peer))).collect::<BTreeSet<_>>()
        };
        let switches = |topology: &Topology| -> Vec<Guid> {
            topology.switches().map(|switch| topology.node(switch).guid).collect()
        };
        if switches(ours) != switches(theirs) || trunks(ours) != trunks(theirs) {
            return false;
        }
        let lids = self.addresses.iter().flat_map(|(port, ..)| self.addresses.of(port));
        let known: Vec<Lid> = lids.filter(|&lid| other.addresses.owner(lid).is_some()).collect();
        // Switches come in one order: that of their names and GUIDs.
        let tables = self.tables.iter().zip(&other.tables);
        tables.into_iter().all(|(a, b)| known.iter().all(|&lid| a.get(lid) == b.get(lid)))
    }

    fn target(&self) -> Result<Target, RoutingError> {
        let (discovered, addresses) = (self.discovered.clone(), self.addresses.clone());
        let topology = discovered.topology.with_addresses(&addresses);
        let routing = Routing::found(&topology, self.tables.clone());
        let routing = routing.map_err(|_| RoutingError::NotComputed)?;
        let places = Placement::new(Vec::new(), &routing.plan);
        Ok(Target { discovered, routing, addresses, without: Vec::new(), places })
    }
}

/// What came of the computation before: the same only if it is the very same.
#[derive(Clone, Debug)]
pub(crate) struct FormerTarget(pub(crate) Arc<Target>);

impl PartialEq for FormerTarget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FormerTarget {}

/// What came of it.
#[derive(Debug)]
pub struct Computed {
    pub(crate) number: u64,
    /// Of what; nothing where the target was there.
    pub(crate) found: Option<Arc<Found>>,
    pub(crate) result: Result<(Arc<Target>, Arc<McPlan>), RoutingError>,
}

impl Computed {
    /// Of which of this core's jobs.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

impl Job {
    /// Work that has no groups.
    pub(crate) fn of(number: u64, work: Work) -> Self {
        Self { number, work, groups: Arc::default(), incapable: BTreeSet::new() }
    }

    /// Which of this core's jobs it is.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it computes tables, and not only what groups need.
    pub const fn computes_tables(&self) -> bool {
        matches!(self.work, Work::Fabric(_))
    }

    /// Computes.
    pub fn run(self) -> Computed {
        let Self { number, work, groups, incapable } = self;
        let (found, target, known) = match work {
            Work::Groups(target, known) => (None, Ok(target), Some(known)),
            Work::Known(found, target) => (Some(found), Ok(target), None),
            Work::Read(read) => (None, read.target().map(Arc::new), None),
            Work::Fabric(found) => {
                let target = found.target().map(Arc::new);
                (Some(found), target, None)
            }
        };
        let result = target.map(|target| {
            let plan = McPlan::compute(&target, &groups, &incapable, known.as_deref());
            (target, Arc::new(plan))
        });
        Computed { number, found, result }
    }
}

impl Found {
    fn target(&self) -> Result<Target, RoutingError> {
        let Self { discovered, saved, held, most, own, .. } = self;
        let topology = &discovered.topology;
        let former = self.laned.as_ref().map(|FormerTarget(target)| Former {
            topology: &target.discovered.topology,
            addresses: &target.addresses,
            routing: &target.routing,
        });
        let mut routing = Routing::with(
            topology,
            &RoutingOptions {
                engine: self.engine,
                lmc: self.lmc,
                unmanaged_trees: self.unmanaged_trees,
                order: Order::Former(&self.former),
                roots: &self.roots,
                lanes: self.lanes,
                former,
            },
        )?;
        let canonical = routing.plan.addresses();
        let (saved, places) = (&saved.lids, keep_places(discovered, &routing, &saved.trees));
        let wishes = Wishes { topology, canonical, saved, held, most: *most, own: *own };
        let (addresses, without) = address::keep(&wishes);
        let is_canonical = &addresses == canonical;
        if !is_canonical {
            routing.plan.settle(&addresses);
        }
        if !is_canonical || !places.is_planned(&routing.plan) {
            routing.tables = places.tables(topology, &routing, &addresses);
        }
        if self.engine == Engine::File {
            let given = lfts::parse(self.lfts.as_bytes(), topology);
            let given = given.map_err(|error| error.to_string());
            routing.adopt(topology, &addresses, given, self.lanes, former);
        }
        let discovered = discovered.clone();
        Ok(Target { discovered, routing, addresses, without, places })
    }
}

/// Every tree keeps its place, or takes one that was never given; when there is none left, one whose
/// tree is gone. The place of the base address is no tree's: a tree that had it, since an earlier version gave it
/// away, takes another. Only where every tree has an address of its own: else ports have trees of their own
/// choice, and the choice is the planner's.
fn keep_places(
    discovered: &Discovered,
    routing: &Routing,
    saved: &BTreeMap<(Guid, u16), u16>,
) -> Placement {
    let (trees, plan) = (routing.forest.trees(), &routing.plan);
    let (first, room) = (plan.first_offset(), plan.lmc().addresses());
    if plan.is_rotated() {
        return Placement::planned_by(plan, trees.len());
    }
    let names: Vec<(Guid, u16)> =
        trees.iter().map(|tree| (discovered.topology.node(tree.root).guid, tree.plane)).collect();
    let mut taken = BTreeSet::new();
    let mut of_tree: Vec<Option<u16>> = names
        .iter()
        .map(|name| {
            let place = saved.get(name).copied();
            place
                .filter(|&place| place >= first && usize::from(place) < room && taken.insert(place))
        })
        .collect();
    let reserved: BTreeSet<u16> = saved.values().copied().collect();
    for place in of_tree.iter_mut().filter(|place| place.is_none()) {
        let free = |n: &u16| !taken.contains(n);
        let all = || first..room as u16;
        *place = all().filter(|n| !reserved.contains(n)).find(free).or_else(|| all().find(free));
        taken.extend(*place);
    }
    Placement::new(of_tree.into_iter().map(Option::unwrap_or_default).collect(), plan)
}

/// For [`Saved::trees`].
pub(crate) fn named_places(target: &Target) -> impl Iterator<Item = ((Guid, u16), u16)> + '_ {
    let topology = &target.discovered.topology;
    let trees = target.routing.forest.trees().iter();
    trees
        .zip(target.places.places())
        .map(|(tree, &place)| ((topology.node(tree.root).guid, tree.plane), place))
}
