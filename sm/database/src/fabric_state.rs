//! The words between the sweep and administration: the fabric as it is used, and what switches hold beside it.

use std::collections::BTreeMap;

use snin_fabric::view::View;
use snin_fabric::{Guid, Lid, PortIndex, TreeId};
use snin_mad::PKey;

use crate::partition_plan::PartitionPlan;

/// The fabric as the sweep last published it, with what answers to hosts depend on besides.
pub trait Published: View {
    /// The address of the subnet manager.
    fn manager(&self) -> Lid;

    /// The tree that the address `base + offset` of a host port leads along.
    fn tree(&self, port: PortIndex, offset: u16) -> Option<TreeId>;
}

/// What the sweep knows of ports and switches that no record of the database says.
pub trait FabricState {
    /// The port at which this manager sits.
    fn own_guid(&self) -> Option<Guid>;

    /// Whether the fabric is as it was meant to be, for all that is known.
    fn is_settled(&self) -> bool;

    /// Which partition table each port is to hold.
    fn partitions(&self) -> PartitionPlan<'_>;

    /// Partition tables as they are to be, of ports that are there.
    fn wanted_keys(&self) -> BTreeMap<Guid, Vec<PKey>>;

    /// The most groups that every switch with a multicast forwarding table can hold; none without such switches.
    fn multicast_capacity(&self) -> Option<u16>;

    /// A block of a switch's forwarding table as the switch holds it, where it was read or written.
    fn linear_block(&self, switch: Guid, block: u16) -> Option<[u8; 64]>;

    /// The blocks of a switch's multicast table that are known to hold something: block, position, masks.
    fn mask_blocks(&self, switch: Guid) -> Vec<(u16, u8, [u16; 32])>;

    /// Whether the node, or some node, has tables of lanes that were never read.
    fn has_unread_lanes(&self, node: Option<Guid>) -> bool;
}
