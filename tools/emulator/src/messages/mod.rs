//! Messages of end-node agents: what [`snin_protocol::software_port::messages`] carries.
//!
//! A port sends one message after the other at its link's rate, from the moment that each names; when a
//! message has left, it goes along the tables that the switches hold then, and the port at the other end has
//! it. What links it owned on its way, and from when to when, [`Owners`] watches. There is no queueing
//! between: two messages that meet on a link are what this is there to find, not to carry. What queues there would
//! be beside ordinary traffic, [`Messages::flooded`] says of the last ones.
//!
//! The core has no clock and no socket: messages and the time go in, [`Output`]s come out.

mod flooded;
mod owners;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use snin_fabric::{Lid, PortIndex};
use snin_protocol::Time;
use snin_protocol::software_port::messages::{Loss, MAX_BYTES, MAX_PAYLOAD, Outcome};

use crate::fabric::Fabric;

pub use flooded::{Beside, FloodError, Flooded};
pub use owners::{Clash, Owner, Owners, Span};

use flooded::Sent;

/// The greatest service level (IBA 7.6.5).
const MAX_LEVEL: u8 = 15;

/// Refused messages that wait for the fabric to tell of them; of more it does not tell.
const MOST_REFUSED: usize = 1_024;

/// Carried messages that wait to be counted by ports; more are not.
const MOST_PASSED: usize = 65_536;

/// Messages that are remembered for [`Messages::flooded`]; the oldest goes for a new one.
const MOST_SENT: usize = 1_024;

/// Limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The rate of ports whose rate is not known, in bit/s.
    pub rate: u64,
    /// What every port sends instead of what its link says, in bit/s.
    pub every_rate: Option<u64>,
    /// Bytes of a packet: what has begun when a message is taken back.
    pub packet: u32,
    /// Messages that wait at a port.
    pub waiting: usize,
    /// A message that begins longer ago is not of now.
    pub past: Time,
    /// Nor is one that begins later than this.
    pub future: Time,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rate: 100_000_000_000,
            every_rate: None,
            packet: 4096 + 40,
            waiting: 4096,
            past: Time::secs(10),
            future: Time::secs(1),
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender's number for it.
    pub token: u64,
    /// The flow, which with the port owns links.
    pub flow: u32,
    /// Where to.
    pub to: Lid,
    /// Which of the port's addresses it comes from.
    pub path_bits: u8,
    /// Its service level.
    pub sl: u8,
    /// Its length on the wire.
    pub bytes: u32,
    /// When it begins.
    pub begin: Time,
    /// What arrives.
    pub payload: Vec<u8>,
}

/// What is to be told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// To a sender: what became of its message.
    Completed {
        /// The port.
        port: PortIndex,
        /// Which.
        token: u64,
        /// What.
        outcome: Outcome,
    },
    /// To a receiver.
    Arrived {
        /// The port.
        port: PortIndex,
        /// From which address.
        from: Lid,
        /// To which.
        to: Lid,
        /// What.
        payload: Vec<u8>,
    },
}

/// The counters since the start.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Messages that were posted.
    pub posted: u64,
    /// That arrived.
    pub delivered: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// That were taken back.
    pub cancelled: u64,
    /// That arrived, by service level.
    pub levels: BTreeMap<u8, u64>,
    /// That were lost, by the reason.
    pub lost: BTreeMap<Loss, u64>,
}

/// A message that was carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Passed {
    /// The ports by which it left, one after the other.
    pub links: Vec<PortIndex>,
    /// Its packets.
    pub packets: u32,
    /// Its length on the wire.
    pub bytes: u32,
}

