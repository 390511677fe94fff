//! Which path a queue pair takes: the one thing in which InfiniBand and RoCE differ.
//!
//! On InfiniBand the destination's LID is its base LID plus an offset, and the offset is the choice of
//! tree. Both ends use the same one: hardware drops what comes from a LID it does not expect (IBA 9.6), and
//! the acknowledgements then come back along the same tree. On RoCE every port has one address per tree
//! whose low 16 bits are what the LID would be.

use std::fmt;

use snin_fabric::{Dlid, Lid, Lmc};

/// A 128-bit port address: what GRH and RoCE use (IBA 4.1.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The low 16 bits: on RoCE, what the LID would be.
    pub const fn low(self) -> u16 {
        u16::from_be_bytes([self.0[14], self.0[15]])
    }

    /// The address with other low 16 bits.
    #[must_use]
    pub const fn with_low(mut self, low: u16) -> Self {
        [self.0[14], self.0[15]] = low.to_be_bytes();
        self
    }

    /// Whether it holds an IPv4 address, and so belongs to RoCE v2 over IPv4.
    pub const fn is_ipv4(self) -> bool {
        matches!(self.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..])
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The addresses of the own port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalAddresses {
    /// InfiniBand: base LID and how many more there are.
    Lids {
        /// The first.
        base: Lid,
        /// 2^LMC of them.
        lmc: Lmc,
    },
    /// RoCE: what is in the GID table, by index.
    Gids {
        /// The base address.
        base: Gid,
        /// All.
        table: Vec<(u8, Gid)>,
    },
}

/// The address by which a peer is known: its base address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerAddress {
    /// InfiniBand.
    Lid(Lid),
    /// RoCE.
    Gid(Gid),
}

/// How traffic is marked besides its address.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Service {
    /// Service level (IBA 7.6.5), 0 to 15; on RoCE the priority.
    pub level: u8,
    /// The most bit/s; 0: as fast as the link.
    pub rate: u64,
}

/// All that an address vector says of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    /// Along the tree that the LID stands for.
    InfiniBand {
        /// Where to.
        dlid: Dlid,
        /// Which of the own LIDs, counted from the base.
        src_path_bits: u8,
        /// How it is marked.
        service: Service,
    },
    /// From and to the addresses that stand for the tree.
    Roce {
        /// Where to.
        dgid: Gid,
        /// Which of the own addresses.
        sgid_index: u8,
        /// How it is marked.
        service: Service,
    },
}

/// A path that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    /// The peer's address is below its base.
    #[error("address {dlid} is none of the peer's: its base is {base}")]
    BelowBase {
        /// Asked for.
        dlid: u16,
        /// Where the peer's begin.
        base: u16,
    },
    /// Both ends use the same offset, and the own port has not as many addresses.
    #[error("offset {offset} needs LMC {}, but the own port has {addresses} addresses", lmc_for(*offset))]
    OwnTooFew {
        /// The offset.
        offset: u16,
        /// How many there are.
        addresses: usize,
    },
    /// No own address stands for the tree.
    #[error("the own port has no address {0}: `ip address add` it")]
    NoOwnAddress(Gid),
    /// One end is on InfiniBand and the other on Ethernet.
    #[error("the peer is on another kind of link")]
    OtherLinkLayer,
}

const fn lmc_for(offset: u16) -> u32 {
    u16::BITS - offset.leading_zeros()
}

/// The path to the peer's address `dlid`, or to its base address.
///
/// # Errors
/// When the peer has no such address, or the own port none with the same offset.
pub fn path(
    own: &LocalAddresses,
    peer: PeerAddress,
    dlid: Option<Dlid>,
    service: Service,
) -> Result<Path, PathError> {
    match (own, peer) {
        (LocalAddresses::Lids { lmc, .. }, PeerAddress::Lid(base)) => {
            let dlid = dlid.unwrap_or(Dlid(base));
            let offset = offset(dlid.0.0, base.0)?;
            let addresses = lmc.addresses();
            match u8::try_from(offset) {
                Ok(src_path_bits) if usize::from(offset) < addresses => {
                    Ok(Path::InfiniBand { dlid, src_path_bits, service })
                }
                _ => Err(PathError::OwnTooFew { offset, addresses }),
            }
        }
        (LocalAddresses::Gids { base: own_base, table }, PeerAddress::Gid(base)) => {
            let low = dlid.map_or_else(|| base.low(), |dlid| dlid.0.0);
            let offset = offset(low, base.low())?;
            let source = own_base.with_low(own_base.low().wrapping_add(offset));
            let found = table.iter().find(|(_, gid)| *gid == source);
            let &(sgid_index, _) = found.ok_or(PathError::NoOwnAddress(source))?;
            Ok(Path::Roce { dgid: base.with_low(low), sgid_index, service })
        }
        _ => Err(PathError::OtherLinkLayer),
    }
}

fn offset(dlid: u16, base: u16) -> Result<u16, PathError> {
    dlid.checked_sub(base).ok_or(PathError::BelowBase { dlid, base })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: Service = Service { level: 3, rate: 0 };

    fn dlid(lid: u16) -> Option<Dlid> {
        Some(Dlid(Lid(lid)))
    }

    #[test]
    fn both_ends_of_an_infiniband_path_use_the_same_offset() {
        let own = LocalAddresses::Lids { base: Lid(32), lmc: Lmc::new(4).unwrap() };
        let to = |lid| path(&own, PeerAddress::Lid(Lid(64)), lid, SERVICE);
        let along = |lid, src_path_bits| {
            Ok(Path::InfiniBand { dlid: Dlid(Lid(lid)), src_path_bits, service: SERVICE })
        };
        assert_eq!(to(None), along(64, 0));
        assert_eq!(to(dlid(71)), along(71, 7));
        assert_eq!(to(dlid(79)), along(79, 15));
        assert_eq!(to(dlid(80)), Err(PathError::OwnTooFew { offset: 16, addresses: 16 }));
        assert_eq!(to(dlid(63)), Err(PathError::BelowBase { dlid: 63, base: 64 }));
        let text = to(dlid(80)).unwrap_err().to_string();
        assert_eq!(text, "offset 16 needs LMC 5, but the own port has 16 addresses");
    }

    fn ipv4(low: u16) -> Gid {
        Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 0]).with_low(low)
    }

    #[test]
    fn a_roce_path_goes_from_one_trees_address_to_the_same_trees() {
        let table = (0..4).map(|tree| (2 + u8::try_from(tree).unwrap(), ipv4(32 + tree))).collect();
        let own = LocalAddresses::Gids { base: ipv4(32), table };
        let to = |lid| path(&own, PeerAddress::Gid(ipv4(64)), lid, SERVICE);
        let along =
            |lid, sgid_index| Ok(Path::Roce { dgid: ipv4(lid), sgid_index, service: SERVICE });
        assert_eq!(to(None), along(64, 2));
        assert_eq!(to(dlid(67)), along(67, 5));
        assert_eq!(to(dlid(68)), Err(PathError::NoOwnAddress(ipv4(36))));
        assert_eq!(to(dlid(9)), Err(PathError::BelowBase { dlid: 9, base: 64 }));
        let other = path(&own, PeerAddress::Lid(Lid(64)), None, SERVICE);
        assert_eq!(other, Err(PathError::OtherLinkLayer));
    }

    #[test]
    fn gids_read_as_addresses() {
        assert_eq!(ipv4(258).to_string(), "::ffff:10.9.1.2");
        assert_eq!((ipv4(258).low(), ipv4(258).is_ipv4()), (258, true));
        assert!(!Gid([0xfe; 16]).is_ipv4());
    }
}
