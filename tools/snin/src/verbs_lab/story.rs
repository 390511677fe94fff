//! The story: every path is where it should be, no window has two flows on a link, what is moved is on its
//! new path, and what it costs to be without.

use std::time::{Duration, Instant};

use snin_controller::core::Core;
use snin_emulator::frames::{Config as LinkConfig, Flow, Frames};
use snin_fabric::traffic::Demand;
use snin_fabric::{Guid, NodeIndex, PortIndex};
use snin_protocol::Time;

use super::busy::Ticks;
use super::controllers::{Controller, Packing};
use super::document::{Busy, Crossings, Document, SCHEMA_VERSION};
use super::error::VerbsLabError;
use super::fabric::Fabric;
use super::hosts::{Hosts, Task, sleep};
use super::interfaces::Interfaces;
use super::judge::{Astray, Judge, Shared, Trace};
use super::links::{self, Links};
use super::rates::Rates;
use super::wire::{Clock, Wire};

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The fabric as the user named it.
    pub name: String,
    /// Bit/s of every link.
    pub bandwidth: u64,
    /// Windows under SNIN, in all.
    pub windows: usize,
    /// The permutations that they carry in turn; not empty.
    pub patterns: Vec<Vec<Demand>>,
}

/// How long the first messages along all paths may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Until the conversation with a controller has begun and the first grants are there.
pub(super) const WARM_UP: Time = Time::secs(1);

/// Tells the story; `progress` is told what comes next.
///
/// # Errors
/// When the machine lacks something, or a part stops working. What is only not as it should be stands in the
/// document.
pub fn tell(
    fabric: Fabric,
    settings: &Settings,
    progress: &dyn Fn(String),
) -> Result<Document, VerbsLabError> {
    let clock = Clock::start();
    let rates = Rates::new(settings.bandwidth);
    let hosts = fabric.places().len();
    progress(format!("{hosts} interfaces with {} addresses each", fabric.trees()));
    let (_interfaces, taps) = Interfaces::make(fabric.places())?;
    let link = LinkConfig { bandwidth: rates.bandwidth, ..LinkConfig::default() };
    let mut frames = Frames::new(fabric.topology(), link);
    let (addresses, tables) = fabric.tables()?;
    frames.program(&addresses, &tables);
    let wire = Wire::start(taps, frames, clock)?;
    progress("queue pairs for every pair of hosts and every tree".to_owned());
    let links = links::connect_all(&fabric, rates.piece as usize)?;
    let judge = Judge::new(&fabric);
    let mut lab = Lab { links, wire, clock, fabric, judge, rates };
    let mut busy = Vec::new();
    let mut broken = Vec::new();

    progress("a message for every pair of hosts along every tree".to_owned());
    let crossings = lab.crossings()?;
    let uplink =
        measured("two flows on one uplink", &mut busy, || lab.uplink(&mut broken, progress))?;
    let (exclusive, rearrangement) =
        measured("permutations", &mut busy, || lab.permutations(settings, &mut broken, progress))?;
    let dropped = lab.wire.frames().dropped();
    if dropped.faults() > 0 {
        broken.push(format!("the fabric dropped frames: {dropped:?}"));
    }
    let document = Document {
        schema_version: SCHEMA_VERSION,
        fabric: settings.name.clone(),
        bandwidth: rates.bandwidth,
        hosts,
        trees: lab.fabric.trees(),
        smps: lab.fabric.cost().smps,
        crossings,
        exclusive,
        rearrangement,
        uplink,
        busy,
        failures: Vec::new(),
    };
    Ok(document.judged(broken))
}

/// Does something, and notes how busy the machine was meanwhile.
fn measured<T>(
    during: &'static str,
    busy: &mut Vec<Busy>,
    what: impl FnOnce() -> Result<T, VerbsLabError>,
) -> Result<T, VerbsLabError> {
    let before = Ticks::now()?;
    let result = what()?;
    busy.push(Busy { during, share: Ticks::now()?.busy_since(before) });
    Ok(result)
}

/// All parts. The devices are closed before their TAPs are.
pub(super) struct Lab {
    pub(super) links: Vec<Links>,
    pub(super) wire: Wire,
    pub(super) clock: Clock,
    pub(super) fabric: Fabric,
    pub(super) judge: Judge,
    pub(super) rates: Rates,
}

