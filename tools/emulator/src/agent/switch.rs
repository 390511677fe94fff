//! Attributes of a switch: SwitchInfo and the forwarding tables, block by block.

use snin_fabric::multicast::{MulticastTable, PortMask};
use snin_fabric::{Lid, Mlid, NodeIndex, PortNum};
use snin_mad::Hex16;
use snin_mad::tables::{LINEAR_BLOCK, MULTICAST_BLOCK};
use snin_mad::{Attribute, LinearForwarding, MulticastForwarding, Status, SwitchInfo};

use super::{Outcome, Request};
use crate::fabric::Fabric;
use crate::hardware::Switch;

/// The first multicast LID (IBA 4.1.3).
const MULTICAST: u16 = 0xC000;

impl Fabric {
    fn switch(&mut self, request: &Request<'_>) -> Result<&mut Switch, Status> {
        let node = &mut self.nodes[request.node as usize];
        node.switch.as_deref_mut().ok_or(Status::BAD_METHOD_ATTRIBUTE)
    }

    /// IBA 14.2.5.4.
    pub(super) fn switch_info_attribute(&mut self, request: &mut Request<'_>) -> Outcome {
        let ports = self.nodes[request.node as usize].ports;
        let switch = self.switch(request)?;
        request.only_one()?;
        if request.set {
            let new = SwitchInfo::view(SwitchInfo::data(&request.mad.0));
            let info = &mut switch.info;
            let top = new.linear_fdb_top();
            if top.0 > 0 && top.0 >= info.linear_fdb_cap {
                return Err(Status::BAD_VALUE);
            }
            let multicast_top = new.multicast_fdb_top();
            let end = MULTICAST + info.multicast_fdb_cap;
            if multicast_top.0 >= end && info.multicast_fdb_cap > 0 {
                return Err(Status::BAD_VALUE);
            }
            // What a random table would need (RandomFDBCap is 0) is ignored.
            info.linear_fdb_top = top;
            info.life_time = new.life_time();
            if info.multicast_fdb_cap > 0 {
                let port = |port: PortNum| if port.0 <= ports { port } else { PortNum(0) };
                info.multicast_fdb_top = multicast_top;
                info.default_multicast_primary_port = port(new.default_multicast_primary_port());
                info.default_multicast_not_primary_port =
                    port(new.default_multicast_not_primary_port());
            }
            if new.port_state_change() {
                info.port_state_change = false;
            }
        }
        request.mad.put(&switch.info);
        Ok(())
    }

    /// IBA 14.2.5.10. A block counts if it begins within the table; entries of the last one that lie beyond
    /// are read as "drop" and written to nowhere.
    pub(super) fn linear_forwarding(&mut self, request: &mut Request<'_>) -> Outcome {
        let switch = self.switch(request)?;
        let cap = usize::from(switch.info.linear_fdb_cap);
        let first = usize::try_from(request.modifier).unwrap_or(cap).saturating_mul(LINEAR_BLOCK);
        if first >= cap {
            return Err(Status::BAD_VALUE);
        }
        let data = LinearForwarding::data_mut(&mut request.mad.0);
        let end = (first + LINEAR_BLOCK).min(cap);
        if request.set {
            if switch.linear.len() < end {
                switch.linear.resize(end, PortNum::NONE.0);
            }
            switch.linear[first..end].copy_from_slice(&data[..end - first]);
        }
        data.fill(PortNum::NONE.0);
        let held = end.min(switch.linear.len());
        if let Some(entries) = switch.linear.get(first..held) {
            data[..entries.len()].copy_from_slice(entries);
        }
        Ok(())
    }

    /// IBA 14.2.5.12. The modifier's top four bits choose 16 ports, its low nine the block.
    pub(super) fn multicast_forwarding(&mut self, request: &mut Request<'_>) -> Outcome {
        let ports = self.nodes[request.node as usize].ports;
        let switch = self.switch(request)?;
        let cap = usize::from(switch.info.multicast_fdb_cap);
        if cap == 0 {
            return Err(Status::BAD_METHOD_ATTRIBUTE);
        }
        let position = (request.modifier >> 28) as usize;
        let block = request.modifier as usize & 0xFFF_FFFF;
        let first = block * MULTICAST_BLOCK;
        if position > usize::from(ports) / 16 || first >= cap {
            return Err(Status::BAD_VALUE);
        }
        let end = (first + MULTICAST_BLOCK).min(cap);
        let written = MulticastForwarding::view(MulticastForwarding::data(&request.mad.0)).masks();
        if request.set {
            if switch.multicast.len() < end {
                switch.multicast.resize(end, [0; 16]);
            }
            for (entry, mask) in switch.multicast[first..end].iter_mut().zip(written) {
                entry[position] = mask.0;
            }
        }
        let mut masks = [Hex16(0); MULTICAST_BLOCK];
        let held = end.min(switch.multicast.len());
        for (mask, entry) in masks.iter_mut().zip(switch.multicast.get(first..held).unwrap_or(&[]))
        {
            *mask = Hex16(entry[position]);
        }
        request.mad.put(&MulticastForwarding { masks });
        Ok(())
    }

    /// What a switch forwards of multicast: as far as its table, and its MulticastFDBTop where that is not 0.
    pub fn multicast_table(&self, switch: NodeIndex) -> MulticastTable {
        let mut table = MulticastTable::default();
        let node = &self.nodes[switch.index()];
        let Some(switch) = node.switch.as_deref() else { return table };
        let exists = |port: &PortNum| port.0 <= node.ports;
        let top = switch.info.multicast_fdb_top;
        let forwards = |mlid: Mlid| top == Lid::NONE || mlid.lid() <= top;
        let mlids = (0..).map_while(Mlid::nth).take_while(|&mlid| forwards(mlid));
        for (mlid, masks) in mlids.zip(&switch.multicast) {
            let mut ports = PortMask::EMPTY;
            (0..).zip(masks).for_each(|(position, &mask)| ports.set_position(position, mask));
            table.set(mlid, ports.iter().filter(exists).collect());
        }
        table
    }

    /// That of every switch.
    pub fn multicast_tables(&self) -> Vec<MulticastTable> {
        let switches = (0..self.nodes.len() as u32).map(NodeIndex);
        let is_switch = |node: &NodeIndex| self.nodes[node.index()].is_switch();
        switches.take_while(is_switch).map(|switch| self.multicast_table(switch)).collect()
    }
}
