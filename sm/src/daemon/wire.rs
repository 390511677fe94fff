//! The port, and what waits for room on it.

use std::collections::VecDeque;
use std::time::Duration;

use snin_daemon::watch::Watch;
use snin_mad::{Mad, QKey};
use snin_sm_core::administration::Origin;

use crate::port::{Address, Port, PortError, Received, Sent};
use snin_sm_core::events::Destination;

/// The Q_Key of queue pair 1 (IBA 10.2.4).
const GENERAL: QKey = QKey(0x8001_0000);
/// MADs that wait for room; beyond, answers are dropped.
const MOST_WAITING: usize = 16_384;
/// When so many wait, no more answers are taken from the core, which then refuses or drops requests.
const CROWDED: usize = 1_024;
/// How soon a port that cannot say when it has room is tried again.
const AGAIN: Duration = Duration::from_millis(1);

/// A port to which everything can be given at once.
pub struct Wire {
    port: Box<dyn Port>,
    waiting: VecDeque<(Box<Mad>, Address)>,
    dropped: u64,
}

impl Wire {
    /// Nothing waits yet.
    pub fn new(port: Box<dyn Port>) -> Self {
        Self { port, waiting: VecDeque::new(), dropped: 0 }
    }

    /// The port.
    pub fn port(&self) -> &dyn Port {
        &*self.port
    }

    /// Sets or clears IsSM in the port's capabilities.
    ///
    /// # Errors
    /// As [`Port::announce`].
    pub fn announce(&mut self, manager: bool) -> Result<(), PortError> {
        self.port.announce(manager)
    }

    /// Sends now, or as soon as there is room, in order.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub fn send(&mut self, mad: Box<Mad>, to: Destination) -> Result<(), PortError> {
        let to = match to {
            Destination::Directed => Address::DIRECTED,
            Destination::Lid(lid) => Address::manager(lid),
        };
        if !self.waiting.is_empty() || self.port.send(&mad, &to)? == Sent::Full {
            self.waiting.push_back((mad, to));
        }
        Ok(())
    }

    /// Sends an answer of subnet administration, or a report. Where more waits for room than there is any
    /// hope for, it is dropped: the requester asks again.
    ///
    /// # Errors
    /// As [`Port::send`].
    pub fn answer(&mut self, mad: Box<Mad>, to: Origin, p_key_index: u16) -> Result<(), PortError> {
        let to = Address { lid: to.lid, qp: to.qp, sl: to.sl, q_key: GENERAL, p_key_index };
        if self.waiting.len() >= MOST_WAITING {
            self.dropped += 1;
            return Ok(());
        }
        if !self.waiting.is_empty() || self.port.send(&mad, &to)? == Sent::Full {
            self.waiting.push_back((mad, to));
        }
        Ok(())
    }

    /// Whether so much waits that answers had better wait where they are made.
    pub fn is_crowded(&self) -> bool {
        self.waiting.len() >= CROWDED
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
        while let Some((mad, to)) = self.waiting.front() {
            if self.port.send(mad, to)? == Sent::Full {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// The next MAD that came in, if one did.
    ///
    /// # Errors
    /// As [`Port::receive`].
    pub fn receive(&mut self) -> Result<Option<Received>, PortError> {
        self.port.receive()
    }

    /// Whether everything is on its way.
    pub fn is_flushed(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits for what comes in, and for room if something waits for that; the longest that may be waited.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) -> Option<Duration> {
        watch.readable(self.port.readable());
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
