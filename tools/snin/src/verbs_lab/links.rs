//! The hosts' queue pairs: one for each peer and tree, connected before anything is sent, and what the
//! agent's mesh sees of them.
//!
//! Pieces are written into the peer's memory: nobody there has to be awake, and the acknowledgement says
//! that they arrived.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use snin_agent::core::{BreakReason, PairId, Port, PortEvent, Post, Route};
use snin_agent::verbs::{
    self, Batch, CompletionQueue, Depth, Device, Domain, Gather, Initialised, LocalAddresses,
    QueuePair, Rc, Remote, RemoteMemory, Retries, Sending, Service, Shared, Signal, Slot, Timing,
    path,
};
use snin_fabric::{Dlid, Lid, TreeId};

use super::error::VerbsLabError;
use super::fabric::Fabric;
use super::interfaces;

/// The most pieces posted on one queue pair.
pub(super) const DEPTH: u32 = 4;
/// How long a device may take to have all addresses.
const PATIENCE: Duration = Duration::from_secs(10);
/// A second, six times: links are slow here, and what is lost is lost by somebody's fault.
const TIMING: Timing = Timing {
    timeout: 18,
    retries: Retries::MOST,
    not_ready_retries: Retries::MOST,
    not_ready_timer: 12,
};

/// What a host's queue pairs are made from.
struct Adapter {
    port: verbs::Port,
    domain: Domain,
    queue: CompletionQueue,
    source: Arc<Slot>,
    memory: Shared,
}

impl Adapter {
    fn open(
        host: usize,
        addresses: usize,
        entries: u32,
        piece: usize,
    ) -> Result<Self, VerbsLabError> {
        let device = Device::open(&interfaces::name(host))?;
        let port = port_with(&device, addresses)?;
        let domain = Domain::new(&device)?;
        let queue = CompletionQueue::new(&device, entries)?;
        let source = Slot::allocate(&domain, 1, piece)?.pop().map(Arc::new);
        let source = source.ok_or_else(|| VerbsLabError::Stopped("no memory".to_owned()))?;
        let memory = Shared::new(&domain, piece)?;
        Ok(Self { port, domain, queue, source, memory })
    }

    fn loose(&self) -> Result<QueuePair<Rc, Initialised>, VerbsLabError> {
        let depth = Depth { sends: DEPTH, receives: 1, inline: 0 };
        let (number, queues) = (self.port.number, (&self.queue, &self.queue));
        Ok(QueuePair::new(&self.domain, number, queues, depth)?.initialise(true, 0)?)
    }

    /// Connects a queue pair of this host to one of `peer`'s, from and to the addresses of one tree.
    fn join(
        &self,
        pair: QueuePair<Rc, Initialised>,
        peer: &Self,
        number: u32,
        to: Lid,
    ) -> Result<Link, VerbsLabError> {
        let own = &self.port.addresses;
        let way = path(own, peer.port.address(), Some(Dlid(to)), Service::default())?;
        let remote = Remote { number, first_packet: 0 };
        let pair = pair.connect(&way, remote, self.port.mtu, &TIMING)?.start(0, &TIMING)?;
        Ok(Link { pair, to: peer.memory.remote(), holder: None, state: State::Idle })
    }
}

