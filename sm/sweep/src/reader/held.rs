//! What a reading said, as addresses and tables of the fabric.

use std::sync::Arc;

use snin_fabric::addresses::AddressError;
use snin_fabric::{Addresses, ForwardingTable, Lid, NodeKind, PortIndex, PortNum, Topology};
use snin_mad::PortState;

use super::Reader;
use crate::discovered::Discovered;
use crate::failures::Failures;
use crate::planning::Read;

impl Reader {
    /// Nodes, cables, addresses and tables as they were read.
    pub(super) fn held(&self) -> Result<Read, String> {
        let discovered = Discovered::of(&self.graph, &Failures::default());
        let discovered = discovered.map_err(|error| error.to_string())?;
        let topology = &discovered.topology;
        let addresses = self.addresses(&discovered).map_err(|(port, error)| {
            format!("the address of {}: {error}", topology.port_name(port))
        })?;
        let table = |switch| {
            let shadow = &self.graph.node(discovered.id(switch)).shadow;
            let mut table = ForwardingTable::up_to(addresses.top());
            for lid in addresses.iter().flat_map(|(port, ..)| addresses.of(port)) {
                let out = PortNum(shadow.forwards(lid));
                if out != PortNum::NONE {
                    table.set(lid, out);
                }
            }
            table
        };
        let tables = topology.switches().map(table).collect();
        let own = discovered.own_port(&self.graph);
        Ok(Read { discovered: Arc::new(discovered), addresses, tables, own })
    }

    fn addresses(&self, discovered: &Discovered) -> Result<Addresses, (PortIndex, AddressError)> {
        let topology: &Topology = &discovered.topology;
        let mut addresses = Addresses::none(topology.port_count());
        for port in topology.ports() {
            let end = discovered.end(port);
            let is_switch = topology.node(topology.port(port).node).kind == NodeKind::Switch;
            if is_switch != (end.1 == PortNum::ZERO) {
                continue;
            }
            let info = self.graph.port(end).and_then(|port| port.info.as_ref());
            // A port that is not ACTIVE yet has the address that it is to have, or one from before.
            let is_addressed = |info: &&snin_mad::PortInfo| {
                (Lid(1)..=Lid::MAX_UNICAST).contains(&info.lid)
                    && (is_switch || info.state == PortState::Active)
            };
            if let Some(info) = info.filter(is_addressed) {
                addresses.assign(port, info.lid, info.lmc).map_err(|error| (port, error))?;
            }
        }
        Ok(addresses)
    }
}
