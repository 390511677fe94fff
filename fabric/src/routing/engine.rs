//! The whole computation: a topology in, addresses, trees and tables out.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::layered::Layers;
use super::orders::Order;
use super::parts::Part;
use super::{
    AddressPlan, Forest, GivenTables, Lanes, PlanError, Ranks, Unreachable, gaps, min_hop, orders,
    tables,
};
use crate::clos::{Clos, NotClos, recognise};
use crate::hosts::Hosts;
use crate::{Addresses, ForwardingTable, Guid, Lmc, NodeIndex, Topology};

/// How tables are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Engine {
    /// Routing trees on a Clos; up*/down* on anything else, by the best of several orders of its switches, and
    /// along trees in each Clos of several that cables join.
    #[default]
    Trees,
    /// Balanced up*/down* by the best of several orders of the switches, on a Clos too.
    UpDown,
    /// Balanced shortest paths, of which each has a virtual lane so that none closes a credit loop; up*/down*
    /// where there are too few lanes. Programs have to send with the service level of the path.
    Lanes,
    /// The same with the shortest path by the lowest ports: dimension by dimension on a torus or a mesh.
    DimensionOrder,
    /// The administrator's own tables ([`Routing::adopt`]), in lanes where they need them.
    File,
    /// Balanced shortest paths at LMC 0.
    MinHop,
    /// D-mod-K at LMC 0, Clos only.
    DModK,
    /// None: another manager keeps the tables, and they were read ([`Routing::found`]).
    Found,
}

impl Engine {
    /// All that compute tables.
    pub const ALL: [Self; 6] =
        [Self::Trees, Self::UpDown, Self::Lanes, Self::DimensionOrder, Self::MinHop, Self::DModK];
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trees => "trees",
            Self::UpDown => "updown",
            Self::Lanes => "lanes",
            Self::DimensionOrder => "dor",
            Self::File => "file",
            Self::MinHop => "minhop",
            Self::DModK => "dmodk",
            Self::Found => "found",
        })
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|engine| engine.to_string() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|engine| engine.to_string()).join(", ");
            format!("`{text}` is no routing (expected one of {names})")
        })
    }
}

/// Why there are no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The addresses do not fit.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// D-mod-K counts the uplinks of a Clos.
    #[error("dmodk needs a Clos, and this fabric is none: {0}")]
    NeedsClos(NotClos),
    /// The baselines have one address a port.
    #[error("{0} routes at LMC 0 only, not {1}")]
    NeedsLmcZero(Engine, Lmc),
    /// They are another manager's.
    #[error("tables that were found are read, not computed")]
    NotComputed,
}

/// What is asked of tables.
#[derive(Clone, Copy, Debug)]
pub struct RoutingOptions<'a> {
    /// How they are made.
    pub engine: Engine,
    /// 2^LMC addresses a host port; `None`: the least that gives each tree an address, or the most that fits.
    pub lmc: Option<Lmc>,
    /// Base addresses lead along at most so many trees; 0: along all.
    pub unmanaged_trees: usize,
    /// Which switches are above which, where there are no trees.
    pub order: Order<'a>,
    /// Switches that are at the top of that order, as in OpenSM's `root_guid_file`; unknown GUIDs are ignored.
    pub roots: &'a [Guid],
    /// The data lanes that every link between switches has.
    pub lanes: u8,
    /// Routes in lanes as they were before a change. Those that still lead somewhere are kept, in their lanes. If
    /// the most loaded link then carries a quarter more than when they were chosen, some are moved within lanes.
    pub former: Option<Former<'a>>,
}

/// Tables as they are, of a fabric as it was.
#[derive(Clone, Copy, Debug)]
pub struct Former<'a> {
    /// The fabric.
    pub topology: &'a Topology,
    /// The addresses in the tables.
    pub addresses: &'a Addresses,
    /// Tables and lanes.
    pub routing: &'a Routing,
}

impl Default for RoutingOptions<'_> {
    fn default() -> Self {
        let (engine, order) = (Engine::Trees, Order::Best);
        Self { engine, lmc: None, unmanaged_trees: 0, order, roots: &[], lanes: 8, former: None }
    }
}

/// Everything that follows from a topology.
#[derive(Clone, Debug)]
pub struct Routing {
    /// Which engine made it.
    pub engine: Engine,
    /// The hosts and their numbers.
    pub hosts: Hosts,
    /// The Clos, or why it is none.
    pub shape: Result<Clos, NotClos>,
    /// What "up" means; min-hop knows none.
    pub ranks: Option<Ranks>,
    /// The routing trees; none without a Clos.
    pub forest: Forest,
    /// The addresses and the tree behind each.
    pub plan: AddressPlan,
    /// One table a switch, by switch.
    pub tables: Vec<ForwardingTable>,
    /// Pairs of switches between which no legal route exists.
    pub unreachable: Vec<Unreachable>,
    /// The virtual lane of each path, where one lane is not enough.
    pub lanes: Option<Lanes>,
    /// What came of the administrator's own tables.
    pub given: Option<GivenTables>,
}

