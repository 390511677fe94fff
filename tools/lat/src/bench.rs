//! The parts of both sides: a device, queue pairs for each flow, memory.

use snin_fabric::{Dlid, Lid};
use snin_verbs::{
    CompletionQueue, Depth, Device, Domain, Mtu, Path, PeerAddress, Port, Remote, Service, Shared,
    Slot, Source, choose, path,
};

use super::LatError;
use super::exchange::{End, Ends};
use super::flows::{CONGESTION, Connected, Flow};
use super::link::{Loose, Material, ROUTE};
use super::plan::{Carrier, Operation, Pattern, Plan};

/// Sends of which only the last is signalled, at most (perftest: 100), for each completion is work.
const UNSIGNALLED: u64 = 100;
/// Sources of a flow, and their bytes, at most.
const MOST_SOURCES: usize = 64;
const SOURCES_BYTES: usize = 1 << 20;

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
        let flows = plan.offsets.len() as u32;
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
        for &offset in &plan.offsets {
            let flow = prepared.loose(plan, offset, false)?;
            prepared.flows.push(flow);
        }
        if plan.congestor.is_some() {
            prepared.congestor = Some(prepared.loose(plan, plan.offsets[0], true)?);
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
    offset: u16,
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

    fn loose(&self, plan: &Plan, offset: u16, congests: bool) -> Result<LooseFlow, LatError> {
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
        Ok(LooseFlow { pair, first_packet, offset, memory, sources, sinks })
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
            let along = way(port, peer, flow.offset, plan.level)?;
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
        Ok(Connected::new(joined, (sends, receives), congestor.map(|flow| (flow, congestion))))
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

/// The path to one of the peer's addresses; to its base address from any that the own port has.
fn way(port: &Port, peer: &Ends, offset: u16, level: u8) -> Result<Path, LatError> {
    let address = peer.address.into();
    let base = match address {
        PeerAddress::Lid(lid) => lid.0,
        PeerAddress::Gid(gid) => gid.low(),
    };
    let dlid = (offset > 0).then(|| Dlid(Lid(base.saturating_add(offset))));
    Ok(path(&port.addresses, address, dlid, Service { level, rate: 0 })?)
}

#[cfg(test)]
mod tests;
