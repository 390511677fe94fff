//! A fabric from a file.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use snin_fabric::routing::{Routing, RoutingOptions};
use snin_fabric::view::{PlannedView, View};
use snin_fabric::{Lmc, ibnet};
use snin_protocol::view::Policy;

use crate::error::Failure;

/// The fabric, with the tables that `snin plan` computes for it.
///
/// # Errors
/// When the file cannot be read, or there are no tables for what is in it.
pub fn read(
    path: &Path,
    lmc: Option<Lmc>,
    policy: Policy,
    version: u64,
) -> Result<Arc<dyn View>, Failure> {
    let text = fs::read(path).map_err(|error| Failure::file(path, error))?;
    let topology = ibnet::parse(&text).map_err(|error| Failure::file(path, error))?;
    let unmanaged_trees = usize::from(policy == Policy::Strict);
    let options = RoutingOptions { lmc, unmanaged_trees, ..RoutingOptions::default() };
    let routing = Routing::with(&topology, &options);
    let routing = routing.map_err(|error| Failure::file(path, error))?;
    Ok(Arc::new(PlannedView { version, topology, routing, unusable: Default::default() }))
}
