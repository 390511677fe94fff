//! Input of commands: fabrics, patterns, tables.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use snin_fabric::generate::Recipe;
use snin_fabric::names::{HostNames, NodeNameMap};
use snin_fabric::routing::Routing;
use snin_fabric::traffic::{self, Demand, Pattern};
use snin_fabric::{ForwardingTable, NodeIndex, Topology, dump, ibnet};

use crate::cli::NodeNames;
use crate::failure::Failure;
use crate::output::note;

/// The largest file that is read: 11,664 hosts' topology is 10 MB, their plan 30 MB.
const MAX_FILE: u64 = 1 << 30;
/// The longest line of a table dump.
const MAX_LINE: u64 = 4096;

/// A fabric: a file, stdin, or a recipe.
pub(crate) fn topology(name: &str) -> Result<Topology, Failure> {
    if name == "-" {
        let mut text = Vec::new();
        let read = io::stdin().lock().take(MAX_FILE).read_to_end(&mut text);
        read.map_err(Failure::file(Path::new("stdin")))?;
        return ibnet::parse(&text).map_err(|error| Failure::content("stdin", error));
    }
    let path = Path::new(name);
    // A file of that name wins; what looks like a recipe and is no file is a recipe.
    if !path.exists() && (name.starts_with("clos:") || name.starts_with("fattree:")) {
        return Ok(name.parse::<Recipe>()?.build()?);
    }
    ibnet::parse(&file(path)?).map_err(|error| Failure::content(name, error))
}

/// A fabric with the names that a map gives its nodes.
pub(crate) fn named_topology(name: &str, names: &NodeNames) -> Result<Topology, Failure> {
    let topology = topology(name)?;
    Ok(match node_names(names)? {
        Some(map) => map.applied(&topology),
        None => topology,
    })
}

/// The map of names that is given, in OpenSM's form.
pub(crate) fn node_names(names: &NodeNames) -> Result<Option<NodeNameMap>, Failure> {
    let read = |path: &PathBuf| {
        NodeNameMap::parse(&file(path)?)
            .map_err(|error| Failure::content(&path.display().to_string(), error))
    };
    names.node_name_map.as_ref().map(read).transpose()
}

/// A whole file, up to a gigabyte.
pub(crate) fn file(path: &Path) -> Result<Vec<u8>, Failure> {
    let length = fs::metadata(path).map_err(Failure::file(path))?.len();
    if length > MAX_FILE {
        let too_large = io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB");
        return Err(Failure::file(path)(too_large));
    }
    fs::read(path).map_err(Failure::file(path))
}

/// The routing in force: tables from a dump, and the LIDs that the topology reports.
pub(crate) fn found_routing(
    name: &str,
    topology: &Topology,
    dump: &Path,
) -> Result<Routing, Failure> {
    Routing::found(topology, tables(dump, topology)?).map_err(|(port, error)| {
        Failure::content(name, format_args!(" {}: {error}", topology.port_name(port)))
    })
}

/// Forwarding tables, line by line: a dump of 11,664 hosts' fabric takes gigabytes.
pub(crate) fn tables(path: &Path, topology: &Topology) -> Result<Vec<ForwardingTable>, Failure> {
    let wrong = |error| Failure::content(&path.display().to_string(), error);
    let file = fs::File::open(path).map_err(Failure::file(path))?;
    let mut file = BufReader::with_capacity(1 << 16, file);
    let mut reader = dump::lfts::Reader::new(topology);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut rest = (&mut file).take(MAX_LINE);
        if rest.read_until(b'\n', &mut line).map_err(Failure::file(path))? == 0 {
            told_short(path, topology, reader.cut_short());
            return reader.finish().map_err(wrong);
        }
        reader.read(&line).map_err(wrong)?;
    }
}

/// Says of entries that are missing in a dump that its tool left them out.
fn told_short(path: &Path, topology: &Topology, switches: &[NodeIndex]) {
    let Some(&first) = switches.first() else { return };
    let name = &topology.node(first).name;
    note(format_args!(
        "{}: the tables of {} switches ({name} first) end one entry early, at a highest LID that is a multiple of \
         64: that is a fault of infiniband-diags' dump_fts, not of the fabric; what is said of that LID is not so \
         (`ibroute`, or OpenSM's opensm-lfts.dump, has the entry)",
        path.display(),
        switches.len()
    ));
}

/// The demands: from a file, or from a pattern where no file has that name.
pub(crate) fn traffic(
    name: &str,
    seed: u64,
    topology: &Topology,
    routing: &Routing,
) -> Result<Vec<Demand>, Failure> {
    let path = Path::new(name);
    if path.exists() {
        let names = HostNames::of(topology, &routing.hosts);
        return traffic::parse(&file(path)?, &names).map_err(|error| Failure::content(name, error));
    }
    let wrong = |error| Failure::content(name, format_args!(" no such file, and {error}"));
    let pattern: Pattern = name.parse().map_err(wrong)?;
    let leaf_of: Vec<u32> = routing.hosts.iter().map(|(_, host)| host.switch.0).collect();
    let uplinks = match &routing.shape {
        Ok(clos) => clos.leaves.iter().map(|&leaf| clos.uplinks(topology, leaf)).max().unwrap_or(1),
        Err(_) => 1,
    };
    let shape = traffic::Shape { leaf_of: &leaf_of, uplinks: uplinks as u32 };
    pattern.generate(shape, seed).map_err(|error| Failure::content(name, format_args!(" {error}")))
}
