//! Managers: programs at a port, which send MADs and take those that come for them.

use std::collections::VecDeque;

use snin_fabric::{Lid, NodeKind, PortIndex};
use snin_mad::port::Capabilities;
use snin_mad::{Mad, PortInfo};
use snin_protocol::Time;

use crate::emulator::Emulator;
use crate::hardware::NO_PORT;
use crate::packet::Packet;

/// A client of an [`Emulator`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(u32);

/// Why no client can sit at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AttachError {
    /// Not in the topology.
    #[error("there is no port {0:?}")]
    NoSuchPort(PortIndex),
    /// An external port of a switch, or port 0 of something else, has no queue pairs.
    #[error("port {0:?} is not a place for a client: take an adapter's port or a switch's port 0")]
    NoEndPort(PortIndex),
    /// One client a port.
    #[error("another client sits at port {0:?}")]
    Taken(PortIndex),
}

/// A MAD that came for a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// When.
    pub at: Time,
    /// The client's port, by which it came.
    pub port: PortIndex,
    /// The sender's LID, where an answer that begins its way by LID is sent to: 0xFFFF if the last part of
    /// its way was directed.
    pub slid: Lid,
    /// The MAD.
    pub mad: Mad,
}

pub(crate) struct Client {
    /// Where it sits; [`NO_PORT`] where its program has ended.
    port: u32,
    inbox: VecDeque<Received>,
}

impl Emulator {
    /// Puts a client at a port.
    ///
    /// # Errors
    /// When the port is no place for one.
    pub fn attach(&mut self, port: PortIndex) -> Result<ClientId, AttachError> {
        let topology = self.fabric.topology();
        if port.index() >= topology.port_count() {
            return Err(AttachError::NoSuchPort(port));
        }
        let is_switch = topology.node(topology.port(port).node).kind == NodeKind::Switch;
        if is_switch != (topology.num(port).0 == 0) {
            return Err(AttachError::NoEndPort(port));
        }
        let place = &mut self.fabric.ports[port.index()].client;
        if place.is_some() {
            return Err(AttachError::Taken(port));
        }
        let free = self.clients.iter().position(|client| client.port == NO_PORT);
        let id = free.unwrap_or(self.clients.len());
        *place = Some(id as u32);
        let client = Client { port: port.0, inbox: VecDeque::new() };
        match self.clients.get_mut(id) {
            Some(free) => *free = client,
            None => self.clients.push(client),
        }
        Ok(ClientId(id as u32))
    }

    /// The client's program ends: what comes for it is dropped, and IsSM is taken back. The next client
    /// may get its id.
    pub fn detach(&mut self, client: ClientId) {
        self.set_manager(client, false);
        let client = &mut self.clients[client.0 as usize];
        if let Some(port) = self.fabric.ports.get_mut(client.port as usize) {
            port.client = None;
        }
        client.port = NO_PORT;
        client.inbox.clear();
    }

    /// Sets or clears IsSM in the port's CapabilityMask: whether SMInfo reaches the client. The agent tells
    /// the change (trap 144).
    pub fn set_manager(&mut self, client: ClientId, is_sm: bool) {
        let port = self.clients[client.0 as usize].port;
        let Some(state) = self.fabric.ports.get_mut(port as usize) else { return };
        if state.client != Some(client.0) || state.has(Capabilities::SM) == is_sm {
            return;
        }
        let old = state.view().capabilities();
        let new = if is_sm { old.with(Capabilities::SM) } else { old.without(Capabilities::SM) };
        PortInfo::edit(&mut state.info).capabilities(new);
        self.fabric.notify_local_change(port, false);
        self.grant_wishes();
    }

    /// Sends a MAD. `to` is the LID it is routed to: of its destination, or where a directed route begins by
    /// LID, of the switch at which the directed part begins; a directed route from here has none, and `to`
    /// is not looked at. What cannot leave is dropped and counted. What is due until `now` happens first; a
    /// time that has passed means now.
    pub fn send(&mut self, client: ClientId, mad: &Mad, to: Lid, now: Time) {
        self.advance(now);
        let port = self.clients[client.0 as usize].port;
        let sits = self.fabric.ports.get(port as usize).and_then(|port| port.client);
        if sits != Some(client.0) {
            return;
        }
        self.stats.sent += 1;
        let slid = self.fabric.ports[port as usize].lid();
        let packet = Packet { mad: mad.clone(), dlid: to, slid, by: port, relays: 0, tried: false };
        let Some(packet) = self.admit(packet) else {
            return;
        };
        self.depart(packet, port);
        self.grant_wishes();
    }

    /// Data from port `from` for address `to` was in a partition that a port on its way is not in: that counts it
    /// and tells its manager. Of data that gets through nothing is told.
    pub fn refuse(&mut self, from: PortIndex, to: Lid, now: Time) {
        self.advance(now);
        self.fabric.refuse(from, to);
        self.grant_wishes();
    }

    /// The next MAD that came for a client, in the order of arrival.
    pub fn poll(&mut self, client: ClientId) -> Option<Received> {
        self.clients[client.0 as usize].inbox.pop_front()
    }

    /// A packet has come to its end, at a manager.
    pub(crate) fn hand_over(&mut self, packet: u32, end: u32) {
        let held = self.packets.get(packet);
        let client = self.fabric.ports[end as usize].client;
        match client.map(|client| &mut self.clients[client as usize].inbox) {
            Some(inbox) if inbox.len() < self.fabric.config().inbox => {
                self.stats.delivered += 1;
                let (at, port) = (self.now, PortIndex(end));
                inbox.push_back(Received { at, port, slid: held.slid, mad: held.mad.clone() });
            }
            Some(_) => self.stats.inbox_full += 1,
            None => self.stats.nobody += 1,
        }
        self.packets.remove(packet);
    }
}
