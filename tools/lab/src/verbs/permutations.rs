//! Permutations under SNIN, window by window; in the last one a cable is taken out of service.

use std::collections::BTreeMap;

use snin_controller_core::config::Config as ControllerConfig;
use snin_controller_core::events::Event;
use snin_fabric::traffic::Demand;
use snin_fabric::{NodeIndex, PortIndex};
use snin_protocol::Epoch;

use super::document::{Exclusive, Moved, Rearrangement, Window};
use super::error::VerbsLabError;
use super::hosts::{Done, Task};
use super::judge::Trace;
use super::scenario::{
    Lab, PATIENCE, Settings, describe_astray, describe_cable, describe_node, describe_shared,
};

/// What each host offers, of its link: eight of them keep the machine below half busy.
const LOAD: f64 = 0.4;
/// Windows until a change has settled.
const SETTLED: usize = 4;
/// Windows that a permutation gets at least.
const LEAST: usize = 2 * SETTLED;

/// Source and destination, by host.
type Connection = (usize, usize);

impl Lab {
    /// Carries each permutation for its share of the windows; after the last one a cable goes.
    pub(super) fn permutations(
        &mut self,
        settings: &Settings,
        broken: &mut Vec<String>,
        progress: &dyn Fn(String),
    ) -> Result<(Exclusive, Rearrangement), VerbsLabError> {
        let patterns = &settings.patterns;
        let window = self.rates.controller().window;
        let each = (settings.windows / patterns.len().max(1)).max(LEAST);
        let (windows, window_ns) = (Vec::new(), window.nanos());
        let (full, due, arrived) = (0, 0, 0);
        let mut exclusive =
            Exclusive { patterns: patterns.len(), full, window_ns, windows, due, arrived };
        let mut rearrangement = None;
        for (number, pattern) in patterns.iter().enumerate() {
            progress(format!("permutation {} of {}: {each} windows", number + 1, patterns.len()));
            let tasks = self.tasks(pattern);
            tasks.iter().try_for_each(|&task| self.hosts.begin(task))?;
            // What the last permutation left is not this one's.
            self.trace();
            let mut run = Run { lab: self, number, windows: Vec::new(), all: Trace::default() };
            run.warm_up()?;
            run.lab.hosts.go()?;
            let last = run.windows(each)?;
            if number + 1 == patterns.len() {
                progress("a cable is taken out of service".to_owned());
                rearrangement = Some(run.rearrange(&tasks, &last)?);
            }
            for done in run.finish(broken)? {
                exclusive.due += done.due;
                exclusive.arrived += done.arrived;
            }
            let is_full = |window: &&Window| window.connections == tasks.len();
            exclusive.full += run.windows.iter().filter(is_full).count();
            exclusive.windows.append(&mut run.windows);
        }
        let none = || VerbsLabError::Fabric("has no two hosts".to_owned());
        Ok((exclusive, rearrangement.ok_or_else(none)?))
    }

    fn tasks(&self, pattern: &[Demand]) -> Vec<Task> {
        let (bytes, interval) = (self.rates.piece, self.rates.interval(LOAD));
        let task = |demand: &Demand| {
            let (source, destination) = (demand.source.index(), demand.destination.index());
            Task { source, destination, bytes, interval }
        };
        pattern.iter().map(task).collect()
    }
}

/// A permutation under way.
struct Run<'a> {
    lab: &'a mut Lab,
    number: usize,
    windows: Vec<Window>,
    /// What crossed the fabric in all of them.
    all: Trace,
}

