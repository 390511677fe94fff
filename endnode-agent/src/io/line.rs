//! The line to the controller: called again and again while it does not answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::stream::{Stream, StreamEnd};
use snin_daemon::watch::{Ready, Watch};
use snin_protocol::message::ToAgent;
use tracing::{info, warn};

use super::rings::Rings;

/// The pause before another call.
const PAUSE: Duration = Duration::from_millis(100);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Line {
    rings: Arc<Rings>,
    address: SocketAddr,
    stream: Option<Stream>,
    again: Instant,
    /// Frames that the data thread may still have: they are freed here.
    frames: Vec<Arc<ToAgent>>,
    /// Said once, not at each call.
    complained: bool,
}

impl Line {
    pub(crate) const fn new(rings: Arc<Rings>, address: SocketAddr, now: Instant) -> Self {
        Self { rings, address, stream: None, again: now, frames: Vec::new(), complained: false }
    }

    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        if let Some(stream) = &self.stream {
            stream.watch(watch);
        }
    }

    /// When it is called again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.stream.is_none().then_some(self.again)
    }

    /// Carries what the data thread says, and what it is to hear.
    pub(crate) fn work(&mut self, now: Instant, ready: &Ready) {
        if self.stream.is_none() && now >= self.again {
            self.again = now + PAUSE;
            self.stream = Stream::call(self.address).ok();
        }
        let Some(stream) = &mut self.stream else {
            // Nobody hears it, and all of it is said again.
            while self.rings.to_controller.pop().is_some() {}
            return;
        };
        while let Some(said) = self.rings.to_controller.pop() {
            stream.send(&said);
        }
        self.frames.retain(|frame| Arc::strong_count(frame) > 1);
        let carried = carry(stream, &self.rings, &mut self.frames, ready);
        match carried {
            Ok(true) => {
                self.rings.to_data.ring();
                if std::mem::take(&mut self.complained) {
                    info!("the controller at {} answers", self.address);
                }
            }
            Ok(false) => {}
            Err(why) => {
                if let StreamEnd::Malformed(_) = why {
                    Rings::count(&self.rings.counters.malformed);
                    let _ = self.rings.frames.push(None);
                    self.rings.to_data.ring();
                }
                if !std::mem::replace(&mut self.complained, true) {
                    warn!("the controller at {}: {why}; calling again", self.address);
                }
                (self.stream, self.again) = (None, now + PAUSE);
            }
        }
    }
}

/// Whether anything came.
fn carry(
    stream: &mut Stream,
    rings: &Rings,
    frames: &mut Vec<Arc<ToAgent>>,
    ready: &Ready,
) -> Result<bool, StreamEnd> {
    let worked = stream.work(ready);
    let mut came = false;
    while let Some(frame) = stream.receive::<ToAgent>()? {
        came = true;
        let frame = Arc::new(frame);
        // A data thread that is so far behind gets the next lease instead.
        if rings.frames.push(Some(Arc::clone(&frame))).is_ok() {
            frames.push(frame);
        }
    }
    worked.map(|()| came)
}
