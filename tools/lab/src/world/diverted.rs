//! No table may change under who is granted the way: until then others own where it would lead.

use snin_emulator::data::MessageId;
use snin_fabric::hosts::HostId;
use snin_fabric::{ForwardingTable, Lid, NodeIndex, PortIndex, PortNum};

use super::super::wire::UnderWay;
use super::World;

impl World<'_> {
    /// How many granted messages are under way that a switch will forward elsewhere by its new table.
    pub(super) fn diverted(&self, switch: NodeIndex, new: &ForwardingTable) -> u64 {
        let old = &self.tables[switch.index()];
        let messages = (self.from..self.wire.messages()).map(MessageId);
        let diverted = |from: &UnderWay| {
            let on_links = from.gone.is_none_or(|gone| gone + self.drain > self.now);
            let changed = old.get(from.lid) != new.get(from.lid);
            from.asked && on_links && changed && self.passes(from, switch)
        };
        messages.map(|message| self.wire.under_way(message)).filter(diverted).count() as u64
    }

    /// Whether a message's way, as the tables are, leads through a switch.
    fn passes(&self, from: &UnderWay, switch: NodeIndex) -> bool {
        let port = self.hosts_of.get(HostId(from.host)).map(|host| host.port);
        let mut next = port.and_then(|port| self.topology.peer_node(port));
        for _ in 0..self.tables.len() {
            match next {
                Some(here) if here == switch => return true,
                Some(here) if self.topology.is_switch(here) => {
                    next = self.out(here, from.lid).and_then(|out| self.topology.peer_node(out));
                }
                _ => return false,
            }
        }
        false
    }

    fn out(&self, switch: NodeIndex, lid: Lid) -> Option<PortIndex> {
        let port = self.tables[switch.index()].get(lid);
        self.topology.port_of(switch, port).filter(|_| port != PortNum::ZERO)
    }
}
