//! An estimate of how long a run will take: from short runs on this machine, as busy as it is.

use std::thread::available_parallelism;
use std::time::Instant;

use snin_fabric::generate::{Rates, Recipe};
use snin_fabric::hosts::{Host, HostId};
use snin_fabric::{ForwardingTable, PortIndex, Topology};
use snin_lab::carry::{CarryError, Flow, Forwarding};
use snin_lab::subnet::Subnet;
use snin_protocol::Time;

use super::{Lab, PATIENCE};
use crate::failure::Failure;

/// Packets of all hosts in the longer of two trials, about: it takes a tenth of a second.
const TRIAL: u64 = 100_000;
/// How often each is timed: the quickest counts, as no other process interrupted it.
const TIMES: usize = 2;
/// Packets of a host in the shorter one at least: queues are to fill.
const FEW: u64 = 4;
/// A small fabric that is brought up.
const SMALL: Recipe =
    Recipe::Clos { leaves: 8, spines: 4, hosts: 4, planes: 1, rates: Rates::NDR4 };

/// In seconds.
pub(super) struct Estimate {
    bring_up: f64,
    /// Of one window, in any way.
    window: f64,
    /// Windows, strictly non-interfering.
    windows: f64,
    /// Windows in other ways.
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
        let hosts = self.routing.hosts.len().max(1);
        let few = (TRIAL / 4).div_ceil(hosts as u64).min(self.packets as u64 / 4).max(FEW);
        let (mut short, mut long) = (f64::MAX, f64::MAX);
        for _ in 0..TIMES {
            short = short.min(self.trial(few).map_err(failed)?);
            long = long.min(self.trial(few * 4).map_err(failed)?);
        }
        // What the longer one takes longer is the packets' own.
        let packet = (long - short).max(0.0) / (few * 3) as f64;
        let senders = self.demands as f64 / self.degree as f64;
        let share = senders / hosts as f64;
        Ok(Estimate {
            bring_up: bring_up(self.topology, &self.routing.tables),
            window: packet * self.packets * share,
            windows: (self.windows + self.windows_beside()).into(),
            others: 2.0 * f64::from(self.samples),
            processors: available_parallelism().map_or(1.0, |n| n.get() as f64),
        })
    }

    /// Seconds in which every host sends so many packets half around, by a tree at random: so they wait for each
    /// other as they do in the run.
    fn trial(&self, packets: u64) -> Result<f64, CarryError> {
        let (hosts, addresses) = (&self.routing.hosts, self.routing.plan.addresses());
        let bytes = Some(u64::from(self.args.mtu) * packets);
        let flow = |(id, host): (HostId, &Host)| {
            let destination = HostId(((id.index() + hosts.len() / 2) % hosts.len()) as u32);
            let to = hosts.get(destination).filter(|to| to.port != host.port)?.port;
            let address = self.random_address((0, id.index()), (id, destination));
            let address = address.or_else(|| addresses.base(to))?;
            Some(Flow { source: host.port, address, bytes, rate: None })
        };
        let flows: Vec<Flow> = hosts.iter().filter_map(flow).collect();
        let begin = Instant::now();
        let Self { topology, routing, data, args, .. } = self;
        let forwarding = Forwarding { topology, addresses, tables: &routing.tables };
        let transport = args.transport.into();
        forwarding.carry(data, &flows, &[], transport, (Time::ZERO, Time::ZERO))?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// Seconds to bring the fabric up: a manager asks for every port, and reads and writes every block.
fn bring_up(topology: &Topology, tables: &[ForwardingTable]) -> f64 {
    let of_work = (0..TIMES).filter_map(|_| small_bring_up()).min_by(f64::total_cmp);
    of_work.unwrap_or(0.0) * work(topology, tables)
}

/// Seconds that a small fabric takes, for a port or a block.
fn small_bring_up() -> Option<f64> {
    let begin = Instant::now();
    let (hardware, manager) =
        (snin_emulator::Config::default(), snin_sm_database::config::Config::default());
    let small = SMALL.build().ok()?;
    let mut subnet = Subnet::new(&small, hardware, manager).ok()?;
    subnet.bring_up(PATIENCE);
    let seconds = begin.elapsed().as_secs_f64();
    let (_, tables) = subnet.read_back()?;
    Some(seconds / work(&small, &tables).max(1.0))
}

fn work(topology: &Topology, tables: &[ForwardingTable]) -> f64 {
    let cabled = |&port: &PortIndex| topology.peer(port).is_some();
    let ports = topology.ports().filter(cabled).count();
    let blocks: usize = tables.iter().map(|table| table.len().div_ceil(64)).sum();
    (ports + blocks) as f64
}
