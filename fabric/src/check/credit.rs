//! Can the fabric deadlock?
//!
//! A packet holds a buffer of the link it came by while it waits for credit on the link it leaves by: the
//! first link *depends* on the second. Where these dependencies close no cycle, the fabric cannot deadlock
//! (Dally and Seitz, 1987). Where they do, it may not yet: whether enough packets meet depends on traffic.

use std::fmt;

use super::cycle::{entangled, short_cycle};
use super::wiring::{Column, Step, Wiring, each_column};
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// Whose packets are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Between ports of adapters and routers only: what most subnet managers promise, as packets to and
    /// from a switch's port 0 are few.
    Hosts,
    /// And to and from port 0 of every addressed switch.
    All,
}

/// What [`credit()`] found. A *link* is one direction of a switch-to-switch cable; links from and to hosts
/// can be in no cycle.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct CreditReport {
    /// Whose packets were looked at.
    pub traffic: Traffic,
    /// Virtual lanes in use.
    pub lanes: u64,
    /// Directed links that carry some address's packets, summed over lanes.
    pub links: u64,
    /// Pairs of links of which the first depends on the second.
    pub dependencies: u64,
    /// Links that are in a cycle or between two.
    pub entangled: u64,
    /// One cycle, short if not always shortest, where there is any.
    pub cycle: Option<CreditLoop>,
}

/// A cycle of links, each waiting for the next and the last for the first.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct CreditLoop {
    /// The virtual lane it is on.
    pub lane: u8,
    /// Its links, each by the switch and port that sends on it.
    pub links: Vec<String>,
}

impl CreditReport {
    /// True when no cycle exists.
    pub const fn is_ok(&self) -> bool {
        self.cycle.is_none()
    }
}

impl fmt::Display for CreditReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lanes, links, dependencies, entangled, cycle, .. } = self;
        write!(f, "credit loops: {links} links on {lanes} lanes, {dependencies} dependencies: ")?;
        match cycle {
            None => f.write_str("none"),
            Some(cycle) => write!(f, "{entangled} links entangled\n  {cycle}"),
        }
    }
}

impl fmt::Display for CreditLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lane {}: {} -> the first", self.lane, self.links.join(" -> "))
    }
}

/// Looks for cycles among the dependencies that packets to every address close, from wherever such packets
/// can really enter. `lane` says on which virtual lane packets from a switch to an address travel; `|_, _| 0`
/// where there is one.
pub fn credit(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    traffic: Traffic,
    lane: impl Fn(NodeIndex, Lid) -> u8,
) -> CreditReport {
    judge(topology, traffic, &unicast(topology, addresses, tables, traffic, lane))
}

/// What the packets to every address depend on, by virtual lane.
pub(super) fn unicast(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    traffic: Traffic,
    lane: impl Fn(NodeIndex, Lid) -> u8,
) -> Vec<Lane> {
    let concerns = |port: PortIndex| match traffic {
        Traffic::All => true,
        Traffic::Hosts => !topology.is_switch(topology.port(port).node),
    };
    let sources = entries(topology, addresses, concerns);
    let wiring = Wiring::of(topology);
    let mut lanes: Vec<Lane> = Vec::new();
    each_column(topology, addresses, tables, |column| {
        if !concerns(column.owner) {
            return;
        }
        for &source in &sources {
            let lane = usize::from(lane(source, column.lid));
            if lanes.len() <= lane {
                lanes.resize_with(lane + 1, || Lane::new(topology));
            }
            lanes[lane].follow(&wiring, &column, source);
        }
    });
    lanes
}

/// Switches where packets enter: those with an addressed port that is concerned.
fn entries(
    topology: &Topology,
    addresses: &Addresses,
    concerns: impl Fn(PortIndex) -> bool,
) -> Vec<NodeIndex> {
    let mut enters = vec![false; topology.switch_count()];
    for (port, ..) in addresses.iter().filter(|&(port, ..)| concerns(port)) {
        if let Some(switch) = Wiring::switch_of(topology, port) {
            enters[switch.index()] = true;
        }
    }
    topology.switches().filter(|switch| enters[switch.index()]).collect()
}

