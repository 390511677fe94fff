//! The SMP of every question and every write.

use snin_fabric::{Lid, PortNum};
use snin_mad::port::LinkDownState;
use snin_mad::{
    Attribute, DrPath, Hex16, LinearForwarding, MKey, Mad, MulticastForwarding, NodeDescription,
    NodeInfo, PKeyTable, PhysicalState, PortInfo, PortState, Route, SmInfo, Smp, SwitchInfo,
};

use super::activate::port_info;
use crate::graph::Graph;
use crate::limits::life_time;
use crate::qos_tables::wanted;
use crate::query::{PortId, Query};
use crate::schedule::Step;
use crate::target::Target;
use snin_sm_database::config::Config;
use snin_sm_database::directed_route::DirectedRoute;
use snin_sm_database::judgement::{LinkOrder, TestRequest};
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::qos_table::QosTable;

/// The SMP of a question and the port by which it leaves; `None` where the node is not there any more.
pub(crate) fn question(graph: &Graph, query: Query) -> Option<(LocalPort, Mad)> {
    let DirectedRoute { path, from } = graph.path(query)?;
    let route = Route::directed(path);
    let shown = graph.key_to_ask(query, 0);
    let get = |id, modifier| Smp::get(id, modifier, route).m_key(shown).mad();
    let mad = match query {
        Query::Own(_)
        | Query::Identify(_)
        | Query::Probe(_)
        | Query::Trial(_, TestRequest::Node) => get(NodeInfo::ID, 0),
        Query::Describe(_) | Query::Trial(_, TestRequest::Application) => {
            get(NodeDescription::ID, 0)
        }
        Query::ReadSwitch(_) => get(SwitchInfo::ID, 0),
        Query::ReadPort(_, port) => get(PortInfo::ID, port.0.into()),
        Query::ReadKeys(node, port, block) => {
            get(PKeyTable::ID, keys_modifier(graph, (node, port), block))
        }
        Query::ReadQosTable(node, port, table) => {
            get(table.attribute(), table.modifier(graph.node(node).is_switch(), port))
        }
        Query::ReadManager(..) => get(SmInfo::ID, 0),
        Query::ReadBlock(_, block) => get(LinearForwarding::ID, block.into()),
        Query::ReadMasks(_, block, position) => {
            get(MulticastForwarding::ID, MulticastForwarding::modifier(position, block))
        }
        Query::ClearChange(node) => {
            let info = graph.node(node).switch.as_ref()?;
            // Writing 1 clears it (IBA 14.2.5.4).
            set(
                graph.key_to_show((node, PortNum::ZERO), 0),
                path,
                0,
                &SwitchInfo { port_state_change: true, ..info.clone() },
            )
        }
        // Counters are not an SMP's business.
        Query::Trial(
            _,
            TestRequest::Counters(_) | TestRequest::Messages(_) | TestRequest::Agent,
        ) => return None,
        Query::Order(node, port, order) => {
            let held = graph.port((node, port))?.info.as_ref()?;
            let info = PortInfo {
                state: PortState::NoChange,
                physical_state: match order {
                    LinkOrder::Disable | LinkOrder::PowerOff => PhysicalState::Disabled,
                    LinkOrder::Enable | LinkOrder::Reset => PhysicalState::Polling,
                },
                link_down_default_state: match order {
                    LinkOrder::PowerOff => LinkDownState::Sleep,
                    LinkOrder::Enable => LinkDownState::Polling,
                    LinkOrder::Disable | LinkOrder::Reset => LinkDownState::NoChange,
                },
                client_reregister: false,
                ..held.clone()
            };
            let key = graph.key_to_show((node, PortNum::ZERO), 0);
            set(key, path, port.0.into(), &info)
        }
        Query::Step(_) | Query::Tell(..) => return None,
    };
    Some((from, mad))
}

/// The SMP of a step, and the port by which it leaves.
pub(crate) fn write(
    graph: &Graph,
    config: &Config,
    target: &Target,
    manager: Lid,
    step: &Step,
) -> Option<(LocalPort, Mad)> {
    let node = step.node()?;
    let DirectedRoute { path, from } = step.path(graph)?;
    let own = graph.key_to_show(step.end().unwrap_or((node, PortNum::ZERO)), 0);
    let block = |block: u16, ports: &[u8; 64]| {
        set(own, path, block.into(), &LinearForwarding { ports: ports.map(PortNum) })
    };
    let mad = match step {
        Step::Port(end, write) => {
            let info = port_info(graph, *end, *write, config, manager)?;
            set(graph.key_to_show(*end, 0), path, end.1.0.into(), &info)
        }
        Step::Keys(end, block, keys) => {
            set(own, path, keys_modifier(graph, *end, *block), &PKeyTable { keys: **keys })
        }
        Step::QosTable(end, table) => {
            let modifier = table.modifier(graph.node(end.0).is_switch(), end.1);
            match wanted(config, graph, *end, *table)? {
                QosTable::Mapping(mapping) => set(own, path, modifier, &mapping),
                QosTable::Arbitration(block) => set(own, path, modifier, &block),
            }
        }
        Step::Block(node, number) => {
            let switch = target.discovered.index(*node)?;
            block(*number, target.routing.tables.get(switch.index())?.block(*number))
        }
        Step::Dropping(_, number, ports) => block(*number, ports),
        Step::Top(node, top) => {
            let info = graph.node(*node).switch.clone()?;
            let info = SwitchInfo {
                linear_fdb_top: *top,
                life_time: life_time(config),
                port_state_change: false,
                ..info
            };
            set(own, path, 0, &info)
        }
        Step::Masks(_, part) => {
            let modifier = MulticastForwarding::modifier(part.position, part.block);
            set(own, path, modifier, &MulticastForwarding { masks: part.entries.map(Hex16) })
        }
        Step::MulticastTop(node, top) => {
            let info = graph.node(*node).switch.clone()?;
            let info = SwitchInfo {
                multicast_fdb_top: *top,
                life_time: life_time(config),
                port_state_change: false,
                ..info
            };
            set(own, path, 0, &info)
        }
        Step::Milestone | Step::Barrier => return None,
    };
    Some((from, mad))
}

/// A write.
pub(crate) fn set<A: Attribute>(key: MKey, path: DrPath, modifier: u32, value: &A) -> Mad {
    Smp::set(A::ID, modifier, Route::directed(path)).m_key(key).mad().with(value)
}

/// Switches have a table for every port, end nodes for the one by which the SMP comes.
fn keys_modifier(graph: &Graph, (node, port): PortId, block: u16) -> u32 {
    let port = if graph.node(node).is_switch() { port } else { PortNum::ZERO };
    PKeyTable::modifier(port, block)
}
