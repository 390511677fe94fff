//! Multicast: which ports each switch copies a group's packets to.
//!
//! A switch copies a packet to every port in its mask for the packet's multicast LID but the one by which it
//! came (IBA 18.2.4.3.3). So the masks of a group are one tree for all of its senders: every switch in it has at
//! most one neighbour above itself in the [ranks](crate::routing::Ranks), therefore every packet goes up and then
//! down, as unicast does, and the two together close no credit loop.
//!
//! [`Planner`] grows one [`McTree`] a group from topology, ranks and routing trees; a switch's masks of all groups
//! are its [`MulticastTable`]. [`MlidPool`] hands out the addresses of groups.

mod pool;
mod ports;
mod table;
mod tree;

pub use pool::MlidPool;
pub use ports::PortMask;
pub use table::{BLOCK, MulticastTable, POSITION};
pub use tree::{McTree, Members, Planner};
