//! The control thread: everything that takes system calls or time. It makes queue pairs, talks to peers and
//! to the controller, and hears what the device says of its port.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snin_daemon::watch::{Place, Ready, Watch};
use tracing::{info, warn};

use super::callers::Callers;
use super::guests::Guests;
use super::line::Line;
use super::maker::Maker;
use super::rings::{Order, Rings, Word};
use snin_verbs::{AsyncEvent, AsyncEvents};

/// How often it looks for orders where a data thread that never sleeps wakes nobody.
const LOOK: Duration = Duration::from_millis(1);
/// The longest wait.
const NAP: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) rings: Arc<Rings>,
    pub(crate) maker: Maker,
    pub(crate) callers: Callers,
    pub(crate) guests: Guests,
    pub(crate) line: Option<Line>,
    pub(crate) events: AsyncEvents,
    pub(crate) events_place: Place,
}

impl Control {
    /// Until the agent ends.
    pub(crate) fn run(mut self) {
        let mut ready = Ready::default();
        while !self.rings.stops() {
            self.turn(Instant::now(), &ready);
            ready = self.wait();
        }
    }

    fn turn(&mut self, now: Instant, ready: &Ready) {
        while self.events_place.is_ready(ready)
            && let Some(event) = self.events.take()
        {
            self.device_says(event);
        }
        while let Some(order) = self.rings.orders.pop() {
            match order {
                Order::Connect { pair, route } => {
                    self.callers.connect(pair, &route, &self.maker, now);
                }
                Order::Cancel { pair } => self.callers.cancel(pair),
                Order::Retire { pair, link } => {
                    drop(link);
                    self.callers.retired(pair);
                }
                Order::InboundFailed { number } => self.guests.failed(number),
            }
        }
        self.guests.work(&self.maker, ready);
        self.callers.work(&self.maker, now, ready);
        if let Some(line) = &mut self.line {
            line.work(now, ready);
        }
    }

    fn device_says(&mut self, event: AsyncEvent) {
        let number = self.maker.port.number;
        match event {
            AsyncEvent::PortActive(port) | AsyncEvent::PortChanged(port) if port == number => {
                match self.maker.device.port(number) {
                    Ok(port) => {
                        info!("port {number} is active");
                        self.maker.port = port;
                        self.rings.tell(Word::Up);
                    }
                    // It says so again when it is.
                    Err(error) => warn!("{error}"),
                }
            }
            AsyncEvent::PortDown(port) if port == number => {
                warn!("port {number} is down");
                self.rings.tell(Word::Down);
            }
            AsyncEvent::DeviceFailed => {
                warn!("the device failed");
                self.rings.tell(Word::Down);
            }
            // Completions say which queue pairs failed.
            _ => {}
        }
    }

    /// Until there is something to do; what there is to read.
    fn wait(&self) -> Ready {
        let asleep = self.rings.to_control.sleep();
        let rings = &self.rings;
        let idle = rings.orders.is_empty() && rings.says.is_empty() && !rings.stops();
        let longest = if self.rings.busy { LOOK } else { NAP };
        let now = Instant::now();
        let due = [self.callers.next(), self.line.as_ref().and_then(Line::next)];
        let due = due.into_iter().flatten().min().map(|at| at.saturating_duration_since(now));
        let limit = due.map_or(longest, |due| due.min(longest));
        let mut watch = Watch::new();
        watch.readable(self.rings.to_control.as_fd());
        self.events_place.readable(&mut watch, self.events.as_fd());
        self.guests.watch(&mut watch);
        self.callers.watch(&mut watch);
        if let Some(line) = &self.line {
            line.watch(&mut watch);
        }
        // An error is a short wait.
        let _ = watch.wait(Some(if idle { limit } else { Duration::ZERO }));
        drop(asleep);
        watch.into_ready()
    }
}
