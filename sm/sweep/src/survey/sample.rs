//! Written values are read again now and then: another manager may have written over them.

use snin_fabric::PortNum;
use snin_mad::PortInfo;

use super::Survey;
use crate::graph::{Graph, Port};
use crate::query::{NodeId, PortId, Query};

/// Ports that one light sweep looks at, at least.
const FEWEST_PORTS: usize = 16;
/// In so many light sweeps every port is looked at.
const SWEEPS: usize = 32;

impl Survey {
    /// Looks at one end of every cable between switches.
    pub(crate) fn look_at_trunks(&mut self, graph: &Graph) {
        for (id, node) in graph.managed().filter(|(_, node)| node.is_switch()) {
            let is_first =
                |num, other: PortId| (id, num) <= other && graph.node(other.0).is_switch();
            let ends = node.external().filter_map(|(num, port)| Some((num, port.link?.to)));
            let ends = ends.filter(|&(num, other)| is_first(num, other));
            self.queue.extend(ends.map(|(num, _)| Query::ReadPort(id, num)));
        }
    }

    /// Looks at the ports of a switch that lead to other switches, or nowhere.
    pub(crate) fn look_at_switch(&mut self, graph: &Graph, id: NodeId) {
        let leads_to_host =
            |port: &Port| port.link.is_some_and(|it| !graph.node(it.to.0).is_switch());
        let ends = graph.node(id).external().filter(|(_, port)| !leads_to_host(port));
        self.queue.extend(ends.map(|(num, _)| Query::ReadPort(id, num)));
    }

    /// One block of every table, and some of the ports that have addresses, each time the next.
    pub(crate) fn sample(&mut self, graph: &Graph, turn: u64) {
        let mut ends: Vec<PortId> = Vec::new();
        for (id, node) in graph.managed() {
            if !node.is_switch() {
                let cabled = node.external().filter(|(_, port)| port.link.is_some());
                ends.extend(cabled.map(|(num, _)| (id, num)));
                continue;
            }
            ends.push((id, PortNum::ZERO));
            let blocks = u64::from(node.shadow.blocks());
            let block = turn.checked_rem(blocks).unwrap_or(0) as u16;
            if node.shadow.block(block).is_some() {
                self.queue.push_back(Query::ReadBlock(id, block));
            }
        }
        let count = ends.len().div_ceil(SWEEPS).max(FEWEST_PORTS).min(ends.len());
        let first = (turn as usize).wrapping_mul(count);
        let sampled = (0..count).map(|n| ends[first.wrapping_add(n) % ends.len()]);
        self.queue.extend(sampled.map(|(node, port)| Query::ReadPort(node, port)));
    }

    /// Whether the values that a port holds now were written by another manager: it has another master or address,
    /// and was not reset.
    pub(super) fn compare(&mut self, end: PortId, before: Option<&PortInfo>, now: &PortInfo) {
        let written = |info: &PortInfo| (info.lid, info.lmc, info.master_sm_lid);
        let Some(before) = before.filter(|info| Some(info.master_sm_lid) == self.manager) else {
            return;
        };
        if written(before) != written(now) && now.master_sm_lid.0 != 0 && before.lid.0 != 0 {
            self.overwritten.get_or_insert(end);
        }
    }
}
