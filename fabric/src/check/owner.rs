//! Does every directed link have one owner at most?

use std::fmt;

use super::Findings;
use super::wiring::{Step, Wiring};
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// A connection that a plan grants, and the path it claims: every switch on it, with the port that the
/// packet leaves by. The last leads to the destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedPath {
    /// The port that sends.
    pub source: PortIndex,
    /// The port that receives.
    pub destination: PortIndex,
    /// The address it is to send to.
    pub dlid: Lid,
    /// Switch and port, from the source's switch on.
    pub path: Vec<(NodeIndex, PortNum)>,
}

/// What is wrong with a plan. A grant is named by its `source -> destination`.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Violation {
    /// Two grants on one directed link, named by the port that sends on it.
    Shared {
        /// The link.
        link: String,
        /// The first owner.
        owner: String,
        /// The second owner.
        other: String,
    },
    /// The address is not the destination's.
    Address {
        /// The grant.
        grant: String,
        /// The address.
        dlid: u16,
        /// Whose it is, if anyone's.
        owner: Option<String>,
    },
    /// The path is not a way from the source to the destination.
    Path {
        /// The grant.
        grant: String,
        /// Which hop, from 0; the number of hops where it ends too early.
        hop: usize,
        /// Where the packet is before that hop.
        at: String,
        /// The error.
        what: &'static str,
    },
    /// The switch's table sends the address elsewhere than the path says.
    Table {
        /// The grant.
        grant: String,
        /// The path's switch and port.
        hop: String,
        /// The port in the table; 255 for none.
        table: u8,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { link, owner, other } => write!(f, "{link}: {owner} and {other}"),
            Self::Address { grant, dlid, owner: Some(owner) } => {
                write!(f, "{grant}: LID {dlid} belongs to {owner}")
            }
            Self::Address { grant, dlid, owner: None } => {
                write!(f, "{grant}: LID {dlid} belongs to no port")
            }
            Self::Path { grant, hop, at, what } => write!(f, "{grant}: hop {hop}, at {at}: {what}"),
            Self::Table { grant, hop, table: u8::MAX } => {
                write!(f, "{grant}: goes by {hop}, but the table has no entry")
            }
            Self::Table { grant, hop, table } => {
                write!(f, "{grant}: goes by {hop}, but the table says port {table}")
            }
        }
    }
}

/// What [`owner()`] found.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct OwnerReport {
    /// Grants looked at.
    pub grants: u64,
    /// Directed links that have an owner, those from and to hosts included.
    pub links: u64,
    /// The most grants on one directed link.
    pub max_link_load: u32,
    /// What is wrong.
    pub violations: Findings<Violation>,
}

impl OwnerReport {
    /// True when every path is real and no link is shared.
    pub const fn is_ok(&self) -> bool {
        self.violations.is_empty()
    }
}

impl fmt::Display for OwnerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { grants, links, max_link_load, violations } = self;
        write!(
            f,
            "owners: {grants} grants on {links} directed links, at most {max_link_load} on one; \
             {} violations{violations}",
            violations.total
        )
    }
}

/// Checks that every grant's path is what the tables do with its address, from its source's switch to its
/// destination, and that no directed link has two owners. The links from and to hosts are among them, so no
/// port sends or receives two connections. Records the first `limit` violations.
pub fn owner(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    grants: &[PlannedPath],
    limit: usize,
) -> OwnerReport {
    let mut ledger = Ledger {
        topology,
        wiring: Wiring::of(topology),
        first: vec![None; topology.port_count()],
        load: vec![0; topology.port_count()],
        violations: Findings::new(limit),
    };
    for (number, grant) in grants.iter().enumerate() {
        let belongs = addresses.owner(grant.dlid).map(|(port, _)| port);
        if belongs != Some(grant.destination) {
            ledger.violations.add(|| Violation::Address {
                grant: name(topology, grant),
                dlid: grant.dlid.0,
                owner: belongs.map(|port| topology.port_name(port)),
            });
        }
        ledger.follow(tables, grant);
        ledger.claim(grants, number);
    }
    OwnerReport {
        grants: grants.len() as u64,
        links: ledger.load.iter().filter(|&&load| load != 0).count() as u64,
        max_link_load: ledger.load.iter().copied().max().unwrap_or(0),
        violations: ledger.violations,
    }
}

