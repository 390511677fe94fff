//! The administrator's own tables. An address takes its routes from them where they lead to its port, provided
//! that lanes keep all of them from closing credit loops.

use super::balanced::Ends;
use super::lanes::{Assignment, Lanes, walk};
use super::layered::bases;
use super::shortest::Shortest;
use super::spread::{Laned, MOST_ROUTES, Spread};
use super::{Engine, Ranks, Routing};
use crate::{Addresses, ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

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
    /// loops, or `given` is the reason why there are no tables, the routes stay as they are.
    pub fn adopt(
        &mut self,
        topology: &Topology,
        addresses: &Addresses,
        given: Result<Vec<ForwardingTable>, String>,
        most: u8,
    ) {
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
        self.given = Some(match lanes(topology, &ranks, &lids, tables, most) {
            None => refuse("they close credit loops, and the lanes of the links do not suffice"),
            Some((tables, lanes)) => {
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
    topology: &Topology,
    ranks: &Ranks,
    lids: &[Vec<Lid>],
    tables: Vec<ForwardingTable>,
    most: u8,
) -> Option<(Vec<ForwardingTable>, Lanes)> {
    let all = topology.switches().zip(lids);
    let ends: Vec<Ends<'_>> = all.map(|(switch, lids)| Ends { switch, lids }).collect();
    let bases = bases(&ends, 1);
    if bases.len().saturating_mul(topology.switch_count()) > MOST_ROUTES {
        return None;
    }
    let none = (&mut Shortest::Any, &|_| false);
    let spread = Spread::new(topology, bases, (none.0, none.1), tables);
    let assignment = Assignment::new(topology, ranks, most);
    let lids = lids.iter().map(Vec::as_slice).collect();
    let spread = spread.laned(Laned { assignment, lids })?;
    let (load, _) = spread.cost();
    let (tables, laned) = spread.finish();
    Some((tables, laned?.assignment.finish(load)))
}
