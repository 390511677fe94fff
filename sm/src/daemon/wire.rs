//! The ports, and what waits for room on them.
//!
//! A port that is of no use any more is closed; without the last one the daemon ends.

use std::collections::VecDeque;
use std::time::Duration;

use snin_daemon::watch::Watch;
use snin_mad::{Mad, QKey};
use snin_sm_database::mad_address::LocalPort;
use snin_sm_database::mad_address::Origin;
use tracing::error;

use crate::port::{Address, Port, PortError, Received, Sent};
use snin_sm_database::mad_address::Destination;

/// The Q_Key of queue pair 1 (IBA 10.2.4).
const GENERAL: QKey = QKey(0x8001_0000);
/// MADs that wait for room; beyond, answers are dropped.
const MOST_WAITING: usize = 16_384;
/// When so many wait, no more answers are taken from the core, which then refuses or drops requests.
const CROWDED: usize = 1_024;
/// How soon a port that cannot say when it has room is tried again.
const AGAIN: Duration = Duration::from_millis(1);

/// One port, to which everything can be given at once.
struct Line {
    port: Box<dyn Port>,
    waiting: VecDeque<(Box<Mad>, Address)>,
    closed: bool,
}

/// See the module's documentation.
pub struct Wire {
    /// By local port, one at least.
    lines: Vec<Line>,
    /// The port that says that a manager sits there.
    seat: usize,
    dropped: u64,
}

impl Wire {
    /// Nothing waits yet. There is one port at least.
    pub fn new(ports: Vec<Box<dyn Port>>) -> Self {
        let line = |port| Line { port, waiting: VecDeque::new(), closed: false };
        Self { lines: ports.into_iter().map(line).collect(), seat: 0, dropped: 0 }
    }

    /// The port at which the manager sits.
    pub fn port(&self) -> &dyn Port {
        &*self.lines[self.seat].port
    }

    fn open(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.closed)
    }

    /// IsSM is in the capabilities of the port at which the manager sits, and of no other.
    ///
    /// # Errors
    /// As [`Port::announce`], where it is the last port.
    pub fn sit(&mut self, seat: LocalPort) -> Result<(), PortError> {
        let seat = (seat.0 as usize).min(self.lines.len() - 1);
        if self.seat != seat {
            self.with(self.seat, |line| line.port.announce(false))?;
        }
        self.seat = seat;
        self.with(seat, |line| line.port.announce(true)).map(drop)
    }

    /// Does something with a port that is open; one that fails is closed, and the last one's failure is told.
    fn with<T>(
        &mut self,
        number: usize,
        work: impl FnOnce(&mut Line) -> Result<T, PortError>,
    ) -> Result<Option<T>, PortError> {
        let Some(line) = self.lines.get_mut(number).filter(|line| !line.closed) else {
            return Ok(None);
        };
        let failed = match work(line) {
            Ok(done) => return Ok(Some(done)),
            Err(failed) => failed,
        };
        if self.open().count() == 1 {
            return Err(failed);
        }
        let line = &mut self.lines[number];
        (line.closed, line.waiting) = (true, VecDeque::new());
        error!("{} is of no use any more: {failed}", line.port.info().name);
        Ok(None)
    }

    /// Sends now, or as soon as there is room, in order.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub fn send(
        &mut self,
        port: LocalPort,
        mad: Box<Mad>,
        to: Destination,
    ) -> Result<(), PortError> {
        let to = match to {
            Destination::Directed => Address::DIRECTED,
            Destination::Lid(lid) => Address::manager(lid),
        };
        self.with(port.0 as usize, |line| line.give(mad, to)).map(drop)
    }

    /// Sends an answer of subnet administration, or a report. Where more waits for room than there is any
    /// hope for, it is dropped: the requester asks again.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub fn answer(
        &mut self,
        port: LocalPort,
        mad: Box<Mad>,
        to: Origin,
        p_key_index: u16,
    ) -> Result<(), PortError> {
        let to = Address { lid: to.lid, qp: to.qp, sl: to.sl, q_key: GENERAL, p_key_index };
        if self.most_waiting() >= MOST_WAITING {
            self.dropped += 1;
            return Ok(());
        }
        self.with(port.0 as usize, |line| line.give(mad, to)).map(drop)
    }

    fn most_waiting(&self) -> usize {
        self.open().map(|line| line.waiting.len()).max().unwrap_or(0)
    }

    /// Whether so much waits that answers had better wait where they are made.
    pub fn is_crowded(&self) -> bool {
        self.most_waiting() >= CROWDED
    }

    /// Answers that were dropped for want of room.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Sends what waits, as far as there is room.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub fn flush(&mut self) -> Result<(), PortError> {
        (0..self.lines.len()).try_for_each(|number| self.with(number, Line::flush).map(drop))
    }

    /// The next MAD that came in by a port, if one did.
    ///
    /// # Errors
    /// As [`Port::receive`].
    pub fn receive(&mut self) -> Result<Option<(LocalPort, Received)>, PortError> {
        for number in 0..self.lines.len() {
            let received = self.with(number, |line| line.port.receive())?.flatten();
            if let Some(received) = received {
                return Ok(Some((LocalPort(number as u32), received)));
            }
        }
        Ok(None)
    }

    /// Whether a port is not what it was, as its adapter says.
    pub fn has_changed(&mut self) -> bool {
        let open = self.lines.iter_mut().filter(|line| !line.closed);
        // All are asked: what one has said is heard once.
        open.map(|line| line.port.has_changed()).filter(|changed| *changed).count() > 0
    }

    /// Whether everything is on its way.
    pub fn is_flushed(&self) -> bool {
        self.most_waiting() == 0
    }

    /// Waits for what comes in, and for room if something waits for that; the longest that may be waited.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) -> Option<Duration> {
        self.open().filter_map(|line| line.watch(watch)).min()
    }
}

impl Line {
    fn give(&mut self, mad: Box<Mad>, to: Address) -> Result<(), PortError> {
        if !self.waiting.is_empty() || self.port.send(&mad, &to)? == Sent::Full {
            self.waiting.push_back((mad, to));
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        while let Some((mad, to)) = self.waiting.front() {
            if self.port.send(mad, to)? == Sent::Full {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn watch<'a>(&'a self, watch: &mut Watch<'a>) -> Option<Duration> {
        watch.readable(self.port.readable());
        if let Some(events) = self.port.events() {
            watch.readable(events);
        }
        if self.waiting.is_empty() {
            return None;
        }
        match self.port.writable() {
            Some(writable) => {
                watch.writable(writable);
                None
            }
            None => Some(AGAIN),
        }
    }
}
