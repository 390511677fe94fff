//! Two flows from one leaf: forced onto one uplink, then as the controller grants.

use hdrhistogram::Histogram;
use snin_controller_core::Core;
use snin_fabric::TreeId;
use snin_protocol::Time;

use super::controllers::Controller;
use super::document::{Flow, Uplink, Way};
use super::error::VerbsLabError;
use super::hosts::{Done, Task};
use super::scenario::{Lab, describe_shared};

/// What each of the two offers, of a link.
const LOAD: f64 = 0.8;
/// For how long it is counted.
const TIME: Time = Time::secs(4);
/// The tree that both are forced onto.
const TREE: TreeId = TreeId(0);

impl Lab {
    /// Both ways, one after the other.
    pub(super) fn uplink(&mut self, progress: &dyn Fn(String)) -> Result<Uplink, VerbsLabError> {
        let tasks = self.two_flows()?;
        progress("two flows forced onto one uplink".to_owned());
        self.controller.with(|controller, _| controller.force(TREE));
        let forced = self.way(&tasks)?;
        progress("the same two flows as the controller grants".to_owned());
        let core = Core::new(self.rates.controller(), self.fabric.view(), self.clock.now());
        let core = core.map_err(|error| VerbsLabError::Stopped(error.to_string()))?;
        self.controller.with(|controller, _| *controller = Controller::packing(core));
        let snin = self.way(&tasks)?;
        Ok(Uplink { load: LOAD, forced, snin })
    }

    /// From two hosts of a leaf to two hosts of others, of different ones where there are.
    fn two_flows(&self) -> Result<[Task; 2], VerbsLabError> {
        let places = self.fabric.places();
        let on = |leaf| (0..places.len()).filter(move |&host| places[host].leaf == leaf);
        let leaf = places.iter().map(|place| place.leaf).find(|&leaf| on(leaf).count() > 1);
        let none =
            || VerbsLabError::Fabric("has no leaf with two hosts and another leaf".to_owned());
        let leaf = leaf.ok_or_else(none)?;
        let sources: Vec<usize> = on(leaf).take(2).collect();
        let others = || (0..places.len()).filter(|&host| places[host].leaf != leaf);
        let first = others().next().ok_or_else(none)?;
        let elsewhere = others().find(|&host| places[host].leaf != places[first].leaf);
        let second = elsewhere.or_else(|| others().nth(1)).ok_or_else(none)?;
        let (bytes, interval) = (self.rates.piece, self.rates.interval(LOAD));
        let task = |source, destination| Task { source, destination, bytes, interval };
        Ok([task(sources[0], first), task(sources[1], second)])
    }

    fn way(&mut self, tasks: &[Task]) -> Result<Way, VerbsLabError> {
        tasks.iter().try_for_each(|&task| self.hosts.begin(task))?;
        self.warm_up()?;
        self.trace();
        self.hosts.go()?;
        self.run_until(self.clock.now() + TIME)?;
        let shared = self.judge.shared(&self.trace());
        let shared = shared.iter().map(|shared| describe_shared(&self.fabric, shared)).collect();
        let done = self.hosts.end()?;
        self.rest()?;
        Ok(summary(shared, &done))
    }
}

fn summary(shared: Vec<String>, done: &[Done]) -> Way {
    let mut latency = done[0].latency.clone();
    for more in &done[1..] {
        latency.add(&more.latency).expect("histograms of the same bounds");
    }
    let flow = |done: &Done| {
        let Task { source, destination, .. } = done.task;
        Flow { source, destination, due: done.due, arrived: done.arrived }
    };
    let bytes: u64 = done.iter().map(|done| done.arrived * u64::from(done.task.bytes)).sum();
    let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>();
    let at = |latency: &Histogram<u64>, quantile| latency.value_at_quantile(quantile);
    Way {
        shared,
        flows: done.iter().map(flow).collect(),
        goodput: bytes as f64 * 8.0 / TIME.as_secs(),
        in_time: sum(|done| done.arrived) as f64 / sum(|done| done.due).max(1) as f64,
        p50_ns: at(&latency, 0.5),
        p99_ns: at(&latency, 0.99),
        max_ns: latency.max(),
    }
}
