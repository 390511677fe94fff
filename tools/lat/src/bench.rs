//! The parts of both sides: a device, queue pairs for each flow, memory.

use std::time::{Duration, Instant};

use snin_fabric::{Dlid, Lid};
use snin_verbs::{
    Batch, Completion, CompletionQueue, Depth, Device, Domain, Failure, Gather, Mtu, Path,
    PeerAddress, Port, Remote, RemoteMemory, Service, Shared, Signal, Slot, Source, choose, path,
};

use super::LatError;
use super::exchange::{End, Ends};
use super::link::{Link, Loose, Material, ROUTE};
use super::plan::{Carrier, Operation, Pattern, Plan};

/// Without any completion for so long something is wrong.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// An unreliable message that has not come after so long, or whose answer has not, is lost.
pub(crate) const LOST: Duration = Duration::from_millis(500);
/// Sends of which only the last is signalled, at most (perftest: 100), for each completion is work.
const UNSIGNALLED: u64 = 100;
/// Sources of a flow, and their bytes, at most.
const MOST_SOURCES: usize = 64;
const SOURCES_BYTES: usize = 1 << 20;
/// Completions taken at a time.
const BATCH: u16 = 16;
/// Writes of the congestor that are under way at a time.
const CONGESTION: u32 = 4;

/// A port, and what is made on it.
#[derive(Debug)]
pub struct Bench {
    /// The port.
    pub port: Port,
    device: Device,
    domain: Domain,
}

impl Bench {
    /// On the device and port named, or the first active.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(device: Option<&str>, port: Option<u8>) -> Result<Self, LatError> {
        let (device, port) = choose(device, port)?;
        let domain = Domain::new(&device)?;
        Ok(Self { port, device, domain })
    }

    /// The device's name.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The longest message by such a queue pair.
    pub fn longest(&self, carrier: Carrier) -> usize {
        let most = match carrier {
            Carrier::Ud => self.port.mtu.bytes(),
            Carrier::Rc | Carrier::Uc => self.port.longest_message,
        };
        most as usize
    }

    /// Whether this port can do what a plan says.
    ///
    /// # Errors
    /// The first thing that it cannot.
    pub fn check(&self, plan: &Plan) -> Result<(), LatError> {
        plan.check()?;
        let most = self.longest(plan.carrier);
        match plan.carrier {
            _ if plan.size <= most => Ok(()),
            Carrier::Ud => Err(LatError::Plan(format!(
                "{} bytes: a datagram is one packet, at most {most} here; rc and uc send more",
                plan.size
            ))),
            _ => Err(LatError::Plan(format!(
                "{} bytes, but {} sends at most {most} at a time",
                plan.size,
                self.device()
            ))),
        }
    }

    /// Makes everything that a plan takes, with receives posted and nothing connected.
    ///
    /// # Errors
    /// When the device cannot.
    pub fn prepare(&self, plan: &Plan) -> Result<Prepared<'_>, LatError> {
        self.check(plan)?;
        let flows = plan.trees.len() as u32;
        let entries = (flows * (2 * plan.depth + plan.receives())).max(16);
        let queues = || CompletionQueue::new(&self.device, entries);
        let (sends, receives, congestion) = (queues()?, queues()?, queues()?);
        let mut prepared = Prepared {
            bench: self,
            sends,
            receives,
            congestion,
            flows: Vec::new(),
            congestor: None,
        };
        for &tree in &plan.trees {
            let flow = prepared.loose(plan, tree, false)?;
            prepared.flows.push(flow);
        }
        if plan.congestor.is_some() {
            prepared.congestor = Some(prepared.loose(plan, plan.trees[0], true)?);
        }
        Ok(prepared)
    }
}

/// See [`Bench::prepare`].
#[derive(Debug)]
pub struct Prepared<'a> {
    bench: &'a Bench,
    sends: CompletionQueue,
    receives: CompletionQueue,
    congestion: CompletionQueue,
    flows: Vec<LooseFlow>,
    congestor: Option<LooseFlow>,
}