/// What tables are made for: the hosts, the Clos or why it is none, and what "up" means.
pub(super) struct Known {
    pub(super) hosts: Hosts,
    pub(super) shape: Result<Clos, NotClos>,
    pub(super) ranks: Option<Ranks>,
}

impl Routing {
    /// All of it, without lanes and without given tables.
    pub(super) fn of(
        engine: Engine,
        Known { hosts, shape, ranks }: Known,
        (forest, plan): (Forest, AddressPlan),
        (tables, unreachable): (Vec<ForwardingTable>, Vec<Unreachable>),
    ) -> Self {
        let (lanes, given) = (None, None);
        Self { engine, hosts, shape, ranks, forest, plan, tables, unreachable, lanes, given }
    }

    /// Computes addresses, trees and tables, where nothing is asked but these.
    ///
    /// # Errors
    /// As [`Self::with`].
    pub fn compute(
        topology: &Topology,
        engine: Engine,
        lmc: Option<Lmc>,
    ) -> Result<Self, RoutingError> {
        Self::with(topology, &RoutingOptions { engine, lmc, ..RoutingOptions::default() })
    }

    /// Computes addresses, trees and tables.
    ///
    /// # Errors
    /// See [`RoutingError`]. A fabric that is no Clos is no error: it is routed up*/down*, and so is one that has
    /// not the lanes for shortest paths; [`Self::engine`] says so.
    pub fn with(topology: &Topology, options: &RoutingOptions<'_>) -> Result<Self, RoutingError> {
        let hosts = Hosts::of(topology);
        let shape = recognise(topology, &hosts);
        let RoutingOptions { engine, lmc, .. } = *options;
        match engine {
            Engine::Trees => Self::trees(topology, hosts, shape, options),
            Engine::MinHop | Engine::DModK if lmc.is_some_and(|lmc| lmc != Lmc::ZERO) => {
                Err(RoutingError::NeedsLmcZero(engine, lmc.unwrap_or_default()))
            }
            Engine::UpDown | Engine::File => {
                let ranks = orders::choose(topology, &hosts, options.order, options.roots);
                Self::up_down(topology, hosts, shape, ranks, lmc)
            }
            Engine::Lanes | Engine::DimensionOrder => {
                Self::shortest(topology, hosts, shape, options)
            }
            Engine::MinHop => Self::min_hop(topology, hosts, shape),
            Engine::DModK => Self::d_mod_k(topology, hosts, shape),
            Engine::Found => Err(RoutingError::NotComputed),
        }
    }

    /// The switches from the top to the bottom, where an order of them was chosen because there are no trees.
    pub fn order(&self) -> &[NodeIndex] {
        let is_chosen = self.engine != Engine::MinHop && self.forest.is_empty();
        let is_joined = matches!(self.shape, Err(NotClos::Joined(_)));
        let ranks = self.ranks.as_ref().filter(|_| is_chosen && !is_joined);
        ranks.map_or(&[], Ranks::descending)
    }

    fn trees(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
        options: &RoutingOptions<'_>,
    ) -> Result<Self, RoutingError> {
        let RoutingOptions { lmc, unmanaged_trees, order, roots, .. } = *options;
        let engine = Engine::Trees;
        let parts = match &shape {
            // Of two Clos each keeps its routes: neither is outside the other.
            Ok(clos) if clos.outside.is_empty() => Vec::new(),
            _ => Part::all(topology, &hosts),
        };
        let not_clos = match shape {
            Err(reason) => reason,
            Ok(_) if !parts.is_empty() => NotClos::Joined(parts.len()),
            Ok(clos) => {
                let ranks = Ranks::of_clos(topology, &clos);
                let forest = Forest::grow(topology, &clos);
                let plan =
                    AddressPlan::new(topology, Some((&clos, &forest)), lmc, unmanaged_trees)?;
                let carrying = without_strays(topology, &clos);
                let (mut tables, unreachable) = tables::fill(&carrying, &ranks, &forest, &plan);
                let grown = (&ranks, &forest);
                gaps::spread(topology, &clos, grown, &plan, plan.addresses(), &mut tables);
                let Some(pair) = unjoined(topology, &hosts, &unreachable) else {
                    let known = Known { hosts, shape: Ok(clos), ranks: Some(ranks) };
                    return Ok(Self::of(engine, known, (forest, plan), (tables, unreachable)));
                };
                // So many cables are missing that its ranks leave hosts without a route: what joins
                // them is worth more than its trees.
                let name = |switch: NodeIndex| topology.node(switch).name.to_string();
                NotClos::Unjoined(name(pair.from), name(pair.to))
            }
        };
        let parts = match not_clos {
            NotClos::Unjoined(..) => Part::all(topology, &hosts),
            _ => parts,
        };
        // Parts have ranks by their stages, and the whole has ranks that fit them.
        let ranks = match parts.is_empty() {
            true => orders::choose(topology, &hosts, order, roots),
            false => Ranks::of_any(topology, &hosts),
        };
        let mut routing = Self::up_down(topology, hosts, Err(not_clos), ranks, lmc)?;
        routing.engine = engine;
        if let Some(ranks) = &routing.ranks {
            for part in &parts {
                part.fill(topology, ranks, &mut routing.plan, &mut routing.tables)?;
            }
        }
        if !parts.is_empty() {
            routing.shape = Err(NotClos::Joined(parts.len()));
        }
        Ok(routing)
    }

