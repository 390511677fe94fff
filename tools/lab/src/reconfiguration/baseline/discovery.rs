//! Discovery in propagation order: what an answer about a node or a port leads to.

use std::collections::BTreeMap;

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::{Attribute as _, DrPath, NodeInfo, NodeType, PortInfo, PortState};
use snin_protocol::Time;

use super::{Baseline, Factor, Node, What, quiet};

impl Baseline {
    pub(super) fn node(
        &mut self,
        behind: Option<(Guid, u8)>,
        path: DrPath,
        info: &NodeInfo,
        now: Time,
    ) {
        let guid = info.node_guid;
        if let Some(behind) = behind
            && self.has(Factor::Region)
            && self.nodes.contains_key(&guid)
            && self.nodes.contains_key(&behind.0)
        {
            self.joined(behind, guid, info.local_port.0, now);
        }
        if let Some((from, port)) = behind
            && let Some(from) = self.nodes.get_mut(&from)
        {
            from.links.insert(port, guid);
        }
        if self.nodes.contains_key(&guid) {
            return;
        }
        // The way back from there: it will be found from the other side too.
        let links = behind.map(|(from, _)| (info.local_port.0, from)).into_iter().collect();
        let switch = info.node_type == NodeType::Switch;
        let own = if switch { 0 } else { info.local_port.0 };
        let ports = BTreeMap::new();
        let node = Node { path, switch, own, lid: Lid::NONE, ports, links };
        self.nodes.insert(guid, node);
        self.order.push(guid);
        let asked = if switch { 0..=info.num_ports } else { own..=own };
        for port in asked {
            self.get(What::Port(guid, port), path, PortInfo::ID, port, now);
        }
    }

    pub(super) fn port(&mut self, guid: Guid, port: u8, info: PortInfo, now: Time) {
        let Some(node) = self.nodes.get_mut(&guid) else { return };
        let (path, switch, own) = (node.path, node.switch, node.own);
        if node.ports.insert(port, info.clone()).is_some() {
            return self.port_again(guid, port, &info, now);
        }
        if port == own {
            let lid = self.address(info.lid);
            self.nodes.entry(guid).and_modify(|node| node.lid = lid);
            let mut new = quiet(PortInfo { lid, ..info.clone() }, PortState::NoChange);
            if self.has(Factor::Traps) {
                new.master_sm_lid = self.nodes[&self.order[0]].lid;
            }
            self.set(What::Write, path, port.into(), &new, now);
        }
        // The other end of an adapter's port is where it was found from, but for the manager's own.
        let leads_on = if switch { port > 0 } else { path.hops() == 0 };
        if leads_on
            && info.state != PortState::Down
            && let Some(path) = path.then(PortNum(port))
        {
            self.get(What::Node(Some((guid, port))), path, NodeInfo::ID, 0, now);
        }
    }

    /// The address that the port has, if no other port has it; else the first that is free.
    fn address(&mut self, has: Lid) -> Lid {
        let free = |lid: &Lid| !self.taken.contains(lid);
        let lid = Some(has).filter(|&lid| lid != Lid::NONE).filter(free);
        let lid = lid.or_else(|| (1..=Lid::MAX_UNICAST.0).map(Lid).find(free)).unwrap_or(Lid::NONE);
        self.taken.insert(lid);
        lid
    }
}
