//! The SMP of every question and every write.

use snin_fabric::{Lid, PortNum};
use snin_mad::{
    Attribute, DrPath, Hex16, LinearForwarding, MKey, Mad, MulticastForwarding, NodeDescription,
    NodeInfo, PKeyTable, PortInfo, Route, SmInfo, Smp, SwitchInfo,
};

use super::activate::port_info;
use crate::ask::{Ask, End};
use crate::config::Config;
use crate::graph::Graph;
use crate::lanes::{Lanes, wanted};
use crate::planning::Target;
use crate::schedule::Step;

/// The SMP of a question; `None` where the node is not there any more.
pub(crate) fn question(graph: &Graph, ask: Ask) -> Option<Mad> {
    let route = Route::directed(graph.path(ask)?);
    let shown = graph.key_to_ask(ask, 0);
    let get = |id, modifier| Smp::get(id, modifier, route).m_key(shown).mad();
    Some(match ask {
        Ask::Identify(_) | Ask::Probe(_) => get(NodeInfo::ID, 0),
        Ask::Describe(_) => get(NodeDescription::ID, 0),
        Ask::ReadSwitch(_) => get(SwitchInfo::ID, 0),
        Ask::ReadPort(_, port) => get(PortInfo::ID, port.0.into()),
        Ask::ReadKeys(node, port) => get(PKeyTable::ID, keys_modifier(graph, (node, port))),
        Ask::ReadLanes(node, port, table) => {
            get(table.attribute(), table.modifier(graph, (node, port)))
        }
        Ask::ReadManager(..) | Ask::Poll(_) => get(SmInfo::ID, 0),
        Ask::ReadBlock(_, block) => get(LinearForwarding::ID, block.into()),
        Ask::ReadMasks(_, block, position) => {
            get(MulticastForwarding::ID, MulticastForwarding::modifier(position, block))
        }
        Ask::ClearChange(node) => {
            let info = graph.node(node).switch.as_ref()?;
            // Writing 1 clears it (IBA 14.2.5.4).
            set(
                graph.key_to_show((node, PortNum::ZERO), 0),
                graph.path(ask)?,
                0,
                &SwitchInfo { port_state_change: true, ..info.clone() },
            )
        }
        Ask::Step(_) => return None,
    })
}

/// The SMP of a step.
pub(crate) fn write(
    graph: &Graph,
    config: &Config,
    target: &Target,
    manager: Lid,
    step: &Step,
) -> Option<Mad> {
    let node = step.node()?;
    let path = step.path(graph)?;
    let own = graph.key_to_show(step.end().unwrap_or((node, PortNum::ZERO)), 0);
    let block = |block: u16, ports: &[u8; 64]| {
        set(own, path, block.into(), &LinearForwarding { ports: ports.map(PortNum) })
    };
    Some(match step {
        Step::Port(end, write) => {
            let info = port_info(graph, *end, *write, config, manager)?;
            set(graph.key_to_show(*end, 0), path, end.1.0.into(), &info)
        }
        Step::Keys(end) => {
            let table = PKeyTable { keys: config.partition_block() };
            set(own, path, keys_modifier(graph, *end), &table)
        }
        Step::Lanes(end, table) => {
            let modifier = table.modifier(graph, *end);
            match wanted(config, graph, *end, *table)? {
                Lanes::Mapping(mapping) => set(own, path, modifier, &mapping),
                Lanes::Arbitration(block) => set(own, path, modifier, &block),
            }
        }
        Step::Block(node, number) => {
            let switch = target.discovered.index(*node)?;
            block(*number, target.routing.tables.get(switch.index())?.block(*number))
        }
        Step::Dropping(_, number, ports) => block(*number, ports),
        Step::Top(node, top) => {
            let info = graph.node(*node).switch.clone()?;
            let info = SwitchInfo { linear_fdb_top: *top, port_state_change: false, ..info };
            set(own, path, 0, &info)
        }
        Step::Masks(_, part) => {
            let modifier = MulticastForwarding::modifier(part.position, part.block);
            set(own, path, modifier, &MulticastForwarding { masks: part.entries.map(Hex16) })
        }
        Step::MulticastTop(node, top) => {
            let info = graph.node(*node).switch.clone()?;
            let info = SwitchInfo { multicast_fdb_top: *top, port_state_change: false, ..info };
            set(own, path, 0, &info)
        }
        Step::Milestone => return None,
    })
}

fn set<A: Attribute>(key: MKey, path: DrPath, modifier: u32, value: &A) -> Mad {
    Smp::set(A::ID, modifier, Route::directed(path)).m_key(key).mad().with(value)
}

/// Switches have a table for every port, end nodes for the one by which the SMP comes.
fn keys_modifier(graph: &Graph, (node, port): End) -> u32 {
    let port = if graph.node(node).is_switch() { port } else { PortNum::ZERO };
    PKeyTable::modifier(port, 0)
}
