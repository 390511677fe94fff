//! Tables of a port, block by block: GUIDs, partitions, service levels, arbitration.

use std::collections::BTreeMap;

use snin_fabric::{Guid, PortIndex};
use snin_mad::tables::PARTITION_BLOCK;
use snin_mad::{Attribute, GuidInfo, PKey, PKeyTable, SlToVl, Status, Table, VlArbitration};

use super::{Outcome, Request};
use crate::fabric::Fabric;
use crate::port_tables::PortTables;

const GUID_BLOCK: usize = 8;
/// Entries of a quarter of the arbitration table (IBA 14.2.5.9).
const ARBITRATION_BLOCK: u8 = 32;

impl Fabric {
    fn tables_mut(&mut self, port: u32) -> &mut PortTables {
        self.ports[port as usize].tables.get_or_insert_default()
    }

    fn written<V: Copy, K: Ord>(
        &self,
        port: u32,
        table: impl Fn(&PortTables) -> &BTreeMap<K, V>,
        key: K,
    ) -> Option<V> {
        let tables = self.ports[port as usize].tables.as_deref()?;
        table(tables).get(&key).copied()
    }

    /// The port of a switch that a modifier names; an adapter's is the one that is asked.
    fn named_port(&self, request: &Request<'_>, num: u32) -> Result<u32, Status> {
        let node = &self.nodes[request.node as usize];
        if !node.is_switch() {
            return Ok(request.end);
        }
        let num = u8::try_from(num).map_err(|_| Status::BAD_VALUE)?;
        node.port(num).ok_or(Status::BAD_VALUE)
    }

    /// IBA 14.2.5.5. The first GUID is the port's own and cannot be written.
    pub(super) fn guid_info(&mut self, request: &mut Request<'_>) -> Outcome {
        let port = request.end;
        let cap = usize::from(self.ports[port as usize].view().guid_cap());
        let first = (request.modifier as usize).saturating_mul(GUID_BLOCK);
        if first >= cap {
            return Err(Status::BAD_VALUE);
        }
        let new = GuidInfo::view(GuidInfo::data(&request.mad.0)).guids();
        let mut guids = [Guid(0); GUID_BLOCK];
        for (i, guid) in guids.iter_mut().enumerate().take(cap - first) {
            let entry = (first + i) as u8;
            if request.set && entry > 0 {
                self.tables_mut(port).guids.insert(entry, new[i]);
            }
            let own = if entry == 0 { self.ports[port as usize].guid } else { Guid(0) };
            *guid = self.written(port, |tables| &tables.guids, entry).unwrap_or(own);
        }
        request.mad.put(&GuidInfo { guids });
        Ok(())
    }

    /// IBA 14.2.5.7. Entries of the last block beyond the table are read as 0 and written to nowhere.
    pub(super) fn p_key_table(&mut self, request: &mut Request<'_>) -> Outcome {
        let (num, block) = (request.modifier >> 16, request.modifier & 0xFFFF);
        let port = self.named_port(request, num)?;
        if request.set && self.ports[port as usize].refuses {
            return Err(Status::BAD_VALUE);
        }
        let cap = self.p_key_places(port);
        let first = block as usize * PARTITION_BLOCK;
        if first >= usize::from(cap) {
            return Err(Status::BAD_VALUE);
        }
        let new = PKeyTable::view(PKeyTable::data(&request.mad.0)).keys();
        let mut keys = [PKey(0); PARTITION_BLOCK];
        for (i, key) in keys.iter_mut().enumerate().take(usize::from(cap) - first) {
            let entry = (first + i) as u16;
            if request.set {
                self.tables_mut(port).p_keys.insert(entry, new[i]);
            }
            *key = self.p_key(PortIndex(port), entry);
        }
        request.mad.put(&PKeyTable { keys });
        Ok(())
    }

