//! Directed routes: which ports to leave by, hop after hop.

use std::fmt;

use snin_fabric::{Lid, PortNum};

/// The initial or return path of a directed route: at most 63 hops (IBA 14.2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrPath {
    // Length first: shorter paths are nearer, and sort first. Ports beyond the length are 0.
    hops: u8,
    ports: [u8; 64],
}

impl DrPath {
    /// The node itself.
    pub const HERE: Self = Self { hops: 0, ports: [0; 64] };
    /// The longest path.
    pub const MAX_HOPS: usize = 63;

    /// The path that leaves by `ports` in turn; `None` if there are more than 63.
    pub fn new(ports: &[u8]) -> Option<Self> {
        let mut path = Self::HERE;
        path.ports[1..].get_mut(..ports.len())?.copy_from_slice(ports);
        path.hops = ports.len() as u8;
        Some(path)
    }

    /// One hop further; `None` at 63 hops.
    pub fn then(mut self, port: PortNum) -> Option<Self> {
        self.hops += 1;
        *self.ports.get_mut(usize::from(self.hops))? = port.0;
        Some(self)
    }

    /// One hop less; `None` for no hops.
    pub fn parent(mut self) -> Option<Self> {
        let hops = self.hops.checked_sub(1)?;
        self.ports[usize::from(self.hops)] = 0;
        self.hops = hops;
        Some(self)
    }

    /// As long, all ports 0.
    pub(crate) const fn blank(self) -> Self {
        Self { hops: self.hops, ports: [0; 64] }
    }

    /// Number of hops.
    pub const fn hops(&self) -> usize {
        self.hops as usize
    }

    /// The ports to leave by, first hop first.
    pub fn ports(&self) -> &[u8] {
        &self.ports[1..=usize::from(self.hops)]
    }

    /// The last port to leave by.
    pub fn last(&self) -> Option<PortNum> {
        self.ports().last().map(|&port| PortNum(port))
    }

    /// As InitialPath and ReturnPath hold it: hop n in byte n, byte 0 unused.
    pub const fn bytes(&self) -> &[u8; 64] {
        &self.ports
    }

    /// From InitialPath or ReturnPath, of which the first `hops` hops count; `None` for more than 63.
    pub fn from_bytes(bytes: &[u8; 64], hops: u8) -> Option<Self> {
        let mut path = Self::HERE;
        let used = 1..usize::from(hops) + 1;
        path.ports.get_mut(used.clone())?.copy_from_slice(&bytes[used]);
        path.hops = hops;
        Some(path)
    }
}

impl fmt::Display for DrPath {
    /// As the diagnostic tools of the field write it: `0,1,5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0")?;
        self.ports().iter().try_for_each(|port| write!(f, ",{port}"))
    }
}

impl fmt::Debug for DrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How an SMP finds its way.
///
/// A directed route may begin and end with a LID-routed part (IBA 14.2.2): `from` is then the requester's
/// own LID, while the packet is addressed to the switch at which the directed part begins; `to` is the
/// responder's LID, to which the last switch of the directed part forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// By the forwarding tables alone (class 0x01).
    Lid,
    /// Along a path (class 0x81).
    Directed {
        /// DrSLID: `None` where the directed part begins at the requester.
        from: Option<Lid>,
        /// The directed part.
        path: DrPath,
        /// DrDLID: `None` where the directed part ends at the responder.
        to: Option<Lid>,
    },
}

impl Route {
    /// A directed route all the way.
    pub const fn directed(path: DrPath) -> Self {
        Self::Directed { from: None, path, to: None }
    }

    /// A LID-routed part, then a directed one. The packet's own DLID is the switch where `path` begins.
    pub const fn lid_then_directed(own: Lid, path: DrPath) -> Self {
        Self::Directed { from: Some(own), path, to: None }
    }

    /// A directed part, then a LID-routed one.
    pub const fn directed_then_lid(path: DrPath, to: Lid) -> Self {
        Self::Directed { from: None, path, to: Some(to) }
    }
}

/// "No LID": in DrSLID and DrDLID, and in the addresses of packets on directed links (IBA 4.1.3).
pub const PERMISSIVE: Lid = Lid(0xFFFF);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_at_most_63_hops() {
        assert_eq!(DrPath::new(&[1; 64]), None);
        let longest = DrPath::new(&[1; 63]).unwrap();
        assert_eq!(longest.hops(), DrPath::MAX_HOPS);
        assert_eq!(longest.then(PortNum(1)), None);
        assert_eq!(DrPath::from_bytes(&[1; 64], 63), Some(longest));
        for hops in 64..=255 {
            assert_eq!(DrPath::from_bytes(&[1; 64], hops), None, "{hops}");
        }
    }

    #[test]
    fn going_back_forgets_the_last_hop() {
        let path = DrPath::HERE.then(PortNum(1)).and_then(|path| path.then(PortNum(36))).unwrap();
        assert_eq!(path.to_string(), "0,1,36");
        assert_eq!(path.last(), Some(PortNum(36)));
        assert_eq!(path.parent(), DrPath::new(&[1]));
        assert_eq!(path.parent().and_then(DrPath::parent), Some(DrPath::HERE));
        assert_eq!(DrPath::HERE.parent(), None);
        assert!(DrPath::new(&[9]) < DrPath::new(&[1, 1]));
    }
}