#[derive(Debug)]
struct LooseFlow {
    pair: Loose,
    first_packet: u32,
    tree: u16,
    memory: Shared,
    sources: Vec<Source>,
    sinks: Vec<Slot>,
}

impl Prepared<'_> {
    fn material(&self, depth: Depth, congests: bool) -> Material<'_> {
        let sends = if congests { &self.congestion } else { &self.sends };
        let (domain, port) = (&self.bench.domain, self.bench.port.number);
        Material { domain, port, sends, receives: &self.receives, depth }
    }

    fn loose(&self, plan: &Plan, tree: u16, congests: bool) -> Result<LooseFlow, LatError> {
        let (size, window) = match plan.congestor.filter(|_| congests) {
            Some(size) => (size, CONGESTION),
            None => (plan.size, plan.window()),
        };
        let receives = plan.operation == Operation::Send && !congests;
        let depth = Depth {
            sends: plan.depth.max(window),
            receives: if receives { plan.receives() } else { 1 },
            inline: if congests { 0 } else { plan.inline },
        };
        let carrier = if congests { Carrier::Rc } else { plan.carrier };
        let mut pair = Loose::new(carrier, &self.material(depth, congests))?;
        let domain = &self.bench.domain;
        let room = size + if carrier == Carrier::Ud { ROUTE } else { 0 };
        let memory = Shared::new(domain, room)?;
        if receives {
            // All messages come into the same memory, which stays in the caches: the bench does not read them.
            (0..depth.receives).try_for_each(|_| pair.receive(&memory))?;
        }
        // Reads go to slots of their own.
        let reads = plan.operation == Operation::Read && !congests;
        let sinks = Slot::allocate(domain, if reads { window as usize } else { 0 }, size)?;
        let sources = if congests { 1 } else { sources(plan) };
        let sources = Slot::allocate(domain, sources, size)?.into_iter().map(Source::new).collect();
        let first_packet = pair.number().wrapping_mul(0x9e37_79b1) >> 8;
        Ok(LooseFlow { pair, first_packet, tree, memory, sources, sinks })
    }

    /// What the peer has to be told.
    pub fn ends(&self) -> Ends {
        let end = |flow: &LooseFlow| End {
            number: flow.pair.number(),
            first_packet: flow.first_packet,
            memory: flow.memory.remote().into(),
        };
        Ends {
            address: self.bench.port.address().into(),
            mtu: self.bench.port.mtu.bytes(),
            flows: self.flows.iter().chain(&self.congestor).map(end).collect(),
        }
    }

    /// Connects everything to the peer's.
    ///
    /// # Errors
    /// When no way leads there, or the device refuses.
    pub fn connect(self, plan: &Plan, peer: &Ends) -> Result<Connected, LatError> {
        if peer.flows.len() != self.flows.len() + usize::from(self.congestor.is_some()) {
            return Err(LatError::Plan("the peer has another number of flows".to_owned()));
        }
        let port = &self.bench.port;
        let mtu = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];
        let mtu = mtu.into_iter().rfind(|mtu| mtu.bytes() <= peer.mtu.min(port.mtu.bytes()));
        let mtu = mtu.unwrap_or(Mtu::B256);
        let Self { sends, receives, congestion, flows, congestor, bench } = self;
        let join = |flow: LooseFlow, end: &End, sends: &CompletionQueue| {
            let from = Material {
                domain: &bench.domain,
                port: port.number,
                sends,
                receives: &receives,
                depth: Depth { sends: 0, receives: 0, inline: 0 },
            };
            let along = way(port, peer, flow.tree, plan.level)?;
            let remote = Remote { number: end.number, first_packet: end.first_packet };
            let link = flow.pair.connect(&from, &along, remote, (mtu, flow.first_packet))?;
            Ok::<_, LatError>(Flow {
                link,
                memory: flow.memory,
                signal_every: signal_every(plan, flow.sources.len()),
                sources: flow.sources,
                next: 0,
                theirs: end.memory.into(),
                sinks: flow.sinks,
                unawaited: plan.messages().saturating_sub(plan.receives().into()),
                staged: 0,
            })
        };
        let mut ends = peer.flows.iter();
        let mut joined = Vec::with_capacity(flows.len());
        for (flow, end) in flows.into_iter().zip(&mut ends) {
            joined.push(join(flow, end, &sends)?);
        }
        let congestor = match (congestor, ends.next()) {
            (Some(flow), Some(end)) => Some(join(flow, end, &congestion)?),
            _ => None,
        };
        let mut numbers: Vec<(u32, usize)> = Vec::new();
        numbers.extend(joined.iter().zip(0..).map(|(flow, at)| (flow.link.number(), at)));
        numbers.sort_unstable();
        let batch = || Batch::new(BATCH);
        let congestor = congestor.map(|flow| Congestor { flow, queue: congestion, batch: batch() });
        let (sends, receives) = ((sends, batch()), (receives, batch()));
        let watch = Watch::new();
        Ok(Connected { flows: joined, congestor, sends, receives, numbers, watch })
    }
}

