//! Makes queue pairs: everything of a device that takes system calls.

use std::time::Duration;

use snin_fabric::{Dlid, Lid};
use snin_protocol::peer::{DeclineReason, End, EndAddress, Offer};

use super::send_path::{Headers, SendPath};
use snin_verbs::{
    AddressHandle, CompletionQueue, Depth, Device, Domain, Gid, Initialised, Mtu, Path,
    PeerAddress, Port, QueuePair, Rc, Receiving, Remote, Service, SharedQueue, Timing, VerbsError,
    path,
};

/// How long a receiver that is not ready has a sender wait: 10.24 ms, six times, as its program may be slow.
const NOT_READY: u8 = 20;
/// The greatest service level (IBA 7.6.5).
const MAX_LEVEL: u8 = 15;

/// A queue pair that waits for its peer's.
#[derive(Debug)]
pub(crate) struct Unconnected {
    /// `None`: datagrams have none of their own.
    pair: Option<QueuePair<Rc, Initialised>>,
    first_packet: u32,
}

/// What queue pairs are made from.
#[derive(Debug)]
pub(crate) struct QpFactory {
    pub(crate) device: Device,
    pub(crate) domain: Domain,
    pub(crate) port: Port,
    pub(crate) queue: CompletionQueue,
    pub(crate) receives: SharedQueue,
    /// The number of the queue pair that sends all datagrams, if that is the mode.
    pub(crate) datagrams: Option<u32>,
    pub(crate) depth: u32,
    pub(crate) inline: u32,
    /// The service level of everything, where the settings say one.
    pub(crate) level: Option<u8>,
    pub(crate) timing: Timing,
}

/// How queue pairs deal with silence.
pub(crate) fn timing(resend: Duration) -> Timing {
    Timing { not_ready_timer: NOT_READY, ..Timing::default() }.resend_after(resend)
}

impl QpFactory {
    /// A queue pair to send on, and what its peer is told of it.
    ///
    /// # Errors
    /// When the device has no more.
    pub(crate) fn unconnected(&self) -> Result<(Unconnected, End), VerbsError> {
        if let Some(number) = self.datagrams {
            return Ok((Unconnected { pair: None, first_packet: 0 }, self.end(number, 0)));
        }
        let pair = self.initialised(self.depth)?;
        let first_packet = first_packet(pair.number());
        let end = self.end(pair.number(), first_packet);
        Ok((Unconnected { pair: Some(pair), first_packet }, end))
    }

    /// Connects it to its peer's, along the peer's address `dlid`, with service level `sl`.
    ///
    /// # Errors
    /// When no path leads there, or the device refuses.
    pub(crate) fn connect(
        &self,
        unconnected: Unconnected,
        end: &End,
        (dlid, sl): (Option<Dlid>, u8),
    ) -> Result<SendPath, VerbsError> {
        let along = self.path(address(end), dlid, sl)?;
        let Some(pair) = unconnected.pair else {
            let to = AddressHandle::new(&self.domain, self.port.number, &along)?;
            return Ok(SendPath::Datagrams(to, end.number));
        };
        let remote = Remote { number: end.number, first_packet: end.first_packet };
        let pair = pair.connect(&along, remote, self.mtu(end), &self.timing)?;
        let pair = pair.start(unconnected.first_packet, &self.timing)?;
        Ok(SendPath::Connected(pair, Headers::new(&self.domain, self.depth)?))
    }

    /// A queue pair that receives from the one offered; for datagrams there is one already.
    ///
    /// # Errors
    /// Why the offer is declined.
    pub(crate) fn accept(
        &self,
        offer: &Offer,
    ) -> Result<(Option<QueuePair<Rc, Receiving>>, End), DeclineReason> {
        match (self.datagrams, offer.end.datagrams) {
            (Some(number), true) => return Ok((None, self.end(number, 0))),
            (None, false) => {}
            _ => return Err(DeclineReason::OtherMode),
        }
        // Both ends use the same offset, so that acknowledgements come back along the same tree.
        let (own, theirs) = (low(self.port.address()), low(address(&offer.end)));
        let asked = offer.dlid.map_or(own, |dlid| dlid.0.0);
        let offset = asked.checked_sub(own).ok_or(DeclineReason::NoPath)?;
        let back = theirs.checked_add(offset).ok_or(DeclineReason::NoPath)?;
        let sl = offer.sl.min(MAX_LEVEL);
        let along = self.path(address(&offer.end), Some(Dlid(Lid(back))), sl);
        let along = along.map_err(|_| DeclineReason::NoPath)?;
        let make = || {
            let pair = self.initialised(1)?;
            let first_packet = first_packet(pair.number());
            let end = self.end(pair.number(), first_packet);
            let Offer { end: theirs, .. } = offer;
            let remote = Remote { number: theirs.number, first_packet: theirs.first_packet };
            let pair = pair.connect(&along, remote, self.mtu(theirs), &self.timing)?;
            Ok::<_, VerbsError>((Some(pair), end))
        };
        make().map_err(|_| DeclineReason::Device)
    }

    fn initialised(&self, sends: u32) -> Result<QueuePair<Rc, Initialised>, VerbsError> {
        let depth = Depth { sends, receives: 0, inline: self.inline };
        let queues = (&self.queue, &self.queue);
        let pair =
            QueuePair::sharing(&self.domain, self.port.number, queues, &self.receives, depth)?;
        pair.initialise(false, 0)
    }

    fn end(&self, number: u32, first_packet: u32) -> End {
        let address = match self.port.address() {
            PeerAddress::Lid(lid) => EndAddress::Lid(lid),
            PeerAddress::Gid(gid) => EndAddress::Gid(gid.0),
        };
        let (mtu, datagrams) = (self.port.mtu.bytes(), self.datagrams.is_some());
        End { address, number, first_packet, mtu, datagrams }
    }

    fn path(&self, peer: PeerAddress, dlid: Option<Dlid>, sl: u8) -> Result<Path, VerbsError> {
        let service = Service { level: self.level.unwrap_or(sl), rate: 0 };
        Ok(path(&self.port.addresses, peer, dlid, service)?)
    }

    /// The most that both ends' packets carry.
    fn mtu(&self, end: &End) -> Mtu {
        let most = end.mtu.min(self.port.mtu.bytes());
        let all = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];
        all.into_iter().rfind(|mtu| mtu.bytes() <= most).unwrap_or(Mtu::B256)
    }
}

/// Any number will do that the last queue pair of that number has not used lately.
const fn first_packet(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b1) >> 8
}

const fn address(end: &End) -> PeerAddress {
    match end.address {
        EndAddress::Lid(lid) => PeerAddress::Lid(lid),
        EndAddress::Gid(gid) => PeerAddress::Gid(Gid(gid)),
    }
}

const fn low(address: PeerAddress) -> u16 {
    match address {
        PeerAddress::Lid(lid) => lid.0,
        PeerAddress::Gid(gid) => gid.low(),
    }
}
