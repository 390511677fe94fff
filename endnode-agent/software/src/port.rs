//! A mesh's port on a fabric in software.
//!
//! A queue pair is a pair of addresses and nothing else: it is connected when the fabric says that an agent is
//! at the other end, and breaks with the first message that did not arrive, as a reliable one does.

use std::collections::{BTreeMap, VecDeque};

use snin_agent_core::{Arrival, BreakReason, PairId, Port, PortEvent, Post, Route};
use snin_fabric::{Guid, Lid};
use snin_protocol::Time;
use snin_protocol::software_port::messages::{
    self, Cancel, Completed, Find, Found, FromFabric, Outcome, PortStatus, ToFabric,
};

use crate::piece;

/// What a port adds to every packet.
const OVERHEAD: u32 = 40;

/// A queue pair.
#[derive(Debug)]
struct Pair {
    route: Route,
    /// Where it leads and what of the own address goes with it; `None`: not connected.
    to: Option<(Lid, u8)>,
    /// Posted and not completed.
    outstanding: u32,
    /// Nothing is sent on it any more.
    over: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct SoftwarePort {
    guid: Guid,
    session: u64,
    mtu: u32,
    up: bool,
    /// The time of this turn: what is posted in it begins then.
    now: Time,
    pairs: BTreeMap<PairId, Pair>,
    posted: BTreeMap<u64, (PairId, u64)>,
    next: u64,
    events: VecDeque<PortEvent>,
    says: Vec<ToFabric>,
    malformed: u64,
}

impl SoftwarePort {
    /// A port at which an agent was [attached](FromFabric::Attached). `session` is the mesh's.
    pub fn new(status: &PortStatus, session: u64) -> Self {
        let mut port = Self {
            guid: status.port,
            session,
            mtu: status.mtu.max(256),
            up: true,
            now: Time::ZERO,
            pairs: BTreeMap::new(),
            posted: BTreeMap::new(),
            next: 0,
            events: VecDeque::new(),
            says: Vec::new(),
            malformed: 0,
        };
        port.status(status);
        port
    }

    /// A turn begins.
    pub const fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    /// What it has to say to the fabric.
    pub fn take_says(&mut self) -> std::vec::Drain<'_, ToFabric> {
        self.says.drain(..)
    }

    /// Whether it has something for the mesh.
    pub fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// What came that was no piece of a message.
    pub const fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The fabric says something to this port.
    pub fn receive(&mut self, said: FromFabric) {
        match said {
            FromFabric::Attached(status) => self.status(&status),
            FromFabric::Refused(_) => {}
            FromFabric::Completed(completed) => self.completed(completed),
            FromFabric::Arrived(arrived) => match piece::read(&arrived.payload) {
                Some(arrival) => self.events.push_back(PortEvent::Arrived(arrival)),
                None => self.malformed += 1,
            },
            FromFabric::Found(found) => self.found(found),
        }
    }

    /// The link comes and goes.
    fn status(&mut self, status: &PortStatus) {
        if status.active != self.up {
            self.up = status.active;
            self.events.push_back(if self.up { PortEvent::Up } else { PortEvent::Down });
        }
    }

    /// Where a peer is: what waits to be connected to it is, or is not.
    fn found(&mut self, Found { peer, lid, attached, .. }: Found) {
        let waits = |pair: &Pair| pair.route.peer == peer && pair.to.is_none() && !pair.over;
        let waiting: Vec<PairId> =
            self.pairs.iter().filter(|(_, pair)| waits(pair)).map(|(&id, _)| id).collect();
        for id in waiting {
            let Some(pair) = self.pairs.get_mut(&id) else { continue };
            let to = pair.route.dlid.map_or(lid, |dlid| dlid.0);
            // The same offset at both ends.
            let offset = to.0.checked_sub(lid.0).and_then(|offset| u8::try_from(offset).ok());
            match offset.filter(|_| attached && lid != Lid::NONE) {
                Some(offset) => {
                    pair.to = Some((to, offset));
                    self.events.push_back(PortEvent::Ready { pair: id });
                }
                None => self.break_off(id, BreakReason::Unconnected),
            }
        }
    }

    fn completed(&mut self, Completed { token, outcome, .. }: Completed) {
        let Some((id, ticket)) = self.posted.remove(&token) else { return };
        let Some(pair) = self.pairs.get_mut(&id) else { return };
        pair.outstanding -= 1;
        match outcome {
            Outcome::Delivered if !pair.over => {
                self.events.push_back(PortEvent::Done { pair: id, ticket });
            }
            Outcome::Lost(_) if !pair.over => self.break_off(id, BreakReason::Failed),
            _ => {}
        }
        self.end(id);
    }

    fn break_off(&mut self, id: PairId, reason: BreakReason) {
        self.events.push_back(PortEvent::Broken { pair: id, reason });
        self.give_up(id);
    }

    /// What is posted on a queue pair shall not be sent.
    fn give_up(&mut self, id: PairId) {
        let Some(pair) = self.pairs.get_mut(&id) else { return };
        pair.over = true;
        let (port, at) = (self.guid, self.now);
        let its = self.posted.iter().filter(|(_, (posted, _))| *posted == id);
        let cancels = its.map(|(&token, _)| ToFabric::Cancel(Cancel { port, token, at }));
        self.says.extend(cancels);
        self.end(id);
    }

    /// A queue pair that is over is gone when nothing of it is under way.
    fn end(&mut self, id: PairId) {
        if self.pairs.get(&id).is_some_and(|pair| pair.over && pair.outstanding == 0) {
            self.pairs.remove(&id);
            self.events.push_back(PortEvent::Closed { pair: id });
        }
    }
}

impl Port for SoftwarePort {
    fn connect(&mut self, id: PairId, route: &Route) {
        let pair = Pair { route: *route, to: None, outstanding: 0, over: false };
        self.pairs.insert(id, pair);
        self.says.push(ToFabric::Find(Find { port: self.guid, peer: route.peer }));
    }

    fn post(&mut self, &Post { pair: id, ticket, piece, .. }: &Post) {
        let Some(pair) = self.pairs.get_mut(&id).filter(|pair| !pair.over) else { return };
        let Some((to, path_bits)) = pair.to else { return };
        let token = self.next;
        self.next += 1;
        pair.outstanding += 1;
        self.posted.insert(token, (id, ticket));
        let packets = piece.bytes.div_ceil(self.mtu).max(1);
        let bytes = piece.bytes.saturating_add(packets.saturating_mul(OVERHEAD));
        let arrival = Arrival { peer: self.guid, session: self.session, piece };
        self.says.push(ToFabric::Post(messages::Post {
            port: self.guid,
            token,
            flow: piece.flow.0,
            to,
            path_bits,
            sl: pair.route.sl,
            bytes,
            begin: self.now,
            payload: piece::write(&arrival),
        }));
    }

    fn close(&mut self, id: PairId) {
        self.give_up(id);
    }

    fn poll(&mut self) -> Option<PortEvent> {
        self.events.pop_front()
    }
}
