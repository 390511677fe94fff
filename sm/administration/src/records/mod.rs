//! Records of what the sweep found and programmed.

pub(super) mod lanes;

use snin_fabric::{Lid, PortNum};
use snin_mad::port::LinkSpeeds;
use snin_mad::sa::*;
use snin_mad::*;

use crate::query::{At, RecordQuery, is_switch};
use crate::world::World;
use snin_sm_database::records::{Links, Managers, Nodes, Port, Ports};

/// Status of a source: most have nothing to refuse.
type Offered = Result<(), Status>;

/// There are none: no switch of this manager is given a random forwarding table.
pub(super) fn none(_query: &mut RecordQuery<'_>, _world: &World<'_>) -> Offered {
    Ok(())
}

/// A record for each port with an address.
pub(super) fn nodes(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for ((guid, num), port) in query.ends(world) {
        let Some(node) = world.database.get::<Nodes>(&guid) else { continue };
        let (Some(port_guid), true) = (port.guid, query.sees(port)) else { continue };
        let switch = node.info.node_type == NodeType::Switch;
        let local_port = if switch { node.info.local_port } else { num };
        let info = NodeInfo { port_guid, local_port, ..node.info.clone() };
        let text = NodeString::new(&node.name);
        query.offer(&NodeRecord {
            lid: port.base,
            info: Inner::of(&info),
            description: Inner::of(&NodeDescription { text }),
        });
    }
    Ok(())
}

/// A record for each port, a switch's under the switch's address.
pub(super) fn ports(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    let asked: PortInfoRecord = query.asked();
    let options = if query.mask.has(2) { asked.options } else { Hex8(0) };
    let wanted = asked.info.parse().unwrap_or_default().capabilities;
    // With the top bit of the modifier capabilities are bits that must be set (IBA 15.2.5.3).
    let by_bits = query.modifier >> 31 != 0 && query.mask.has(7);
    if by_bits {
        query.ignore(7);
    }
    for ((_, num), port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        if by_bits && !port.info.capabilities.has(wanted) {
            continue;
        }
        let mut info = port.info.clone();
        if !query.requester.trusted {
            info.m_key = MKey(0);
        }
        if options.0 & 0x80 == 0 {
            look_old(&mut info);
        }
        query.offer(&PortInfoRecord {
            lid: port.base,
            port: num,
            options: Hex8(options.0 & 0x80),
            info: Inner::of(&info),
        });
    }
    Ok(())
}

/// A requester that does not say that it knows extended speeds sees QDR instead, as OpenSM shows it.
fn look_old(info: &mut PortInfo) {
    if info.speed_ext_active.0 != 0 && info.speed_active.0 == 0 {
        info.speed_active = LinkSpeeds::QDR;
    }
}

pub(super) fn switches(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for ((guid, _), port) in query.ends(world) {
        let Some(node) = world.database.get::<Nodes>(&guid) else { continue };
        if let Some(info) = node.switch.as_ref().filter(|_| query.sees(port)) {
            query.offer(&SwitchInfoRecord { lid: port.base, info: Inner::of(info) });
        }
    }
    Ok(())
}

/// The blocks of every switch's table up to its top.
pub(super) fn linear(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    let asked: LinearForwardingRecord = query.asked();
    for ((guid, _), port) in query.ends(world) {
        let Some(node) = world.database.get::<Nodes>(&guid) else { continue };
        let Some(switch) = node.switch.as_ref().filter(|_| query.sees(port)) else { continue };
        let last = (switch.linear_fdb_top.0 / 64).min(0xBFFF / 64);
        let all = 0..=last;
        let blocks = if query.mask.has(1) { asked.block..=asked.block } else { all.clone() };
        for block in blocks.filter(|block| all.contains(block)) {
            let Some(entries) = world.sweep.linear_block(guid, block) else { continue };
            let table = Inner::of(&LinearForwarding { ports: entries.map(PortNum) });
            query.offer(&LinearForwardingRecord { lid: port.base, block, table });
        }
    }
    Ok(())
}

/// The blocks of multicast tables that were written.
pub(super) fn multicast(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for ((guid, _), port) in query.ends(world) {
        if !is_switch(world, guid) || !query.sees(port) {
            continue;
        }
        for (block, position, masks) in world.sweep.mask_blocks(guid) {
            let table = Inner::of(&MulticastForwarding { masks: masks.map(Hex16) });
            query.offer(&MulticastForwardingRecord { lid: port.base, position, block, table });
        }
    }
    Ok(())
}

pub(super) fn managers(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for (_, manager) in world.database.all::<Managers>().iter() {
        let Some(port) = world.database.get::<Ports>(&manager.place) else { continue };
        let here = match query.at {
            At::Anywhere => true,
            At::Nowhere => false,
            At::Port(place) => place == manager.place,
        };
        if here && query.sees(port) {
            let info = SmInfo { sm_key: SmKey(0), ..manager.info.clone() };
            query.offer(&SmInfoRecord { lid: port.base, info: Inner::of(&info) });
        }
    }
    Ok(())
}

/// Every cable, from both ends.
pub(super) fn links(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    for (place, port) in query.ports(world) {
        let Some(other) = world.database.get::<Links>(&place) else { continue };
        let Some(to) = world.database.get::<Ports>(other) else { continue };
        if port.base == Lid::NONE || to.base == Lid::NONE || !query.sees(port) || !query.sees(to) {
            continue;
        }
        query.offer(&LinkRecord {
            from_lid: port.base,
            from_port: place.1,
            to_port: other.1,
            to_lid: to.base,
        });
    }
    Ok(())
}

/// The partition tables: for trusted requesters only, as OpenSM has it.
pub(super) fn partitions(query: &mut RecordQuery<'_>, world: &World<'_>) -> Offered {
    if !query.requester.trusted {
        return Err(SaStatus::REQ_INVALID);
    }
    for ((_, num), port) in query.ports(world) {
        if port.base == Lid::NONE || !query.sees(port) {
            continue;
        }
        for (block, &keys) in (0..).zip(&port.keys) {
            let table = Inner::of(&PKeyTable { keys });
            query.offer(&PKeyTableRecord { lid: port.base, block, port: num, table });
        }
    }
    Ok(())
}

/// How fast a port is, by code; what is not known is as slow as can be.
pub(super) fn rate_code(port: &Port) -> u8 {
    port.info.rate(None).map_or(2, crate::rates::code)
}
