//! The emulated fabric as a process: programs that speak the [software port](snin_protocol::software_port) attach
//! to it in real time, subnet managers, infiniband-diags and OpenSM by ibsim's preloaded library, and end-node
//! agents.
//!
//! ```text
//!  clients of management --- Mads ---> Emulator (switches, adapters, links)
//!                                         | the tables that the manager wrote
//!  end-node agents ------- Agents ---> Messages (who owns which link, when)
//!  snin emulator ... ------ control ---> faults, figures, what managers wrote
//! ```
//!
//! One thread, one poll. The emulator is the pure one, driven by the machine's monotonic clock.

mod agents;
mod error;
mod held;
mod mads;
mod server;

pub use error::ServerError;
pub use server::{Options, Server};
