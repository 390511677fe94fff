//! The core of the connection controller: packs requested connections onto trees so that no directed link ever
//! carries two of them. Pure: no clock, no socket, no thread, no file.

pub mod admission;
pub mod bound;
pub mod config;
pub mod error;
pub mod events;
pub mod leadership;
pub mod metrics;
pub mod orders;
pub mod owners;
pub mod packing;
pub mod plan;
pub mod slices;
pub mod view_session;
pub mod window;

pub use window::Core;