/// How many sources a flow has. Sources of writes that are answered are marked anew each time, once they are sent:
/// several sources, as long as they are short, keep the flow from waiting for that.
fn sources(plan: &Plan) -> usize {
    if is_marked(plan) { (SOURCES_BYTES / plan.size.max(1)).clamp(1, MOST_SOURCES) } else { 1 }
}

fn is_marked(plan: &Plan) -> bool {
    plan.operation == Operation::Write && plan.pattern == Pattern::PingPong
}

/// One of so many sends is signalled, and those before it are done then, too: soon enough for the queue of
/// sends, and for sources.
fn signal_every(plan: &Plan, sources: usize) -> u64 {
    let most = u64::from(plan.depth / 2).clamp(1, UNSIGNALLED);
    if is_marked(plan) { most.min(sources as u64 / 2).max(1) } else { most }
}

/// The path to the peer along a tree; tree 0 is the base address, along any tree that it has.
fn way(port: &Port, peer: &Ends, tree: u16, level: u8) -> Result<Path, LatError> {
    let address = peer.address.into();
    let base = match address {
        PeerAddress::Lid(lid) => lid.0,
        PeerAddress::Gid(gid) => gid.low(),
    };
    let dlid = (tree > 0).then(|| Dlid(Lid(base.saturating_add(tree))));
    Ok(path(&port.addresses, address, dlid, Service { level, rate: 0 })?)
}

/// A connected flow.
#[derive(Debug)]
pub struct Flow {
    /// Its queue pair.
    pub link: Link,
    /// What the peer writes and reads, and where messages come into.
    pub memory: Shared,
    /// What is sent: one after the other.
    sources: Vec<Source>,
    /// Which of them next.
    next: usize,
    /// The peer's memory.
    pub theirs: RemoteMemory,
    /// Where reads go.
    pub sinks: Vec<Slot>,
    /// Messages that no receive is posted for yet.
    unawaited: u64,
    staged: u64,
    /// One of so many sends is signalled: `make_room` waits for it.
    signal_every: u64,
}

impl Flow {
    /// Posts the next message, `signalled` or like most: whether there was room for it.
    ///
    /// # Errors
    /// When the device refuses.
    pub fn post(
        &mut self,
        what: Operation,
        length: usize,
        signalled: bool,
    ) -> Result<bool, LatError> {
        let is_there = self.stage(what, length, signalled)?;
        if is_there {
            self.link.ring()?;
        }
        Ok(is_there)
    }

