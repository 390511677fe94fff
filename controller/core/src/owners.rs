//! Is a packer's [`Certificate`] true? Judged by the granted connections and what the fabric is, without
//! anything that the packer packs by: each connection must own each link of its way, and no connection any other
//! link. As a link in a certificate has one owner, no two connections then share one.

use snin_fabric::TreeId;

use crate::packing::{Certificate, ConnectionId, Direction, LeafId, Link, Shape};

/// A connection and the tree that it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Its number.
    pub id: ConnectionId,
    /// The leaf it comes from.
    pub source: LeafId,
    /// The leaf it goes to.
    pub destination: LeafId,
    /// Its tree.
    pub tree: TreeId,
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrue {
    /// A connection does not own a link of its way.
    #[error("{link:?} on the way of {connection:?} belongs to {owner:?}")]
    NotOwner {
        /// The link.
        link: Link,
        /// The connection that needs it.
        connection: ConnectionId,
        /// Who owns it instead.
        owner: Option<ConnectionId>,
    },
    /// Connections own links that are not on their ways.
    #[error("{owned} links have an owner, but {used} are on somebody's way")]
    Unused {
        /// Links with an owner.
        owned: usize,
        /// Links on the ways of all connections.
        used: usize,
    },
}

/// Checks a certificate; how many links have an owner.
///
/// # Errors
/// The first thing that is wrong.
///
/// # Panics
/// Where a connection names a leaf or tree that the fabric does not have.
pub fn check(
    shape: &Shape,
    granted: impl IntoIterator<Item = Granted>,
    certificate: &Certificate,
) -> Result<usize, Untrue> {
    let mut used = 0;
    for Granted { id, source, destination, tree } in granted {
        let mut owns = |link| {
            used += 1;
            let owner = certificate.owner(link);
            let is_owner = owner == Some(id);
            is_owner.then_some(()).ok_or(Untrue::NotOwner { link, connection: id, owner })
        };
        let group = shape.group_of(tree) as u32;
        owns(Link::Leaf(source, group, Direction::Up))?;
        owns(Link::Leaf(destination, group, Direction::Down))?;
        let pods = shape.pod_of(source).zip(shape.pod_of(destination));
        // Towards the cores it goes only where it leaves its pod.
        if let Some((up, down)) = pods.filter(|(up, down)| up != down) {
            owns(Link::Pod(up as u32, tree, Direction::Up))?;
            owns(Link::Pod(down as u32, tree, Direction::Down))?;
        }
    }
    let owned = certificate.owned();
    if owned == used { Ok(used) } else { Err(Untrue::Unused { owned, used }) }
}
