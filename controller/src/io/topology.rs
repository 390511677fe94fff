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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use snin_fabric::dump::lfts;
    use snin_fabric::generate::Recipe;
    use snin_fabric::routing::Engine;

    use super::*;

    /// The files of a fabric as a manager wrote it.
    fn written(folder: &Path, recipe: &str) -> (PathBuf, PathBuf) {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let ours = Routing::compute(&topology, Engine::Trees, Lmc::new(1)).unwrap();
        let topology = topology.with_addresses(ours.plan.addresses());
        let file = |kind: &str| folder.join(format!("{recipe}.{kind}"));
        let (fabric, tables) = (file("ibnetdiscover"), file("dump_fts"));
        fs::write(&fabric, ibnet::write(&topology)).unwrap();
        let addresses = ours.plan.addresses();
        let text: String = lfts::dump_fts(&topology, addresses, &ours.tables).collect();
        fs::write(&tables, text).unwrap();
        (fabric, tables)
    }

    #[test]
    fn tables_of_another_manager_are_walked_and_those_of_another_fabric_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (fabric, tables) = written(folder.path(), "clos:4,2,2");
        let view = read_found(&fabric, &tables, 3).unwrap();
        assert_eq!((view.version(), view.routing().hosts.len()), (3, 8));
        assert!(view.choices().is_some());
        let (_, others) = written(folder.path(), "clos:6,3,3");
        let why = read_found(&fabric, &others, 1).unwrap_err().to_string();
        assert!(why.starts_with(&format!("{}:", others.display())), "{why}");
        // A dump that ends early is named by the first switch without a table.
        let text = fs::read_to_string(&tables).unwrap();
        let second = text.match_indices("Unicast lids").nth(1).unwrap().0;
        fs::write(&tables, &text[..second]).unwrap();
        let why = read_found(&fabric, &tables, 1).unwrap_err().to_string();
        assert!(why.contains("no table for switch `leaf1`"), "{why}");
        // So is a table with gaps.
        let third = text.lines().nth(3).unwrap();
        fs::write(&tables, text.replacen(&format!("{third}\n"), "", 1)).unwrap();
        let why = read_found(&fabric, &tables, 1).unwrap_err().to_string();
        assert!(why.contains("entries, but the table declares"), "{why}");
    }
}
