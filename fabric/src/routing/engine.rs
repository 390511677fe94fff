//! The whole computation: a topology in, addresses, trees and tables out.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::orders::Wanted;
use super::parts::Part;
use super::{AddressPlan, Forest, PlanError, Ranks, Unreachable, gaps, min_hop, orders, tables};
use crate::clos::{Clos, NotClos, recognise};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Guid, Lmc, NodeIndex, Topology};

/// How tables are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// Routing trees on a Clos; up*/down* on anything else, by the best of several orders of its switches, and
    /// along trees in each Clos of several that cables join.
    #[default]
    Trees,
    /// Balanced up*/down* from the switch in the middle, on a Clos too: a baseline.
    UpDown,
    /// Balanced shortest paths at LMC 0.
    MinHop,
    /// D-mod-K at LMC 0, Clos only.
    DModK,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trees => "trees",
            Self::UpDown => "updown",
            Self::MinHop => "minhop",
            Self::DModK => "dmodk",
        })
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let engines = [Self::Trees, Self::UpDown, Self::MinHop, Self::DModK];
        let found = engines.into_iter().find(|engine| engine.to_string() == text);
        found.ok_or_else(|| {
            format!("`{text}` is no routing (expected trees, updown, minhop or dmodk)")
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
}

impl Routing {
    /// Computes addresses, trees and tables. `lmc`: `None` for the least that gives each tree an
    /// address, or the most that fits.
    ///
    /// # Errors
    /// See [`RoutingError`]. A fabric that is no Clos is no error: it is routed up*/down*.
    pub fn compute(
        topology: &Topology,
        engine: Engine,
        lmc: Option<Lmc>,
    ) -> Result<Self, RoutingError> {
        let hosts = Hosts::of(topology);
        let shape = recognise(topology, &hosts);
        match engine {
            Engine::Trees => Self::trees(topology, hosts, shape, (lmc, 0), Wanted::Best),
            Engine::MinHop | Engine::DModK if lmc.is_some_and(|lmc| lmc != Lmc::ZERO) => {
                Err(RoutingError::NeedsLmcZero(engine, lmc.unwrap_or_default()))
            }
            Engine::UpDown => {
                let ranks = Ranks::of_any(topology, &hosts);
                Self::up_down(topology, hosts, shape, ranks, lmc)
            }
            Engine::MinHop => Self::min_hop(topology, hosts, shape),
            Engine::DModK => Self::d_mod_k(topology, hosts, shape),
        }
    }

    /// The same along trees, where base addresses lead along at most so many of them; 0: along all.
    ///
    /// # Errors
    /// As [`Self::compute`].
    pub fn with_unmanaged_trees(
        topology: &Topology,
        lmc: Option<Lmc>,
        unmanaged_trees: usize,
    ) -> Result<Self, RoutingError> {
        Self::of(topology, (lmc, unmanaged_trees), Wanted::Best)
    }

    /// The same after a change: where there are no trees the switches keep their order, which had been `former`
    /// from the top to the bottom, unless another one is better by more than a quarter. So a cut moves few routes.
    ///
    /// # Errors
    /// As [`Self::compute`].
    pub fn after(
        topology: &Topology,
        lmc: Option<Lmc>,
        unmanaged_trees: usize,
        former: &[Guid],
    ) -> Result<Self, RoutingError> {
        Self::of(topology, (lmc, unmanaged_trees), Wanted::Former(former))
    }

    /// The same with an order that somebody else has chosen.
    ///
    /// # Errors
    /// As [`Self::compute`].
    pub fn in_order(
        topology: &Topology,
        lmc: Option<Lmc>,
        unmanaged_trees: usize,
        order: &[NodeIndex],
    ) -> Result<Self, RoutingError> {
        Self::of(topology, (lmc, unmanaged_trees), Wanted::Given(order))
    }

    /// The switches from the top to the bottom, where an order of them was chosen because there are no trees.
    pub fn order(&self) -> &[NodeIndex] {
        let is_chosen = self.engine == Engine::Trees && self.forest.is_empty();
        let is_joined = matches!(self.shape, Err(NotClos::Joined(_)));
        let ranks = self.ranks.as_ref().filter(|_| is_chosen && !is_joined);
        ranks.map_or(&[], Ranks::descending)
    }

    fn of(
        topology: &Topology,
        addresses: (Option<Lmc>, usize),
        wanted: Wanted<'_>,
    ) -> Result<Self, RoutingError> {
        let hosts = Hosts::of(topology);
        let shape = recognise(topology, &hosts);
        Self::trees(topology, hosts, shape, addresses, wanted)
    }

    fn trees(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
        (lmc, unmanaged_trees): (Option<Lmc>, usize),
        wanted: Wanted<'_>,
    ) -> Result<Self, RoutingError> {
        let engine = Engine::Trees;
        let not_clos = match shape {
            Err(reason) => reason,
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
                    let (shape, ranks) = (Ok(clos), Some(ranks));
                    return Ok(Self {
                        engine,
                        hosts,
                        shape,
                        ranks,
                        forest,
                        plan,
                        tables,
                        unreachable,
                    });
                };
                // So many cables are missing that its ranks leave hosts without a route: what joins
                // them is worth more than its trees.
                let name = |switch: NodeIndex| topology.node(switch).name.to_string();
                NotClos::Unjoined(name(pair.from), name(pair.to))
            }
        };
        let parts = Part::all(topology, &hosts);
        // Parts have ranks by their stages, and the whole has ranks that fit them.
        let ranks = match parts.is_empty() {
            true => orders::choose(topology, &hosts, wanted),
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
        let (tables, unreachable) = tables::fill(topology, &ranks, &forest, &plan);
        let (engine, ranks) = (Engine::UpDown, Some(ranks));
        Ok(Self { engine, hosts, shape, ranks, forest, plan, tables, unreachable })
    }

    fn min_hop(
        topology: &Topology,
        hosts: Hosts,
        shape: Result<Clos, NotClos>,
    ) -> Result<Self, RoutingError> {
        let plan = AddressPlan::new(topology, None, Some(Lmc::ZERO), 0)?;
        let (tables, unreachable) = min_hop::fill(topology, plan.addresses());
        Ok(Self {
            engine: Engine::MinHop,
            hosts,
            shape,
            ranks: None,
            forest: Forest::bare(topology),
            plan,
            tables,
            unreachable,
        })
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
        let (tables, unreachable) = tables::fill(&carrying, &ranks, &forest, &plan);
        let (engine, shape, ranks) = (Engine::DModK, Ok(clos), Some(ranks));
        Ok(Self { engine, hosts, shape, ranks, forest, plan, tables, unreachable })
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