/// Looks for cycles on every lane.
pub(super) fn judge(topology: &Topology, traffic: Traffic, lanes: &[Lane]) -> CreditReport {
    let mut report =
        CreditReport { traffic, lanes: 0, links: 0, dependencies: 0, entangled: 0, cycle: None };
    for (number, lane) in lanes.iter().enumerate() {
        let links = lane.used.iter().filter(|&&used| used).count() as u64;
        report.lanes += u64::from(links != 0);
        report.links += links;

        let arcs = lane.arcs(topology);
        report.dependencies += arcs.iter().map(|to| to.len() as u64).sum::<u64>();

        let entangled = entangled(&arcs);
        report.entangled += entangled.iter().filter(|&&is| is).count() as u64;
        if report.cycle.is_none() {
            report.cycle = short_cycle(&arcs, &entangled)
                .map(|links| CreditLoop { lane: number as u8, links: names(topology, &links) });
        }
    }
    report
}

/// The senders of a cycle's links, from the lowest on.
fn names(topology: &Topology, links: &[u32]) -> Vec<String> {
    let mut senders: Vec<_> = links.iter().filter_map(|&l| topology.peer(PortIndex(l))).collect();
    let lowest = (0..senders.len()).min_by_key(|&n| senders[n]).unwrap_or(0);
    senders.rotate_left(lowest);
    senders.into_iter().map(|port| topology.port_name(port)).collect()
}

/// The dependencies on one virtual lane. A link is known by the port that receives from it; what it depends
/// on leaves by other ports of the same switch, so it has one bit for each of them.
pub(super) struct Lane {
    /// Where the bits of each port begin in `bits`.
    row: Vec<u32>,
    bits: Vec<u64>,
    /// Links that carry anything.
    used: Vec<bool>,
    /// The last address whose packets passed each switch.
    passed: Vec<Lid>,
}

impl Lane {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut words = 0;
        let mut row = Vec::with_capacity(topology.port_count());
        for port in topology.ports() {
            row.push(words);
            words += words_a_row(topology, port) as u32;
        }
        Self {
            row,
            bits: vec![0; words as usize],
            used: vec![false; topology.port_count()],
            passed: vec![Lid::NONE; topology.switch_count()],
        }
    }

    /// Follows an address's packets from `source` to where some passed before.
    fn follow(&mut self, wiring: &Wiring, column: &Column<'_>, source: NodeIndex) {
        let (mut at, mut came_by) = (source, None);
        loop {
            let out = column.port(at);
            let Step::Switch(next, enters_by) = wiring.step(at, out) else { return };
            if let Some(port) = came_by {
                self.depend(port, out);
            }
            if std::mem::replace(&mut self.passed[at.index()], column.lid) == column.lid {
                return;
            }
            self.uses(enters_by);
            (at, came_by) = (next, Some(enters_by));
        }
    }

    /// The link that `port` receives from carries something.
    pub(super) fn uses(&mut self, port: PortIndex) {
        self.used[port.index()] = true;
    }

    /// What comes in by `port` leaves by the port `out` of the same switch.
    pub(super) fn depend(&mut self, port: PortIndex, out: PortNum) {
        let row = self.row[port.index()] as usize;
        self.bits[row + out.index() / 64] |= 1 << (out.index() % 64);
    }

    /// For each link, those it depends on.
    fn arcs(&self, topology: &Topology) -> Vec<Vec<u32>> {
        let depends_on = |port: PortIndex| {
            let own = topology.port0(topology.port(port).node).0;
            let row = &self.bits[self.row[port.index()] as usize..][..words_a_row(topology, port)];
            let bits = (0..row.len() as u32 * 64)
                .filter(|&bit| row[bit as usize / 64] >> (bit % 64) & 1 == 1);
            bits.filter_map(|bit| topology.peer(PortIndex(own + bit))).map(|end| end.0).collect()
        };
        topology.ports().map(depends_on).collect()
    }
}

/// Words with one bit for each port of the switch that `port` belongs to, port 0 included.
fn words_a_row(topology: &Topology, port: PortIndex) -> usize {
    let node = topology.port(port).node;
    if topology.is_switch(node) { usize::from(topology.node(node).ports) / 64 + 1 } else { 0 }
}
