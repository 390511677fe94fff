//! How long a run will take: by how long little ones take, on this machine, as busy as it is.

use std::thread::available_parallelism;
use std::time::Instant;

use snin::lab::carry::{CarryError, Flow, Forwarding};
use snin::lab::subnet::Subnet;
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::{ForwardingTable, Lid, PortIndex, Topology};
use snin_protocol::Time;

use super::{Lab, PATIENCE};
use crate::failure::Failure;

/// Packets of all hosts in the longer of two trials, about: it takes some hundredths of a second.
const TRIAL: u64 = 40_000;
/// Packets wait where links are shared, and then each takes longer.
const WAITING: f64 = 1.5;
/// A small fabric that is brought up.
const SMALL: Recipe = Recipe::Clos { leaves: 8, spines: 4, hosts: 4, planes: 1 };

/// In seconds.
pub(super) struct Estimate {
    bring_up: f64,
    /// Of one window, in one way.
    window: f64,
    windows: f64,
    /// Windows in other ways than strictly non-interfering.
    others: f64,
    processors: f64,
}

impl Estimate {
    /// All windows follow each other; the other ways run beside them where there are processors for that.
    pub(super) fn seconds(&self) -> u64 {
        let windows = self.windows.max((self.windows + self.others) / self.processors);
        (self.bring_up + self.window * windows).ceil() as u64
    }
}

impl Lab<'_> {
    pub(super) fn estimate(&self) -> Result<Estimate, Failure> {
        let failed = |error| Failure::content("the data plane", format_args!(" {error}"));
        // What the longer one takes longer is the packets' own.
        let few = (TRIAL / 4).div_ceil(self.routing.hosts.len().max(1) as u64);
        let short = self.trial(few).map_err(failed)?;
        let long = self.trial(few * 4).map_err(failed)?;
        let packet = (long - short).max(0.0) / (few * 3) as f64;
        let senders = self.demands as f64 / self.degree as f64;
        let share = senders / self.routing.hosts.len().max(1) as f64;
        Ok(Estimate {
            bring_up: bring_up(self.topology, &self.routing.tables),
            window: packet * self.packets * share,
            windows: self.windows.into(),
            others: 2.0 * WAITING * f64::from(self.samples),
            processors: available_parallelism().map_or(1.0, |n| n.get() as f64),
        })
    }

    /// Seconds in which every host sends so many packets half around.
    fn trial(&self, packets: u64) -> Result<f64, CarryError> {
        let (hosts, addresses) = (&self.routing.hosts, self.routing.plan.addresses());
        let bytes = Some(u64::from(self.args.mtu) * packets);
        let flow = |(id, host): (HostId, &Host)| {
            let to = (id.index() + hosts.len() / 2) % hosts.len();
            let to = hosts.get(HostId(to as u32)).filter(|to| to.port != host.port)?.port;
            let offset = id.0 as u16 % addresses.lmc(to).addresses() as u16;
            Some(Flow { source: host.port, address: Lid(addresses.base(to)?.0 + offset), bytes })
        };
        let flows: Vec<Flow> = hosts.iter().filter_map(flow).collect();
        let begin = Instant::now();
        let Self { topology, routing, data, args, .. } = self;
        let forwarding = Forwarding { topology, addresses, tables: &routing.tables };
        forwarding.carry(data, &flows, args.transport.into(), Time::ZERO, Time::ZERO)?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Seconds to bring the fabric up: a manager asks for every port, and reads and writes every block.
fn bring_up(topology: &Topology, tables: &[ForwardingTable]) -> f64 {
    let begin = Instant::now();
    let (hardware, manager) = (snin_emulator::Config::default(), snin_sm::Config::default());
    let small = SMALL.build().ok();
    let subnet = small.as_ref().and_then(|small| Subnet::new(small, hardware, manager).ok());
    let Some((small, mut subnet)) = small.as_ref().zip(subnet) else { return 0.0 };
    subnet.bring_up(PATIENCE);
    let seconds = begin.elapsed().as_secs_f64();
    let small_tables = subnet.read_back().map_or_else(Vec::new, |(_, tables)| tables);
    seconds * work(topology, tables) / work(small, &small_tables).max(1.0)
}

fn work(topology: &Topology, tables: &[ForwardingTable]) -> f64 {
    let cabled = |&port: &PortIndex| topology.peer(port).is_some();
    let ports = topology.ports().filter(cabled).count();
    let blocks: usize = tables.iter().map(|table| table.len().div_ceil(64)).sum();
    (ports + blocks) as f64
}
