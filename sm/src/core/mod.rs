//! The cores of the subnet manager: protocol as pure state machines.

mod activate;
mod address;
mod ask;
mod discovered;
mod distribute;
mod graph;
mod lanes;
mod mirror;
mod order;
mod planning;
mod schedule;
mod smp;
mod survey;
mod sweep;
mod transactions;
mod turns;
mod view;
mod window;

pub use planning::{Computed, Job, Saved};
pub use sweep::Sweep;
pub use view::{FabricView, Pair};
