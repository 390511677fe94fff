//! A list of jobs, first come, first served, each with a slice that it asks the controller's core for, as the
//! daemon's `slice_create` and `slice_delete` do. A second of a job is a second of the core's clock.
//!
//! That no link and no host has two jobs is looked at in every answer, by nothing but what the answers say.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use snin_controller_core::Core;
use snin_controller_core::config::Config;
use snin_controller_core::events::Event;
use snin_controller_core::orders::Order;
use snin_controller_core::orders::{SliceError, SliceHosts};
use snin_controller_core::slices::{JobId, Refusal, Room, generate, replay};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::view::PlannedView;
use snin_fabric::{Guid, TreeId};
use snin_protocol::Time;

use super::{line, percentile, used};
use crate::{Outcome, Size};

/// What shall be used, in per cent, and how long an answer may take at the 99th percentile, in ms.
const USED: f64 = 96.0;
const ANSWER: f64 = 100.0;

/// # Panics
/// Where two jobs have one link or host, or one is refused for ever.
pub(super) fn run(size: Size) -> Vec<Outcome> {
    let (recipe, count) = match size {
        Size::Full => ("fattree:36", 10_000),
        Size::Small => ("fattree:8", 200),
    };
    let mut room = Controlled::new(recipe);
    let hosts = room.hosts();
    let jobs = generate(count, 1, hosts as u32);
    let replay = replay(&mut room, &jobs);
    let (used, hash) = used(&replay, jobs.len());
    let case = |what: &str| format!("{count} jobs on {hosts} hosts, {what}");
    vec![
        line(case("used"), "%", used, USED, hash),
        line(case("answer p50"), "ms", percentile(&room.times, 0.5), ANSWER, hash),
        line(case("answer p99"), "ms", percentile(&room.times, 0.99), ANSWER, hash),
    ]
}

/// A controller's core in virtual time.
struct Controlled {
    core: Core,
    hosts: usize,
    /// Of each slice that was asked for, in ms of this machine.
    times: Vec<f64>,
    /// Whose each host and each (leaf, tree) pair is, by the answers.
    host_of: BTreeMap<Guid, JobId>,
    pair_of: BTreeMap<(Guid, TreeId), JobId>,
}

impl Controlled {
    fn new(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().expect("a recipe").build().expect("a fabric");
        let routing = Routing::compute(&topology, Engine::Trees, None).expect("trees");
        let hosts = routing.hosts.len();
        let view = PlannedView::new(1, topology, routing);
        let core = Core::new(Config::default(), Arc::new(view), Time::ZERO).expect("a core");
        let (times, host_of, pair_of) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self { core, hosts, times, host_of, pair_of }
    }

    /// The window that is due at a time, with what became of slices before it. The rest of the second has nothing
    /// to decide.
    fn advance(&mut self, now: u64) {
        self.core.handle_deadline(Time::secs(now));
        while self.core.poll_output().is_some() {}
    }

    fn take_down(&mut self, job: JobId) {
        let slice = self.core.slice(&owner(job)).expect("the slice that was made");
        for host in slice.hosts {
            put(&mut self.host_of, host, job);
        }
        for pair in slice.pairs {
            put(&mut self.pair_of, pair, job);
        }
    }
}

fn owner(job: JobId) -> String {
    format!("slurm/{}", job.0)
}

fn put<K: Ord + std::fmt::Debug>(owners: &mut BTreeMap<K, JobId>, what: K, job: JobId) {
    match owners.entry(what) {
        Entry::Vacant(free) => drop(free.insert(job)),
        Entry::Occupied(taken) => panic!("{:?} has {:?} already", taken.get(), taken.key()),
    }
}

impl Room for Controlled {
    fn hosts(&self) -> usize {
        self.hosts
    }

    fn begin(&mut self, job: JobId, hosts: u32, now: u64) -> Result<(), Refusal> {
        self.advance(now);
        let order = Event::Order(Order::CreateSlice(owner(job), SliceHosts::Count(hosts)));
        let begin = Instant::now();
        let answer = self.core.handle(order, Time::ZERO).slice();
        self.times.push(begin.elapsed().as_secs_f64() * 1e3);
        match answer {
            Ok(_) => self.take_down(job),
            Err(SliceError::Refused(why)) => return Err(why),
            Err(other) => panic!("{job:?}: {other}"),
        }
        Ok(())
    }

    fn end(&mut self, job: JobId, now: u64) {
        self.advance(now);
        let slice = self.core.slice(&owner(job)).expect("the slice that was made");
        self.core.handle(Event::Order(Order::DeleteSlice(owner(job))), Time::ZERO);
        for host in slice.hosts {
            self.host_of.remove(&host);
        }
        for pair in slice.pairs {
            self.pair_of.remove(&pair);
        }
    }
}
