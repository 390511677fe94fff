//! Tables of service levels and lanes. A table that a port does not have is shown as what that means: every
//! service level takes lane 0, no lane has a turn. So does OpenSM, and osmtest asks for all of them.

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::port::Capabilities;
use snin_mad::sa::{Record as _, SaRequest, SlToVlRecord, VlArbitrationRecord};
use snin_mad::{Inner, Method, SlToVl, VlArbitration};

use super::Offered;
use crate::query::{At, RecordQuery, is_switch};
use crate::world::World;
use snin_sm_database::qos_table::{QosTable, QosTableId, has_quarter};
use snin_sm_database::records::{Nodes, Place, Port, Ports};

/// The node that a request for such tables is about, where it has some that were never read; `Some(None)` where
/// it is about all nodes.
pub(crate) fn unread(request: &SaRequest, world: &World<'_>) -> Option<Option<Guid>> {
    let lanes = [SlToVlRecord::ID, VlArbitrationRecord::ID].contains(&request.attribute);
    if !lanes || !matches!(request.method, Method::Get | Method::GetTable) {
        return None;
    }
    let node = match request.mask.has(0) {
        false => None,
        true => {
            let lid = Lid(u16::from_be_bytes([*request.data.first()?, *request.data.get(1)?]));
            Some(world.database.by_lid(lid)?.0.0)
        }
    };
    world.sweep.has_unread_lanes(node).then_some(node)
}

/// Of an adapter there is one port only: who asks for port 0 of it means that one.
fn means_any_port(query: &RecordQuery<'_>, num: PortNum, world: &World<'_>) -> bool {
    num == PortNum::ZERO && matches!(query.at, At::Port((node, _)) if !is_switch(world, node))
}

/// Whether the port's node maps service levels at all.
fn maps((node, num): Place, port: &Port, world: &World<'_>) -> bool {
    let speaks = match is_switch(world, node) {
        true => world.database.get::<Ports>(&(node, PortNum::ZERO)),
        false => Some(port),
    };
    let enhanced = world.database.get::<Nodes>(&node).and_then(|node| node.switch.as_ref());
    let has_none = is_switch(world, node)
        && num == PortNum::ZERO
        && !enhanced.is_some_and(|switch| switch.enhanced_port_zero);
    !has_none && speaks.is_some_and(|port| port.info.capabilities.has(Capabilities::SL_MAPPING))
}

pub(crate) fn mappings(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    if means_any_port(query, query.asked::<SlToVlRecord>().output, world) {
        query.ignore(2);
    }
    let zero = SlToVl { vls: [0; 16] };
    for (place, port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        let node = world.database.get::<Nodes>(&place.0);
        let most = match node.filter(|_| is_switch(world, place.0) && place.1 != PortNum::ZERO) {
            Some(node) => node.info.num_ports,
            None => 0,
        };
        let maps = maps(place, port, world);
        for input in (u8::from(most > 0)..=most).map(PortNum) {
            let table = match port.qos_tables.get(&QosTableId::Mapping(input)) {
                Some(QosTable::Mapping(mapping)) => mapping,
                _ if maps => continue,
                _ => &zero,
            };
            let (lid, output) = (port.base, place.1);
            query.offer(&SlToVlRecord { lid, input, output, table: Inner::of(table) });
        }
    }
    Ok(())
}

pub(crate) fn arbitrations(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    if means_any_port(query, query.asked::<VlArbitrationRecord>().port, world) {
        query.ignore(1);
    }
    let zero = VlArbitration { vls: [0; 32], weights: [0; 32] };
    for (place, port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        let node = world.database.get::<Nodes>(&place.0).and_then(|node| node.switch.as_ref());
        let plain = node.is_some_and(|switch| !switch.enhanced_port_zero);
        for block in 1..=4 {
            let has = has_quarter(&port.info, block) && !(plain && place.1 == PortNum::ZERO);
            let table = match port.qos_tables.get(&QosTableId::Arbitration(block)) {
                Some(QosTable::Arbitration(table)) => table,
                _ if has => continue,
                _ => &zero,
            };
            let (lid, port) = (port.base, place.1);
            query.offer(&VlArbitrationRecord { lid, port, block, table: Inner::of(table) });
        }
    }
    Ok(())
}
