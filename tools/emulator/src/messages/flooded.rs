//! What ordinary traffic would do to the messages that were carried.
//!
//! [`Messages`](super::Messages) knows no queues. So the last messages are sent once more, packet by packet, in
//! the [data plane](crate::data): at the times at which they were sent, along the tables and on the lanes that the
//! manager wrote into every port, while some hosts flood base addresses. The same without the floods is what each
//! message is compared with, and the same with one lane for all is what it would be without lanes.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand::seq::index;
use rand_chacha::ChaCha8Rng;
use snin_fabric::{Lid, PortIndex};
use snin_protocol::Time;

use crate::data::{self, ConfigError, MessageId, Network, Observer, VlArbitration, VlWeight, Wait};
use crate::fabric::Fabric;

/// Data VLs of the data plane: as many as a port can have (IBA 7.6.2).
const VLS: u8 = 15;
/// To so many others at once a host sends that floods.
const AT_ONCE: usize = 16;
/// Packets that floods are made of at most: so long are the last messages looked at.
const MOST_PACKETS: u64 = 20_000;
/// Messages of one connection are no farther apart.
const PAUSE: Time = Time::micros(100);
const MILLION: u64 = 1_000_000;
/// The flows of the messages, and of the floods.
const SENT: u32 = 1;
const FLOOD: u32 = 2;

/// A message that was carried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    pub(super) port: PortIndex,
    pub(super) to: Lid,
    pub(super) sl: u8,
    pub(super) begin: Time,
    pub(super) end: Time,
    /// The ports by which it left, one after the other.
    pub(super) links: Vec<PortIndex>,
}

/// What came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Flooded {
    /// Messages that were looked at; of hosts that do not flood.
    pub messages: usize,
    /// Hosts that flooded.
    pub hosts: usize,
    /// With the lanes that the manager wrote.
    pub own: Beside,
    /// With one lane for everything.
    pub shared: Beside,
}

/// How messages fared beside floods.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Beside {
    /// Goodput of the slowest run of messages that a host sent to an address one after the other, by what it has
    /// without floods; that a packet waits for one other packet at each port of the way is left out.
    pub least_goodput: f64,
    /// The same of all of them, on average.
    pub mean_goodput: f64,
    /// How long a packet of a message waited at a switch at most.
    pub longest_wait: Time,
    /// What arrived of the floods, by what the links of the hosts carry.
    pub floods: f64,
}

/// Why nothing can be said.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FloodError {
    /// Nothing was carried that would go the same way now.
    #[error("no message was carried along the tables of now, by a host that is not to flood")]
    NoMessage,
    /// No base address to send to, or nobody to send.
    #[error("no host is left to flood")]
    NoFlood,
    /// Addresses that contradict each other.
    #[error("two ports have one address")]
    Addresses,
    /// The rate of links is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Whether the host in this place floods: evenly many of every part, `share` of a million.
fn floods(place: usize, share: u32) -> bool {
    let before = |places: usize| places as u64 * u64::from(share) / MILLION;
    before(place + 1) > before(place)
}

/// See the module's documentation. Of `attached` hosts, in order, `share` of a million flood.
pub(super) fn flooded(
    fabric: &Fabric,
    (sent, attached): (&[Sent], &[PortIndex]),
    share: u32,
    rate: Option<u64>,
) -> Result<Flooded, FloodError> {
    let addresses = fabric.addresses().map_err(|_| FloodError::Addresses)?;
    let floods = |&(place, _): &(usize, &PortIndex)| floods(place, share);
    let hosts: Vec<PortIndex> =
        attached.iter().enumerate().filter(floods).map(|(_, &port)| port).collect();
    let bases: Vec<Lid> = attached.iter().filter_map(|&port| addresses.base(port)).collect();
    if hosts.is_empty() || bases.len() < 2 {
        return Err(FloodError::NoFlood);
    }
    let replay = Replay { fabric, addresses: &addresses, rate, hosts: &hosts, bases: &bases };
    let same_way = |it: &&Sent| {
        let carried = fabric.carry(it.port, it.to);
        !hosts.contains(&it.port) && carried.is_ok_and(|(_, links)| links == it.links)
    };
    let mut same: Vec<&Sent> = sent.iter().filter(same_way).collect();
    let end = same.iter().map(|it| it.end).max().ok_or(FloodError::NoMessage)?;
    let first = replay.network(false)?;
    let packets = |time: Time| -> u64 {
        let bytes = |&port: &PortIndex| first.payload_possible(port, time);
        hosts.iter().map(bytes).sum::<u64>() / u64::from(data::Config::default().mtu)
    };
    let is_late = |it: &Sent| packets(end - it.begin) <= MOST_PACKETS;
    if same.iter().any(|it| is_late(it)) {
        same.retain(|it| is_late(it));
    } else {
        same.retain(|it| it.end == end);
    }
    let alone = [true, false].map(|own| replay.run(&same, (own, false)));
    let beside = [true, false].map(|own| replay.run(&same, (own, true)));
    let judged = |lane: usize| -> Result<Beside, FloodError> {
        let (alone, beside) = (alone[lane].clone()?, beside[lane].clone()?);
        let runs = alone.took.iter().zip(&beside.took).zip(&alone.one_packet);
        let goodput = |((&alone, &beside), &once): ((&u64, &u64), &u64)| {
            alone as f64 / beside.saturating_sub(once).max(alone) as f64
        };
        let ratios: Vec<f64> = runs.map(goodput).collect();
        Ok(Beside {
            least_goodput: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            mean_goodput: ratios.iter().sum::<f64>() / ratios.len() as f64,
            longest_wait: beside.longest_wait,
            floods: beside.floods,
        })
    };
    let (own, shared) = (judged(0)?, judged(1)?);
    Ok(Flooded { messages: same.len(), hosts: hosts.len(), own, shared })
}

