//! Which partition tables are read, and what is written to them: first to a switch's port that faces an end port,
//! then what that port checks, then to the end port, so that no host has a key that its switch does not know.

use std::collections::BTreeSet;

use snin_fabric::{Guid, PortIndex, PortNum};
use snin_mad::PKey;
use snin_mad::tables::PARTITION_BLOCK;

use crate::graph::{Graph, KeyTables};
use crate::query::PortId;
use crate::report::Missing;
use crate::target::Target;
use snin_sm_database::config::{Config, Enforce};
use snin_sm_database::partition_plan::PartitionPlan;
use snin_sm_database::partitions::{Block, DEFAULT, Index, Layout, Subject, blocks, packed};

/// Tables as they are to be, of all ports that are there.
pub(crate) fn key_plans(plan: PartitionPlan<'_>, graph: &Graph) -> Vec<(Guid, Vec<PKey>)> {
    let configured = plan.configured();
    let index = configured.index();
    let table = |(guid, end)| Some((guid, of_port(plan, graph, &index, guid, end)?.table));
    graph.end_ports().filter_map(table).collect()
}

fn of_port(
    plan: PartitionPlan<'_>,
    graph: &Graph,
    index: &Index<'_>,
    guid: Guid,
    end: PortId,
) -> Option<Layout> {
    let held = &graph.port(end)?.keys;
    let subject = Subject { guid, kind: graph.node(end.0).kind, own: end == graph.own_end() };
    let room = graph.key_room(end).min(graph.key_blocks(end) * PARTITION_BLOCK);
    Some(plan.layout(index, subject, held.as_flattened(), room))
}

/// How much of partition tables is read under a plan.
pub(crate) fn key_tables(plan: PartitionPlan<'_>) -> KeyTables {
    let whole = plan.keeps_apart();
    KeyTables { whole, checked: whole && plan.config.enforce != Enforce::Off }
}

impl Graph {
    /// Places of a port's partition table (IBA 14.2.5.3, 14.2.5.4).
    fn key_room(&self, (id, num): PortId) -> usize {
        let node = self.node(id);
        match node.is_switch() && num != PortNum::ZERO {
            true => node.switch.as_ref().map_or(0, |info| info.partition_enforcement_cap).into(),
            false => usize::from(node.info.partition_cap).max(1),
        }
    }

    /// Ports with an address and a GUID of their own.
    fn end_ports(&self) -> impl Iterator<Item = (Guid, PortId)> + '_ {
        self.managed().flat_map(|(id, node)| {
            let switch = node.is_switch();
            let own = switch.then_some((node.info.port_guid, (id, PortNum::ZERO)));
            let ports = (0..).map(PortNum).zip(&node.ports).skip(1).filter(move |_| !switch);
            own.into_iter()
                .chain(ports.filter_map(move |(num, port)| Some((port.guid?, (id, num)))))
        })
    }

    /// Blocks of it that are read.
    pub(crate) fn key_blocks(&self, end: PortId) -> usize {
        let blocks = self.key_room(end).div_ceil(PARTITION_BLOCK);
        let checks = self.node(end.0).is_switch() && end.1 != PortNum::ZERO;
        match checks {
            true if self.key_tables.checked => blocks,
            true => 0,
            false if self.key_tables.whole || self.is_partitioned(end) => blocks,
            false => 1,
        }
    }

    /// Whether another manager put the port into partitions: what is in its further blocks counts too.
    fn is_partitioned(&self, end: PortId) -> bool {
        let keys = self.port(end).into_iter().flat_map(|port| port.keys.as_flattened());
        keys.map(|key| key.base()).any(|base| base != 0 && base != DEFAULT)
    }

    /// Takes note of a block.
    pub(crate) fn put_keys(&mut self, end: PortId, block: u16, keys: Block) {
        let Some(port) = self.port_mut(end) else { return };
        let (block, known) = (usize::from(block), port.keys.len());
        if block < known {
            port.keys[block] = keys;
        } else if block == known {
            port.keys.push(keys);
        }
    }

    /// Whether a switch's port faces an end port, and its table is to be known and is not.
    pub(crate) fn lacks_keys(&self, end: PortId) -> bool {
        let faces_end = self.link(end).is_some_and(|link| !self.node(link.to.0).is_switch());
        let unread = self.port(end).is_some_and(|port| port.keys.is_empty());
        self.node(end.0).is_switch() && faces_end && unread && self.key_blocks(end) > 0
    }
}

