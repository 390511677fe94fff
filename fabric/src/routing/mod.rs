//! From a fabric's shape to addresses, trees and tables.
//!
//! Data flows one way: [`Clos`](crate::clos::Clos) gives the [`Forest`] of routing trees and the
//! [`Ranks`]; forest and LMC give the [`AddressPlan`]; all together give one
//! [`ForwardingTable`](crate::ForwardingTable) a switch. A fabric that is no Clos has ranks, but no trees;
//! one of several Clos that cables join has the tables of each inside it.

mod address_plan;
mod balanced;
mod engine;
mod forest;
mod former;
mod found;
mod gaps;
mod given;
mod lanes;
mod layered;
mod mended;
mod min_hop;
mod orders;
mod parts;
mod placement;
mod ranks;
mod reach;
mod replacing;
mod shortest;
mod spread;
mod tables;

pub use address_plan::{AddressPlan, PlanError};
pub use engine::{Engine, Former, Routing, RoutingError, RoutingOptions};
pub use forest::{Forest, RoutingTree};
pub use found::{OffTree, OffTreeRoute, TreeChoices, TreeChoicesReport};
pub use given::GivenTables;
pub use lanes::{Lanes, MOST_LANES};
pub use orders::Order;
pub use placement::{Placement, tables_hash};
pub use ranks::Ranks;
pub use replacing::{Replaced, Replacing};
pub use tables::{Unreachable, fill as fill_tables};
