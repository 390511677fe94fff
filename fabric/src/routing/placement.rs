//! Where a fabric's real addresses are not the planned ones: ports keep base addresses that they had before,
//! and trees keep their places among them while roots come and go.

use super::{AddressPlan, Routing, gaps};
use crate::{Addresses, Dlid, ForwardingTable, Lid, Lmc, PortIndex, PortNum, Topology, TreeId};

/// At which offset from a port's base address each tree's address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    of_tree: Vec<u16>,
    /// By offset: the planner's offset whose column lies there.
    planned: Vec<u16>,
}

impl Placement {
    /// The planner's own.
    pub fn planned_by(plan: &AddressPlan, trees: usize) -> Self {
        let first = plan.first_offset();
        let planned = (0..plan.lmc().addresses() as u16).collect();
        Self { of_tree: (first..first + trees as u16).collect(), planned }
    }

    /// By tree, where all ports have the same trees; the planner's own where they have not.
    pub fn new(of_tree: Vec<u16>, plan: &AddressPlan) -> Self {
        if plan.is_rotated() {
            return Self::planned_by(plan, of_tree.len());
        }
        let first = plan.first_offset();
        let mut planned: Vec<u16> = (0..plan.lmc().addresses() as u16).collect();
        for (place, planned) in planned.iter_mut().enumerate().skip(usize::from(first)) {
            if let Some(tree) = of_tree.iter().position(|&of| usize::from(of) == place) {
                *planned = first + tree as u16;
            } else if let Some(alias) = (place - usize::from(first)).checked_rem(of_tree.len()) {
                *planned = first + alias as u16;
            }
        }
        Self { of_tree, planned }
    }

    /// By tree.
    pub fn places(&self) -> &[u16] {
        &self.of_tree
    }

    /// The place of a tree.
    pub fn of(&self, tree: TreeId) -> Option<u16> {
        self.of_tree.get(tree.index()).copied()
    }

    /// Whether every tree has the place that the planner gave it.
    pub fn is_planned(&self, plan: &AddressPlan) -> bool {
        let planned = plan.first_offset()..;
        self.of_tree.iter().zip(planned).all(|(&place, planned)| planned == place)
    }

    /// The tree that the address `base + offset` of an end port leads along.
    pub fn tree(
        &self,
        routing: &Routing,
        addresses: &Addresses,
        port: PortIndex,
        offset: u16,
    ) -> Option<TreeId> {
        let plan = &routing.plan;
        addresses.base(port)?;
        if offset < plan.first_offset() {
            return plan.home(port);
        }
        plan.tree(port, *self.planned.get(usize::from(offset))?)
    }

    /// The address of a host port along a tree; aliases are never given.
    pub fn dlid(
        &self,
        routing: &Routing,
        addresses: &Addresses,
        port: PortIndex,
        tree: TreeId,
    ) -> Option<Dlid> {
        let (base, plan) = (addresses.base(port)?, &routing.plan);
        let planned = plan.dlid(port, tree)?.0.0 - plan.addresses().base(port)?.0;
        let place = if plan.is_rotated() { planned } else { self.of(tree)? };
        Some(Dlid(Lid(base.0.checked_add(place)?)))
    }

    /// The planned tables with every column moved to the address that its port and tree really have.
    pub fn tables(
        &self,
        topology: &Topology,
        routing: &Routing,
        addresses: &Addresses,
    ) -> Vec<ForwardingTable> {
        let plan = &routing.plan;
        let planned = |port: PortIndex, offset: u16| {
            let home = if offset == 0 { plan.home_offset(port) } else { None };
            let planned = || self.planned.get(usize::from(offset)).copied();
            home.or_else(planned).unwrap_or(offset)
        };
        let columns: Vec<(Lid, Lid)> = addresses
            .iter()
            .filter_map(|(port, base, lmc)| Some((port, base, plan.addresses().base(port)?, lmc)))
            .flat_map(|(port, base, canonical, lmc)| {
                (0..lmc.addresses() as u16).map(move |offset| {
                    let single = lmc == Lmc::ZERO;
                    let from = if single { offset } else { planned(port, offset) };
                    (Lid(base.0 + offset), Lid(canonical.0 + from))
                })
            })
            .collect();
        let renamed = |table: &ForwardingTable| {
            let mut entries = vec![PortNum::NONE.0; addresses.top().index() + 1];
            columns.iter().for_each(|&(lid, planned)| entries[lid.index()] = table.get(planned).0);
            ForwardingTable::of_entries(&entries)
        };
        let mut tables: Vec<ForwardingTable> = routing.tables.iter().map(renamed).collect();
        if let (Ok(clos), Some(ranks)) = (&routing.shape, &routing.ranks) {
            let grown = (ranks, &routing.forest);
            gaps::spread(topology, clos, grown, plan, addresses, &mut tables);
        }
        tables
    }
}

/// A number that two who computed tables of the same fabric compare: FNV-1a over every switch's GUID and every
/// entry of its table, in order. Equal tables have equal numbers; it is no protection against forgery.
pub fn tables_hash(topology: &Topology, tables: &[ForwardingTable]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    for (switch, table) in topology.switches().zip(tables) {
        topology.node(switch).guid.0.to_be_bytes().into_iter().for_each(&mut add);
        for (lid, port) in table.iter() {
            lid.0.to_be_bytes().into_iter().for_each(&mut add);
            add(port.0);
        }
    }
    hash
}