impl Run<'_> {
    /// Lets windows pass until every host was granted its first message.
    fn warm_up(&mut self) -> Result<(), VerbsLabError> {
        let most = PATIENCE.nanos().div_ceil(self.lab.rates.controller().window.nanos());
        for _ in 0..most {
            if self.lab.hosts.cold().is_none() {
                return Ok(());
            }
            self.windows(1)?;
        }
        // It says what is missing.
        self.lab.warm_up()
    }

    /// Lets so many windows pass, each judged by itself; gives the last one.
    fn windows(&mut self, count: usize) -> Result<Trace, VerbsLabError> {
        let lab = &mut *self.lab;
        let ControllerConfig { window, guard, .. } = lab.rates.controller();
        let mut last = Trace::default();
        for _ in 0..count {
            // What a window ends for has left the links by now, what begins with the next is not there yet.
            let end = Epoch::of(lab.clock.now() + guard, window).end(window) - guard;
            lab.run_until(end)?;
            last = lab.trace();
            self.all.add(&last);
            let connections = lab.judge.connections(&last).len();
            let shared = lab.judge.shared(&last);
            // Frames that are between leaf and spine when a window ends have crossed none in it.
            let mut astray = lab.judge.astray(&last);
            astray.retain(|astray| !astray.crossed.is_empty());
            self.windows.push(Window {
                pattern: self.number,
                connections,
                shared: shared.iter().map(|shared| describe_shared(&lab.fabric, shared)).collect(),
                astray: astray.iter().map(|astray| describe_astray(&lab.fabric, astray)).collect(),
            });
        }
        Ok(last)
    }

    /// Ends it. In all its windows together, every flow has crossed the root of its tree, and that alone.
    fn finish(&mut self, broken: &mut Vec<String>) -> Result<Vec<Done>, VerbsLabError> {
        let lab = &mut *self.lab;
        let done = lab.hosts.end()?;
        lab.rest()?;
        self.all.add(&lab.trace());
        let astray = lab.judge.astray(&self.all);
        broken.extend(astray.iter().map(|astray| describe_astray(&lab.fabric, astray)));
        Ok(done)
    }

    /// Takes the first connection's uplink away, in the order of the design: the controller is told, traffic
    /// moves, and only then the cable goes and tables are repaired.
    fn rearrange(
        &mut self,
        tasks: &[Task],
        before: &Trace,
    ) -> Result<Rearrangement, VerbsLabError> {
        let connections: Vec<Connection> =
            tasks.iter().map(|task| (task.source, task.destination)).collect();
        let old = self.spines(before, &connections);
        let uplink = connections.iter().find_map(|&connection| self.uplink(before, connection));
        let uplink = uplink.ok_or_else(|| {
            VerbsLabError::Stopped("no connection of the permutation crossed a spine".to_owned())
        })?;
        self.lab.fabric.cut(uplink)?;
        let view = Event::View(self.lab.fabric.view());
        self.lab.controller.with(|controller, now| controller.handle(view, now));
        let done = self.windows.len();
        self.windows(SETTLED)?;
        let (addresses, tables) = self.lab.fabric.tables()?;
        {
            let mut frames = self.lab.wire.frames();
            frames.set_down(uplink, true);
            frames.program(&addresses, &tables);
        }
        let last = self.windows(SETTLED)?;
        let new = self.spines(&last, &connections);
        let names = |spines: &[NodeIndex]| {
            spines.iter().map(|&node| describe_node(&self.lab.fabric, node)).collect::<Vec<_>>()
        };
        let changed = connections.iter().filter(|&connection| old[connection] != new[connection]);
        let moved = changed.map(|connection| Moved {
            source: connection.0,
            destination: connection.1,
            before: names(&old[connection]),
            after: names(&new[connection]),
        });
        let (cable, moved) = (describe_cable(&self.lab.fabric, uplink), moved.collect());
        Ok(Rearrangement { cable, moved, windows: self.windows.len() - done })
    }

    fn spines(
        &self,
        trace: &Trace,
        connections: &[Connection],
    ) -> BTreeMap<Connection, Vec<NodeIndex>> {
        let spines = |&connection| (connection, self.lab.judge.spines(trace, connection));
        connections.iter().map(spines).collect()
    }

    /// The leaf's port by which a connection's data left, if it crossed a spine.
    fn uplink(&self, trace: &Trace, connection: Connection) -> Option<PortIndex> {
        if self.lab.judge.spines(trace, connection).is_empty() {
            return None;
        }
        let of = |flow: &_| self.lab.judge.connection(*flow) == Some(connection);
        let tree = self.lab.judge.tree(trace.carried().find(of)?.destination)?;
        self.lab.fabric.uplink(self.lab.fabric.places()[connection.0].leaf, tree)
    }
}
