//! The subcommands.

pub(crate) mod agent;
pub(crate) mod emulate;
pub(crate) mod lab;
#[cfg(feature = "verbs")]
pub(crate) mod lat;
pub(crate) mod manager;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod simulate;
pub(crate) mod slices;
pub(crate) mod tables;
pub(crate) mod topo;
pub(crate) mod up;
#[cfg(feature = "verbs")]
pub(crate) mod verbs_lab;
pub(crate) mod verify;
