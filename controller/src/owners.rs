//! Is a packer's [`Certificate`] true? Judged by the granted connections and what the fabric is, without
//! anything that the packer packs by: each connection must own each link of its way, and nobody anything
//! else. As a link in a certificate has one owner, no two connections then share one.

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
    /// Somebody owns links that are on nobody's way.
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
    for connection in granted {
        for link in links(shape, &connection).into_iter().flatten() {
            used += 1;
            let owner = certificate.owner(link);
            if owner != Some(connection.id) {
                return Err(Untrue::NotOwner { link, connection: connection.id, owner });
            }
        }
    }
    let owned = certificate.owned();
    if owned == used { Ok(used) } else { Err(Untrue::Unused { owned, used }) }
}

/// The links of a connection's way; those to the cores only where it leaves its pod.
fn links(shape: &Shape, connection: &Granted) -> [Option<Link>; 4] {
    let &Granted { source, destination, tree, .. } = connection;
    let group = shape.group_of(tree) as u32;
    let ends = shape.pod_of(source).zip(shape.pod_of(destination)).filter(|(up, down)| up != down);
    let pod = |pod: usize, direction| Link::Pod(pod as u32, tree, direction);
    [
        Some(Link::Leaf(source, group, Direction::Up)),
        Some(Link::Leaf(destination, group, Direction::Down)),
        ends.map(|(up, _)| pod(up, Direction::Up)),
        ends.map(|(_, down)| pod(down, Direction::Down)),
    ]
}
