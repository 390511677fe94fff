//! Does every member of a group get every packet of every other member once, and no other port a copy?
//!
//! A packet is followed from each member that may send, copy by copy, as the tables say. A copy that goes where
//! another went before is one too many, whether or not it ever ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use super::Findings;
use super::credit::{CreditReport, Lane, Traffic, judge, unicast};
use super::wiring::{Step, Wiring};
use crate::multicast::MulticastTable;
use crate::{Addresses, ForwardingTable, Mlid, NodeIndex, PortIndex, PortNum, Topology};

/// A group as its members expect it to be served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its address.
    pub mlid: Mlid,
    /// Ports that get every packet but their own, and may send.
    pub receivers: BTreeSet<PortIndex>,
    /// Ports that send and get nothing.
    pub senders: BTreeSet<PortIndex>,
}

/// What is wrong with a copy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A receiver got none.
    Missing,
    /// A receiver got another.
    Twice,
    /// A port that is no receiver, or the sender itself, got a copy.
    Stray,
    /// It came to a switch where a copy had been.
    Round,
    /// A mask names a port that the switch has not, or one without a cable.
    NoCable,
    /// The sender hangs on no switch.
    NoSwitch,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no copy for",
            Self::Twice => "another copy for",
            Self::Stray => "a stray copy for",
            Self::Round => "a second copy passes",
            Self::NoCable => "a copy to no cable at",
            Self::NoSwitch => "no switch behind",
        })
    }
}

/// A copy that should not be, or a missing one.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct BadCopy {
    /// The group's address.
    pub mlid: u16,
    /// The port that sent.
    pub from: String,
    /// What is wrong.
    pub fault: Fault,
    /// Where.
    pub at: String,
}

impl fmt::Display for BadCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mlid, from, fault, at } = self;
        write!(f, "group 0x{mlid:04x} from {from}: {fault} {at}")
    }
}

/// What [`multicast()`] found.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct MulticastReport {
    /// Groups looked at.
    pub groups: u64,
    /// Packets followed: one a group and member.
    pub packets: u64,
    /// Copies that receivers got, and should.
    pub delivered: u64,
    /// Links between switches that copies passed.
    pub passed: u64,
    /// Everything that is wrong.
    pub failures: Findings<BadCopy>,
    /// Credit loops of unicast and multicast together, on one lane.
    pub credit: CreditReport,
}

impl MulticastReport {
    /// True when every receiver gets every packet once, no other port gets a copy, and nothing can deadlock.
    pub const fn is_ok(&self) -> bool {
        self.failures.is_empty() && self.credit.is_ok()
    }
}

impl fmt::Display for MulticastReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { groups, packets, delivered, passed, failures, credit } = self;
        write!(f, "multicast: {groups} groups, {packets} packets: {delivered} copies delivered ")?;
        write!(f, "over {passed} links, {} wrong{failures}\n{credit}", failures.total)
    }
}

/// A fabric, and what its switches hold.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Nodes and cables.
    pub topology: &'a Topology,
    /// The unicast addresses of all ports.
    pub addresses: &'a Addresses,
    /// Unicast tables by switch.
    pub unicast: &'a [ForwardingTable],
    /// Multicast tables by switch; a switch without a table forwards nothing.
    pub multicast: &'a [MulticastTable],
}

/// Follows a packet of every member of every group, and looks for credit loops of all that and of the unicast
/// `traffic` together. Records the first `limit` failures.
pub fn multicast(
    held: &Held<'_>,
    groups: &[Group],
    traffic: Traffic,
    limit: usize,
) -> MulticastReport {
    let &Held { topology, addresses, unicast: tables, .. } = held;
    let mut lanes = unicast(topology, addresses, tables, traffic, |_, _| 0);
    let lane = lanes.pop().unwrap_or_else(|| Lane::new(topology));
    let mut walker = Walker {
        held,
        wiring: Wiring::of(topology),
        lane,
        packets: 0,
        delivered: 0,
        passed: 0,
        failures: Findings::new(limit),
    };
    for group in groups {
        for &sender in group.receivers.union(&group.senders) {
            walker.send(group, sender);
        }
    }
    let Walker { lane, packets, delivered, passed, failures, .. } = walker;
    let credit = judge(topology, traffic, &[lane]);
    let groups = groups.len() as u64;
    MulticastReport { groups, packets, delivered, passed, failures, credit }
}