#[derive(Debug, Default)]
struct Adapter {
    attached: bool,
    /// Until when it is busy with what was posted so far.
    free_at: Time,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    begin: Time,
    end: Time,
    /// How long a packet takes.
    packet: Time,
    cancelled: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Messages {
    config: Config,
    adapters: Vec<Adapter>,
    /// When the first message of each port that has one has left.
    due: BTreeSet<(Time, PortIndex)>,
    outputs: VecDeque<Output>,
    refused: VecDeque<(PortIndex, Lid)>,
    /// What passed since it was last asked for.
    passed: VecDeque<Passed>,
    /// The last ones that arrived.
    sent: VecDeque<Sent>,
    owners: Owners,
    counts: Counts,
}

impl Messages {
    /// A fabric with so many ports, and no host at any of them.
    pub fn new(ports: usize, config: Config) -> Self {
        Self {
            adapters: std::iter::repeat_with(Adapter::default).take(ports).collect(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
            refused: VecDeque::new(),
            passed: VecDeque::new(),
            sent: VecDeque::new(),
            // Who is told of within `past` of its beginning was preceded by no more than that.
            owners: Owners::new(ports, config.past * 2),
            counts: Counts::default(),
            config,
        }
    }

    /// An agent is at a port; false where another is.
    pub fn attach(&mut self, port: PortIndex) -> bool {
        !std::mem::replace(&mut self.adapters[port.index()].attached, true)
    }

    /// It is there no longer: what it has not begun to send is not sent.
    pub fn detach(&mut self, port: PortIndex, now: Time) {
        let adapter = &mut self.adapters[port.index()];
        adapter.attached = false;
        let tokens: Vec<u64> = adapter.waiting.iter().map(|it| it.message.token).collect();
        tokens.into_iter().for_each(|token| self.cancel(port, token, now));
    }

    /// Whether an agent is at a port.
    pub fn is_attached(&self, port: PortIndex) -> bool {
        self.adapters[port.index()].attached
    }

    /// What a port sends, in bit/s.
    pub fn rate(&self, port: PortIndex, fabric: &Fabric) -> u64 {
        let own = || fabric.topology().port(port).rate.map(|rate| rate.bits_per_second());
        self.config.every_rate.or_else(own).unwrap_or(self.config.rate).max(1)
    }

    /// A port is to send a message.
    pub fn post(&mut self, port: PortIndex, message: Message, fabric: &Fabric, now: Time) {
        self.counts.posted += 1;
        let rate = self.rate(port, fabric);
        let Config { past, future, waiting, packet, .. } = self.config;
        let packet = sending_time(packet, rate);
        let adapter = &mut self.adapters[port.index()];
        let wrong = if !adapter.attached {
            Some(Loss::NotAttached)
        } else if adapter.waiting.len() >= waiting {
            Some(Loss::Queue)
        } else if message.bytes > MAX_BYTES || message.payload.len() > MAX_PAYLOAD {
            Some(Loss::TooLong)
        } else if message.begin + past < now || message.begin > now + future {
            Some(Loss::WrongTime)
        } else {
            None
        };
        if let Some(loss) = wrong {
            return self.complete(port, message.token, Outcome::Lost(loss));
        }
        let begin = message.begin.max(adapter.free_at);
        let end = begin + sending_time(message.bytes, rate);
        adapter.free_at = end;
        if adapter.waiting.is_empty() {
            self.due.insert((end, port));
        }
        adapter.waiting.push_back(Waiting { message, begin, end, packet, cancelled: false });
    }

    /// A message is not to be sent; what has begun ends with its packet.
    pub fn cancel(&mut self, port: PortIndex, token: u64, at: Time) {
        let adapter = &mut self.adapters[port.index()];
        let found = adapter.waiting.iter().position(|it| it.message.token == token);
        let Some(place) = found else { return };
        let waiting = &mut adapter.waiting[place];
        let old = waiting.end;
        waiting.cancelled = true;
        waiting.end =
            if at <= waiting.begin { waiting.begin } else { old.min(at + waiting.packet) };
        let new = waiting.end;
        if place == 0 {
            self.due.remove(&(old, port));
            self.due.insert((new, port));
        }
    }

    /// When something happens next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Lets happen what is due.
    pub fn handle_deadline(&mut self, fabric: &Fabric, now: Time) {
        while let Some(&(at, port)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let adapter = &mut self.adapters[port.index()];
            let Some(waiting) = adapter.waiting.pop_front() else { continue };
            if let Some(next) = adapter.waiting.front() {
                self.due.insert((next.end, port));
            }
            self.leave(port, waiting, fabric, now);
        }
    }

    /// A message has left its port, or as much of it as shall.
    fn leave(&mut self, port: PortIndex, waiting: Waiting, fabric: &Fabric, now: Time) {
        let Waiting { message, begin, end, cancelled, .. } = waiting;
        let Message { token, flow, to, path_bits, sl, bytes, payload, .. } = message;
        let carried = fabric.carry(port, to);
        if let Ok((_, links)) = &carried
            && begin < end
        {
            let span = Span { begin, end, owner: Owner { port, flow } };
            links.iter().for_each(|&link| self.owners.note(link, span, now));
        }
        if cancelled {
            return self.complete(port, token, Outcome::Cancelled);
        }
        let outcome = match carried {
            Err(loss) => {
                if loss == Loss::Partition && self.refused.len() < MOST_REFUSED {
                    self.refused.push_back((port, to));
                }
                Outcome::Lost(loss)
            }
            Ok((at, _)) if !self.is_attached(at) => Outcome::Lost(Loss::Nobody),
            Ok((at, links)) => {
                if self.sent.len() == MOST_SENT {
                    self.sent.pop_front();
                }
                let way = links.clone();
                self.sent.push_back(Sent { port, to, sl: sl & MAX_LEVEL, begin, end, links: way });
                let packets = bytes.div_ceil(self.config.packet.max(1)).max(1);
                if self.passed.len() < MOST_PASSED {
                    self.passed.push_back(Passed { links, packets, bytes });
                }
                let from = Lid(fabric.port_info(port).lid.0 | u16::from(path_bits));
                self.outputs.push_back(Output::Arrived { port: at, from, to, payload });
                self.counts.bytes += u64::from(bytes);
                *self.counts.levels.entry(sl & MAX_LEVEL).or_default() += 1;
                Outcome::Delivered
            }
        };
        self.complete(port, token, outcome);
    }

    fn complete(&mut self, port: PortIndex, token: u64, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.counts.delivered += 1,
            Outcome::Cancelled => self.counts.cancelled += 1,
            Outcome::Lost(loss) => *self.counts.lost.entry(loss).or_default() += 1,
        }
        self.outputs.push_back(Output::Completed { port, token, outcome });
    }

