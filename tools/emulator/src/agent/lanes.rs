//! What managers wrote of service levels and lanes, as the data plane takes it.

use snin_fabric::PortIndex;
use snin_mad::{SlToVl, Table, VlArbitration};

use crate::data::{self, PortLanes, VlWeight};
use crate::fabric::Fabric;

/// The VL of what is discarded.
const NONE: u8 = 15;
/// The weight of every lane at a port whose arbitration tables no manager wrote.
const EVEN: u8 = 64;

impl Fabric {
    /// The lanes of every port as they are now, for [`Network::set_lanes`](data::Network::set_lanes). A VL that is
    /// not operational is none. A port whose arbitration tables no manager wrote lets all its lanes take turns.
    pub fn lanes(&self) -> Vec<PortLanes> {
        self.topology().ports().map(|port| self.lanes_of(port)).collect()
    }

    fn lanes_of(&self, port: PortIndex) -> PortLanes {
        let info = self.port_info(port);
        let vls = info.operational_vls.data_vls().unwrap_or(1);
        let node = self.node_of(port.0);
        let inputs = if node.is_switch() { 0..=node.ports } else { 0..=0 };
        let mapping = inputs.map(|input| {
            // Every value of four bits is a VL.
            let table = SlToVl::parse(&self.sl_to_vl_of(port.0, input));
            let held = table.map_or([NONE; 16], |table| table.vls);
            held.map(|vl| if vl < vls { vl } else { NONE })
        });
        let quarters = |quarters: [u16; 2]| -> Vec<VlWeight> {
            let written = quarters.into_iter().filter_map(|quarter| self.turns(port.0, quarter));
            let tables = written.filter_map(|bytes| VlArbitration::parse(&bytes).ok());
            let entries = tables.flat_map(|table| table.vls.into_iter().zip(table.weights));
            entries
                .filter(|&(_, weight)| weight > 0)
                .map(|(vl, weight)| VlWeight { vl, weight })
                .collect()
        };
        let (mut low, high) = (quarters([1, 2]), quarters([3, 4]));
        if low.is_empty() && high.is_empty() {
            low = (0..vls).map(|vl| VlWeight { vl, weight: EVEN }).collect();
        }
        let arbitration = data::VlArbitration { high, low, limit: info.vl_high_limit };
        PortLanes { mapping: mapping.collect(), arbitration }
    }
}
