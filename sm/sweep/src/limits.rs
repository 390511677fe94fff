//! How long packets wait before a port drops them, and how many errors it bears before it says so: as configured,
//! with OpenSM's defaults. A switch that was reset may hold zeros, by which a packet that waits for 4 us is
//! dropped.

use snin_fabric::PortNum;
use snin_mad::{NodeType, PortInfo, SwitchInfo};

use crate::graph::Graph;
use crate::qos_tables::high_limit;
use crate::query::{NodeId, PortId};
use snin_sm_database::config::Config;

/// The greatest LifeTimeValue (IBA 14.2.5.4); from 20 on packets live for ever.
const LONGEST: u8 = 31;

/// Writes a port's limits into its PortInfo. Which ports have which is OpenSM's choice: the time through the
/// subnet where there is an address, waits at heads of queues and stalled lanes where a switch sends.
pub(crate) fn limit(config: &Config, graph: &Graph, (id, num): PortId, info: &mut PortInfo) {
    let node = graph.node(id);
    if let Some(limit) = high_limit(config, graph, (id, num)) {
        info.vl_high_limit = limit;
    }
    let is_external = num != PortNum::ZERO;
    if !(node.is_switch() && is_external) {
        info.subnet_timeout = config.subnet_timeout;
        info.master_sm_sl = config.sm_sl;
    }
    let link = graph.port((id, num)).and_then(|port| port.link);
    let Some(link) = link.filter(|_| is_external) else { return };
    info.local_phy_errors = config.local_phy_errors_threshold;
    info.overrun_errors = config.overrun_errors_threshold;
    if !node.is_switch() {
        if node.info.node_type == NodeType::Router {
            info.hoq_life = config.leaf_head_of_queue_lifetime;
        }
        return;
    }
    (info.hoq_life, info.vl_stall_count) = match graph.node(link.to.0).is_switch() {
        true => (config.head_of_queue_lifetime, config.vl_stall_count),
        false => (config.leaf_head_of_queue_lifetime, config.leaf_vl_stall_count),
    };
}

/// Whether a port holds other limits than it shall.
pub(crate) fn differs(config: &Config, graph: &Graph, end: PortId, held: &PortInfo) -> bool {
    let mut wanted = held.clone();
    limit(config, graph, end, &mut wanted);
    wanted != *held
}

/// LifeTimeValue of every switch. Paths may say more: its field is a bit shorter.
pub(crate) fn life_time(config: &Config) -> u8 {
    config.packet_lifetime.min(LONGEST)
}

/// Whether a switch holds another, and is to be told.
pub(crate) fn lives_otherwise(config: &Config, graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let other = |info: &SwitchInfo| info.life_time != life_time(config);
    !node.keeps_life_time && node.switch.as_ref().is_some_and(other)
}
