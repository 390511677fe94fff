//! Tables of virtual lanes where the administrator wrote none of its own.
//!
//! Along trees there is a service level and a lane for what is granted: granted packets go first, and everything
//! else gets what they leave and a least share of each link (IBA 7.6.9). Where each path has a lane so that none
//! closes a credit loop, a service level is its lane's number, and lanes take equal turns.
//!
//! Granted packets wait for one ordinary packet a hop at most, the one that is being sent when they come. All
//! other service levels have the lanes that ports give them after a reset, level modulo lanes, but never the
//! granted one.

use snin_fabric::routing::Engine;
use snin_fabric::{PortIndex, Topology};
use snin_mad::{PortInfo, SlToVl};

use crate::discovered::Discovered;
use crate::graph::{Graph, Port, is_up};
use crate::query::PortId;
use crate::target::Target;
use crate::vls::{arbitration, is_port_zero, operational_vls, vls};
use snin_sm_database::config::Config;
use snin_sm_database::qos_table::{LaneUse, QosTable, QosTableId};

/// The lane of what is granted.
const LANE: u8 = 1;
/// The most weight of an entry: lanes of one table take equal turns, and a table with one entry needs none in
/// particular.
const WEIGHT: u8 = 255;
/// Bytes that PortInfo:VLHighLimit counts in; 255 of them are no limit (IBA 7.6.9.2).
const LIMIT_UNIT: u64 = 4_096;
const NO_LIMIT: u8 = 255;
const MILLION: u64 = 1_000_000;

/// How granted traffic is told from ordinary traffic.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GrantedLanes {
    /// The service level of what is granted; 0: that of everything else, too.
    pub level: u8,
    /// Ports at which both share a lane: they have one data lane only, or refuse the tables.
    pub shared: Vec<String>,
}

/// What the tables are for, on a fabric that is routed so.
pub(crate) fn lane_use(config: &Config, graph: &Graph, target: &Target) -> LaneUse {
    match &target.routing.lanes {
        Some(lanes) if lanes.count() > 1 => LaneUse::Paths,
        _ if are_written(config, graph, target) => LaneUse::Granted,
        _ => LaneUse::AsTheyAre,
    }
}

/// The data lanes that every link between switches has, and may be told: routes may have as many. One where the
/// tables of lanes are the administrator's, and where routes need none: how many links have comes out while they
/// come up.
pub(crate) fn lanes_of_paths(config: &Config, graph: &Graph, discovered: &Discovered) -> u8 {
    let takes_lanes =
        matches!(config.routing, Engine::Lanes | Engine::DimensionOrder | Engine::File);
    if config.qos || !takes_lanes {
        return 1;
    }
    let topology = &discovered.topology;
    let ends = topology.switches().flat_map(|switch| {
        let links = topology.switch_links(switch);
        links.filter_map(move |(port, _)| topology.port_of(switch, port))
    });
    ends.filter_map(|port| lanes(config, graph, discovered.end(port))).min().unwrap_or(1)
}

/// Whether ports get these tables: something is granted on this fabric, and some link has two lanes.
fn are_written(config: &Config, graph: &Graph, target: &Target) -> bool {
    let (discovered, routing) = (&target.discovered, &target.routing);
    let has_two = |end| lanes(config, graph, end).is_some_and(|lanes| lanes > LANE);
    are_possible(config)
        && !routing.forest.trees().is_empty()
        && cabled(&discovered.topology).any(|port| has_two(discovered.end(port)))
}

/// Whether the configuration lets ports get these tables.
pub(crate) const fn are_possible(config: &Config) -> bool {
    config.granted_sl > 0 && !config.qos
}

/// What is said of them once they are written.
pub(crate) fn told(config: &Config, graph: &Graph, target: &Target) -> GrantedLanes {
    if config.granted_sl == 0 || target.routing.forest.trees().is_empty() {
        return GrantedLanes::default();
    }
    if config.qos {
        // The administrator's own tables say which lane it is.
        return GrantedLanes { level: config.granted_sl, shared: Vec::new() };
    }
    let ends = cabled(&target.discovered.topology).map(|port| target.discovered.end(port));
    let shared =
        ends.filter(|&end| shares(config, graph, end)).map(|end| graph.port_name(end)).collect();
    let level = if are_written(config, graph, target) { config.granted_sl } else { 0 };
    GrantedLanes { level, shared }
}

fn cabled(topology: &Topology) -> impl Iterator<Item = PortIndex> + '_ {
    topology.ports().filter(|&port| topology.peer(port).is_some())
}

/// Whether it is for the port that its link has one lane: it has no more, it came up with no more though both ends
/// have, or it refuses tables that would tell two apart.
fn shares(config: &Config, graph: &Graph, end: PortId) -> bool {
    let info = |end: PortId| graph.port(end)?.info.as_ref();
    let Some((port, own)) = graph.port(end).zip(info(end)) else { return false };
    let other = port.link.and_then(|link| info(link.to));
    let can = |info: &PortInfo| info.vl_cap.code().min(config.max_op_vls) > LANE;
    let came_up_with_one = vls(own).code() == LANE && other.is_some_and(can);
    !can(own) || came_up_with_one || port.qos_tables.values().any(Option::is_none)
}

