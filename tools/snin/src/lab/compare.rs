//! The same traffic, routed in other ways: each window on its own, on as many threads as there are.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, available_parallelism, spawn};

use snin_emulator::data::{Config, Transport};
use snin_fabric::{Addresses, ForwardingTable, Topology};
use snin_protocol::Time;

use super::carry::{Carried, CarryError, Flow, Forwarding};

/// A fabric as it was routed in a window.
#[derive(Clone, Debug)]
pub struct Routed {
    /// Nodes and cables.
    pub topology: Arc<Topology>,
    /// Who has which address.
    pub addresses: Arc<Addresses>,
    /// One a switch.
    pub tables: Arc<Vec<ForwardingTable>>,
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
    /// Who sends what.
    pub flows: Vec<Flow>,
    /// What a message's last packet needs besides being sent.
    pub grace: Time,
}

/// Of which window, in which way, and what came of it.
pub type Done = (u32, usize, Result<Carried, CarryError>);

/// Carries what waits, and says what became of it.
#[derive(Clone, Debug)]
struct Carrier {
    config: Config,
    transport: Transport,
    waiting: Arc<Mutex<Receiver<Job>>>,
    finished: Sender<Done>,
}

impl Carrier {
    /// One job after the other, until there will be no more.
    fn work(&self) {
        // Nobody panics with the lock in hand.
        while let Ok(Ok(job)) = self.waiting.lock().map(|waiting| waiting.recv()) {
            let Routed { topology, addresses, tables } = &job.routed;
            let forwarding = Forwarding { topology, addresses, tables };
            let carried =
                forwarding.carry(&self.config, &job.flows, self.transport, Time::ZERO, job.grace);
            if self.finished.send((job.window, job.way, carried)).is_err() {
                return;
            }
        }
    }
}

/// Threads that carry.
#[derive(Debug)]
pub struct Comparison {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    carrier: Carrier,
    threads: Vec<JoinHandle<()>>,
}

impl Comparison {
    /// One thread fewer than there are processors, and one at least: whoever starts jobs is busy until all
    /// are started.
    pub fn new(config: &Config, transport: Transport) -> Self {
        let (jobs, waiting) = channel::<Job>();
        let (finished, done) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let carrier = Carrier { config: config.clone(), transport, waiting, finished };
        let threads = available_parallelism().map_or(1, |all| all.get().saturating_sub(1).max(1));
        let thread = |_| {
            let carrier = carrier.clone();
            spawn(move || carrier.work())
        };
        let threads = (0..threads).map(thread).collect();
        Self { jobs, done, carrier, threads }
    }

    /// Has it carried as soon as a thread is free.
    pub fn start(&self, job: Job) {
        // The carrier at hand keeps the other end.
        let _ = self.jobs.send(job);
    }

    /// What was carried since somebody asked, in whatever order.
    pub fn take_done(&self) -> impl Iterator<Item = Done> + '_ {
        self.done.try_iter()
    }

    /// Helps with what is left, waits for all of it, and gives what nobody took.
    pub fn finish(self) -> impl Iterator<Item = Done> {
        let Self { jobs, done, carrier, threads } = self;
        drop(jobs);
        carrier.work();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        // Nobody is left to finish more.
        drop(carrier);
        done.into_iter()
    }
}

/// Which `samples` of `windows`, spread evenly: the first of each of so many equal parts.
pub fn sampled(windows: usize, samples: usize) -> Vec<usize> {
    let samples = samples.clamp(1, windows.max(1));
    (0..samples).map(|n| n * windows / samples).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_and_never_more_than_there_are() {
        assert_eq!(sampled(60, 4), [0, 15, 30, 45]);
        assert_eq!(sampled(3, 9), [0, 1, 2]);
        assert_eq!(sampled(5, 1), [0]);
    }
}
