//! Clients of management: MADs in ibsim's words, between sockets and the emulator.
//!
//! Several clients may be at one port; to the emulator they are one. An answer finds its client by the slot in the
//! upper bits of its transaction id, everything else goes to the one that manages the subnet.

mod questions;
mod slot;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use snin_daemon::watch::Watch;
use snin_emulator::{ClientId, Emulator};
use snin_fabric::{Lid, PortIndex};
use snin_mad::rmpp::{COUNTED, Rmpp, RmppFlags, RmppType, handed_on};
use snin_mad::sa::{InformInfo, Record as _};
use snin_mad::{Class, Header, Mad, Method, TransactionId};
use snin_protocol::Time;
use snin_protocol::software_port::management::{MAD, MadFrame, TIMED_OUT};
use snin_protocol::software_port::socket;

use crate::error::ServerError;
use slot::Slot;

/// Clients at a time.
const SLOTS: usize = 256;
/// Requests of one client that wait for their answers; those beyond are not told that none came.
const WAITING: usize = 16_384;
/// How often a request is sent before it is given back. The kernel does so with what libibumad sends; the
/// preloaded library does not say how often, so it is as often as OpenSM wants it.
const TRIES: u32 = 4;
/// How often clients are looked for that left without a word.
const LOOK: Time = Time::millis(500);
/// Bytes of a MAD before those that RMPP counts.
const RMPP_HEADER: u32 = (MAD - COUNTED) as u32;
/// The slot's place in a transaction id.
const SLOT_SHIFT: u32 = 48;

/// The counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) clients: u64,
    pub(crate) refused: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) resent: u64,
    pub(crate) timed_out: u64,
    pub(crate) dropped: u64,
    pub(crate) malformed: u64,
}

/// A request that may be answered.
type Key = (u16, TransactionId);

/// What is known of it.
struct Waiting {
    frame: MadFrame,
    /// How often it may be sent yet.
    tries: u32,
    at: Time,
}

/// A client, and what it did.
pub(crate) struct Attached {
    /// The client's own number.
    pub(crate) process: u32,
    pub(crate) port: PortIndex,
    /// Whether it manages the subnet.
    pub(crate) manager: bool,
    /// MADs that it sent.
    pub(crate) sent: u64,
    /// Of those, the SMPs that write.
    pub(crate) sets: u64,
}

/// All clients at a port.
struct Sitting {
    client: ClientId,
    slots: BTreeSet<u16>,
}

/// See the module's documentation.
pub(crate) struct Mads {
    name: String,
    control: UnixDatagram,
    slots: BTreeMap<u16, Slot>,
    ports: BTreeMap<PortIndex, Sitting>,
    first: PortIndex,
    /// How long an answer may take before the request is sent again.
    patience: Time,
    waiting: BTreeMap<Key, Waiting>,
    due: BTreeSet<(Time, Key)>,
    look_at: Time,
    pub(crate) counts: Counts,
}

/// An abstract address of this fabric.
pub(crate) fn address(fabric: &str, what: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(socket(fabric, what))
}

/// Makes a message of one segment of an answer that OpenSM hands on whole. It says that it is RMPP's and leaves
/// the rest of that header to the kernel, which writes there how long it is.
fn segmented(mad: &mut Mad, length: u16) {
    let (header, rmpp) = (mad.header(), mad.rmpp());
    let is_answer = header.class() == Class::Administration && header.method().is_response();
    let begun = rmpp.flags().has(RmppFlags::ACTIVE) && rmpp.version() == 0 && rmpp.segment() == 0;
    if is_answer && begun && length < MAD as u16 {
        let flags = RmppFlags::ACTIVE.with(RmppFlags::FIRST).with(RmppFlags::LAST);
        let counted = u32::from(length).saturating_sub(RMPP_HEADER);
        let edit = Rmpp::edit(&mut mad.0).version(1).kind(RmppType::Data);
        edit.flags(flags).segment(1).length(counted);
    }
}