    /// What is to be told, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// A message that was lost since its sender's partition was not another port's: from where, to where. For
    /// [`Emulator::refuse`](crate::Emulator::refuse).
    pub fn poll_refused(&mut self) -> Option<(PortIndex, Lid)> {
        self.refused.pop_front()
    }

    /// A message that was carried since this was last asked. For [`Emulator::carried`](crate::Emulator::carried).
    pub fn poll_passed(&mut self) -> Option<Passed> {
        self.passed.pop_front()
    }

    /// What the last messages would have had beside floods of base addresses by `share` of a million of the hosts.
    ///
    /// # Errors
    /// Where there is nothing to say it of.
    pub fn flooded(&self, fabric: &Fabric, share: u32) -> Result<Flooded, FloodError> {
        let ports = fabric.topology().ports();
        let attached: Vec<PortIndex> = ports.filter(|&port| self.is_attached(port)).collect();
        let sent: Vec<Sent> = self.sent.iter().cloned().collect();
        flooded::flooded(fabric, (&sent, &attached), share, self.config.every_rate)
    }

    /// The watcher.
    pub const fn owners(&self) -> &Owners {
        &self.owners
    }

    /// The counters since the start.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
}

fn sending_time(bytes: u32, rate: u64) -> Time {
    let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1));
    Time(u64::try_from(nanos).unwrap_or(u64::MAX))
}
