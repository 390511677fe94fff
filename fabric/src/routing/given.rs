//! The administrator's own tables. An address takes its routes from them where they lead to its port, provided
//! that lanes keep all of them from closing credit loops.

use std::collections::{BTreeMap, BTreeSet};

use super::balanced::Ends;
use super::former::former_switches;
use super::lanes::{Assignment, Lanes, walk};
use super::layered::bases;
use super::shortest::Shortest;
use super::spread::{Laned, MOST_ROUTES, Spread};
use super::{Engine, Former, Ranks, Routing};
use crate::{Addresses, ForwardingTable, Guid, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// What came of the administrator's tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GivenTables {
    /// Addresses that they do not lead to their ports from every switch: those are led up and then down.
    pub left_out: usize,
    /// Why none of them are used.
    pub refused: Option<String>,
}

impl Routing {
    /// Replaces routes to these addresses by those of the administrator's tables, for each address that these lead
    /// to its port from every switch with hosts. Where `most` lanes do not keep the routes from closing credit
    /// loops, or `given` is the reason why there are no tables, the routes stay as they are. Pairs of switches
    /// keep the lanes that they had before a change, where those hold their routes.
    pub fn adopt(
        &mut self,
        topology: &Topology,
        addresses: &Addresses,
        given: Result<Vec<ForwardingTable>, String>,
        most: u8,
        former: Option<Former<'_>>,
    ) {
        // Those that stay where these are refused.
        self.lanes = Some(Lanes::one(topology).following(topology, former));
        let refuse = |why: &str| GivenTables { refused: Some(why.to_owned()), left_out: 0 };
        let given = match given {
            Ok(given) => given,
            Err(why) => return self.given = Some(refuse(&why)),
        };
        let hosts = self.hosts.per_switch(topology);
        let sources: Vec<NodeIndex> =
            topology.switches().filter(|switch| hosts[switch.index()] > 0).collect();
        let mut tables = self.tables.clone();
        let mut left_out = 0;
        let mut lids: Vec<Vec<Lid>> = vec![Vec::new(); topology.switch_count()];
        for (port, ..) in addresses.iter() {
            let node = topology.port(port).node;
            let end = if topology.is_switch(node) { Some(node) } else { topology.peer_node(port) };
            let Some(switch) = end.filter(|&end| topology.is_switch(end)) else { continue };
            for lid in addresses.of(port) {
                if switch != node {
                    lids[switch.index()].push(lid);
                }
                if sources.iter().all(|&from| arrives(topology, &given, from, (port, lid))) {
                    for (table, given) in tables.iter_mut().zip(&given) {
                        let to = given.get(lid);
                        if to != PortNum::NONE {
                            table.set(lid, to);
                        }
                    }
                } else {
                    left_out += 1;
                }
            }
        }
        lids.iter_mut().for_each(|lids| lids.sort_unstable());
        let ranks = self.ranks.clone().unwrap_or_else(|| Ranks::of_any(topology, &self.hosts));
        self.given =
            Some(match lanes((topology, addresses), &ranks, &lids, tables, (most, former)) {
                None => {
                    refuse("they close credit loops, and the lanes of the links do not suffice")
                }
                Some((tables, lanes)) => {
                    let lanes = lanes.following(topology, former);
                    (self.engine, self.tables, self.lanes) = (Engine::File, tables, Some(lanes));
                    GivenTables { left_out, refused: None }
                }
            });
    }
}

/// Whether tables lead from a switch to the port that has the address.
fn arrives(
    topology: &Topology,
    tables: &[ForwardingTable],
    from: NodeIndex,
    (to, lid): (PortIndex, Lid),
) -> bool {
    let own = topology.port(to).node;
    let end = if topology.is_switch(own) { Some(own) } else { topology.peer_node(to) };
    let Some(end) = end else { return false };
    let mut way = Vec::new();
    walk(topology, tables, (from, end), lid, &mut way);
    let at = way.last().map_or(Some(from), |&link| topology.peer_node(link));
    let last = tables[end.index()].get(lid);
    let is_delivered = match end == own {
        true => last == PortNum::ZERO,
        false => topology.port_of(end, last).and_then(|out| topology.peer(out)) == Some(to),
    };
    at == Some(end) && is_delivered
}

/// The lanes of all routes between hosts.
fn lanes(
    (topology, addresses): (&Topology, &Addresses),
    ranks: &Ranks,
    lids: &[Vec<Lid>],
    tables: Vec<ForwardingTable>,
    (most, former): (u8, Option<Former<'_>>),
) -> Option<(Vec<ForwardingTable>, Lanes)> {
    let all = topology.switches().zip(lids);
    let ends: Vec<Ends<'_>> = all.map(|(switch, lids)| Ends { switch, lids }).collect();
    let bases = bases(&ends, 1);
    if bases.len().saturating_mul(topology.switch_count()) > MOST_ROUTES {
        return None;
    }
    let none = (&mut Shortest::Any, &|_| false);
    let mut assignment = Assignment::new(topology, ranks, most);
    let mut late = BTreeSet::new();
    if let Some((former, lanes)) = former.and_then(|it| Some((it, it.routing.lanes.as_ref()?))) {
        assignment.prefer_former(former, lanes);
        // What is led otherwise takes no room from what stays.
        late = led_otherwise(topology, addresses, former, (lids, &tables));
    }
    let spread = Spread::new(topology, bases, (none.0, none.1), tables);
    let lids = lids.iter().map(Vec::as_slice).collect();
    let spread = spread.laned(Laned { assignment, lids, late })?;
    let (load, _) = spread.cost();
    let (tables, laned) = spread.finish();
    Some((tables, laned?.assignment.finish(load)))
}

/// Pairs of switches of whose routes some entry is another than before.
fn led_otherwise(
    topology: &Topology,
    addresses: &Addresses,
    former: Former<'_>,
    (lids, tables): (&[Vec<Lid>], &[ForwardingTable]),
) -> BTreeSet<(NodeIndex, NodeIndex)> {
    let before = former.topology;
    let was = former_switches(topology, before);
    let bases: BTreeMap<Guid, Lid> =
        former.addresses.iter().map(|(port, base, _)| (before.port(port).guid, base)).collect();
    let former_lid = |lid: Lid| {
        let (port, offset) = addresses.owner(lid)?;
        Some(Lid(bases.get(&topology.port(port).guid)?.0.checked_add(offset)?))
    };
    let (mut others, mut way) = (BTreeSet::new(), Vec::new());
    for to in topology.switches() {
        for &lid in &lids[to.index()] {
            let known = former_lid(lid);
            let stays = |link: &PortIndex| {
                let (at, port) = (topology.port(*link).node, topology.num(*link));
                let table = was[at.index()].map(|was| &former.routing.tables[was.index()]);
                table.zip(known).is_some_and(|(table, lid)| table.get(lid) == port)
            };
            for from in topology.switches().filter(|&from| from != to) {
                walk(topology, tables, (from, to), lid, &mut way);
                if !way.iter().all(stays) {
                    others.insert((from.max(to), from.min(to)));
                }
            }
        }
    }
    others
}