    fn up_down(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
        ranks: Ranks,
        lmc: Option<Lmc>,
    ) -> Result<Self, RoutingError> {
        let forest = Forest::bare(topology);
        let plan = AddressPlan::new(topology, None, lmc, 0)?;
        let made = tables::fill(topology, &ranks, &forest, &plan);
        let known = Known { hosts, shape, ranks: Some(ranks) };
        Ok(Self::of(Engine::UpDown, known, (forest, plan), made))
    }

    fn shortest(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
        options: &RoutingOptions<'_>,
    ) -> Result<Self, RoutingError> {
        let RoutingOptions { engine, lmc, order, roots, lanes, former, .. } = *options;
        let ranks = orders::given(topology, order, roots);
        let ranks = ranks.unwrap_or_else(|| Ranks::of_any(topology, &hosts));
        let plan = AddressPlan::new(topology, None, lmc, 0)?;
        let is_spread = engine == Engine::Lanes;
        let kept = former.filter(|former| former.routing.engine == engine);
        let wanted = Layers { is_spread, most: lanes, former: kept };
        let shortest = tables::fill_shortest(topology, &ranks, &plan, &wanted);
        let Some((tables, unreachable, lanes)) = shortest else {
            let ranks = orders::choose(topology, &hosts, order, roots);
            let routing = Self::up_down(topology, hosts, shape, ranks, lmc)?;
            let lanes = Lanes::one(topology).following(topology, former);
            return Ok(Self { lanes: Some(lanes), ..routing });
        };
        let lanes = lanes.following(topology, former);
        let known = Known { hosts, shape, ranks: Some(ranks) };
        let grown = (Forest::bare(topology), plan);
        Ok(Self { lanes: Some(lanes), ..Self::of(engine, known, grown, (tables, unreachable)) })
    }

    fn min_hop(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
    ) -> Result<Self, RoutingError> {
        let plan = AddressPlan::new(topology, None, Some(Lmc::ZERO), 0)?;
        let made = min_hop::fill(topology, plan.addresses());
        let known = Known { hosts, shape, ranks: None };
        Ok(Self::of(Engine::MinHop, known, (Forest::bare(topology), plan), made))
    }

    fn d_mod_k(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
    ) -> Result<Self, RoutingError> {
        let clos = shape.map_err(RoutingError::NeedsClos)?;
        let ranks = Ranks::of_clos(topology, &clos);
        let forest = Forest::grow(topology, &clos);
        let plan = AddressPlan::d_mod_k(topology, &clos, &forest)?;
        let carrying = without_strays(topology, &clos);
        let made = tables::fill(&carrying, &ranks, &forest, &plan);
        drop(carrying);
        let known = Known { hosts, shape: Ok(clos), ranks: Some(ranks) };
        Ok(Self::of(Engine::DModK, known, (forest, plan), made))
    }
}

/// The first pair of host-carrying switches without a route, although cables connect them.
fn unjoined(
    topology: &Topology,
    hosts: &Hosts,
    unreachable: &[Unreachable],
) -> Option<Unreachable> {
    let count = hosts.per_switch(topology);
    let carries = |switch: NodeIndex| count[switch.index()] > 0;
    unreachable.iter().copied().find(|pair| carries(pair.from) && carries(pair.to))
}

/// What unicast routes of a Clos go along. Not stray cables: where one joins two leaves, routes down to the one
/// could lead over the other, which sends them up again along their tree - and so close a credit loop.
pub(super) fn without_strays<'a>(topology: &'a Topology, clos: &Clos) -> Cow<'a, Topology> {
    if clos.strays.is_empty() {
        return Cow::Borrowed(topology);
    }
    Cow::Owned(topology.without_cables(&clos.strays))
}
