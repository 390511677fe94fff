//! Ports to the world. Nothing here decides anything.

pub mod candidate;
pub mod kept;
pub mod manager;
pub mod outlets;
pub mod state;
pub mod timer;
pub mod topology;
pub mod writer;