    fn stage(&mut self, what: Operation, length: usize, signalled: bool) -> Result<bool, LatError> {
        // Some have to be signalled, so that the queue of sends does not fill up.
        self.staged += 1;
        let signalled = signalled || self.staged.is_multiple_of(self.signal_every);
        let signal = if signalled { Signal::Yes } else { Signal::No };
        let source = &self.sources[self.next];
        match what {
            Operation::Send => self.link.send(Gather::One(source, length), signal)?,
            Operation::Write => {
                self.link.write(Gather::One(source, length), self.theirs, signal)?;
            }
            Operation::Read => {
                let Some(sink) = self.sinks.pop() else { return Ok(false) };
                self.link.read(sink, self.theirs).map_err(|refused| refused.error)?;
            }
        }
        self.next += 1;
        if self.next == self.sources.len() {
            self.next = 0;
        }
        Ok(true)
    }

    /// The last byte of what the peer wrote.
    pub fn mark(&self, length: usize) -> u8 {
        let mut mark = [0];
        self.memory.read(length - 1, &mut mark);
        mark[0]
    }
}

/// The last byte of a flow's write of that number.
pub const fn mark_of(number: u64) -> u8 {
    (number & 0xff) as u8
}

/// Writes as fast as they go.
#[derive(Debug)]
struct Congestor {
    flow: Flow,
    queue: CompletionQueue,
    batch: Batch,
}

impl Congestor {
    fn pump(&mut self) -> Result<(), LatError> {
        self.queue.poll(&mut self.batch)?;
        for completion in self.batch.completions() {
            check(completion)?;
            self.flow.link.finish(completion, |_| {});
        }
        let length = self.flow.sources[0].len();
        while self.flow.link.outstanding() < CONGESTION as usize {
            self.flow.post(Operation::Write, length, true)?;
        }
        Ok(())
    }
}

/// Which completions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// Of what was sent, written or read.
    Sends,
    /// Of messages that came.
    Receives,
}

/// Everything connected.
#[derive(Debug)]
pub struct Connected {
    /// The flows.
    pub flows: Vec<Flow>,
    congestor: Option<Congestor>,
    /// A queue, and what the last poll took.
    sends: (CompletionQueue, Batch),
    receives: (CompletionQueue, Batch),
    /// Number of a queue pair and whose it is, sorted.
    numbers: Vec<(u32, usize)>,
    /// Says when nothing came for too long.
    pub watch: Watch,
}

