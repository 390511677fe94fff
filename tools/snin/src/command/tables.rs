//! Tables as files: for `opensm --routing_engine file`, and for `snin verify`.

use std::path::Path;

use snin_fabric::{Addresses, ForwardingTable, Topology};
use snin_sm::daemon::dumps;

use crate::failure::Failure;

/// Writes dump_fts.txt, opensm-lfts.dump and guid2lid into a directory, which is made if it is not there.
pub(crate) fn write(
    directory: &Path,
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
) -> Result<(), Failure> {
    dumps::write(directory, topology, addresses, tables)
        .map_err(|error| Failure::File { path: error.path, error: error.error })
}