    /// Places of a port's P_Key table.
    fn p_key_places(&self, port: u32) -> u16 {
        let node = self.node_of(port);
        match &node.switch {
            Some(switch) if port != node.first_port => switch.info.partition_enforcement_cap,
            _ => node.partition_cap,
        }
    }

    /// Whether a port's table lets a packet with this key through: it has a key of that partition, and one of the
    /// two is a full member's (IBA 10.9.3).
    pub(crate) fn lets_through(&self, port: PortIndex, key: PKey) -> bool {
        let meets = |own: PKey| own.base() == key.base() && (own.is_full() || key.is_full());
        key.base() != 0
            && (0..self.p_key_places(port.0)).any(|entry| meets(self.p_key(port, entry)))
    }

    /// An entry of a port's P_Key table.
    pub fn p_key(&self, port: PortIndex, entry: u16) -> PKey {
        // After power on there is the default partition and no other (IBA 10.9.1.2).
        let initial = if entry == 0 { PKey::DEFAULT } else { PKey(0) };
        self.written(port.0, |tables| &tables.p_keys, entry).unwrap_or(initial)
    }

    /// IBA 14.2.5.8. Several tables in one SMP (OptimizedSLtoVLMappingProgramming) are not supported.
    pub(super) fn sl_to_vl(&mut self, request: &mut Request<'_>) -> Outcome {
        let (input, output) = (request.modifier >> 8, request.modifier & 0xFF);
        let port = self.named_port(request, output)?;
        self.named_port(request, input)?;
        let input = if self.nodes[request.node as usize].is_switch() { input as u8 } else { 0 };
        if request.set {
            let new = *SlToVl::data(&request.mad.0);
            self.tables_mut(port).sl_to_vl.insert(input, new);
        }
        *SlToVl::data_mut(&mut request.mad.0) = self.sl_to_vl_of(port, input);
        Ok(())
    }

    /// A port's table for what comes in by `input`.
    pub(super) fn sl_to_vl_of(&self, port: u32, input: u8) -> [u8; 64] {
        let initial = || {
            let vls = self.ports[port as usize].view().vl_cap().data_vls().unwrap_or(1);
            let mut bytes = [0; 64];
            SlToVl { vls: std::array::from_fn(|sl| sl as u8 % vls) }.emit(&mut bytes);
            bytes
        };
        self.written(port, |tables| &tables.sl_to_vl, input).unwrap_or_else(initial)
    }

    /// A quarter of a port's arbitration tables, if anybody wrote it.
    pub(super) fn turns(&self, port: u32, quarter: u16) -> Option<[u8; 64]> {
        self.written(port, |tables| &tables.vl_arbitration, quarter)
    }

    /// IBA 14.2.5.9: quarters 1 and 2 are the low priority table, 3 and 4 the high one. Entries beyond the
    /// port's capability are read as 0 and written to nowhere.
    pub(super) fn vl_arbitration(&mut self, request: &mut Request<'_>) -> Outcome {
        let (quarter, num) = ((request.modifier >> 16) as u16, request.modifier & 0xFFFF);
        let port = self.named_port(request, num)?;
        let view = self.ports[port as usize].view();
        let (cap, before) = match quarter {
            1 => (view.vl_arbitration_low_cap(), 0),
            2 => (view.vl_arbitration_low_cap(), ARBITRATION_BLOCK),
            3 => (view.vl_arbitration_high_cap(), 0),
            4 => (view.vl_arbitration_high_cap(), ARBITRATION_BLOCK),
            _ => return Err(Status::BAD_VALUE),
        };
        if before >= cap {
            return Err(Status::BAD_VALUE);
        }
        let bytes = usize::from((cap - before).min(ARBITRATION_BLOCK)) * 2;
        if request.set {
            let mut new = *VlArbitration::data(&request.mad.0);
            new[bytes..].fill(0);
            self.tables_mut(port).vl_arbitration.insert(quarter, new);
        }
        *VlArbitration::data_mut(&mut request.mad.0) = self.turns(port, quarter).unwrap_or([0; 64]);
        Ok(())
    }
}