struct Walker<'a> {
    held: &'a Held<'a>,
    wiring: Wiring,
    lane: Lane,
    packets: u64,
    delivered: u64,
    passed: u64,
    failures: Findings<BadCopy>,
}

/// A copy at a switch: by which of its ports it came in.
type Copy = (NodeIndex, PortNum);

impl Walker<'_> {
    fn send(&mut self, group: &Group, sender: PortIndex) {
        self.packets += 1;
        let topology = self.held.topology;
        let node = topology.port(sender).node;
        let at = if topology.is_switch(node) { Some(sender) } else { topology.peer(sender) };
        let switch = at.map(|at| (topology.port(at).node, topology.num(at)));
        let Some(first) = switch.filter(|&(switch, _)| topology.is_switch(switch)) else {
            return self.fail(group, sender, Fault::NoSwitch, topology.port_name(sender));
        };
        let mut got: BTreeMap<PortIndex, u64> = BTreeMap::new();
        let mut been = BTreeSet::from([first.0]);
        let mut todo = VecDeque::from([first]);
        while let Some((switch, came_by)) = todo.pop_front() {
            for (out, step) in self.copies(group.mlid, (switch, came_by)) {
                match step {
                    Step::Arrived(port) => *got.entry(port).or_default() += 1,
                    Step::Switch(next, enters_by) => {
                        self.passed += 1;
                        self.lane.uses(enters_by);
                        if let Some(link) = self.link((switch, came_by)) {
                            self.lane.depend(link, out);
                        }
                        if been.insert(next) {
                            todo.push_back((next, topology.num(enters_by)));
                        } else {
                            let name = topology.node(next).name.to_string();
                            self.fail(group, sender, Fault::Round, name);
                        }
                    }
                    Step::NoEntry | Step::NoPort | Step::NoCable => {
                        let name = format!("{}/{out}", topology.node(switch).name);
                        self.fail(group, sender, Fault::NoCable, name);
                    }
                }
            }
        }
        self.count(group, sender, &got);
    }

    /// The port that a copy came in by, if it came from another switch.
    fn link(&self, (switch, came_by): Copy) -> Option<PortIndex> {
        let topology = self.held.topology;
        let port = topology.port_of(switch, came_by).filter(|_| came_by != PortNum::ZERO)?;
        topology.peer_node(port).filter(|&node| topology.is_switch(node)).map(|_| port)
    }

    /// Where a switch copies what came in: to every port of its mask but that one (IBA 18.2.4.3.3).
    fn copies(&self, mlid: Mlid, (switch, came_by): Copy) -> Vec<(PortNum, Step)> {
        let table = self.held.multicast.get(switch.index());
        let mask = table.map(|table| table.get(mlid)).unwrap_or_default();
        let out = mask.iter().filter(|&port| port != came_by);
        out.map(|port| (port, self.wiring.step(switch, port))).collect()
    }

    fn count(&mut self, group: &Group, sender: PortIndex, got: &BTreeMap<PortIndex, u64>) {
        let name = |port| self.held.topology.port_name(port);
        let mut wrong = Vec::new();
        for &receiver in group.receivers.iter().filter(|&&receiver| receiver != sender) {
            match got.get(&receiver).copied().unwrap_or(0) {
                0 => wrong.push((Fault::Missing, name(receiver))),
                copies => {
                    self.delivered += 1;
                    wrong.extend((1..copies).map(|_| (Fault::Twice, name(receiver))));
                }
            }
        }
        let stray = |&&port: &&PortIndex| port == sender || !group.receivers.contains(&port);
        wrong.extend(got.keys().filter(stray).map(|&port| (Fault::Stray, name(port))));
        wrong.into_iter().for_each(|(fault, at)| self.fail(group, sender, fault, at));
    }

    fn fail(&mut self, group: &Group, sender: PortIndex, fault: Fault, at: String) {
        let from = || self.held.topology.port_name(sender);
        self.failures.add(|| BadCopy { mlid: group.mlid.lid().0, from: from(), fault, at });
    }
}
