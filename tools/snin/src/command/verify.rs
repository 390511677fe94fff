//! `snin verify`: the checkers alone, on anyone's tables and plan.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use snin_fabric::addresses::{AddressError, Addresses};
use snin_fabric::check::cover::{CoverReport, cover};
use snin_fabric::check::credit::{CreditReport, Traffic, credit};
use snin_fabric::check::owner::{OwnerReport, PlannedPath, owner};
use snin_fabric::check::tree::{CheckedTree, Stages, TreeReport, trees};
use snin_fabric::check::walk::{WalkReport, walk};
use snin_fabric::clos::recognise;
use snin_fabric::hosts::Hosts;
use snin_fabric::{
    ForwardingTable, Guid, Lid, Lmc, NodeIndex, NodeKind, PortIndex, PortNum, Topology, dump,
};

use crate::document::{GuidText, PLAN_VERSION, PlanDocument, SCHEMA_VERSION};
use crate::failure::Failure;
use crate::output::{Output, Progress, Target};
use crate::{Verdict, cli, input};

/// How many failures of each checker are named; all are counted.
const NAMED: usize = 10;

/// What `snin verify --json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    healthy: bool,
    /// Whose word the LIDs are.
    lids_from: LidSource,
    cover: CoverReport,
    routes: WalkReport,
    credit: CreditReport,
    /// Only with a plan that has trees.
    trees: Option<TreeReport>,
    /// Only with a plan.
    owners: Option<OwnerReport>,
}

/// Where LIDs come from.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum LidSource {
    Plan,
    Guid2lid,
    Topology,
}

impl fmt::Display for LidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plan => "the plan",
            Self::Guid2lid => "guid2lid",
            Self::Topology => "the topology: there is no guid2lid beside the tables",
        })
    }
}

/// Reads, checks, reports.
pub(crate) fn run<W: Write>(args: &cli::Verify, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(args.format.json.as_deref())?;
    let progress = Progress::new();
    progress.step("reading the topology");
    let topology = input::topology(&args.topology)?;
    let ports = PortsByGuid::new(&topology);
    progress.step("reading tables and plan");
    let plan = args.plan.as_deref().map(read_plan).transpose()?;
    let (dump_file, guid2lid) = locate(&args.lfts);
    let tables = input::tables(&dump_file, &topology)?;
    let (lids_from, addresses) = match (&args.plan, &plan) {
        (Some(file), Some(plan)) => {
            (LidSource::Plan, planned_addresses(file, plan, &topology, &ports)?)
        }
        _ if guid2lid.exists() => {
            let name = guid2lid.display().to_string();
            let addresses = dump::guid2lid::parse(&input::file(&guid2lid)?, &topology)
                .map_err(|error| Failure::content(&name, error))?;
            (LidSource::Guid2lid, addresses)
        }
        _ => {
            let addresses = topology
                .reported_addresses()
                .map_err(|(port, error)| taken(&args.topology, &topology, port, error))?;
            (LidSource::Topology, addresses)
        }
    };
    progress.step("walking every route");
    let cover = cover(&topology, &addresses, NAMED);
    let routes = walk(&topology, &addresses, &tables, NAMED);
    progress.step("looking for credit loops");
    let credit = credit(&topology, &addresses, &tables, Traffic::All, |_, _| 0);
    progress.step("checking trees and owners");
    let (trees, owners) = match (&args.plan, &plan) {
        (Some(file), Some(plan)) => {
            let checked = Checked { file, plan, topology: &topology, ports: &ports };
            let trees = checked.trees(&addresses, &tables)?;
            (trees, Some(checked.owners(&addresses, &tables)?))
        }
        _ => (None, None),
    };
    drop(progress);

    let healthy = cover.is_ok()
        && routes.joins_all()
        && credit.is_ok()
        && trees.as_ref().is_none_or(TreeReport::is_ok)
        && owners.as_ref().is_none_or(OwnerReport::is_ok);
    let schema_version = SCHEMA_VERSION;
    let report =
        Report { schema_version, healthy, lids_from, cover, routes, credit, trees, owners };
    out.report(json, &report, |out| print(&report, out))?;
    Ok(if healthy { Verdict::Well } else { Verdict::Unwell })
}

