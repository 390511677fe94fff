//! The independent checkers: they believe no planner, only cables, addresses and tables.
//!
//! Nothing here uses the code that recognises, routes or packs; a checker works out all that it needs from the
//! [`Topology`](crate::Topology), the [`Addresses`](crate::Addresses) and every switch's
//! [`ForwardingTable`](crate::ForwardingTable) (by switch index; a switch without a table forwards
//! nothing). So a table or a plan from anywhere can be judged, and an error of a planner's is not repeated
//! in its judge.
//!
//! - [`cover()`]: does every port have an address, do cables join them all - is there anything to check?
//! - [`walk()`]: does every address arrive, from every switch?
//! - [`trees`]: along its tree, wherever the cables allow?
//! - [`credit()`]: can the fabric deadlock?
//! - [`multicast()`]: does every member of a group get every packet once, and no other port a copy?
//! - [`owner()`]: does every directed link have one owner at most?
//! - [`load()`]: how evenly are links loaded by programs that do not ask?
//! - [`sharing()`]: which jobs met on which links?
//!
//! Each counts everything and records the first few failures by name.

pub mod cover;
pub mod credit;
pub mod load;
pub mod multicast;
pub mod owner;
pub mod sharing;
pub mod tree;
pub mod walk;

mod cycle;
mod findings;
mod wiring;

pub use cover::cover;
pub use credit::credit;
pub use findings::Findings;
pub use load::load;
pub use multicast::multicast;
pub use owner::owner;
pub use sharing::sharing;
pub use tree::trees;
pub use walk::walk;