impl Connected {
    /// Looks for completions: how many there are. [`Self::whose`] names the flow of each until [`Self::settle`]
    /// ends them, which has to be before the next poll. So messages are answered first: the answer does not wait
    /// for the time that ending takes.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn poll(&mut self, done: Done) -> Result<usize, LatError> {
        let (queue, batch) = match done {
            Done::Sends => &mut self.sends,
            Done::Receives => &mut self.receives,
        };
        let count = queue.poll(batch)?;
        if let Some(congestor) = &mut self.congestor {
            congestor.pump()?;
        }
        Ok(count)
    }

    /// The flow of a completion of the last poll. Of one flow the completion is not even looked at: whether it
    /// failed is for [`Self::settle`] to say.
    ///
    /// # Errors
    /// When it is of no flow.
    #[inline]
    pub fn whose(&self, done: Done, at: usize) -> Result<usize, LatError> {
        if self.flows.len() == 1 {
            return Ok(0);
        }
        let (_, batch) = if done == Done::Sends { &self.sends } else { &self.receives };
        let completion = batch.completions().get(at).ok_or_else(|| unknown(0))?;
        flow_of(&self.numbers, completion)
    }

    /// Ends what the completions of the last poll say is done: what was sent is told to `sent` by its flow, and
    /// a receive is posted again for each message that came, if more come than are posted.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn settle(&mut self, done: Done, mut sent: impl FnMut(usize)) -> Result<(), LatError> {
        let (_, batch) = if done == Done::Sends { &self.sends } else { &self.receives };
        for completion in batch.completions() {
            let at = flow_of(&self.numbers, completion)?;
            let Flow { link, memory, sinks, unawaited, .. } = &mut self.flows[at];
            if done == Done::Sends {
                link.finish(completion, |finished| {
                    sinks.extend(finished.held.own());
                    sent(at);
                });
            } else if *unawaited > 0 {
                link.finish(completion, |_| {});
                link.receive(memory)?;
                *unawaited -= 1;
            }
        }
        Ok(())
    }

    /// Takes what was sent: each message's flow is given to `sent`.
    ///
    /// # Errors
    /// When something failed.
    pub fn take_sent(&mut self, sent: impl FnMut(usize)) -> Result<usize, LatError> {
        let count = self.poll(Done::Sends)?;
        self.settle(Done::Sends, sent)?;
        Ok(count)
    }

    /// Waits until a flow's next source may be written again, and has its last byte say `mark`.
    ///
    /// # Errors
    /// When something failed.
    pub fn mark(&mut self, at: usize, length: usize, mark: u8) -> Result<(), LatError> {
        loop {
            let Flow { sources, next, .. } = &mut self.flows[at];
            if let Some(bytes) = sources[*next].bytes_mut() {
                bytes[length - 1] = mark;
                return Ok(());
            }
            self.take_sent(|_| {})?;
        }
    }

    /// Makes room in the queue of sends where there is little.
    ///
    /// # Errors
    /// When something failed.
    #[inline]
    pub fn make_room(&mut self, at: usize, depth: u32) -> Result<(), LatError> {
        let has_little = |all: &Self| 2 * all.flows[at].link.outstanding() > depth as usize;
        if has_little(self) { self.wait_until(|all| !has_little(all)) } else { Ok(()) }
    }

    #[inline(never)]
    fn wait_until(&mut self, is_so: impl Fn(&Self) -> bool) -> Result<(), LatError> {
        while !is_so(self) {
            self.take_sent(|_| {})?;
        }
        Ok(())
    }
}

/// The flow that a completion belongs to.
#[inline]
fn flow_of(numbers: &[(u32, usize)], completion: &Completion) -> Result<usize, LatError> {
    check(completion)?;
    let number = completion.queue_pair();
    match *numbers {
        [(only, at)] if only == number => Ok(at),
        _ => search(numbers, number),
    }
}

#[inline(never)]
fn search(numbers: &[(u32, usize)], number: u32) -> Result<usize, LatError> {
    let at = numbers.binary_search_by_key(&number, |&(number, _)| number);
    at.map(|at| numbers[at].1).map_err(|_| unknown(number))
}

#[cold]
fn unknown(number: u32) -> LatError {
    LatError::Plan(format!("a completion of queue pair {number}"))
}

#[inline]
fn check(completion: &Completion) -> Result<(), LatError> {
    completion.outcome().map_err(undelivered)
}

#[cold]
fn undelivered(failure: Failure) -> LatError {
    LatError::Undelivered(failure.to_string())
}

/// Notices that nothing comes, at next to no cost while something does.
#[derive(Debug)]
pub struct Watch {
    idle: u32,
    since: Option<Instant>,
}

/// So many times nothing, before the clock is asked.
const IDLE: u32 = 1 << 12;

impl Watch {
    const fn new() -> Self {
        Self { idle: 0, since: None }
    }

    /// Something came.
    pub const fn fed(&mut self) {
        self.idle = 0;
        self.since = None;
    }

    /// Nothing came: whether it is time to look why.
    ///
    /// # Errors
    /// When it is too long.
    #[inline]
    pub fn idle(&mut self) -> Result<bool, LatError> {
        self.idle += 1;
        if self.idle < IDLE { Ok(false) } else { self.has_patience() }
    }

    #[cold]
    fn has_patience(&mut self) -> Result<bool, LatError> {
        self.idle = 0;
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > PATIENCE {
            return Err(LatError::Silence(PATIENCE.as_secs()));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