/// What is to be written for one end port.
pub(crate) struct KeyWrites {
    pub(crate) end: PortId,
    /// Blocks of its table.
    pub(crate) keys: Vec<(u16, Block)>,
    /// Keys for which its table has no room.
    left_out: Vec<PKey>,
    /// The switch's port that faces it.
    pub(crate) facing: Option<Facing>,
}

/// What is to be written to a switch's port that faces an end port.
pub(crate) struct Facing {
    pub(crate) end: PortId,
    /// Blocks of its table.
    pub(crate) keys: Vec<(u16, Block)>,
    /// What it shall check, where it checks something else.
    pub(crate) checks: Option<(bool, bool)>,
    /// Its table has no room for the end port's keys.
    too_small: bool,
}

/// Compares every port that has addresses with what it shall hold. What was not read is not written.
pub(crate) fn writes(graph: &Graph, target: &Target, plan: PartitionPlan<'_>) -> Vec<KeyWrites> {
    let configured = plan.configured();
    let index = configured.index();
    let addresses = target.addresses.iter();
    addresses.filter_map(|(port, ..)| port_writes(graph, target, plan, &index, port)).collect()
}

fn port_writes(
    graph: &Graph,
    target: &Target,
    plan: PartitionPlan<'_>,
    index: &Index<'_>,
    port: PortIndex,
) -> Option<KeyWrites> {
    let end = target.discovered.end(port);
    let held = &graph.port(end)?.keys;
    if held.is_empty() {
        return None;
    }
    let guid = target.discovered.topology.port(port).guid;
    let layout = of_port(plan, graph, index, guid, end)?;
    let keys = differing(&layout.table, held);
    let facing = facing(graph, plan.config, end, &layout.table);
    Some(KeyWrites { end, keys, left_out: layout.left_out, facing })
}

fn facing(graph: &Graph, config: &Config, end: PortId, table: &[PKey]) -> Option<Facing> {
    let to = graph.link(end).filter(|_| !graph.node(end.0).is_switch())?.to;
    let (port, room) = (graph.port(to)?, graph.key_room(to));
    let (info, can) = (port.info.as_ref()?, graph.node(to.0).switch.as_ref()?);
    let known = graph.key_tables.checked && !port.keys.is_empty();
    let packed = packed(table, room).filter(|_| known);
    let wanted = packed.as_ref().map_or((false, false), |_| {
        let (inbound, outbound) = config.enforce.bits();
        (inbound && can.inbound_enforcement_cap, outbound && can.outbound_enforcement_cap)
    });
    let checks = (info.partition_enforcement_inbound, info.partition_enforcement_outbound);
    Some(Facing {
        end: to,
        keys: packed.as_ref().map_or_else(Vec::new, |table| differing(table, &port.keys)),
        checks: (checks != wanted).then_some(wanted),
        too_small: known && packed.is_none(),
    })
}

/// Blocks that are not as they shall be.
fn differing(wanted: &[PKey], held: &[Block]) -> Vec<(u16, Block)> {
    let both = blocks(wanted).zip(held);
    (0..).zip(both).filter(|(_, (a, b))| a != *b).map(|(at, (block, _))| (at, block)).collect()
}

/// Ports between switches that check something: everything passes there.
pub(crate) fn checking_trunks(graph: &Graph, target: &Target) -> Vec<PortId> {
    let ends = target.discovered.topology.ports().map(|port| target.discovered.end(port));
    let checks = |end: &PortId| {
        let info = graph.port(*end).and_then(|port| port.info.as_ref());
        info.is_some_and(|i| i.partition_enforcement_inbound || i.partition_enforcement_outbound)
    };
    ends.filter(|end| checks(end) && graph.is_trunk(*end)).collect()
}

/// Ports whose tables have no room.
pub(crate) fn short(
    graph: &Graph,
    target: &Target,
    plan: PartitionPlan<'_>,
    missing: &mut BTreeSet<Missing>,
) {
    // Every table has room for one key.
    if !graph.key_tables.whole {
        return;
    }
    for writes in writes(graph, target, plan) {
        if !writes.left_out.is_empty() {
            let name = graph.end_name(writes.end);
            missing.insert(Missing::NoRoom { name, keys: writes.left_out.len() });
        }
        if let Some(facing) = writes.facing.filter(|facing| facing.too_small) {
            missing.insert(Missing::Unchecked { at: graph.port_name(facing.end) });
        }
    }
}
