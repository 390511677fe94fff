//! Which addresses a path is answered with, and in which order.
//!
//! The address is the choice of the routing tree. What a pair is granted for good comes first, then the
//! address of the slice that both ends are in, then the base address, then the trees in order. An
//! address whose tree lacks a cable at either end's leaf is left out: ordinary traffic to it would be led
//! around, over links that others were granted. Only where no tree is left between two ports the base address
//! is answered all the same, since the tables lead there.

use snin_fabric::{Lid, NodeIndex, PortIndex, TreeId};

use super::At;
use crate::world::World;
use snin_sm_database::fabric_state::Published;
use snin_sm_database::records::{Pins, Port, Slices};

/// The addresses that were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub(super) from: Option<Lid>,
    pub(super) to: Option<Lid>,
}

/// Pairs of source and destination address, the best first.
pub(super) fn addresses(
    from: At<'_>,
    to: At<'_>,
    wish: Wish,
    world: &World<'_>,
) -> Vec<(Lid, Lid)> {
    let Some(view) = world.view else { return Vec::new() };
    let (source, destination) = (from.1, to.1);
    // A requester that names both addresses gets these.
    if let (Some(from), Some(to)) = (wish.from, wish.to) {
        return vec![(from, to)];
    }
    // The answer's way back is along the same tree: the same place among the other end's addresses.
    let room = source.lmc.addresses() as u16;
    let back = |offset: u16| {
        wish.from.unwrap_or(Lid(source.base.0 + if offset < room { offset } else { 0 }))
    };
    if let Some(to) = wish.to {
        return vec![(back(to.0 - destination.base.0), to)];
    }
    let base = (back(0), destination.base);
    if from.0 == to.0 {
        return vec![base];
    }
    let Some(ends) = Ends::of(view, source.base, destination.base) else { return vec![base] };
    let mut found: Vec<(Lid, Lid)> = Vec::new();
    let preferred = preferred(source, destination, world);
    let all = 0..destination.lmc.addresses() as u16;
    for offset in preferred.chain(all).filter(|&offset| ends.may_use(view, offset)) {
        let pair = (back(offset), Lid(destination.base.0 + offset));
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    if found.is_empty() {
        found.push(base);
    }
    found
}

/// The service level by which something has to be sent, if any: where each path has a lane.
pub(super) fn lane(from: At<'_>, to: At<'_>, world: &World<'_>) -> Option<u8> {
    let view = world.view?;
    let lanes = view.routing().lanes.as_ref().filter(|lanes| lanes.count() > 1)?;
    let topology = view.topology();
    let switch = |at: At<'_>| {
        let (port, _) = view.addresses().owner(at.1.base)?;
        let node = topology.port(port).node;
        if topology.is_switch(node) { Some(node) } else { topology.peer_node(port) }
    };
    Some(lanes.of(switch(from)?, switch(to)?))
}

/// The service level of what is sent to an address: that of granted traffic along a tree's own address and where
/// the controller gave the pair this one, 0 to all others.
pub(super) fn level(from: At<'_>, to: At<'_>, lid: Lid, world: &World<'_>) -> u8 {
    let Some(view) = world.view.filter(|view| view.granted_sl() > 0) else { return 0 };
    let (source, destination) = (from.1, to.1);
    let Some(offset) = lid.0.checked_sub(destination.base.0) else { return 0 };
    let is_own = || {
        let (port, _) = view.addresses().owner(lid)?;
        Some(view.dlid(port, view.tree(port, offset)?)?.0 == lid)
    };
    let is_granted = offset > 0 && is_own() == Some(true)
        || preferred(source, destination, world).any(|preferred| preferred == offset);
    if is_granted { view.granted_sl() } else { 0 }
}

/// What the controller gave a pair for good, and the address of the slice that both are in.
fn preferred(
    source: &Port,
    destination: &Port,
    world: &World<'_>,
) -> impl Iterator<Item = u16> + use<> {
    let (from, to) = (source.guid.unwrap_or_default(), destination.guid.unwrap_or_default());
    let pin = world.database.get::<Pins>(&(from, to)).copied();
    let slice = |guid| world.database.get::<Slices>(&guid).copied();
    let slice = slice(from).zip(slice(to)).filter(|(a, b)| a.job == b.job).map(|(_, to)| to.lid);
    let (base, room) = (destination.base.0, destination.lmc.addresses());
    // An address that is no longer the port's is no preference.
    let offset =
        move |lid: Lid| lid.0.checked_sub(base).filter(|&offset| usize::from(offset) < room);
    pin.into_iter().chain(slice).filter_map(offset)
}

/// Both ends as the view has them.
struct Ends {
    to: PortIndex,
    leaves: Option<[NodeIndex; 2]>,
}

impl Ends {
    fn of(view: &dyn Published, from: Lid, to: Lid) -> Option<Self> {
        let (from, _) = view.addresses().owner(from)?;
        let (to, _) = view.addresses().owner(to)?;
        let leaf = |port| view.topology().peer_node(port);
        let leaves = leaf(from).zip(leaf(to)).filter(|(a, b)| a != b).map(|(a, b)| [a, b]);
        Some(Self { to, leaves })
    }

    /// Whether the address is the base address or a tree's own, and its tree has its cables at both leaves.
    fn may_use(&self, view: &dyn Published, offset: u16) -> bool {
        let Some(tree) = view.tree(self.to, offset) else { return offset == 0 };
        if offset < view.routing().plan.first_offset() {
            return self.is_whole(view, tree);
        }
        let own = view.dlid(self.to, tree).zip(view.addresses().base(self.to));
        let alias = own.is_none_or(|(dlid, base)| dlid.0.0 - base.0 != offset);
        !alias && self.is_whole(view, tree)
    }

    fn is_whole(&self, view: &dyn Published, tree: TreeId) -> bool {
        let usable = |leaf: &NodeIndex| !view.unusable().contains(&(*leaf, tree));
        self.leaves.iter().flatten().all(usable)
    }
}
