//! The lab on real verbs: the kernel's software RDMA on TAP interfaces that an emulated fabric joins.
//!
//! Every host port of the fabric becomes a TAP with a device of rdma_rxe on it and one IP address per tree,
//! whose low 16 bits are the LID (`interfaces`). One thread moves frames between the TAPs by the tables that
//! the subnet manager's core wrote, and counts them (`wire`). On every host runs an agent (`hosts`). They exchange
//! queue pairs among themselves and ask over TCP (`controller_server`) who may send along which tree: the
//! controller's core, or one that knows nothing of links (`controllers`). Each of these threads is a `worker`: it
//! polls until it is stopped, and one that ends before is noticed.
//! What the counters prove is judged by code that knows neither (`judge`). The `scenario` puts it together.

mod busy;
mod controller_server;
mod controllers;
mod document;
mod error;
mod fabric;
mod hosts;
mod interfaces;
mod judge;
mod permutations;
mod rates;
mod scenario;
mod stage;
mod uplink;
mod wire;
mod worker;

pub use document::{
    Agents, Busy, Crossings, Document, Exclusive, Flow, Moved, Rearrangement, Uplink, Way, Window,
};
pub use error::VerbsLabError;
pub use fabric::Fabric;
pub use judge::{Astray, Judge, Shared, Trace};
pub use scenario::{Settings, run};
pub use stage::{Carried, CarriedFlow, CarriedLink, stage};