/// The data lanes of the port's link.
fn lanes(config: &Config, graph: &Graph, end: PortId) -> Option<u8> {
    operational_vls(config, graph, end)?.data_vls()
}

/// What one of the port's tables shall hold; `None`: it is left as it is. Port 0 of a switch sends nothing that is
/// granted, and a link with one lane needs no arbitration.
pub(crate) fn wanted(
    config: &Config,
    graph: &Graph,
    end: PortId,
    info: &PortInfo,
    table: QosTableId,
) -> Option<QosTable> {
    let lanes = lanes(config, graph, end)?;
    if is_port_zero(graph, end) {
        return None;
    }
    let is_granted = graph.lanes == LaneUse::Granted;
    match table {
        QosTableId::Mapping(_) if is_granted => {
            Some(QosTable::Mapping(SlToVl { vls: mapping(config.granted_sl, lanes) }))
        }
        QosTableId::Mapping(_) => {
            let vls = std::array::from_fn(|level| level as u8 % lanes.max(1));
            Some(QosTable::Mapping(SlToVl { vls }))
        }
        QosTableId::Arbitration(_) if lanes <= LANE => None,
        QosTableId::Arbitration(quarter) => {
            let entries: Vec<[u8; 2]> = match quarter {
                1 | 2 => {
                    let vls = (0..lanes).filter(|&vl| vl != LANE || !is_granted);
                    vls.map(|vl| [vl, WEIGHT]).collect()
                }
                _ if is_granted => vec![[LANE, WEIGHT]],
                _ => Vec::new(),
            };
            Some(QosTable::Arbitration(arbitration(&entries, info, quarter)))
        }
    }
}

/// How one of a port's tables is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TableState {
    /// As it shall be, or none that the port has, or one that is left as it is.
    Right,
    /// It has to be read.
    Unread,
    /// It has to be written. Of a port that was reset it need not be known what is in it.
    Due,
}

/// How the port's table is, for all that is known.
pub(crate) fn state(
    config: &Config,
    graph: &Graph,
    end: PortId,
    port: &Port,
    table: QosTableId,
) -> TableState {
    let info = port.info.as_ref().filter(|info| is_up(info));
    let wanted = info.and_then(|info| wanted(config, graph, end, info, table));
    match (wanted, port.qos_tables.get(&table)) {
        (None, _) | (_, Some(None)) => TableState::Right,
        (Some(_), None) if port.was_init => TableState::Due,
        (Some(_), None) => TableState::Unread,
        (Some(wanted), Some(Some(held))) if wanted == *held => TableState::Right,
        (Some(_), Some(Some(_))) => TableState::Due,
    }
}

/// The lane of each service level on a link with so many.
fn mapping(granted: u8, lanes: u8) -> [u8; 16] {
    std::array::from_fn(|level| match level as u8 % lanes.max(1) {
        _ if level == usize::from(granted) && lanes > LANE => LANE,
        LANE => 0,
        lane => lane,
    })
}

/// PortInfo:VLHighLimit of the port, where its link has two lanes.
pub(crate) fn high_limit(config: &Config, graph: &Graph, end: PortId) -> Option<u8> {
    let link = graph.port(end)?.link?;
    let ends = [end, link.to].map(|end| graph.port(end)?.info.as_ref()?.mtu_cap.bytes());
    let mtu = ends.into_iter().flatten().min()?;
    (lanes(config, graph, end)? > LANE).then(|| limit(config.unmanaged_share, mtu))
}

/// How much may go first while a packet of the others waits: they get `share` of a million of the link at least,
/// in packets of `mtu` bytes at most.
fn limit(share: u32, mtu: u16) -> u8 {
    let share = u64::from(share).min(MILLION);
    // What has begun is sent whole, which is a packet more than the limit: 0 is one packet.
    let first = (u64::from(mtu) * (MILLION - share)).checked_div(share);
    first.map_or(NO_LIMIT, |first| (first / LIMIT_UNIT).min(u64::from(NO_LIMIT) - 1) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_limits() {
        assert_eq!(
            [0, 50_000, 500_000, 1_000_000].map(|share| limit(share, 4_096)),
            [255, 19, 1, 0]
        );
        assert_eq!((limit(1, 4_096), limit(50_000, 256)), (254, 1));
    }

    #[test]
    fn only_granted_traffic_has_the_granted_lane() {
        for lanes in [2, 4, 8, 15] {
            for granted in 1..16 {
                let mapping = mapping(granted, lanes);
                for (level, lane) in (0..).zip(mapping) {
                    assert_eq!(lane == LANE, level == granted, "{lanes} lanes, level {level}");
                    assert!(lane < lanes, "{lanes} lanes, level {level}: {lane}");
                }
            }
        }
        assert_eq!(mapping(1, 1), [0; 16]);
        assert_eq!(mapping(1, 2), std::array::from_fn(|level| u8::from(level == 1)));
        assert_eq!(mapping(3, 8), [0, 0, 2, 1, 4, 5, 6, 7, 0, 0, 2, 3, 4, 5, 6, 7]);
    }
}
