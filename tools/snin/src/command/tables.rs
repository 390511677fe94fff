//! Tables as files: for `opensm --routing_engine file`, and for `snin verify`.

use std::fs;
use std::io::Write;
use std::path::Path;

use snin_fabric::{Addresses, ForwardingTable, Topology, dump};

use crate::failure::Failure;

/// Writes dump_fts.txt, opensm-lfts.dump and guid2lid into a directory, which is made if it is not there.
pub(crate) fn write(
    directory: &Path,
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(Failure::file(directory))?;
    write_texts(
        &directory.join("dump_fts.txt"),
        dump::lfts::dump_fts(topology, addresses, tables),
    )?;
    write_texts(
        &directory.join("opensm-lfts.dump"),
        dump::lfts::opensm(topology, addresses, tables),
    )?;
    write_texts(
        &directory.join("guid2lid"),
        std::iter::once(dump::guid2lid::write(topology, addresses)),
    )
}

fn write_texts(path: &Path, texts: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut file = fs::File::create(path).map_err(Failure::file(path))?;
    for text in texts {
        file.write_all(text.as_bytes()).map_err(Failure::file(path))?;
    }
    Ok(())
}
