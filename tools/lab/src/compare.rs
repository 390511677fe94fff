//! The same traffic, routed in other ways: each window on its own, on as many threads as there are processors.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, available_parallelism, spawn};

use snin_emulator::data::{Config, Transport};
use snin_fabric::{Addresses, ForwardingTable, Topology};
use snin_protocol::Time;

use super::carry::{CableChange, Carried, CarryError, Flow, Forwarding};

/// A fabric as it was routed in a window.
#[derive(Clone, Debug)]
pub struct Routed {
    /// Nodes and cables.
    pub topology: Arc<Topology>,
    /// The addresses of all ports.
    pub addresses: Arc<Addresses>,
    /// One a switch.
    pub tables: Arc<Vec<ForwardingTable>>,
}

impl Routed {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.topology, &other.topology)
            && Arc::ptr_eq(&self.addresses, &other.addresses)
            && Arc::ptr_eq(&self.tables, &other.tables)
    }
}

/// What is to be carried.
#[derive(Clone, Debug)]
pub struct Job {
    /// Of which window.
    pub window: u32,
    /// In which way, of those that are compared.
    pub way: usize,
    /// How packets find their way.
    pub routed: Routed,
    /// The flows that are sent.
    pub flows: Vec<Flow>,
    /// What becomes of cables meanwhile.
    pub changes: Vec<CableChange>,
    /// How long the longest message took where no other message was in its way.
    pub longest: Time,
    /// What a message's last packet needs besides being sent.
    pub grace: Time,
}

/// Of which window, in which way, and what came of it.
pub type Done = (u32, usize, Result<Carried, CarryError>);

/// A job that is over, if anybody still wants it.
type Finished = (Weak<Job>, Result<Carried, CarryError>);

/// Carries what waits, and says what became of it.
#[derive(Clone, Debug)]
struct Carrier {
    config: Config,
    transport: Transport,
    waiting: Arc<Mutex<Receiver<Weak<Job>>>>,
    finished: Sender<Finished>,
}

impl Carrier {
    /// One job after the other, until there will be no more.
    fn work(&self) {
        // No thread panics with the lock in hand.
        while let Ok(Ok(waiting)) = self.waiting.lock().map(|waiting| waiting.recv()) {
            let Some(job) = waiting.upgrade() else { continue };
            let Routed { topology, addresses, tables } = &job.routed;
            let forwarding = Forwarding { topology, addresses, tables };
            let times = (job.longest, job.grace);
            let carried =
                forwarding.carry(&self.config, &job.flows, &job.changes, self.transport, times);
            // From here on it is only wanted where the caller says so.
            drop(job);
            if self.finished.send((waiting, carried)).is_err() {
                return;
            }
        }
    }
}

/// Threads that carry.
#[derive(Debug)]
pub struct Comparison {
    /// The jobs that count, by window and way. A job that was replaced is not carried, and its result is dropped.
    wanted: BTreeMap<(u32, usize), Arc<Job>>,
    jobs: Sender<Weak<Job>>,
    finished: Receiver<Finished>,
    threads: Vec<JoinHandle<()>>,
}

impl Comparison {
    /// A thread a processor: all jobs are of the same kind, so the threads share them evenly.
    pub fn new(config: &Config, transport: Transport) -> Self {
        let (jobs, waiting) = channel();
        let (done, finished) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let carrier = Carrier { config: config.clone(), transport, waiting, finished: done };
        let thread = |_| {
            let carrier = carrier.clone();
            spawn(move || carrier.work())
        };
        let threads = (0..available_parallelism().map_or(1, usize::from)).map(thread).collect();
        Self { wanted: BTreeMap::new(), jobs, finished, threads }
    }

    /// Has the job carried as soon as a thread is free, in place of an earlier job of that window and way; not
    /// again where the two are the same. A job that a thread has finished cannot be replaced.
    pub fn start(&mut self, job: Job) {
        let place = (job.window, job.way);
        let same = |known: &Arc<Job>| {
            known.flows == job.flows && known.changes == job.changes && known.routed.is(&job.routed)
        };
        if self.wanted.get(&place).is_some_and(same) {
            return;
        }
        let job = Arc::new(job);
        // Threads wait for jobs until the sender is dropped.
        let _ = self.jobs.send(Arc::downgrade(&job));
        self.wanted.insert(place, job);
    }

    /// The results since the last call, in any order.
    pub fn take_done(&self) -> impl Iterator<Item = Done> + '_ {
        self.finished.try_iter().filter_map(told)
    }

    /// Waits for the jobs that are left, and gives the results that were not taken yet.
    pub fn finish(self) -> Vec<Done> {
        let Self { wanted, jobs, finished, threads } = self;
        drop(jobs);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let done = finished.into_iter().filter_map(told).collect();
        drop(wanted);
        done
    }
}

fn told((job, carried): Finished) -> Option<Done> {
    job.upgrade().map(|job| (job.window, job.way, carried))
}

/// Which `samples` of `windows`, spread evenly: the first of each of so many equal parts.
pub fn sampled(windows: usize, samples: usize) -> Vec<usize> {
    let samples = samples.clamp(1, windows.max(1));
    (0..samples).map(|n| n * windows / samples).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_fabric::generate::Recipe;
    use snin_fabric::hosts::HostId;
    use snin_fabric::routing::{Engine, Routing};

    #[test]
    fn of_a_window_and_way_the_last_job_counts_and_nothing_is_carried_twice() {
        let topology = Arc::new("clos:2,2,2".parse::<Recipe>().unwrap().build().unwrap());
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        let port = |host| routing.hosts.get(HostId(host)).unwrap().port;
        let addresses = routing.plan.addresses();
        let address = addresses.base(port(3)).unwrap();
        let (addresses, tables) = (Arc::new(addresses.clone()), Arc::new(routing.tables.clone()));
        let routed = Routed { topology, addresses, tables };
        let job = |window, bytes| {
            let flows = vec![Flow { source: port(0), address, bytes: Some(bytes), rate: None }];
            let (routed, changes) = (routed.clone(), Vec::new());
            let (longest, grace) = (Time::ZERO, Time::micros(10));
            Job { window, way: 0, routed, flows, changes, longest, grace }
        };
        for _ in 0..20 {
            let mut comparison = Comparison::new(&Config::default(), Transport::Uc);
            let all = [(0, 4_096), (1, 4_096), (0, 4_096), (1, 40_960), (2, 4_096), (1, 81_920)];
            for (window, bytes) in all {
                comparison.start(job(window, bytes));
            }
            let done = comparison.finish().into_iter();
            let mut done: Vec<_> =
                done.map(|(n, _, carried)| (n, carried.unwrap().in_time)).collect();
            done.sort_unstable();
            assert_eq!(done, [(0, 4_096), (1, 81_920), (2, 4_096)]);
        }
    }

    #[test]
    fn samples_are_spread_and_never_more_than_there_are() {
        assert_eq!(sampled(60, 4), [0, 15, 30, 45]);
        assert_eq!(sampled(3, 9), [0, 1, 2]);
        assert_eq!(sampled(5, 1), [0]);
    }
}
