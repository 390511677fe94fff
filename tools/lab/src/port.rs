//! The mesh's port to the emulated fabric.

use std::collections::{BTreeMap, VecDeque};

use snin_agent_core::{BreakReason, PairId, Port, PortEvent, Post, Route};
use snin_emulator::data::{Message, MessageId, Transport};
use snin_fabric::{Lid, PortIndex};
use snin_protocol::Time;

use super::wire::{UnderWay, Wire};

/// How long it takes to connect a queue pair.
const CONNECT: Time = Time::micros(10);
/// How long a reliable queue pair tries to get a lost packet through before it gives up.
const RETRY: Time = Time::micros(500);

/// An adapter's side of queue pairs.
#[derive(Debug)]
pub struct Adapter {
    /// The host's place.
    host: u32,
    port: PortIndex,
    transport: Transport,
    /// Where each queue pair leads.
    pairs: BTreeMap<PairId, (Route, Lid)>,
    /// What was posted and is not done.
    posted: VecDeque<(PairId, MessageId)>,
    inbox: VecDeque<PortEvent>,
    /// What will happen by itself.
    later: Vec<(Time, PortEvent)>,
}

impl Adapter {
    /// A port without queue pairs.
    pub const fn new(host: u32, port: PortIndex, transport: Transport) -> Self {
        Self {
            host,
            port,
            transport,
            pairs: BTreeMap::new(),
            posted: VecDeque::new(),
            inbox: VecDeque::new(),
            later: Vec::new(),
        }
    }

    /// The fabric's port.
    pub const fn port(&self) -> PortIndex {
        self.port
    }

    /// Tells the mesh.
    pub fn notify(&mut self, event: PortEvent) {
        if let PortEvent::Closed { pair } = event {
            self.pairs.remove(&pair);
        }
        self.inbox.push_back(event);
    }

    /// What will happen, and when.
    pub fn take_later(&mut self) -> Vec<(Time, PortEvent)> {
        std::mem::take(&mut self.later)
    }

    /// A piece is done; what the mesh will be told.
    pub fn done(&mut self, message: MessageId, ticket: u64) -> Option<PortEvent> {
        let place = self.posted.iter().position(|&(_, posted)| posted == message)?;
        let (pair, _) = self.posted.remove(place)?;
        Some(PortEvent::Done { pair, ticket })
    }

    /// A packet of a piece is lost. Who is not acknowledged does not know.
    pub fn lost(&mut self, message: MessageId, now: Time) {
        if self.transport == Transport::Uc {
            return;
        }
        let Some(&(pair, _)) = self.posted.iter().find(|(_, posted)| *posted == message) else {
            return;
        };
        // One queue pair breaks once.
        self.posted.retain(|&(posted, _)| posted != pair);
        self.later.push((now + RETRY, PortEvent::Broken { pair, reason: BreakReason::Failed }));
    }
}

/// An adapter with the fabric in reach, at a time.
pub struct EmulatedPort<'a> {
    /// The adapter.
    pub adapter: &'a mut Adapter,
    /// The fabric.
    pub wire: &'a mut Wire,
    /// The flow's number in the lab, by the mesh's own.
    pub flows: &'a [u32],
    /// Bit/s that were asked for, by the mesh's own number of the flow.
    pub wanted: &'a [Option<u64>],
    /// The time.
    pub now: Time,
}

impl Port for EmulatedPort<'_> {
    fn connect(&mut self, pair: PairId, route: &Route) {
        let event = match route.dlid {
            Some(dlid) => {
                self.adapter.pairs.insert(pair, (*route, dlid.0));
                PortEvent::Ready { pair }
            }
            None => PortEvent::Broken { pair, reason: BreakReason::Unconnected },
        };
        self.adapter.later.push((self.now + CONNECT, event));
    }

    fn post(&mut self, &Post { pair, ticket, piece, .. }: &Post) {
        let Adapter { host, port, transport, .. } = *self.adapter;
        let broken = PortEvent::Broken { pair, reason: BreakReason::Failed };
        let Some(&(Route { peer, tree, sl, .. }, lid)) = self.adapter.pairs.get(&pair) else {
            return self.adapter.inbox.push_back(broken);
        };
        let flow = self.flows.get(piece.flow.index()).copied().unwrap_or(u32::MAX);
        // As an adapter's static rate does: so nothing piles up before the slowest link of the way.
        let wanted = self.wanted.get(piece.flow.index()).copied().flatten();
        let rate = [wanted, self.wire.path_rate(port, lid)].into_iter().flatten().min();
        let message = Message {
            start: self.now,
            flow,
            transport,
            rate,
            sl,
            ..Message::new(port, lid, u64::from(piece.bytes))
        };
        let asked = true;
        let gone = None;
        let from = UnderWay {
            host,
            asked,
            pair,
            ticket,
            piece,
            peer,
            tree,
            lid,
            transport,
            wanted,
            rate,
            gone,
        };
        match self.wire.send(message, from) {
            Ok(message) => self.adapter.posted.push_back((pair, message)),
            Err(_) => self.adapter.inbox.push_back(broken),
        }
    }

    fn close(&mut self, pair: PairId) {
        let (closed, stay) = self.adapter.posted.drain(..).partition(|&(posted, _)| posted == pair);
        self.adapter.posted = stay;
        let closed: VecDeque<(PairId, MessageId)> = closed;
        closed.into_iter().for_each(|(_, message)| self.wire.cancel(message));
        // The packet that has begun is off the port by then.
        self.adapter.later.push((self.now + CONNECT, PortEvent::Closed { pair }));
    }

    fn poll(&mut self) -> Option<PortEvent> {
        self.adapter.inbox.pop_front()
    }
}
