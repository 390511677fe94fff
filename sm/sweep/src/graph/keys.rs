//! Which M_Key each port of the graph is shown.

use snin_fabric::{Guid, PortNum};
use snin_mad::MKey;

use super::{Graph, Lock};
use crate::query::{NodeId, PortId, Query};

impl Graph {
    /// The port whose key guards this one: port 0 of a switch guards the whole switch, each port of an end
    /// node itself (IBA 14.2.4).
    pub(crate) fn guard(&self, (id, port): PortId) -> PortId {
        (id, if self.node(id).is_switch() { PortNum::ZERO } else { port })
    }

    /// The key that guards a port, where it is shown.
    pub(crate) fn key(&self, end: PortId) -> Option<MKey> {
        let key = self.port(self.guard(end))?.info.as_ref()?.m_key;
        (key != MKey(0)).then_some(key)
    }

    /// Whether a port may have a key that it does not show.
    pub(crate) fn hides_key(&self, end: PortId) -> bool {
        let info = self.port(self.guard(end)).and_then(|port| port.info.as_ref());
        info.is_some_and(|info| info.m_key == MKey(0) && info.m_key_protect > 0)
    }

    /// The GUID that a port's key follows from.
    fn key_guid(&self, end: PortId) -> Guid {
        let node = self.node(end.0);
        if node.is_switch() {
            return node.guid();
        }
        let own = (node.info.local_port == end.1).then_some(node.info.port_guid);
        self.port(end).and_then(|port| port.guid).or(own).unwrap_or_default()
    }

    /// The key, level and lease that a port shall have.
    pub(crate) fn protection(&self, end: PortId) -> (MKey, u8, u16) {
        self.keyring.protection(self.key_guid(end))
    }

    /// The key to show a port: the one that it shows, of any manager, else the one that it should have, or
    /// the next that it may have. `further`: so many after that.
    pub(crate) fn key_to_show(&self, end: PortId, further: u8) -> MKey {
        let guid = self.key_guid(end);
        let nth = match (self.key(end), further) {
            (Some(key), 0) => return key,
            (Some(_), further) => further - 1,
            (None, further) => {
                let guess = self.port(self.guard(end)).map_or(0, |port| port.guess);
                guess.saturating_add(further)
            }
        };
        self.keyring.candidate(guid, nth).unwrap_or_else(|| self.keyring.wanted(guid))
    }

    /// The key to show the port that is asked.
    pub(crate) fn key_to_ask(&self, query: Query, further: u8) -> MKey {
        match query {
            Query::ReadPort(id, port)
            | Query::ReadKeys(id, port, _)
            | Query::ReadQosTable(id, port, _)
            | Query::Tell(id, port)
            | Query::ReadManager(id, port) => self.key_to_show((id, port), further),
            // The port is not known yet.
            Query::Identify(_) | Query::Probe(_) | Query::Step(_) => self.nobodys_key(further),
            Query::Own(port) => match self.home(port) {
                Some(end) => self.key_to_show(end, further),
                None => self.nobodys_key(further),
            },
            Query::Describe(id)
            | Query::ReadSwitch(id)
            | Query::ClearChange(id)
            | Query::ReadBlock(id, _)
            | Query::ReadMasks(id, ..)
            | Query::Order(id, ..) => self.key_to_show(self.any_end(id), further),
            Query::Trial(via, _) => {
                let behind = self.link(via).map_or(via, |link| link.to);
                self.key_to_show(behind, further)
            }
        }
    }

    /// A key that a port may have of which nothing is known.
    fn nobodys_key(&self, nth: u8) -> MKey {
        let nobody = Guid::default();
        self.keyring.candidate(nobody, nth).unwrap_or_else(|| self.keyring.wanted(nobody))
    }

    fn any_end(&self, id: NodeId) -> PortId {
        self.guard((id, self.node(id).info.local_port))
    }

    /// A port that was read, by the key that was `known` for its own if there was one, hides its key: whether
    /// there is another that may be it, which it is shown from now on.
    pub(crate) fn guess_key(&mut self, end: PortId, known: bool) -> bool {
        let (guid, hides) = (self.key_guid(end), self.hides_key(end));
        let Some(port) = self.port(end) else { return false };
        let guess = if known { 0 } else { port.guess.saturating_add(1) };
        let more = hides && self.keyring.candidate(guid, guess).is_some();
        if let Some(port) = self.port_mut(end) {
            port.guess = if more { guess } else { 0 };
        }
        more
    }

    /// Whether a port takes no writes.
    pub(crate) fn is_locked(&self, end: PortId) -> bool {
        self.port(self.guard(end)).is_some_and(|port| port.locked.is_some())
    }

    /// The port takes no writes: it is left as it is. With a switch, so is what only it leads to.
    pub(crate) fn lock(&mut self, end: PortId, why: Lock) {
        let guard = self.guard(end);
        if let Some(port) = self.port_mut(guard) {
            port.locked = Some(why);
        }
        if self.node(end.0).is_switch() {
            self.node_mut(end.0).switch = None;
            self.retrace();
        }
    }
}