struct Replay<'a> {
    fabric: &'a Fabric,
    addresses: &'a snin_fabric::Addresses,
    rate: Option<u64>,
    hosts: &'a [PortIndex],
    /// Where floods go.
    bases: &'a [Lid],
}

/// How it went once.
#[derive(Clone)]
struct Ran {
    /// By run of messages, in nanoseconds; what did not arrive took until the end of time.
    took: Vec<u64>,
    /// By run of messages, in nanoseconds: a packet at each port of the way.
    one_packet: Vec<u64>,
    longest_wait: Time,
    floods: f64,
}

impl Replay<'_> {
    fn network(&self, own: bool) -> Result<Network, ConfigError> {
        let vls = if own { VLS } else { 1 };
        let low = (0..vls).map(|vl| VlWeight { vl, weight: 64 }).collect();
        let arbitration = VlArbitration { high: Vec::new(), low, limit: 255 };
        let config = data::Config {
            bandwidth: self.rate,
            vls,
            arbitration,
            ack_sl: 0,
            ..data::Config::default()
        };
        let mut network = Network::new(&self.fabric.live_topology(), config)?;
        network.set_addresses(self.addresses);
        network.set_tables(&self.fabric.tables());
        if own {
            network.set_lanes(self.fabric.lanes());
        }
        Ok(network)
    }

    /// Sends the messages, on lanes of their own or on that of all, beside floods or alone.
    fn run(&self, sent: &[&Sent], (own, beside): (bool, bool)) -> Result<Ran, FloodError> {
        let mut network = self.network(own)?;
        let begin = sent.iter().map(|it| it.begin).min().ok_or(FloodError::NoMessage)?;
        let end = sent.iter().map(|it| it.end).max().ok_or(FloodError::NoMessage)?;
        let span = end - begin;
        let mut ids = Vec::with_capacity(sent.len());
        for it in sent {
            let bytes = network.payload_possible(it.port, it.end - it.begin);
            let start = it.begin - begin;
            let sl = if own { it.sl } else { 0 };
            let message = data::Message {
                start,
                sl,
                flow: SENT,
                ..data::Message::new(it.port, it.to, bytes)
            };
            // A port that discards the level sends nothing, and the message never arrives.
            ids.push(network.send(message).ok());
        }
        let flood = if beside { self.flood(&mut network, span) } else { Vec::new() };
        let mut watch = Longest::default();
        // What floods hold up ends some time later; what never does has no goodput.
        network.run_observed(span * 8, &mut watch);
        let completed = |n: usize| ids[n].and_then(|id| network.progress(id).completed);
        let took = |run: &Vec<usize>| {
            let last = run
                .iter()
                .map(|&n| completed(n))
                .try_fold(Time::ZERO, |last, at| Some(last.max(at?)));
            let start = sent[run[0]].begin - begin;
            last.map_or(u64::MAX, |last| (last - start).nanos().max(1))
        };
        let runs = runs(sent);
        let mtu = u64::from(data::Config::default().mtu);
        let one_packet = |run: &Vec<usize>| {
            let first = sent[run[0]];
            network.sending_time(first.port, mtu).nanos() * first.links.len() as u64
        };
        let possible: u64 =
            self.hosts.iter().map(|&port| network.payload_possible(port, span)).sum();
        let arrived: u64 = flood.iter().map(|&id| network.progress(id).delivered).sum();
        Ok(Ran {
            took: runs.iter().map(took).collect(),
            one_packet: runs.iter().map(one_packet).collect(),
            longest_wait: watch.0,
            floods: arrived as f64 / possible.max(1) as f64,
        })
    }

    /// As much as the links of the hosts carry in that time, from each to several others at random.
    fn flood(&self, network: &mut Network, span: Time) -> Vec<MessageId> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut ids = Vec::new();
        for &port in self.hosts {
            let others: Vec<Lid> = self
                .bases
                .iter()
                .copied()
                .filter(|&it| self.addresses.base(port) != Some(it))
                .collect();
            let to = index::sample(&mut random, others.len(), AT_ONCE.min(others.len()));
            let bytes = network.payload_possible(port, span) / to.len().max(1) as u64;
            for other in to {
                let window = Some(Time::ZERO..span);
                let message = data::Message {
                    window,
                    flow: FLOOD,
                    background: true,
                    ..data::Message::new(port, others[other], bytes)
                };
                ids.extend(network.send(message).ok());
            }
        }
        ids
    }
}

/// Messages that a host sent to an address one after the other, by their places: in order of time.
fn runs(sent: &[&Sent]) -> Vec<Vec<usize>> {
    let mut of: BTreeMap<(PortIndex, Lid), Vec<Vec<usize>>> = BTreeMap::new();
    for (place, it) in sent.iter().enumerate() {
        let runs = of.entry((it.port, it.to)).or_default();
        let last = runs
            .last_mut()
            .filter(|run| run.last().is_some_and(|&n| sent[n].end + PAUSE >= it.begin));
        match last {
            Some(run) => run.push(place),
            None => runs.push(vec![place]),
        }
    }
    of.into_values().flatten().collect()
}

/// The longest that a packet of a message waited at a switch.
#[derive(Default)]
struct Longest(Time);

impl Observer for Longest {
    fn waited(&mut self, wait: &Wait) {
        if wait.flow == SENT {
            self.0 = self.0.max(wait.here);
        }
    }
}
