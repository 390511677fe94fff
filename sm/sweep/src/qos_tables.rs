//! Which virtual lane a service level takes, and whose turn it is (IBA 7.6.6, 7.6.9): as configured where `qos`
//! is on, else two lanes where something is granted, or those of paths. Elsewhere they are never written, and
//! read only when administration is asked for them.

use snin_fabric::PortNum;
use snin_mad::port::Capabilities;
use snin_mad::{NodeType, PortInfo, SlToVl};

use crate::graph::{Graph, Port, is_up};
use crate::lane_tables;
use crate::query::{NodeId, PortId};
use crate::vls::{arbitration, is_port_zero, operational_vls};
use snin_sm_database::config::{Config, QosOptions};
use snin_sm_database::qos_table::{LaneUse, QosTable, QosTableId};
use snin_sm_database::qos_table::{QUARTER, has_quarter};

/// Whether tables are managed.
pub(crate) fn are_managed(config: &Config, graph: &Graph) -> bool {
    config.qos || graph.lanes != LaneUse::AsTheyAre
}

/// The ports of a node whose tables are managed where they are cabled: enhanced port 0 is an end port, too.
pub(crate) fn ports(graph: &Graph, id: NodeId) -> impl Iterator<Item = PortId> + '_ {
    let zero = is_enhanced(graph, id).then_some((id, PortNum::ZERO));
    zero.into_iter().chain(graph.node(id).external().map(move |(num, _)| (id, num)))
}

fn is_enhanced(graph: &Graph, id: NodeId) -> bool {
    graph.node(id).switch.as_ref().is_some_and(|switch| switch.enhanced_port_zero)
}

/// The tables that a cabled port has, or enhanced port 0.
pub(crate) fn tables(graph: &Graph, end: PortId) -> Vec<QosTableId> {
    let node = graph.node(end.0);
    let is_zero = is_port_zero(graph, end);
    let has_any = |port: &&Port| match is_zero {
        true => is_enhanced(graph, end.0),
        false => port.link.is_some(),
    };
    let Some(info) = graph.port(end).filter(has_any).and_then(|port| port.info.as_ref()) else {
        return Vec::new();
    };
    // Port 0 speaks for its switch (IBA 14.2.5.6).
    let speaks = if node.is_switch() { node.ports.first() } else { node.ports.get(end.1.index()) };
    let speaks = speaks.and_then(|port| port.info.as_ref());
    let mut tables = Vec::new();
    if speaks.is_some_and(|info| info.capabilities.has(Capabilities::SL_MAPPING)) {
        if node.is_switch() {
            // What the switch sends itself comes in by port 0, which need not be an enhanced one.
            tables.push(QosTableId::Mapping(PortNum::ZERO));
            let inputs = node.external().filter(|(num, port)| *num != end.1 && port.link.is_some());
            tables.extend(inputs.map(|(num, _)| QosTableId::Mapping(num)));
        } else {
            tables.push(QosTableId::Mapping(PortNum::ZERO));
        }
    }
    let quarters = [(1, info.vl_arbitration_low_cap), (3, info.vl_arbitration_high_cap)];
    for (first, capacity) in quarters {
        let count = usize::from(capacity).div_ceil(QUARTER).min(2) as u8;
        tables.extend((first..first + count).map(QosTableId::Arbitration));
    }
    tables
}

/// The tables of a node that are managed now, and what they shall hold.
pub(crate) fn managed(
    config: &Config,
    graph: &Graph,
    id: NodeId,
) -> Vec<(PortId, QosTableId, QosTable)> {
    let tables = ports(graph, id)
        .flat_map(|end| tables(graph, end).into_iter().map(move |table| (end, table)));
    let wanted = |(end, table)| Some((end, table, wanted(config, graph, end, table)?));
    tables.filter_map(wanted).collect()
}