impl Lab {
    /// A message from every host to every other along every tree.
    fn crossings(&mut self) -> Result<Crossings, VerbsLabError> {
        let mut expected = Vec::new();
        for (host, links) in self.links.iter_mut().enumerate() {
            for destination in links.addresses() {
                links.write(destination, 64)?;
                let tree = self.judge.tree(destination);
                let source = tree.and_then(|tree| self.fabric.address(host, tree));
                expected.extend(source.map(|source| Flow { source, destination }));
            }
        }
        let start = Instant::now();
        while self.under_way()? > 0 {
            self.wire.check()?;
            if start.elapsed() > PATIENCE {
                let text = format!("of {} first messages some did not arrive", expected.len());
                return Err(VerbsLabError::Stopped(text));
            }
            sleep(Time::millis(5));
        }
        let trace = trace(&self.wire, &self.fabric);
        let astray = self.judge.astray(&trace);
        let carried: Vec<Flow> = trace.carried().collect();
        let is_right = |flow: &Flow| {
            carried.contains(flow) && !astray.iter().any(|astray| astray.flow == *flow)
        };
        let right = expected.iter().filter(|&flow| is_right(flow)).count();
        let wrong = astray.iter().map(|astray| say_astray(&self.fabric, astray)).collect();
        Ok(Crossings { flows: expected.len(), right, wrong })
    }

    fn under_way(&mut self) -> Result<usize, VerbsLabError> {
        self.links.iter_mut().map(Links::settle).sum()
    }

    /// The controller's core, with what the subnet manager published.
    pub(super) fn packing(&self) -> Result<Controller, VerbsLabError> {
        let core = Core::new(self.rates.controller(), self.fabric.view(), self.clock.now());
        let core = core.map_err(|error| VerbsLabError::Stopped(error.to_string()))?;
        Ok(Controller::Packing(Box::new(Packing::new(core))))
    }

    /// Hosts that have begun with their tasks, and what is left of the lab meanwhile.
    pub(super) fn begin(
        &mut self,
        controller: Controller,
        tasks: &[Task],
    ) -> Result<(Hosts<'_>, &mut Fabric, &Judge), VerbsLabError> {
        let Self { links, wire, clock, fabric, judge, rates } = self;
        let guids: Vec<Guid> = fabric.places().iter().map(|place| place.guid).collect();
        // A later conversation has a greater number.
        let config = rates.mesh(clock.now().nanos());
        let mut hosts = Hosts::new((*clock, wire, links), &guids, config, controller)?;
        let from = hosts.now() + WARM_UP;
        tasks.iter().for_each(|&task| hosts.begin(task, from));
        Ok((hosts, fabric, judge))
    }
}

/// What the links counted since the last time.
pub(super) fn trace(wire: &Wire, fabric: &Fabric) -> Trace {
    Trace::take(&mut wire.frames(), fabric.topology())
}

/// A switch's name.
pub(super) fn say_node(fabric: &Fabric, node: NodeIndex) -> String {
    fabric.topology().node(node).name.to_string()
}

fn say_link(fabric: &Fabric, port: PortIndex) -> String {
    fabric.topology().port_name(port)
}

/// A flow that crossed wrong spines, in words.
pub(super) fn say_astray(fabric: &Fabric, astray: &Astray) -> String {
    let Flow { source, destination } = astray.flow;
    let names = |nodes: &[NodeIndex]| {
        let names: Vec<String> = nodes.iter().map(|&node| say_node(fabric, node)).collect();
        if names.is_empty() { "no spine".to_owned() } else { names.join(", ") }
    };
    let expected: Vec<NodeIndex> = astray.expected.into_iter().collect();
    let (crossed, expected) = (names(&astray.crossed), names(&expected));
    format!("{source} to {destination} crossed {crossed}, not {expected}")
}

/// A link with several connections, in words.
pub(super) fn say_shared(fabric: &Fabric, shared: &Shared) -> String {
    let pairs: Vec<String> =
        shared.connections.iter().map(|(a, b)| format!("{a} to {b}")).collect();
    format!("{}: hosts {}", say_link(fabric, shared.port), pairs.join(", "))
}

/// The cable at a port, in words.
pub(super) fn say_cable(fabric: &Fabric, port: PortIndex) -> String {
    let peer = fabric.topology().peer(port).map(|peer| say_link(fabric, peer));
    format!("{} - {}", say_link(fabric, port), peer.unwrap_or_default())
}
