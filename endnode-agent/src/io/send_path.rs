//! Queue pairs of the data thread to send on, with the memory for their headers.

use snin_fabric::Guid;

use super::header::{HEADER, Header, elide};
use snin_agent_core::Piece;
use snin_verbs::{
    AddressHandle, Domain, Gather, QueuePair, Rc, Sending, Signal, Slot, Source, Ud, VerbsError,
};

/// Datagrams have to show it.
pub(crate) const Q_KEY: u32 = 0x534e_494e;

/// Where pieces of one (peer, tree) go.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is boxed, and nearly all are the large one")]
pub(crate) enum SendPath {
    /// A connection of its own, and its headers.
    Connected(QueuePair<Rc, Sending>, Headers),
    /// The queue pair that sends all datagrams, to this address and number.
    Datagrams(AddressHandle, u32),
}

/// Memory for headers, in turn: as many as may be posted at a time.
#[derive(Debug)]
pub(crate) struct Headers {
    slots: Box<[Source]>,
    next: usize,
    /// What was sent last.
    previous: Option<Piece>,
}

impl Headers {
    pub(crate) fn new(domain: &Domain, depth: u32) -> Result<Self, VerbsError> {
        let slots = Slot::allocate(domain, depth as usize, HEADER)?;
        let slots = slots.into_iter().map(Source::new).collect();
        Ok(Self { slots, next: 0, previous: None })
    }

    /// A header, written.
    fn write(&mut self, header: &Header) -> Result<&Source, VerbsError> {
        self.next = (self.next + 1) % self.slots.len();
        let slot = &mut self.slots[self.next];
        // The device holds a slot only while its message is posted, and there are as many slots as posts.
        header.write(slot.bytes_mut().ok_or(VerbsError::QueueFull)?);
        Ok(slot)
    }
}

/// The sender's part of every header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) port: Guid,
    pub(crate) session: u64,
}

impl Sender {
    const fn header(self, piece: Piece) -> Header {
        Header { peer: self.port, session: self.session, piece }
    }
}

/// Stages a piece whose bytes are in `body`. It has no completion of its own: the last one staged gets one.
pub(crate) fn send(
    (pair, headers): (&mut QueuePair<Rc, Sending>, &mut Headers),
    (sender, piece): (Sender, Piece),
    body: &Source,
    ticket: u64,
) -> Result<(), VerbsError> {
    let immediate = elide(headers.previous.as_ref(), &piece);
    headers.previous = Some(piece);
    if immediate.is_some() {
        let part = Gather::Part(body, piece.offset as usize, piece.bytes as usize);
        return pair.send(part, immediate, ticket, Signal::No);
    }
    let header = headers.write(&sender.header(piece))?;
    pair.send(gather(header, body, piece), None, ticket, Signal::No)
}

/// As [`send`], as a datagram: it always has its header, for the one before it may be lost.
pub(crate) fn send_datagram(
    (pair, headers): (&mut QueuePair<Ud, Sending>, &mut Headers),
    (sender, piece): (Sender, Piece),
    body: &Source,
    (to, number): (&AddressHandle, u32),
) -> Result<(), VerbsError> {
    let header = headers.write(&sender.header(piece))?;
    pair.send_to(gather(header, body, piece), to, (number, Q_KEY), 0, Signal::No)
}

fn gather<'a>(header: &'a Source, body: &'a Source, piece: Piece) -> Gather<'a> {
    if piece.bytes == 0 {
        Gather::One(header, HEADER)
    } else {
        Gather::Two((header, HEADER), (body, piece.offset as usize, piece.bytes as usize))
    }
}
