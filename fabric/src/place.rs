//! Nodes and ports as people know them: by name, by GUID, by LID.

use std::fmt;

use serde::Serialize;

use crate::{Guid, Lid, NodeIndex, PortIndex, PortNum, Topology};

/// A node, or a port of one, with all that an administrator may know it by. Displayed as
/// `leaf3/20 (0x0002c90200400120, LID 12)`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Place {
    /// NodeDescription.
    pub name: String,
    /// NodeGUID of a node and of a switch's port, PortGUID of an adapter's port.
    pub guid: Guid,
    /// The port, where one is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNum>,
    /// The base LID that the source of the topology reported, if any: of a switch that of its port 0, of an
    /// adapter with several ports only where one of them is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lid: Option<Lid>,
}

impl Place {
    /// A whole node.
    pub fn node(topology: &Topology, index: NodeIndex) -> Self {
        let node = topology.node(index);
        let mut addressed = match topology.is_switch(index) {
            true => vec![topology.port0(index)],
            false => topology.cables(index).map(|(port, _)| port).collect(),
        };
        let only = addressed.pop().filter(|_| addressed.is_empty());
        let lid = only.and_then(|port| known(topology.port(port).lid));
        Self { name: node.name.to_string(), guid: node.guid, port: None, lid }
    }

    /// One of its ports.
    pub fn port(topology: &Topology, index: PortIndex) -> Self {
        let (port, num) = (topology.port(index), topology.num(index));
        let name = topology.node(port.node).name.to_string();
        let addressed = match topology.is_switch(port.node) {
            true => topology.port0(port.node),
            false => index,
        };
        let lid = known(topology.port(addressed).lid);
        Self { name, guid: port.guid, port: Some(num), lid }
    }
}

fn known(lid: Lid) -> Option<Lid> {
    (lid != Lid::NONE).then_some(lid)
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(port) = self.port {
            write!(f, "/{port}")?;
        }
        write!(f, " ({}", self.guid)?;
        if let Some(lid) = self.lid {
            write!(f, ", LID {lid}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibnet;

    #[test]
    fn a_place_has_name_guid_port_and_lid() {
        let text = "switchguid=0x10(10)\nSwitch 2 \"S-10\" # \"leaf\" base port 0 lid 7 lmc 0\n\
                    [1] \"H-20\"[1](21)\n\ncaguid=0x20\nCa 1 \"H-20\" # \"host\"\n\
                    [1](21) \"S-10\"[1] # lid 9 lmc 0 \"leaf\" lid 7 4xNDR\n";
        let topology = ibnet::parse(text.as_bytes()).unwrap();
        let (leaf, host) = (NodeIndex(0), NodeIndex(1));
        let texts = [
            Place::node(&topology, leaf).to_string(),
            Place::port(&topology, topology.port_of(leaf, PortNum(1)).unwrap()).to_string(),
            Place::node(&topology, host).to_string(),
            Place::port(&topology, topology.port_of(host, PortNum(1)).unwrap()).to_string(),
        ];
        assert_eq!(
            texts,
            [
                "leaf (0x0000000000000010, LID 7)",
                "leaf/1 (0x0000000000000010, LID 7)",
                "host (0x0000000000000020, LID 9)",
                "host/1 (0x0000000000000021, LID 9)",
            ]
        );
    }
}
