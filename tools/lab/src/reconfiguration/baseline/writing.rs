//! The baseline's writes: ports closed, tables, ports opened.

use snin_fabric::{ForwardingTable, Guid, Lid, PortNum};
use snin_mad::{DrPath, LinearForwarding, PortState, SwitchInfo};
use snin_protocol::Time;

use super::{Baseline, Factor, What, quiet};

/// SwitchInfo:LifeTimeValue that is written, besides the top.
const LIFE_TIME: u8 = 18;

impl Baseline {
    /// Every port that is up is set to INITIALIZE.
    pub(super) fn close(&mut self, now: Time) {
        for guid in self.order.clone() {
            self.set_ports(guid, PortState::Initialize, now);
        }
    }

    /// Every port that is up and is not ACTIVE yet is set to ACTIVE.
    pub(super) fn open(&mut self, now: Time) {
        for guid in self.order.clone() {
            self.set_ports(guid, PortState::Active, now);
        }
    }

    fn set_ports(&mut self, guid: Guid, state: PortState, now: Time) {
        let partly =
            self.has(Factor::Region) || self.has(Factor::Overlap) || self.has(Factor::Open);
        let Some(node) = self.nodes.get_mut(&guid) else { return };
        let (path, own, lid) = (node.path, node.own, node.lid);
        let mut writes = Vec::new();
        for (&port, info) in &mut node.ports {
            let is_so = partly && info.state == state;
            if port == 0 || info.state == PortState::Down || is_so {
                continue;
            }
            let mut new = quiet(info.clone(), state);
            if port == own {
                new.lid = lid;
            }
            info.state = state;
            writes.push((port, new));
        }
        if self.has(Factor::Traps) {
            let master = self.nodes[&self.order[0]].lid;
            for (_, new) in writes.iter_mut().filter(|(port, _)| *port == own) {
                new.master_sm_lid = master;
            }
        }
        for (port, new) in writes {
            self.set(What::Write, path, port.into(), &new, now);
        }
    }

    /// Every switch's table, or what differs of it.
    pub(super) fn distribute(&mut self, now: Time) {
        let switches: Vec<(Guid, DrPath)> = self.switches().collect();
        let tables = std::mem::take(&mut self.tables);
        let hosts: Vec<Guid> =
            self.order.iter().copied().filter(|guid| !self.nodes[guid].switch).collect();
        for (&(guid, path), table) in switches.iter().zip(tables) {
            self.write_table(guid, path, table, now);
        }
        self.held.retain(|guid, _| self.nodes.contains_key(guid));
        if self.has(Factor::Overlap) {
            for host in hosts {
                self.set_ports(host, PortState::Active, now);
            }
            for (guid, _) in switches {
                if !self.unwritten.contains_key(&guid) {
                    self.set_ports(guid, PortState::Active, now);
                }
            }
        }
    }

    fn write_table(&mut self, guid: Guid, path: DrPath, table: ForwardingTable, now: Time) {
        let top = Lid(table.len().saturating_sub(1) as u16);
        let held = self.held.get(&guid).filter(|_| self.has(Factor::Blocks)).cloned();
        let mut writes = 0;
        for block in 0..=top.0 / LinearForwarding::EMPTY.ports.len() as u16 {
            if held.as_ref().is_some_and(|held| held.block(block) == table.block(block)) {
                continue;
            }
            let ports = table.block(block).map(PortNum);
            self.set(What::Table(guid), path, block.into(), &LinearForwarding { ports }, now);
            writes += 1;
        }
        let same_top = held.as_ref().is_some_and(|held| held.len() == table.len());
        if !self.has(Factor::Region) || self.changed.contains(&guid) || !same_top {
            // The write clears PortStateChange too.
            let (linear_fdb_top, port_state_change, life_time) = (top, true, LIFE_TIME);
            let rest = SwitchInfo::default();
            let info = SwitchInfo { linear_fdb_top, port_state_change, life_time, ..rest };
            self.set(What::Table(guid), path, 0, &info, now);
            writes += 1;
        }
        if writes > 0 {
            self.unwritten.insert(guid, writes);
        }
        self.held.insert(guid, table);
    }

    /// A write of a switch's table is done with.
    pub(super) fn written(&mut self, guid: Guid, now: Time) {
        let Some(left) = self.unwritten.get_mut(&guid) else { return };
        *left -= 1;
        if *left == 0 {
            self.unwritten.remove(&guid);
            if self.has(Factor::Overlap) {
                self.set_ports(guid, PortState::Active, now);
            }
        }
    }
}
