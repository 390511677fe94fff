//! The subcommands.

pub(crate) mod lab;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod simulate;
pub(crate) mod slices;
pub(crate) mod topo;
pub(crate) mod verify;
