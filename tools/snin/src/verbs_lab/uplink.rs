//! Two flows from one leaf: forced onto one uplink, then as the controller grants.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use snin_fabric::{Dlid, TreeId};
use snin_protocol::Time;
use snin_protocol::message::Terms;

use super::controllers::{Controller, Forced};
use super::document::{Flow, Uplink, Way};
use super::error::VerbsLabError;
use super::hosts::{Done, Task};
use super::story::{Lab, WARM_UP, say_shared, trace};

/// What each of the two offers, of a link.
const LOAD: f64 = 0.8;
/// For how long it is counted.
const TIME: Time = Time::secs(4);
/// The tree that both are forced onto.
const TREE: TreeId = TreeId(0);

impl Lab {
    /// Both ways, one after the other.
    pub(super) fn uplink(
        &mut self,
        broken: &mut Vec<String>,
        progress: &dyn Fn(String),
    ) -> Result<Uplink, VerbsLabError> {
        let tasks = self.two_flows()?;
        progress("two flows forced onto one uplink".to_owned());
        let controller = self.forced();
        let forced = self.way(controller, &tasks, broken)?;
        progress("the same two flows as the controller grants".to_owned());
        let controller = self.packing()?;
        let snin = self.way(controller, &tasks, broken)?;
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

    fn forced(&self) -> Controller {
        let places = self.fabric.places().iter().enumerate();
        let address = |host| self.fabric.address(host, TREE).map(Dlid);
        let addresses: BTreeMap<_, _> =
            places.filter_map(|(host, place)| Some((place.guid, address(host)?))).collect();
        let config = self.rates.controller();
        let (window, guard, clock_error) = (config.window, config.guard, config.clock_error);
        Controller::Forced(Forced::new(TREE, Terms { window, guard, clock_error }, addresses))
    }

    fn way(
        &mut self,
        controller: Controller,
        tasks: &[Task],
        broken: &mut Vec<String>,
    ) -> Result<Way, VerbsLabError> {
        let (mut hosts, fabric, judge) = self.begin(controller, tasks)?;
        hosts.run_until(hosts.now() + WARM_UP)?;
        trace(hosts.wire(), fabric);
        hosts.forget();
        hosts.run_until(hosts.now() + TIME)?;
        let shared = judge.shared(&trace(hosts.wire(), fabric));
        let shared = shared.iter().map(|shared| say_shared(fabric, shared)).collect();
        let done = hosts.finish()?;
        broken.append(&mut hosts.broken);
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
