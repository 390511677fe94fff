//! A fabric from files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use snin_fabric::routing::{Routing, RoutingOptions};
use snin_fabric::view::{PlannedView, View};
use snin_fabric::{Lmc, dump, ibnet};
use snin_protocol::view::Policy;

use crate::error::Failure;

/// The fabric with the tables that another manager wrote, as `dump_fts` or OpenSM's own dump has them.
///
/// # Errors
/// When a file cannot be read, or says what cannot be.
pub fn read_found(path: &Path, tables: &Path, version: u64) -> Result<Arc<dyn View>, Failure> {
    let text = fs::read(path).map_err(|error| Failure::file(path, error))?;
    let topology = ibnet::parse(&text).map_err(|error| Failure::file(path, error))?;
    let text = fs::read(tables).map_err(|error| Failure::file(tables, error))?;
    let tables =
        dump::lfts::parse(&text, &topology).map_err(|error| Failure::file(tables, error))?;
    let routing = Routing::found(&topology, tables).map_err(|(port, error)| {
        Failure::file(path, format_args!("{}: {error}", topology.port_name(port)))
    })?;
    Ok(Arc::new(PlannedView::new(version, topology, routing)))
}

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
    Ok(Arc::new(PlannedView::new(version, topology, routing)))
}
