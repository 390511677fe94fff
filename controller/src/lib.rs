//! The daemon around the [core](snin_controller_core) of the connection controller: sessions with agents and the subnet
//! manager, the state that survives a restart, and cores of the machine to pack on.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod error;
pub mod events;
pub mod io;
pub mod lines;
pub mod metrics;
pub mod threads;

mod asked;
