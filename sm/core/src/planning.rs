//! From a topology to addresses, trees and tables: a job that knows nothing of packets or time.
//!
//! The planner numbers everything from scratch. What was given before is put back by renaming: a port that
//! keeps other addresses than the planned ones has the planned columns of every table moved there, and a
//! tree that had another number before keeps its place among the addresses of each port.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use snin_fabric::routing::{Engine, Routing, RoutingError};
use snin_fabric::{Addresses, ForwardingTable, Guid, Lid, Lmc, PortIndex, PortNum, TreeId};

use super::address::{self, Wishes};
use crate::discovered::Discovered;

/// What has to survive a restart: everything that would come out otherwise if it were planned anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// The LMC of every host port, once it was chosen.
    pub lmc: Option<Lmc>,
    /// First address and how many, by port GUID, of absent ports too.
    pub lids: BTreeMap<Guid, (Lid, Lmc)>,
    /// Place among a port's addresses of every tree, by root and plane.
    pub trees: BTreeMap<(Guid, u16), u16>,
}

/// A computation that takes milliseconds to seconds: run it wherever that does no harm.
#[derive(Debug)]
pub struct Job {
    pub(crate) number: u64,
    pub(crate) discovered: Discovered,
    pub(crate) saved: Arc<Saved>,
    pub(crate) held: Vec<Lid>,
    pub(crate) lmc: Option<Lmc>,
    pub(crate) most: Lid,
    pub(crate) own: Option<PortIndex>,
}

/// What came of it.
#[derive(Debug)]
pub struct Computed {
    pub(crate) number: u64,
    pub(crate) result: Result<Arc<Target>, RoutingError>,
}

/// How the fabric shall be.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) discovered: Discovered,
    /// The tables are those of the addresses below, not of the plan's.
    pub(crate) routing: Routing,
    pub(crate) addresses: Addresses,
    /// Ports for which no addresses are left.
    pub(crate) without: Vec<PortIndex>,
    /// The place of every tree among a port's addresses.
    pub(crate) places: Places,
}

impl Job {
    /// Computes.
    pub fn run(self) -> Computed {
        let computed = Routing::compute(&self.discovered.topology, Engine::Trees, self.lmc);
        let result = computed.map(|mut routing| {
            let topology = &self.discovered.topology;
            let canonical = routing.plan.addresses();
            let (addresses, without) = address::keep(&Wishes {
                topology,
                canonical,
                saved: &self.saved.lids,
                held: &self.held,
                most: self.most,
                own: self.own,
            });
            let places = Places::keep(&self.discovered, &routing, &self.saved.trees);
            if &addresses != canonical || !places.are_planned() {
                routing.tables = rename(&routing, &addresses, &places);
            }
            let discovered = self.discovered;
            Arc::new(Target { discovered, routing, addresses, without, places })
        });
        Computed { number: self.number, result }
    }
}

/// At which offset from a port's base address each tree's address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    of_tree: Vec<u16>,
    /// By offset: the planner's offset whose column lies there.
    planned: Vec<u16>,
}

impl Places {
    /// Every tree keeps its place, or takes one that was never given; when there is none left, one whose
    /// tree is gone. Only where every tree has an address of its own: else ports have trees of their own
    /// choice, and the choice is the planner's.
    fn keep(
        discovered: &Discovered,
        routing: &Routing,
        saved: &BTreeMap<(Guid, u16), u16>,
    ) -> Self {
        let (trees, room) = (routing.forest.trees(), routing.plan.lmc().addresses());
        let as_planned = (0..room as u16).collect();
        if trees.len() > room {
            return Self { of_tree: (0..trees.len() as u16).collect(), planned: as_planned };
        }
        let names: Vec<(Guid, u16)> = trees
            .iter()
            .map(|tree| (discovered.topology.node(tree.root).guid, tree.plane))
            .collect();
        let mut taken = BTreeSet::new();
        let mut of_tree: Vec<Option<u16>> = names
            .iter()
            .map(|name| {
                let place = saved.get(name).copied();
                place.filter(|&place| usize::from(place) < room && taken.insert(place))
            })
            .collect();
        let reserved: BTreeSet<u16> = saved.values().copied().collect();
        for place in of_tree.iter_mut().filter(|place| place.is_none()) {
            let free = |n: &u16| !taken.contains(n);
            let all = || 0..room as u16;
            *place =
                all().filter(|n| !reserved.contains(n)).find(free).or_else(|| all().find(free));
            taken.extend(*place);
        }
        let of_tree: Vec<u16> = of_tree.into_iter().map(Option::unwrap_or_default).collect();
        let mut planned: Vec<u16> = as_planned;
        for (place, planned) in planned.iter_mut().enumerate() {
            if let Some(tree) = of_tree.iter().position(|&of| usize::from(of) == place) {
                *planned = tree as u16;
            } else if let Some(alias) = place.checked_rem(trees.len()) {
                *planned = alias as u16;
            }
        }
        Self { of_tree, planned }
    }

    fn are_planned(&self) -> bool {
        self.of_tree.iter().enumerate().all(|(tree, &place)| tree == usize::from(place))
    }

    /// The place of a tree.
    pub(crate) fn of(&self, tree: TreeId) -> Option<u16> {
        self.of_tree.get(tree.index()).copied()
    }

    /// The planner's offset for what lies at `offset`.
    pub(crate) fn planned(&self, offset: u16) -> Option<u16> {
        self.planned.get(usize::from(offset)).copied()
    }

    /// For [`Saved::trees`].
    pub(crate) fn named<'a>(
        &'a self,
        target: &'a Target,
    ) -> impl Iterator<Item = ((Guid, u16), u16)> + 'a {
        let topology = &target.discovered.topology;
        let trees = target.routing.forest.trees().iter();
        trees
            .zip(&self.of_tree)
            .map(|(tree, &place)| ((topology.node(tree.root).guid, tree.plane), place))
    }
}

/// Moves every column to the address that its port and tree really have.
fn rename(routing: &Routing, addresses: &Addresses, places: &Places) -> Vec<ForwardingTable> {
    let canonical = routing.plan.addresses();
    let columns: Vec<(Lid, Lid)> = addresses
        .iter()
        .filter_map(|(port, base, lmc)| Some((base, canonical.base(port)?, lmc)))
        .flat_map(|(base, planned, lmc)| {
            (0..lmc.addresses() as u16).map(move |offset| {
                let from = if lmc == Lmc::ZERO { Some(offset) } else { places.planned(offset) };
                (Lid(base.0 + offset), Lid(planned.0 + from.unwrap_or(offset)))
            })
        })
        .collect();
    let renamed = |table: &ForwardingTable| {
        let mut entries = vec![PortNum::NONE.0; addresses.top().index() + 1];
        columns.iter().for_each(|&(lid, planned)| entries[lid.index()] = table.get(planned).0);
        ForwardingTable::of_entries(&entries)
    };
    routing.tables.iter().map(renamed).collect()
}