/// The kernel adds addresses to a device some time after it was made.
fn port_with(device: &Device, addresses: usize) -> Result<verbs::Port, VerbsLabError> {
    let start = Instant::now();
    loop {
        match device.port(1) {
            Ok(port) if count(&port) >= addresses => return Ok(port),
            found if start.elapsed() > PATIENCE => {
                found?;
                let what = format!("{} has not {addresses} addresses", device.name());
                return Err(VerbsLabError::Stopped(what));
            }
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn count(port: &verbs::Port) -> usize {
    match &port.addresses {
        LocalAddresses::Gids { table, .. } => table.len(),
        LocalAddresses::Lids { lmc, .. } => lmc.addresses(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Of use.
    Idle,
    /// Given up by the mesh; free once nothing is under way.
    Closing,
    /// In error, for good.
    Dead,
}

struct Link {
    pair: QueuePair<Rc, Sending>,
    to: RemoteMemory,
    holder: Option<PairId>,
    state: State,
}

/// A host's port as the mesh sees it.
pub(super) struct Links {
    adapter: Adapter,
    /// By the peer's address.
    links: BTreeMap<Lid, Link>,
    numbers: BTreeMap<u32, Lid>,
    held: BTreeMap<PairId, Lid>,
    news: VecDeque<PortEvent>,
    batch: Batch,
}

/// The queue pairs of all hosts, by host; pieces have at most so many bytes.
pub(super) fn connect_all(fabric: &Fabric, piece: usize) -> Result<Vec<Links>, VerbsLabError> {
    let places = fabric.places();
    let entries = (places.len() as u32 * u32::from(fabric.trees()) * DEPTH).max(16);
    let mut all = Vec::new();
    for (host, place) in places.iter().enumerate() {
        let adapter = Adapter::open(host, place.lmc.addresses(), entries, piece)?;
        let (links, numbers, held) = Default::default();
        all.push(Links {
            adapter,
            links,
            numbers,
            held,
            news: VecDeque::new(),
            batch: Batch::new(16),
        });
    }
    for a in 0..all.len() {
        for b in 0..a {
            for tree in (0..fabric.trees()).map(TreeId) {
                let (Some(to_a), Some(to_b)) = (fabric.address(a, tree), fabric.address(b, tree))
                else {
                    continue;
                };
                let (one, other) = (all[a].adapter.loose()?, all[b].adapter.loose()?);
                let numbers = (one.number(), other.number());
                let link = all[a].adapter.join(one, &all[b].adapter, numbers.1, to_b)?;
                all[a].add(to_b, link);
                let link = all[b].adapter.join(other, &all[a].adapter, numbers.0, to_a)?;
                all[b].add(to_a, link);
            }
        }
    }
    Ok(all)
}

impl Links {
    fn add(&mut self, to: Lid, link: Link) {
        self.numbers.insert(link.pair.number(), to);
        self.links.insert(to, link);
    }

    /// The addresses that there is a queue pair to.
    pub(super) fn addresses(&self) -> Vec<Lid> {
        self.links.keys().copied().collect()
    }

    /// Writes so many bytes to an address, past the mesh.
    pub(super) fn write(&mut self, to: Lid, bytes: usize) -> Result<(), VerbsLabError> {
        let Some(link) = self.links.get_mut(&to) else { return Ok(()) };
        let what = Gather::One(&self.adapter.source, bytes);
        link.pair.write(what, (link.to, 0), 0, Signal::Yes)?;
        Ok(link.pair.ring()?)
    }

    /// Takes what is done: how many writes are under way still.
    pub(super) fn settle(&mut self) -> Result<usize, VerbsLabError> {
        self.take_completions();
        if let Some((to, _)) = self.links.iter().find(|(_, link)| link.state == State::Dead) {
            return Err(VerbsLabError::Stopped(format!(
                "a queue pair to address {to} is in error"
            )));
        }
        Ok(self.links.values().map(|link| link.pair.outstanding()).sum())
    }

    /// The mesh is gone, and another comes.
    pub(super) fn release(&mut self) {
        self.held.clear();
        self.news.clear();
        for link in self.links.values_mut() {
            link.holder = None;
            if link.state == State::Closing {
                link.state = State::Idle;
            }
        }
    }

    fn take_completions(&mut self) {
        let Self { adapter, links, numbers, news, batch, .. } = self;
        while adapter.queue.poll(batch).is_ok_and(|count| count > 0) {
            for completion in batch.completions() {
                let to = numbers.get(&completion.queue_pair());
                let Some(link) = to.and_then(|to| links.get_mut(to)) else { continue };
                let mut done = None;
                link.pair.finish(&completion, |finished| done = Some(finished.token));
                let news = &mut *news;
                match (completion.outcome(), link.holder, done) {
                    (Err(_), holder, _) => link.fail(holder, news),
                    (Ok(()), Some(pair), Some(ticket)) if link.state == State::Idle => {
                        news.push_back(PortEvent::Done { pair, ticket });
                    }
                    _ => {}
                }
            }
        }
    }

    /// What was given up is free once nothing of it is under way: the links may be another's then.
    fn finish_closing(&mut self) {
        let Self { links, held, news, .. } = self;
        held.retain(|&pair, to| {
            let Some(link) = links.get_mut(to) else { return false };
            let gone = match link.state {
                State::Idle => false,
                State::Closing => link.pair.outstanding() == 0,
                State::Dead => true,
            };
            if gone {
                news.push_back(PortEvent::Closed { pair });
                link.holder = None;
                if link.state == State::Closing {
                    link.state = State::Idle;
                }
            }
            !gone
        });
    }
}

impl Link {
    fn fail(&mut self, holder: Option<PairId>, news: &mut VecDeque<PortEvent>) {
        if self.state != State::Dead
            && let Some(pair) = holder
        {
            news.push_back(PortEvent::Broken { pair, reason: BreakReason::Failed });
        }
        self.state = State::Dead;
    }
}

impl Port for Links {
    fn connect(&mut self, pair: PairId, route: &Route) {
        let to = route.dlid.map(|dlid| dlid.0);
        let link = to.and_then(|to| Some((to, self.links.get_mut(&to)?)));
        match link {
            Some((to, link)) if link.state == State::Idle && link.holder.is_none() => {
                link.holder = Some(pair);
                self.held.insert(pair, to);
                self.news.push_back(PortEvent::Ready { pair });
            }
            _ => {
                let reason = BreakReason::Unconnected;
                self.news.push_back(PortEvent::Broken { pair, reason });
                self.news.push_back(PortEvent::Closed { pair });
            }
        }
    }

    fn post(&mut self, &Post { pair, ticket, piece }: &Post) {
        let Self { held, links, adapter, news, .. } = self;
        let Some(link) = held.get(&pair).and_then(|to| links.get_mut(to)) else { return };
        let what = Gather::One(&adapter.source, piece.bytes as usize);
        let posted = link.pair.write(what, (link.to, 0), ticket, Signal::Yes);
        if posted.and_then(|()| link.pair.ring()).is_err() {
            link.fail(Some(pair), news);
        }
    }

    fn close(&mut self, pair: PairId) {
        let Some(link) = self.held.get(&pair).and_then(|to| self.links.get_mut(to)) else { return };
        if link.state == State::Idle {
            link.state = State::Closing;
        }
    }

    fn poll(&mut self) -> Option<PortEvent> {
        if self.news.is_empty() {
            self.take_completions();
            self.finish_closing();
        }
        self.news.pop_front()
    }
}
