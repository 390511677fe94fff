//! The virtual lanes that a link has, and arbitration tables as ports have room for them.

use snin_fabric::PortNum;
use snin_mad::{PortInfo, PortState, VlArbitration, VlCount};

use crate::graph::Graph;
use crate::query::PortId;
use snin_sm_database::config::Config;
use snin_sm_database::qos_table::QUARTER;

/// Whether it is port 0 of a switch.
pub(crate) fn is_port_zero(graph: &Graph, end: PortId) -> bool {
    end.1 == PortNum::ZERO && graph.node(end.0).is_switch()
}

/// The data VLs that both ends of the port's cable have and the configuration allows.
pub(crate) fn operational_vls(config: &Config, graph: &Graph, end: PortId) -> Option<VlCount> {
    let most = VlCount::new(config.max_op_vls);
    let port = graph.port(end)?;
    let own = vls(port.info.as_ref()?);
    let other = port.link.and_then(|link| graph.port(link.to)?.info.as_ref()).map(vls);
    [Some(own), other, Some(most)].into_iter().flatten().min_by_key(|vls| vls.code())
}

/// The data VLs of a port: all that it can have, until it has come up with as many as some manager told it. Only
/// in INIT these may change without harm (IBA 14.2.5.6).
pub(crate) fn vls(info: &PortInfo) -> VlCount {
    let is_up = info.state.code() > PortState::Initialize.code();
    match info.operational_vls {
        vls if is_up && vls.code() > 0 && vls.code() < info.vl_cap.code() => vls,
        _ => info.vl_cap,
    }
}

/// A quarter of an arbitration table that has these entries, as many as the port has room for.
pub(crate) fn arbitration(entries: &[[u8; 2]], info: &PortInfo, quarter: u8) -> VlArbitration {
    let capacity = match quarter {
        1 | 2 => info.vl_arbitration_low_cap,
        _ => info.vl_arbitration_high_cap,
    };
    let skipped = if quarter.is_multiple_of(2) { QUARTER } else { 0 };
    let room = usize::from(capacity).saturating_sub(skipped).min(QUARTER);
    let mut block = VlArbitration { vls: [0; QUARTER], weights: [0; QUARTER] };
    let entries = entries.iter().skip(skipped).take(room);
    for ((vl, weight), &[wanted, turn]) in block.vls.iter_mut().zip(&mut block.weights).zip(entries)
    {
        (*vl, *weight) = (wanted, turn);
    }
    block
}