impl Mads {
    /// Listens; no client is attached yet. A client that does not name its port is put at `first`.
    pub(crate) fn listen(
        name: &str,
        first: PortIndex,
        patience: Time,
    ) -> Result<Self, ServerError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::AddrInUse => ServerError::Taken(name.to_owned()),
            _ => ServerError::Socket { socket: format!("{name}:ctl"), error },
        };
        let control = address(name, "ctl").and_then(|at| UnixDatagram::bind_addr(&at));
        let control = control.map_err(failed)?;
        control.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            name: name.to_owned(),
            control,
            slots: BTreeMap::new(),
            ports: BTreeMap::new(),
            first,
            patience,
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            look_at: Time::ZERO,
            counts: Counts::default(),
        })
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        watch.readable(self.control.as_fd());
        for slot in self.slots.values() {
            slot.watch(watch);
        }
    }

    /// When something is due: a request without an answer, a look after clients.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let look = (!self.slots.is_empty()).then_some(self.look_at);
        let due = self.due.first().map(|&(at, _)| at);
        [look, due].into_iter().flatten().min()
    }

    /// Takes what clients sent.
    pub(crate) fn take(&mut self, emulator: &mut Emulator, now: Time) {
        self.answer_questions(emulator);
        let numbers: Vec<u16> = self.slots.keys().copied().collect();
        for number in numbers {
            let (Some(slot), mut frames) = (self.slots.get_mut(&number), Vec::new()) else {
                continue;
            };
            let port = slot.port;
            self.counts.malformed += slot.receive(&mut frames);
            for frame in frames {
                self.send(number, port, frame, emulator, now);
            }
        }
    }

    fn send(
        &mut self,
        slot: u16,
        port: PortIndex,
        frame: MadFrame,
        emulator: &mut Emulator,
        now: Time,
    ) {
        let Some(client) = self.ports.get(&port).map(|sitting| sitting.client) else { return };
        self.counts.sent += 1;
        let mut mad = Mad(frame.mad);
        segmented(&mut mad, frame.length);
        let header = mad.header();
        let method = header.method();
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.sent += 1;
            let is_smp = matches!(header.class(), Class::Subnet | Class::DirectedSubnet);
            slot.sets += u64::from(is_smp && method == Method::Set);
            // As a port gives reports to the program that registered for them.
            slot.reports |=
                header.attribute() == InformInfo::ID && method == Method::Set && !is_smp;
        }
        if !method.is_response() {
            let id = header.transaction_id().0;
            let id = TransactionId(id & !(0xFFFF << SLOT_SHIFT) | u64::from(slot) << SLOT_SHIFT);
            Header::edit(&mut mad.0).transaction_id(id);
            // A trap or a Send asks nothing, so no answer is waited for.
            let asks = !matches!(method, Method::Trap | Method::TrapRepress | Method::Send);
            if asks && self.slots.get(&slot).is_some_and(|slot| slot.waits < WAITING) {
                self.expect((slot, id), MadFrame { mad: mad.0, ..frame.clone() }, TRIES - 1, now);
            }
        }
        emulator.send(client, &mad, frame.to, now);
    }

    fn expect(&mut self, key: Key, frame: MadFrame, tries: u32, now: Time) {
        let at = now + self.patience;
        match self.waiting.insert(key, Waiting { frame, tries, at }) {
            // It was asked again.
            Some(before) => drop(self.due.remove(&(before.at, key))),
            None => {
                if let Some(slot) = self.slots.get_mut(&key.0) {
                    slot.waits += 1;
                }
            }
        }
        self.due.insert((at, key));
    }

    /// No answer is waited for any more: what was asked.
    fn settle(&mut self, key: Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(&key)?;
        self.due.remove(&(waiting.at, key));
        if let Some(slot) = self.slots.get_mut(&key.0) {
            slot.waits -= 1;
        }
        Some(waiting)
    }

    /// No answer came in time: the request is sent again, or given back.
    fn overdue(&mut self, key: Key, emulator: &mut Emulator, now: Time) {
        let Some(Waiting { frame, tries, .. }) = self.settle(key) else { return };
        let port = self.slots.get(&key.0).map(|slot| slot.port);
        let client = port.and_then(|port| self.ports.get(&port)).map(|sitting| sitting.client);
        if let Some(client) = client
            && tries > 0
        {
            self.counts.resent += 1;
            emulator.send(client, &Mad(frame.mad), frame.to, now);
            self.expect(key, frame, tries - 1, now);
            return;
        }
        self.counts.timed_out += 1;
        if let Some(slot) = self.slots.get_mut(&key.0) {
            self.counts.dropped += slot.send(&MadFrame { status: TIMED_OUT, ..frame });
        }
    }

    /// Gives clients what came for them, and tells what did not.
    pub(crate) fn give(&mut self, emulator: &mut Emulator, now: Time) {
        let ports: Vec<(PortIndex, ClientId)> =
            self.ports.iter().map(|(&port, sitting)| (port, sitting.client)).collect();
        for (port, client) in ports {
            while let Some(received) = emulator.poll(client) {
                let to = emulator.fabric().port_info(port).lid;
                self.deliver(port, to, received.slid, &received.mad);
            }
        }
        while let Some(&(at, key)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            self.overdue(key, emulator, now);
        }
        if now >= self.look_at {
            self.look_at = now + LOOK;
            self.bury(emulator);
        }
        self.slots.values_mut().for_each(Slot::flush);
    }

    fn deliver(&mut self, port: PortIndex, to: Lid, from: Lid, mad: &Mad) {
        let header = mad.header();
        let is_answer = header.method().is_response();
        let number = if is_answer {
            let id = header.transaction_id();
            let number = (id.0 >> SLOT_SHIFT) as u16;
            self.settle((number, id));
            Some(number)
        } else {
            let is_report = header.method() == Method::Report;
            let takes = |slot: &Slot| if is_report { slot.reports } else { slot.manager };
            let sitting = self.ports.get(&port);
            let slots = sitting.into_iter().flat_map(|sitting| &sitting.slots);
            slots.copied().find(|number| self.slots.get(number).is_some_and(takes))
        };
        let slot = number.and_then(|number| self.slots.get_mut(&number));
        let Some(slot) = slot.filter(|slot| slot.port == port) else {
            self.counts.dropped += 1;
            return;
        };
        let qp = u32::from(!header.class().is_subnet());
        let length = handed_on(mad) as u16;
        let frame = MadFrame { to, from, to_qp: qp, from_qp: qp, status: 0, length, mad: mad.0 };
        self.counts.received += 1;
        self.counts.dropped += slot.send(&frame);
    }

    /// Clients that left without a word.
    fn bury(&mut self, emulator: &mut Emulator) {
        let gone: Vec<u16> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.is_gone())
            .map(|(&number, _)| number)
            .collect();
        for number in gone {
            self.detach(number, emulator);
        }
    }

    fn detach(&mut self, number: u16, emulator: &mut Emulator) {
        let Some(slot) = self.slots.remove(&number) else { return };
        let asked: Vec<Key> = self
            .waiting
            .range((number, TransactionId(0))..=(number, TransactionId(u64::MAX)))
            .map(|(&key, _)| key)
            .collect();
        for key in asked {
            self.settle(key);
        }
        let Some(sitting) = self.ports.get_mut(&slot.port) else { return };
        sitting.slots.remove(&number);
        if slot.manager {
            emulator.set_manager(sitting.client, false);
        }
        if sitting.slots.is_empty() {
            emulator.detach(sitting.client);
            self.ports.remove(&slot.port);
        }
    }

    /// The attached clients.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Attached> + '_ {
        self.slots.values().map(|slot| Attached {
            process: slot.id,
            port: slot.port,
            manager: slot.manager,
            sent: slot.sent,
            sets: slot.sets,
        })
    }
}
