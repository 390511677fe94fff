//! What a fabric is: its topology, its Clos shape, which addresses lead along which trees, what every
//! switch's tables hold, who talks to whom, and the independent checkers that prove all of it.
//!
//! Pure data in, pure data out: no clock, no socket, no thread, no file. Text formats take and give
//! bytes; reading files is the caller's business.

pub mod addresses;
pub mod check;
pub mod clos;
pub mod dump;
pub mod generate;
pub mod hosts;
pub mod ibnet;
pub mod id;
pub mod job;
pub mod lft;
pub mod link;
mod mistaken;
pub mod multicast;
pub mod names;
pub mod place;
mod printable;
pub mod routing;
pub mod topology;
pub mod traffic;
pub mod view;

pub use addresses::Addresses;
pub use id::{Dlid, Guid, Lid, Lmc, Mlid, NodeIndex, PortIndex, PortNum, TreeId};
pub use lft::ForwardingTable;
pub use link::{LinkRate, Speed, Width};
pub use place::Place;
pub use printable::printable;
pub use topology::{Node, NodeKind, Port, Topology};
