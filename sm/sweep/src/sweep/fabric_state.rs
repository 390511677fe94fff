//! The sweep as administration knows it: what ports and switches hold, and are to hold.

use std::collections::BTreeMap;

use snin_fabric::multicast::{BLOCK, POSITION};
use snin_fabric::{Guid, PortNum};
use snin_mad::PKey;
use snin_sm_database::fabric_state::FabricState;
use snin_sm_database::partition_plan::PartitionPlan;

use super::Sweep;
use super::lanes::every;
use crate::partitioning::key_plans;

impl FabricState for Sweep {
    fn own_guid(&self) -> Option<Guid> {
        Self::own_guid(self)
    }

    fn is_settled(&self) -> bool {
        Self::is_settled(self)
    }

    fn partitions(&self) -> PartitionPlan<'_> {
        Self::partitions(self)
    }

    fn wanted_keys(&self) -> BTreeMap<Guid, Vec<PKey>> {
        key_plans(self.partitions(), &self.graph).into_iter().collect()
    }

    fn multicast_capacity(&self) -> Option<u16> {
        Self::multicast_capacity(self)
    }

    fn linear_block(&self, switch: Guid, block: u16) -> Option<[u8; 64]> {
        let node = self.graph.find(switch)?;
        self.graph.node(node).shadow.block(block).copied()
    }

    fn mask_blocks(&self, switch: Guid) -> Vec<(u16, u8, [u16; 32])> {
        let Some(table) = self.multicast_table(switch) else { return Vec::new() };
        let Some(top) = table.top() else { return Vec::new() };
        let blocks = 0..=(top.index() / BLOCK) as u16;
        let positions = (PortNum::NONE.index() + 1).div_ceil(POSITION) as u8;
        let all = blocks.flat_map(|block| (0..positions).map(move |position| (block, position)));
        all.map(|(block, position)| (block, position, table.block(block, position)))
            .filter(|(.., masks)| masks.iter().any(|&mask| mask != 0))
            .collect()
    }

    fn has_unread_lanes(&self, node: Option<Guid>) -> bool {
        self.nodes_asked(node).any(|id| every(&self.graph, id).any(|(_, is_unread)| is_unread))
    }
}