/// Every table that a port has, joined or not: requests to administration are about these.
pub(crate) fn every(graph: &Graph, end: PortId) -> Vec<QosTableId> {
    let node = graph.node(end.0);
    let Some(info) = graph.port(end).and_then(|port| port.info.as_ref()) else {
        return Vec::new();
    };
    let is_switch = node.is_switch();
    let enhanced = node.switch.as_ref().is_some_and(|switch| switch.enhanced_port_zero);
    if is_switch && end.1 == PortNum::ZERO && !enhanced {
        return Vec::new();
    }
    let speaks = if is_switch { node.ports.first() } else { node.ports.get(end.1.index()) };
    let mapped = speaks
        .and_then(|port| port.info.as_ref())
        .is_some_and(|info| info.capabilities.has(Capabilities::SL_MAPPING));
    let mut tables = Vec::new();
    if mapped && is_switch {
        tables.extend(enhanced.then_some(QosTableId::Mapping(PortNum::ZERO)));
        tables.extend(node.external().map(|(num, _)| QosTableId::Mapping(num)));
    } else if mapped {
        tables.push(QosTableId::Mapping(PortNum::ZERO));
    }
    tables
        .extend((1..=4).filter(|&quarter| has_quarter(info, quarter)).map(QosTableId::Arbitration));
    tables
}

/// What the port's table shall hold. A VL that the link does not have becomes one that it has, as OpenSM does
/// it: by its low bits.
pub(crate) fn wanted(
    config: &Config,
    graph: &Graph,
    end: PortId,
    table: QosTableId,
) -> Option<QosTable> {
    let info: &PortInfo = graph.port(end)?.info.as_ref().filter(|info| is_up(info))?;
    if !config.qos {
        return lane_tables::wanted(config, graph, end, info, table);
    }
    let code = operational_vls(config, graph, end)?.code().clamp(1, 5);
    let mask = (1u8 << (code - 1)) - 1;
    let own = options(config, graph, end);
    Some(match table {
        QosTableId::Mapping(input) => {
            // As OpenSM has it: only what port 0 sends to itself is as port 0 has it.
            let own = match is_port_zero(graph, end) && input != PortNum::ZERO {
                true => &config.qos_swe,
                false => own,
            };
            let vls = own.sl2vl.unwrap_or(config.qos_sl2vl);
            QosTable::Mapping(SlToVl { vls: vls.map(|vl| if vl == 15 { vl } else { vl & mask }) })
        }
        // There is nothing to arbitrate.
        QosTableId::Arbitration(_) if info.vl_cap.data_vls() == Some(1) => return None,
        QosTableId::Arbitration(quarter) => {
            let entries = match quarter {
                1 | 2 => own.vlarb_low.as_ref().unwrap_or(&config.qos_vlarb_low),
                _ => own.vlarb_high.as_ref().unwrap_or(&config.qos_vlarb_high),
            };
            let entries: Vec<[u8; 2]> =
                entries.iter().map(|&[vl, weight]| [vl & mask, weight]).collect();
            QosTable::Arbitration(arbitration(&entries, info, quarter))
        }
    })
}

/// What ports of this one's kind have instead of what all have.
fn options<'a>(config: &'a Config, graph: &Graph, end: PortId) -> &'a QosOptions {
    match graph.node(end.0).info.node_type {
        NodeType::Switch if end.1 == PortNum::ZERO => &config.qos_sw0,
        NodeType::Switch => &config.qos_swe,
        NodeType::Router => &config.qos_rtr,
        _ => &config.qos_ca,
    }
}

/// PortInfo:VLHighLimit of a port whose tables are managed.
pub(crate) fn high_limit(config: &Config, graph: &Graph, end: PortId) -> Option<u8> {
    if is_port_zero(graph, end) && !is_enhanced(graph, end.0) {
        return None;
    }
    if config.qos {
        let has_one = graph.port(end)?.info.as_ref()?.vl_cap.data_vls() == Some(1);
        let own = options(config, graph, end).high_limit.unwrap_or(config.qos_high_limit);
        return Some(if has_one { 0 } else { own });
    }
    match graph.lanes {
        LaneUse::Granted => lane_tables::high_limit(config, graph, end),
        LaneUse::AsTheyAre | LaneUse::Paths => None,
    }
}
