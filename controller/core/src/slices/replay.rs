//! First come, first served: what a list of jobs makes of a fabric.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Job, JobId, Refusal, Slices};

/// Where jobs get their hosts and links: slices by themselves, or a controller that keeps them.
pub trait Room {
    /// How many hosts there are.
    fn hosts(&self) -> usize;

    /// A job comes to the head of the queue, or is there still: gives it as many hosts, if there is room.
    ///
    /// # Errors
    /// Why there is none.
    fn begin(&mut self, job: JobId, hosts: u32, now: u64) -> Result<(), Refusal>;

    /// A job that began has ended.
    fn end(&mut self, job: JobId, now: u64);
}

impl Room for Slices {
    fn hosts(&self) -> usize {
        self.hosts()
    }

    fn begin(&mut self, job: JobId, hosts: u32, _now: u64) -> Result<(), Refusal> {
        self.allocate(job, hosts).map(drop)
    }

    fn end(&mut self, job: JobId, _now: u64) {
        self.release(job);
    }
}

/// When a job began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The job.
    pub job: Job,
    /// When it got its slice.
    pub at: u64,
}

/// What became of the jobs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Replay {
    /// Those that ran, in the order in which they began.
    pub started: Vec<Start>,
    /// Those that did not fit even into an empty fabric.
    pub impossible: Vec<(JobId, Refusal)>,
    /// How often the job at the head was refused and had to wait for others.
    pub refused: usize,
    /// Those among them for which enough hosts were free.
    pub refused_for_links: usize,
    hosts: u64,
}

impl Replay {
    /// Node-time used, of the node-time there is until the last job begins; `None` where all began at once.
    pub fn utilisation(&self) -> Option<f64> {
        let end = self.started.last()?.at;
        let used = self.started.iter().map(|start| {
            let until = start.at.saturating_add(start.job.run).min(end);
            u128::from(start.job.hosts) * u128::from(until - start.at)
        });
        let available = u128::from(self.hosts) * u128::from(end);
        (available > 0).then(|| used.sum::<u128>() as f64 / available as f64)
    }
}

/// Runs jobs in order of arrival (of the list, where they arrive together). None overtakes another: the one
/// at the head waits until enough others have ended, those behind it too.
pub fn replay(room: &mut impl Room, jobs: &[Job]) -> Replay {
    let mut queue = jobs.to_vec();
    queue.sort_by_key(|job| job.arrival);
    let mut replay = Replay { hosts: room.hosts() as u64, ..Replay::default() };
    let mut running = BinaryHeap::new();
    let mut now = 0;
    for job in queue {
        now = now.max(job.arrival);
        end_until(room, &mut running, now);
        loop {
            let refusal = match room.begin(job.id, job.hosts, now) {
                Ok(()) => {
                    replay.started.push(Start { job, at: now });
                    running.push(Reverse((now.saturating_add(job.run), job.id)));
                    break;
                }
                Err(refusal) => refusal,
            };
            let fits_the_fabric = u64::from(job.hosts) <= replay.hosts;
            let Some(&Reverse((end, _))) = running.peek().filter(|_| fits_the_fabric) else {
                replay.impossible.push((job.id, refusal));
                break;
            };
            replay.refused += 1;
            let links = matches!(refusal, Refusal::NoLinks | Refusal::NotFound);
            replay.refused_for_links += usize::from(links);
            now = end;
            end_until(room, &mut running, now);
        }
    }
    replay
}

fn end_until(room: &mut impl Room, running: &mut BinaryHeap<Reverse<(u64, JobId)>>, now: u64) {
    while let Some(&Reverse((end, job))) = running.peek().filter(|ended| ended.0.0 <= now) {
        debug_assert!(end <= now);
        running.pop();
        room.end(job, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packing::{LeafId, Shape};
    use crate::slices::Limits;

    #[test]
    fn the_head_of_the_queue_holds_up_the_rest() {
        let shape = Shape::two_stage(2, 2);
        let leaf_of_host = [0, 0, 1, 1].map(LeafId);
        let mut slices = Slices::new(&shape, &leaf_of_host, Limits::default()).unwrap();
        let job = |id, hosts, arrival, run| Job { id: JobId(id), hosts, arrival, run };
        // 2 waits for 1, 3 waits behind 2 though there is room; 4 never fits, and holds up no other job.
        let jobs = [job(1, 3, 0, 10), job(2, 2, 1, 5), job(4, 5, 1, 1), job(3, 1, 2, 1)];
        let replay = replay(&mut slices, &jobs);
        let started: Vec<_> = replay.started.iter().map(|s| (s.job.id.0, s.at)).collect();
        assert_eq!(started, [(1, 0), (2, 10), (3, 10)]);
        let too_few = Refusal::TooFewHosts { wanted: 5, free: 2 };
        assert_eq!(replay.impossible, [(JobId(4), too_few)]);
        // 30 of 40 until the last one begins.
        assert_eq!(replay.utilisation(), Some(0.75));
    }
}
