//! A switch's linear forwarding table as data.

use crate::{Lid, PortNum};

/// Entries that one LinearForwardingTable MAD carries (IBA 14.2.5.6).
pub const BLOCK: usize = 64;

/// Which port a switch forwards each LID by: the entry of a LID is a port, 0 for the switch itself, 0xFF
/// for an address that is not forwarded (IBA 14.2.5.6, 18.2.4.3.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForwardingTable {
    entries: Vec<u8>,
}

impl ForwardingTable {
    /// Forwards nothing, with room for addresses up to `top`.
    pub fn up_to(top: Lid) -> Self {
        Self { entries: vec![PortNum::NONE.0; top.index() + 1] }
    }

    /// The port for `lid`; [`PortNum::NONE`] beyond the table.
    pub fn get(&self, lid: Lid) -> PortNum {
        PortNum(self.entries.get(lid.index()).copied().unwrap_or(PortNum::NONE.0))
    }

    /// Sets the port for `lid`, growing the table as needed.
    pub fn set(&mut self, lid: Lid, port: PortNum) {
        if self.entries.len() <= lid.index() {
            self.entries.resize(lid.index() + 1, PortNum::NONE.0);
        }
        self.entries[lid.index()] = port.0;
    }

    /// The entries, one byte a LID from 0.
    pub fn entries(&self) -> &[u8] {
        &self.entries
    }

    /// The entries, for filling rows at a time.
    pub fn entries_mut(&mut self) -> &mut [u8] {
        &mut self.entries
    }

    /// Every forwarded address and its port, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, PortNum)> + '_ {
        let forwarded = |&(_, &port): &(usize, &u8)| port != PortNum::NONE.0;
        self.entries
            .iter()
            .enumerate()
            .filter(forwarded)
            .map(|(lid, &port)| (Lid(lid as u16), PortNum(port)))
    }
}
