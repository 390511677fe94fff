//! The connection controller of a strictly non-interfering fabric: packs requested connections onto
//! trees so that no directed link ever carries two of them.

pub mod admission;
pub mod bound;
pub mod config;
pub mod core;
pub mod error;
pub mod events;
pub mod lines;
pub mod metrics;
pub mod owners;
pub mod packing;
pub mod plan;
pub mod slices;
pub mod threads;
