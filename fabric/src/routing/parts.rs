//! Several Clos that cables between their upper switches join, as two subnets that became one.
//!
//! Within each, every address leads along its tree as if the others were not there: who joins a fabric to another
//! changes none of its routes. Between them routes go up and then down, by the ranks of the whole.

use super::engine::without_strays;
use super::ranks::{distances, levels};
use super::{AddressPlan, Forest, PlanError, Ranks, tables};
use crate::clos::{Clos, recognise};
use crate::hosts::Hosts;
use crate::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// One of them.
pub(super) struct Part {
    /// The whole fabric, with the cables of this part alone.
    topology: Topology,
    clos: Clos,
    switches: Vec<NodeIndex>,
}

impl Part {
    /// All of them; none where the fabric is no such thing. The cables that join them are those between two
    /// switches without hosts that are equally far from hosts.
    pub(super) fn all(topology: &Topology, hosts: &Hosts) -> Vec<Self> {
        let level = levels(topology, hosts);
        let ends = topology
            .switches()
            .flat_map(|switch| topology.switch_links(switch).map(move |link| (switch, link)));
        let joins = ends.filter(|&(switch, (_, peer))| {
            level[switch.index()] > 0 && level[switch.index()] == level[peer.index()]
        });
        let joints: Vec<PortIndex> =
            joins.filter_map(|(switch, (port, _))| topology.port_of(switch, port)).collect();
        let apart = topology.without_cables(&joints);
        let mut seen = vec![false; topology.switch_count()];
        let mut parts = Vec::new();
        for switch in topology.switches() {
            if seen[switch.index()] {
                continue;
            }
            let own = distances(&apart, switch).1;
            own.iter().for_each(|switch| seen[switch.index()] = true);
            let Some(part) = Self::of(&apart, &own) else { return Vec::new() };
            parts.push(part);
        }
        if joints.is_empty() || parts.len() < 2 { Vec::new() } else { parts }
    }

    fn of(apart: &Topology, switches: &[NodeIndex]) -> Option<Self> {
        let mut is_own = vec![false; apart.switch_count()];
        switches.iter().for_each(|switch| is_own[switch.index()] = true);
        let others = apart.switches().filter(|switch| !is_own[switch.index()]);
        let cables = others.flat_map(|switch| apart.cables(switch));
        let topology = apart.without_cables(&cables.map(|(port, _)| port).collect::<Vec<_>>());
        let clos = recognise(&topology, &Hosts::of(&topology)).ok()?;
        let is_whole = !clos.roots.is_empty() && clos.outside.is_empty();
        is_whole.then(|| Self { topology, clos, switches: switches.to_vec() })
    }

    /// Puts the routes between its hosts into the tables of the whole fabric, which has these ranks and addresses,
    /// and their home trees into the plan.
    ///
    /// # Errors
    /// Never, where the addresses of the whole fit.
    pub(super) fn fill(
        &self,
        whole: &Topology,
        ranks: &Ranks,
        plan: &mut AddressPlan,
        tables: &mut [ForwardingTable],
    ) -> Result<(), PlanError> {
        let forest = Forest::grow(&self.topology, &self.clos);
        let shape = Some((&self.clos, &forest));
        let mut own = AddressPlan::new(&self.topology, shape, Some(plan.lmc()), 0)?;
        own.settle(plan.addresses());
        let carrying = without_strays(&self.topology, &self.clos);
        let (along, _) = tables::fill(&carrying, ranks, &forest, &own);
        for (port, base, lmc) in own.addresses().iter() {
            if self.topology.is_switch(self.topology.port(port).node) {
                continue;
            }
            let Some(real) = plan.addresses().base(port) else { continue };
            for offset in 0..lmc.addresses() as u16 {
                let home = if offset == 0 { own.home_offset(port) } else { None };
                let (from, to) = (Lid(base.0 + home.unwrap_or(offset)), Lid(real.0 + offset));
                self.put(whole, ranks, tables, to, |switch| along[switch.index()].get(from));
            }
        }
        plan.adopt_homes(&own);
        Ok(())
    }

    /// The routes to one address, unless a packet that has come down would go up again: where cables are missing
    /// and several join the parts, the ranks of the whole may differ from the tree's.
    fn put(
        &self,
        whole: &Topology,
        ranks: &Ranks,
        tables: &mut [ForwardingTable],
        lid: Lid,
        along: impl Fn(NodeIndex) -> PortNum,
    ) {
        let before: Vec<PortNum> = tables.iter().map(|table| table.get(lid)).collect();
        for &switch in &self.switches {
            let port = along(switch);
            if port != PortNum::NONE {
                tables[switch.index()].set(lid, port);
            }
        }
        let next = |switch: NodeIndex| {
            let port = whole.port_of(switch, tables[switch.index()].get(lid))?;
            whole.peer_node(port).filter(|&peer| whole.is_switch(peer))
        };
        let turns = whole.switches().any(|upper| {
            let Some(lower) = next(upper) else { return false };
            let up = next(lower).is_some_and(|peer| ranks.is_above(peer, lower));
            ranks.is_above(upper, lower) && up
        });
        if turns {
            for (table, &port) in tables.iter_mut().zip(&before) {
                table.set(lid, port);
            }
        }
    }
}
