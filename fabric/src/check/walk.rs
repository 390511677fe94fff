//! Does every address arrive, from every switch?

use std::collections::BTreeMap;
use std::fmt;

use super::Findings;
use super::cover::connected_parts;
use super::wiring::{Column, Step, Wiring, each_column};
use crate::{Addresses, ForwardingTable, NodeIndex, NodeKind, PortIndex, Topology};

/// How a packet ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// At the port that owns the address.
    Arrived,
    /// At another port.
    WrongPort,
    /// At a switch whose table has no entry for the address.
    NoEntry,
    /// At a switch whose entry names a port that it has not.
    NoPort,
    /// At a switch whose entry names a port without a cable.
    NoCable,
    /// Nowhere: it goes round for ever.
    Loop,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arrived => "arrives",
            Self::WrongPort => "delivered to another port",
            Self::NoEntry => "no entry",
            Self::NoPort => "entry for a port the switch has not",
            Self::NoCable => "entry for a port without a cable",
            Self::Loop => "goes round for ever",
        })
    }
}

/// A route that does not arrive.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct LostRoute {
    /// The switch it was followed from.
    pub from: String,
    /// The destination address.
    pub dlid: u16,
    /// The port that owns the address.
    pub owner: String,
    /// Where it ended: the last switch and the port in its table, or the port it was delivered to; of a
    /// loop, the first switch met twice.
    pub at: String,
    /// Why it ended there.
    pub why: Fate,
}

impl fmt::Display for LostRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, dlid, owner, at, why } = self;
        write!(f, "from {from} to LID {dlid} ({owner}): {why}, at {at}")
    }
}

/// What [`walk()`] found. A *route* is a pair (switch, address): all sources on a switch share it.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct WalkReport {
    /// Switches walked from.
    pub switches: u64,
    /// Addresses walked to.
    pub addresses: u64,
    /// Routes that arrive.
    pub arrived: u64,
    /// Routes that end elsewhere although cables lead to the address's owner.
    pub lost: u64,
    /// Routes that go round for ever.
    pub looped: u64,
    /// Routes to an owner that no cables lead to: no table's fault.
    pub disconnected: u64,
    /// Pairs (addressed port of an adapter or router, address of another such port).
    pub host_routes: u64,
    /// Those among them that do not arrive, for any reason.
    pub host_routes_lost: u64,
    /// Routes that arrive, by how many switches they pass, the first included.
    pub hops: BTreeMap<u32, u64>,
    /// The lost and looped routes.
    pub failures: Findings<LostRoute>,
}

impl WalkReport {
    /// True when every route arrives that cables lead to: the tables are right, even if they do not cover every
    /// port.
    pub const fn is_ok(&self) -> bool {
        self.failures.is_empty()
    }

    /// True when besides every addressed port reaches every other, so that no cable is lacking either.
    pub const fn joins_all(&self) -> bool {
        self.is_ok() && self.addresses > 0 && self.host_routes_lost == 0
    }

    /// Fewest and most switches on a route that arrives, if any does.
    pub fn hop_range(&self) -> Option<(u32, u32)> {
        Some((*self.hops.first_key_value()?.0, *self.hops.last_key_value()?.0))
    }

    /// Mean number of switches on a route that arrives; 0 when none does.
    pub fn mean_hops(&self) -> f64 {
        let passed: u64 = self.hops.iter().map(|(&hops, &routes)| u64::from(hops) * routes).sum();
        passed as f64 / self.arrived.max(1) as f64
    }
}

impl fmt::Display for WalkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switches, addresses, arrived, lost, looped, .. } = self;
        write!(
            f,
            "routes: {switches} switches x {addresses} addresses: {arrived} arrive, {lost} lost, \
             {looped} loop"
        )?;
        if self.disconnected != 0 {
            write!(f, ", {} without cables", self.disconnected)?;
        }
        write!(f, "; host to host: {} of {} lost", self.host_routes_lost, self.host_routes)?;
        if let Some((min, max)) = self.hop_range() {
            write!(f, "; {min} to {max} switches passed, {:.2} on average", self.mean_hops())?;
        }
        self.failures.fmt(f)
    }
}

/// Follows the tables from every switch to every address that a port owns, and records the first `limit`
/// failures.
pub fn walk(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    limit: usize,
) -> WalkReport {
    let mut walker = Walker::new(topology, addresses, limit);
    each_column(topology, addresses, tables, |column| walker.visit(&column));
    walker.finish()
}

/// What is known of a switch's route to the address at hand.
#[derive(Clone, Copy)]
enum Known {
    Nothing,
    OnTrail,
    Ends(Fate, u32),
}

struct Walker<'a> {
    topology: &'a Topology,
    wiring: Wiring,
    /// The connected part of the fabric that each switch is in.
    part: Vec<NodeIndex>,
    /// Addressed end ports on each switch: as many host routes share a route of the switch's.
    sources: Vec<u64>,
    known: Vec<Known>,
    trail: Vec<NodeIndex>,
    by_hops: Vec<u64>,
    report: WalkReport,
}

