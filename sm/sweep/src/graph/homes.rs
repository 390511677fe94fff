//! The manager's own ports: every way begins at one of them, and one is where the manager sits.

use super::Graph;
use crate::query::{NodeId, PortId};
use snin_sm_database::mad_address::LocalPort;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Homes {
    /// By local port, once its node said which of its ports it is.
    ends: Vec<Option<PortId>>,
    /// The port at which the manager sits.
    seat: usize,
}

impl Default for Homes {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Homes {
    pub(crate) fn new(ports: u8) -> Self {
        Self { ends: vec![None; ports.max(1).into()], seat: 0 }
    }

    /// Every local port.
    pub(crate) fn ports(&self) -> impl Iterator<Item = LocalPort> + use<> {
        (0..self.ends.len() as u32).map(LocalPort)
    }

    /// The local port at which the manager sits.
    pub(crate) const fn seat(&self) -> LocalPort {
        LocalPort(self.seat as u32)
    }

    /// Those of which it is known where they are.
    pub(crate) fn known(&self) -> impl Iterator<Item = (LocalPort, PortId)> {
        self.ports().zip(&self.ends).filter_map(|(port, end)| Some((port, (*end)?)))
    }

    /// Whether there is only one.
    pub(crate) fn is_single(&self) -> bool {
        self.ends.len() == 1
    }

    /// The local port that this is.
    pub(crate) fn at(&self, end: PortId) -> Option<LocalPort> {
        self.known().find(|(_, home)| *home == end).map(|(port, _)| port)
    }

    /// The end of a local port.
    pub(crate) fn end(&self, port: LocalPort) -> Option<PortId> {
        self.ends.get(port.0 as usize).copied().flatten()
    }

    /// Where a local port is.
    pub(crate) fn settle(&mut self, port: LocalPort, end: PortId) {
        if let Some(home) = self.ends.get_mut(port.0 as usize) {
            *home = Some(end);
        }
    }

    /// The manager sits at this port from now on.
    pub(crate) fn sit(&mut self, port: LocalPort) {
        self.seat = (port.0 as usize).min(self.ends.len() - 1);
    }
}

impl Graph {
    /// The port at which the manager sits, of a switch port 0.
    pub(crate) fn own_end(&self) -> PortId {
        let seat = self.homes.end(self.homes.seat());
        let end = seat.or_else(|| self.homes.known().next().map(|(_, end)| end));
        end.map_or((NodeId::FIRST, snin_fabric::PortNum::ZERO), |end| self.guard(end))
    }

    /// The end of a local port, of a switch port 0.
    pub(crate) fn home(&self, port: LocalPort) -> Option<PortId> {
        self.homes.end(port).map(|end| self.guard(end))
    }

    /// Whether the manager knows any of its own ports.
    pub(crate) fn knows_itself(&self) -> bool {
        self.homes.known().next().is_some()
    }

    /// Whether a local port belongs to the node.
    pub(crate) fn is_own(&self, id: NodeId) -> bool {
        self.homes.known().any(|(_, (node, _))| node == id)
    }

    /// Whether a port is one of the manager's own.
    pub(crate) fn is_home(&self, end: PortId) -> bool {
        self.homes.at(end).is_some()
    }
}