struct Ledger<'a> {
    topology: &'a Topology,
    wiring: Wiring,
    /// The first owner of each directed link, by the port that sends on it.
    first: Vec<Option<u32>>,
    load: Vec<u32>,
    violations: Findings<Violation>,
}

impl Ledger<'_> {
    /// Goes the grant's path, cable by cable and table by table; the first thing wrong is told.
    fn follow(&mut self, tables: &[ForwardingTable], grant: &PlannedPath) {
        let topology = self.topology;
        if topology.is_switch(topology.port(grant.source).node) {
            return self.wrong(grant, 0, "a switch is no source");
        }
        let mut at = self.enters(grant);
        for (hop, &(switch, out)) in grant.path.iter().enumerate() {
            let wrong = match at {
                Step::Switch(here, _) if here == switch => None,
                Step::Switch(..) => Some("the path goes on at another switch"),
                Step::Arrived(_) => Some("the path goes on after its end"),
                _ => Some("no cable"),
            };
            if let Some(what) = wrong {
                return self.wrong(grant, hop, what);
            }
            let table = tables.get(switch.index()).map_or(PortNum::NONE, |t| t.get(grant.dlid));
            if table != out {
                return self.violations.add(|| Violation::Table {
                    grant: name(topology, grant),
                    hop: format!("{}/{out}", topology.node(switch).name),
                    table: table.0,
                });
            }
            at = self.wiring.step(switch, out);
        }
        match at {
            Step::Arrived(port) if port == grant.destination => {}
            Step::Arrived(_) => self.wrong(grant, grant.path.len(), "ends at another port"),
            Step::Switch(..) => self.wrong(grant, grant.path.len(), "ends at a switch"),
            _ => self.wrong(grant, grant.path.len(), "ends at a port without a cable"),
        }
    }

    /// Where a packet of the grant's is when it has left its source.
    fn enters(&self, grant: &PlannedPath) -> Step {
        match self.topology.peer(grant.source) {
            None => Step::NoCable,
            Some(port) => match self.topology.port(port).node {
                node if self.topology.is_switch(node) => Step::Switch(node, port),
                _ => Step::Arrived(port),
            },
        }
    }

    fn wrong(&mut self, grant: &PlannedPath, hop: usize, what: &'static str) {
        let topology = self.topology;
        self.violations.add(|| Violation::Path {
            grant: name(topology, grant),
            hop,
            at: match hop.checked_sub(1).and_then(|before| grant.path.get(before)) {
                Some(&(switch, out)) => format!("{}/{out}", topology.node(switch).name),
                None => topology.port_name(grant.source),
            },
            what,
        });
    }

    /// Enters the grant as an owner of every link it names, real or not real.
    fn claim(&mut self, grants: &[PlannedPath], number: usize) {
        let topology = self.topology;
        let grant = &grants[number];
        let hops = grant.path.iter().filter_map(|&(switch, out)| topology.port_of(switch, out));
        for link in std::iter::once(grant.source).chain(hops) {
            self.load[link.index()] += 1;
            match self.first[link.index()] {
                None => self.first[link.index()] = Some(number as u32),
                Some(owner) => self.violations.add(|| Violation::Shared {
                    link: topology.port_name(link),
                    owner: name(topology, &grants[owner as usize]),
                    other: name(topology, grant),
                }),
            }
        }
    }
}

fn name(topology: &Topology, grant: &PlannedPath) -> String {
    let port = |port| topology.port_name(port);
    format!("{} -> {}", port(grant.source), port(grant.destination))
}