fn print<W: Write>(report: &Report, out: &mut Output<W>) -> Result<(), Failure> {
    out.line(format_args!("LIDs from {}", report.lids_from))?;
    out.line(&report.cover)?;
    out.line(&report.routes)?;
    out.line(&report.credit)?;
    if let Some(trees) = &report.trees {
        out.line(trees)?;
    }
    if let Some(owners) = &report.owners {
        out.line(owners)?;
    }
    out.line(if report.healthy { "healthy" } else { "NOT healthy" })
}

/// The table dump and the guid2lid file that `--lfts` points at.
fn locate(lfts: &Path) -> (PathBuf, PathBuf) {
    if !lfts.is_dir() {
        return (lfts.to_owned(), lfts.with_file_name("guid2lid"));
    }
    let names = ["opensm-lfts.dump", "dump_fts.txt"];
    let found = names.iter().map(|name| lfts.join(name)).find(|path| path.exists());
    (found.unwrap_or_else(|| lfts.join(names[0])), lfts.join("guid2lid"))
}

fn read_plan(path: &Path) -> Result<PlanDocument, Failure> {
    let name = path.display().to_string();
    let text = input::file(path)?;
    let wrong = |error: serde_json::Error| {
        Failure::content(&name, format_args!("{}: {error}", error.line()))
    };
    // First: what another version lacks or has besides says less.
    let Version { schema_version } = serde_json::from_slice(&text).map_err(wrong)?;
    if schema_version != PLAN_VERSION {
        let what = format!(
            "1: schema_version {schema_version} (expected {PLAN_VERSION}): it is another version's of snin: \
             make the plan anew"
        );
        return Err(Failure::content(&name, what));
    }
    serde_json::from_slice(&text).map_err(wrong)
}

/// Of a plan, whatever else is in it.
#[derive(serde::Deserialize)]
struct Version {
    schema_version: u32,
}

fn taken(name: &str, topology: &Topology, port: PortIndex, error: AddressError) -> Failure {
    Failure::content(name, format_args!(" {}: {error}", topology.port_name(port)))
}

/// Ports by GUID: switches at their port 0.
struct PortsByGuid {
    ports: BTreeMap<Guid, PortIndex>,
}

impl PortsByGuid {
    fn new(topology: &Topology) -> Self {
        let mut ports = BTreeMap::new();
        for node in topology.nodes() {
            if topology.node(node).kind == NodeKind::Switch {
                ports.insert(topology.node(node).guid, topology.port0(node));
            } else {
                let cabled = topology.cables(node).map(|(port, _)| port);
                ports.extend(cabled.map(|port| (topology.port(port).guid, port)));
            }
        }
        Self { ports }
    }

    fn find(&self, plan: &Path, guid: GuidText) -> Result<PortIndex, Failure> {
        let unknown = || {
            let what = format_args!(" port GUID {} is not in the topology", guid.0).to_string();
            Failure::content(&plan.display().to_string(), what)
        };
        self.ports.get(&guid.0).copied().ok_or_else(unknown)
    }
}

fn planned_addresses(
    file: &Path,
    plan: &PlanDocument,
    topology: &Topology,
    ports: &PortsByGuid,
) -> Result<Addresses, Failure> {
    let name = file.display().to_string();
    let lmc = Lmc::new(plan.lmc)
        .ok_or_else(|| Failure::content(&name, format_args!(" lmc {} (0 to 7)", plan.lmc)))?;
    let mut addresses = Addresses::none(topology.port_count());
    for (&guid, &lid) in &plan.lids {
        let port = ports.find(file, guid)?;
        let lmc = if topology.is_switch(topology.port(port).node) { Lmc::ZERO } else { lmc };
        addresses
            .assign(port, Lid(lid), lmc)
            .map_err(|error| taken(&name, topology, port, error))?;
    }
    Ok(addresses)
}

