//! The fabric as a copy of another manager's database has it, in place of what was discovered.

use snin_fabric::PortNum;
use snin_mad::PortState;

use super::{Graph, Node, is_up};
use crate::lft_shadow::LftShadow;
use crate::query::{NodeId, PortId};
use snin_sm_database::records::{self, Database, Links, Nodes, Ports};

impl Graph {
    /// Forgets what was discovered and takes the database's word for it; `false`, and nothing is changed, where
    /// this manager's own node is not in it. Tables are not in it: they are unread.
    pub(crate) fn recall(&mut self, database: &Database, survey: u32) -> bool {
        let owns: Vec<(NodeId, snin_mad::NodeInfo)> =
            self.homes.known().map(|(_, (id, _))| (id, self.node(id).info.clone())).collect();
        let seat = self.node(self.own_end().0).guid();
        if owns.is_empty() || database.get::<Nodes>(&seat).is_none() {
            return false;
        }
        self.forget();
        for (_, known) in database.all::<Nodes>().iter() {
            self.recall_node(known, survey);
        }
        // The database has the port by which the master asks.
        for (id, own) in owns {
            let node = self.node_mut(id);
            (node.info.local_port, node.info.port_guid) = (own.local_port, own.port_guid);
        }
        for (&(guid, num), known) in database.all::<Ports>().iter() {
            if let Some(id) = self.find(guid) {
                self.recall_port((id, num), known);
            }
        }
        for (&(guid, num), &(other, far)) in database.all::<Links>().iter() {
            if let (Some(one), Some(other)) = (self.find(guid), self.find(other)) {
                self.connect((one, num), (other, far), survey);
            }
        }
        self.retrace();
        true
    }

    fn recall_node(&mut self, known: &records::Node, survey: u32) {
        let Some(id) = self.admit(&known.info) else { return };
        let node = self.node_mut(id);
        *node = Node::new(known.info.clone());
        node.name = Some(known.name.clone()).filter(|name| !name.is_empty());
        node.seen = survey;
        node.shadow = known
            .switch
            .as_ref()
            .map_or_else(LftShadow::default, |switch| LftShadow::unread(switch.linear_fdb_top));
        node.switch.clone_from(&known.switch);
    }

    fn recall_port(&mut self, end: PortId, known: &records::Port) {
        if let Some(guid) = known.guid.filter(|_| end.1 != PortNum::ZERO) {
            self.claim_port_guid(end, guid, None);
        }
        let Some(port) = self.port_mut(end) else { return };
        port.steady = known.info.state == PortState::Active;
        port.info = Some(known.info.clone());
        port.keys.clone_from(&known.keys);
        let lanes = known.qos_tables.iter().map(|(&table, lanes)| (table, Some(lanes.clone())));
        port.qos_tables = lanes.collect();
    }

    /// Ports that are up, and of which it is not known what is behind them.
    pub(crate) fn unexplained(&self) -> Vec<PortId> {
        let mut ends = Vec::new();
        for (id, node) in self.managed() {
            let open = node
                .external()
                .filter(|(_, port)| port.link.is_none() && port.info.as_ref().is_some_and(is_up))
                .map(|(num, _)| (id, num))
                .filter(|&end| node.is_switch() || self.is_home(end));
            ends.extend(open);
        }
        ends
    }
}
