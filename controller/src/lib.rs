//! The daemon around the [core](snin_controller_core) of the connection controller: sessions with agents and
//! the subnet manager, and the state that survives a restart.

pub mod api;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod error;
pub mod events;
pub mod io;
pub mod metrics;
pub mod recording;

mod asked;
mod collectives;
mod describing;
mod jobs;
mod leading;
mod link_tests;
mod principal;
mod punctuality;
mod reserving;
mod storing;
mod viewing;
