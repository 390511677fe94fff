//! The way that the tables lead to an address.

use snin_fabric::{Guid, Lid, NodeIndex, PortIndex, PortNum};
use snin_mad::Hex16;
use snin_mad::sa::TraceRecord;

use super::Width;
use crate::world::World;
use snin_sm_database::fabric_state::Published;
use snin_sm_database::records::{Nodes, Place, Ports};

/// No way is longer: three stages have five switches.
const LONGEST: usize = 64;

/// The ports that a packet leaves by, the source's first; `None` where the tables do not lead there.
fn hops(from: Place, to: Lid, world: &World<'_>) -> Option<Vec<Place>> {
    let view = world.view?;
    let topology = view.topology();
    let (source, _) = view.addresses().owner(world.database.get::<Ports>(&from)?.base)?;
    let (end, _) = view.addresses().owner(to)?;
    let mut hops = Vec::new();
    let mut at = topology.port(source).node;
    if !topology.is_switch(at) {
        hops.push(from);
        let peer = topology.peer(source)?;
        if peer == end {
            return Some(hops);
        }
        at = topology.port(peer).node;
    }
    while hops.len() < LONGEST {
        if topology.is_switch(at) && topology.port0(at) == end {
            return Some(hops);
        }
        let port = leaves_by(view, at, to)?;
        hops.push((topology.node(at).guid, topology.num(port)));
        let peer = topology.peer(port)?;
        if peer == end {
            return Some(hops);
        }
        at = topology.port(peer).node;
    }
    None
}

fn leaves_by(view: &dyn Published, switch: NodeIndex, to: Lid) -> Option<PortIndex> {
    let topology = view.topology();
    let port = view.routing().tables.get(switch.index())?.get(to);
    if port == PortNum::NONE {
        return None;
    }
    topology.port_of(switch, port)
}

/// What fits through every link on the way.
pub(super) fn width(from: Place, to: Lid, world: &World<'_>) -> Option<Width> {
    let hops = hops(from, to, world)?;
    let own = world.database.get::<Ports>(&from)?;
    let mut width = Width::of((from, own));
    for hop in hops {
        width = width.and(Width::of((hop, world.database.get::<Ports>(&hop)?)));
    }
    Some(width.and(Width::of(world.database.by_lid(to)?)))
}

/// The nodes on the way, both ends included.
pub(super) fn trace(from: Place, to: Lid, world: &World<'_>) -> Vec<TraceRecord> {
    let Some(hops) = hops(from, to, world) else { return Vec::new() };
    let mut records = Vec::new();
    let mut entry: Option<Place> = None;
    let port_guid = |place: Place| {
        let port = world.database.get::<Ports>(&place);
        port.and_then(|port| port.guid).unwrap_or(place.0)
    };
    let mut add = |node: Guid, entry: Option<Place>, exit: Option<Place>| {
        let Some(found) = world.database.get::<Nodes>(&node) else { return };
        records.push(TraceRecord {
            gid_prefix: world.config.subnet_prefix(),
            generation: Hex16(0),
            node_type: found.info.node_type.code(),
            node,
            chassis: found.info.system_image_guid,
            entry: entry.map(port_guid).unwrap_or_default(),
            exit: exit.map(port_guid).unwrap_or_default(),
            entry_port: entry.map_or(PortNum::ZERO, |(_, num)| num),
            exit_port: exit.map_or(PortNum::ZERO, |(_, num)| num),
        });
    };
    for hop in hops {
        add(hop.0, entry, Some(hop));
        entry = world.database.get::<snin_sm_database::records::Links>(&hop).copied();
    }
    if let Some(last) = entry {
        add(last.0, entry, None);
    }
    records
}