/// A plan held against a fabric.
struct Checked<'a> {
    file: &'a Path,
    plan: &'a PlanDocument,
    topology: &'a Topology,
    ports: &'a PortsByGuid,
}

impl Checked<'_> {
    fn trees(
        &self,
        addresses: &Addresses,
        tables: &[ForwardingTable],
    ) -> Result<Option<TreeReport>, Failure> {
        if self.plan.trees.is_empty() {
            return Ok(None);
        }
        // Cables tell which switches a tree leads over, but not where several of a pod lead to the same cores, and
        // not where switches hang on the Clos that are no part of it.
        let clos = recognise(self.topology, &Hosts::of(self.topology)).ok();
        let clos = clos.filter(|clos| clos.group_width > 1 || !clos.outside.is_empty());
        let mut checked = Vec::new();
        for tree in &self.plan.trees {
            let (root, plane) = (self.switch(tree.root)?, tree.plane);
            let below = clos.as_ref().map(|clos| clos.below(root, plane));
            checked.push(CheckedTree { root, plane, below });
        }
        let stages = self.stages(checked[0].root);
        let count = checked.len();
        let mut of_port: BTreeMap<PortIndex, &[u16]> = BTreeMap::new();
        for (&guid, trees) in &self.plan.address_trees {
            of_port.insert(self.ports.find(self.file, guid)?, trees);
        }
        let mut home: BTreeMap<PortIndex, u16> = BTreeMap::new();
        for (&guid, &tree) in &self.plan.home_trees {
            home.insert(self.ports.find(self.file, guid)?, tree);
        }
        let tree_of = |lid: Lid| {
            let (port, offset) = addresses.owner(lid)?;
            let tree = if !of_port.is_empty() {
                usize::from(*of_port.get(&port)?.get(usize::from(offset))?)
            } else if home.is_empty() {
                usize::from(offset) % count
            } else {
                match offset.checked_sub(1) {
                    None => usize::from(*home.get(&port)?),
                    Some(place) => usize::from(place) % count,
                }
            };
            let end = !self.topology.is_switch(self.topology.port(port).node);
            (end && tree < count).then_some(tree)
        };
        Ok(Some(trees(self.topology, addresses, tables, &checked, stages, tree_of, NAMED)))
    }

    /// A root whose neighbours carry hosts is a spine of two stages.
    fn stages(&self, root: NodeIndex) -> Stages {
        let carries_hosts = |switch: NodeIndex| {
            self.topology.cables(switch).any(|(_, peer)| {
                let node = self.topology.port(peer).node;
                self.topology.node(node).kind == NodeKind::Adapter
            })
        };
        let below = self.topology.switch_links(root).any(|(_, peer)| carries_hosts(peer));
        if below { Stages::Two } else { Stages::Three }
    }

    fn owners(
        &self,
        addresses: &Addresses,
        tables: &[ForwardingTable],
    ) -> Result<OwnerReport, Failure> {
        let mut paths = Vec::with_capacity(self.plan.grants.len());
        for grant in &self.plan.grants {
            let mut path = Vec::with_capacity(grant.path.len());
            for hop in &grant.path {
                path.push((self.switch(hop.switch)?, PortNum(hop.port)));
            }
            paths.push(PlannedPath {
                source: self.ports.find(self.file, grant.source)?,
                destination: self.ports.find(self.file, grant.destination)?,
                dlid: Lid(grant.dlid),
                path,
            });
        }
        Ok(owner(self.topology, addresses, tables, &paths, NAMED))
    }

    fn switch(&self, guid: GuidText) -> Result<NodeIndex, Failure> {
        let node = self.topology.port(self.ports.find(self.file, guid)?).node;
        if self.topology.is_switch(node) {
            return Ok(node);
        }
        let what = format_args!(" GUID {} is no switch", guid.0).to_string();
        Err(Failure::content(&self.file.display().to_string(), what))
    }
}
