//! The labs: all cores in one virtual time, and the same with the kernel's software RDMA in place of emulated
//! adapters (`verbs`).
//!
//! The cores joined to the emulated fabric: adapters between port traits and the emulator, and the virtual
//! clock that drives everything.
//!
//! ```text
//!            subnet (sweep core) --- views ---> controller core
//!   tables written |                              | channel: latency, losses
//!                  v                              v
//!                wire (data plane) <--- port --- host: mesh core, application, clock
//!                  |
//!                  +--> watch (owners of links), bound (waits)
//! ```

pub mod bound;
pub mod carry;
pub mod channel;
pub mod compare;
pub mod event;
pub mod faults;
pub mod guard;
pub mod host;
pub mod lanes;
pub mod port;
pub mod reconfiguration;
pub mod subnet;
pub mod traffic;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod watch;
pub mod wire;
pub mod world;