impl<'a> Walker<'a> {
    fn new(topology: &'a Topology, addresses: &Addresses, limit: usize) -> Self {
        let switches = topology.switch_count();
        let mut sources = vec![0; switches];
        for (port, ..) in addresses.iter().filter(|&(port, ..)| is_host(topology, port)) {
            if let Some(switch) = Wiring::switch_of(topology, port) {
                sources[switch.index()] += 1;
            }
        }
        let report = WalkReport {
            switches: switches as u64,
            addresses: 0,
            arrived: 0,
            lost: 0,
            looped: 0,
            disconnected: 0,
            host_routes: 0,
            host_routes_lost: 0,
            hops: BTreeMap::new(),
            failures: Findings::new(limit),
        };
        Self {
            topology,
            wiring: Wiring::of(topology),
            part: connected_parts(topology),
            sources,
            known: vec![Known::Nothing; switches],
            trail: Vec::new(),
            by_hops: Vec::new(),
            report,
        }
    }

    /// One address, from every switch. Each switch has one next hop, so each is passed once.
    fn visit(&mut self, column: &Column<'_>) {
        self.report.addresses += 1;
        self.known.fill(Known::Nothing);
        let home = Wiring::switch_of(self.topology, column.owner);
        let host = is_host(self.topology, column.owner);
        for switch in self.topology.switches() {
            let (fate, hops) = self.follow(column, switch);
            self.count(column, switch, home, fate, hops);
            if host {
                // A host's route to itself is none.
                let itself = u64::from(home == Some(switch));
                let routes = self.sources[switch.index()] - itself;
                self.report.host_routes += routes;
                self.report.host_routes_lost += if fate == Fate::Arrived { 0 } else { routes };
            }
        }
    }

    /// How a packet from `switch` ends and how many switches it passes, itself included.
    fn follow(&mut self, column: &Column<'_>, switch: NodeIndex) -> (Fate, u32) {
        let mut at = switch;
        let (fate, mut hops) = loop {
            match self.known[at.index()] {
                Known::Ends(fate, hops) => break (fate, hops),
                Known::OnTrail => break (Fate::Loop, 0),
                Known::Nothing => {}
            }
            self.known[at.index()] = Known::OnTrail;
            self.trail.push(at);
            match self.wiring.step(at, column.port(at)) {
                Step::Switch(next, _) => at = next,
                ended => break (fate_of(ended, column), 0),
            }
        };
        while let Some(passed) = self.trail.pop() {
            hops += 1;
            self.known[passed.index()] = Known::Ends(fate, hops);
        }
        (fate, hops)
    }

    fn count(
        &mut self,
        column: &Column<'_>,
        switch: NodeIndex,
        home: Option<NodeIndex>,
        fate: Fate,
        hops: u32,
    ) {
        if fate == Fate::Arrived {
            let hops = hops as usize;
            if self.by_hops.len() <= hops {
                self.by_hops.resize(hops + 1, 0);
            }
            self.by_hops[hops] += 1;
            return;
        }
        let cabled = home.is_some_and(|home| self.part[home.index()] == self.part[switch.index()]);
        match fate {
            Fate::Loop => self.report.looped += 1,
            _ if cabled => self.report.lost += 1,
            _ => {
                self.report.disconnected += 1;
                return;
            }
        }
        let (topology, wiring) = (self.topology, &self.wiring);
        self.report.failures.add(|| LostRoute {
            from: topology.node(switch).name.to_string(),
            dlid: column.lid.0,
            owner: topology.port_name(column.owner),
            at: where_it_ends(topology, wiring, column, switch),
            why: fate,
        });
    }

    fn finish(mut self) -> WalkReport {
        self.report.arrived = self.by_hops.iter().sum();
        let by_hops = self.by_hops.iter().enumerate().filter(|&(_, &routes)| routes != 0);
        self.report.hops = by_hops.map(|(hops, &routes)| (hops as u32, routes)).collect();
        self.report
    }
}

fn fate_of(end: Step, column: &Column<'_>) -> Fate {
    match end {
        Step::Arrived(port) if port == column.owner => Fate::Arrived,
        Step::Arrived(_) => Fate::WrongPort,
        Step::NoEntry => Fate::NoEntry,
        Step::NoPort => Fate::NoPort,
        Step::NoCable => Fate::NoCable,
        Step::Switch(..) => Fate::Loop,
    }
}

/// Walks a failed route again, for its name.
fn where_it_ends(
    topology: &Topology,
    wiring: &Wiring,
    column: &Column<'_>,
    from: NodeIndex,
) -> String {
    let mut met = vec![false; topology.switch_count()];
    let mut at = from;
    loop {
        let name = &topology.node(at).name;
        if std::mem::replace(&mut met[at.index()], true) {
            return name.to_string();
        }
        match wiring.step(at, column.port(at)) {
            Step::Switch(next, _) => at = next,
            Step::Arrived(port) => return topology.port_name(port),
            Step::NoEntry => return name.to_string(),
            Step::NoPort | Step::NoCable => return format!("{name}/{}", column.port(at)),
        }
    }
}

/// An end port that is no switch's port 0.
fn is_host(topology: &Topology, port: PortIndex) -> bool {
    topology.node(topology.port(port).node).kind != NodeKind::Switch
}
