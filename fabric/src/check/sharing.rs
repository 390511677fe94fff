//! Which jobs met on which links, and what that may have cost them.
//!
//! What a job's programs sent is not known, so each of its hosts is taken to send to all the others at once,
//! evenly, at the rate of its link. What a link cannot carry is missing to everything on it, in proportion. A job
//! is as quick as its slowest pair of hosts: the part that it gets is the least of `capacity / load` over its
//! links. Links of hosts are left out: they are the job's own.

use std::collections::BTreeMap;

use super::load::{Ends, Walker};
use crate::{Addresses, ForwardingTable, Lid, LinkRate, NodeIndex, PortIndex, Topology};

/// How packets find their way.
#[derive(Clone, Copy, Debug)]
pub enum Ways<'a> {
    /// By forwarding tables, to base addresses.
    Tables(&'a Addresses, &'a [ForwardingTable]),
    /// Each switch divides evenly over all shortest ways: what adaptive routing can do at best.
    Spread,
}

/// What a job sends over the links between switches: the sending port and bit/s, in order of ports.
pub type Loads = Vec<(PortIndex, u64)>;

/// A job that ran.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// How many hosts it had.
    pub hosts: usize,
    /// When it began and ended, in seconds.
    pub time: std::ops::Range<u64>,
    /// What it sends over links.
    pub loads: Loads,
}

/// What a job gets of what its hosts could send, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct JobShare {
    /// When no other job uses its links.
    pub alone: f64,
    /// With all that ran beside it, on average over its time.
    pub mean: f64,
    /// At the worst moment.
    pub worst: f64,
    /// Jobs that used one of its links while it ran.
    pub others: usize,
    /// Host-seconds that went to others: of `hosts * time`, the part by which `mean` is less than `alone`.
    pub lost: f64,
}

/// Two jobs that used the same links at the same time.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct PairShare {
    /// Their places in the list.
    pub jobs: [usize; 2],
    /// Links that both used, directions apart.
    pub links: usize,
    /// How long, in seconds.
    pub seconds: u64,
    /// What each gets of what it gets alone, if only the two run.
    pub kept: [f64; 2],
    /// Host-seconds that both lose so.
    pub lost: f64,
    /// The port that sends on the link with most of both, for its capacity.
    #[serde(skip)]
    pub most: PortIndex,
}

/// What [`sharing()`] found.
#[derive(Clone, PartialEq, Debug)]
pub struct Sharing {
    /// One a job.
    pub jobs: Vec<JobShare>,
    /// Pairs that shared a link, those that lose most first.
    pub pairs: Vec<PairShare>,
}

/// What a job on these hosts sends over links, and how many ordered pairs of hosts have no way.
pub fn loads(topology: &Topology, ways: Ways<'_>, hosts: &Ends) -> (Loads, u64) {
    let mut sent = BTreeMap::<NodeIndex, Vec<(PortIndex, u64)>>::new();
    let others = (hosts.len() as u64).saturating_sub(1).max(1);
    for &(port, switch) in hosts {
        sent.entry(switch).or_default().push((port, capacity(topology, port) / others));
    }
    match ways {
        Ways::Tables(addresses, tables) => by_tables(topology, addresses, tables, &sent),
        Ways::Spread => spread(topology, &sent),
    }
}

type ByLeaf = BTreeMap<NodeIndex, Vec<(PortIndex, u64)>>;

fn by_tables(
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
    sent: &ByLeaf,
) -> (Loads, u64) {
    let walker = Walker { topology, tables };
    let (mut loads, mut lost, mut way) = (BTreeMap::new(), 0, Vec::new());
    for (&home, receivers) in sent {
        for &(to, _) in receivers {
            let lid = addresses.base(to).unwrap_or(Lid::NONE);
            for (&from, senders) in sent.iter().filter(|&(&from, _)| from != home) {
                if !walker.walk(from, lid, to, &mut way) {
                    lost += senders.len() as u64;
                    continue;
                }
                let sum: u64 = senders.iter().map(|(_, rate)| rate).sum();
                way.iter().for_each(|&port| *loads.entry(port).or_insert(0) += sum);
            }
        }
    }
    (loads.into_iter().collect(), lost)
}

fn spread(topology: &Topology, sent: &ByLeaf) -> (Loads, u64) {
    let (mut loads, mut lost) = (BTreeMap::<PortIndex, f64>::new(), 0);
    for (&home, receivers) in sent {
        let distances = distances(topology, home);
        let mut flows = vec![0.0; topology.switch_count()];
        for (&from, senders) in sent.iter().filter(|&(&from, _)| from != home) {
            let sum: u64 = senders.iter().map(|(_, rate)| rate).sum();
            flows[from.index()] = sum as f64 * receivers.len() as f64;
            if !distances.iter().any(|&(switch, _)| switch == from) {
                lost += (senders.len() * receivers.len()) as u64;
            }
        }
        let mut far = vec![usize::MAX; topology.switch_count()];
        distances.iter().for_each(|&(switch, distance)| far[switch.index()] = distance);
        // The farthest first: what comes in is known before it is divided.
        for &(switch, distance) in distances.iter().rev() {
            let flow = flows[switch.index()];
            if flow == 0.0 || switch == home {
                continue;
            }
            let nearer = |&(_, next): &(_, NodeIndex)| far[next.index()] + 1 == distance;
            let out: Vec<_> = topology.switch_links(switch).filter(nearer).collect();
            for (num, next) in &out {
                let part = flow / out.len() as f64;
                flows[next.index()] += part;
                if let Some(port) = topology.port_of(switch, *num) {
                    *loads.entry(port).or_insert(0.0) += part;
                }
            }
        }
    }
    (loads.into_iter().map(|(port, load)| (port, load.round() as u64)).collect(), lost)
}

/// Switches and how many links they are from this one, the nearest first.
fn distances(topology: &Topology, home: NodeIndex) -> Vec<(NodeIndex, usize)> {
    let mut met = vec![false; topology.switch_count()];
    met[home.index()] = true;
    let (mut all, mut at) = (vec![(home, 0)], 0);
    while let Some(&(switch, distance)) = all.get(at) {
        for (_, next) in topology.switch_links(switch) {
            if !std::mem::replace(&mut met[next.index()], true) {
                all.push((next, distance + 1));
            }
        }
        at += 1;
    }
    all
}

/// What a link carries in one direction, in bit/s: as much as the slower of its ports.
fn capacity(topology: &Topology, port: PortIndex) -> u64 {
    let rate = |port| topology.port(port).rate.unwrap_or(LinkRate::NDR4).bits_per_second();
    topology.peer(port).map_or_else(|| rate(port), |peer| rate(port).min(rate(peer)))
}

/// Judges every job, and every pair of jobs that shared a link. What it takes grows with the links of the jobs
/// that meet, not with all that run at a time.
pub fn sharing(topology: &Topology, jobs: &[JobRun]) -> Sharing {
    let mut site = Site::new(topology, jobs);
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (n, job) in jobs.iter().enumerate().filter(|(_, job)| !job.time.is_empty()) {
        moments.extend([(job.time.start, true, n), (job.time.end, false, n)]);
    }
    // Who ends goes before who begins at that moment.
    moments.sort_unstable();
    for (now, begins, n) in moments {
        site.change(n, begins, now);
    }
    let Site { mut found, mut pairs, .. } = site;
    for (job, share) in jobs.iter().zip(&mut found) {
        let seconds = job.time.end.saturating_sub(job.time.start) as f64;
        share.mean = if seconds > 0.0 { share.mean / seconds } else { share.alone };
        share.lost = job.hosts as f64 * seconds * (1.0 - share.mean / share.alone);
    }
    for pair in &pairs {
        pair.jobs.iter().for_each(|&n| found[n].others += 1);
    }
    pairs.sort_by(|a, b| {
        let by_lost = b.lost.total_cmp(&a.lost);
        let product = |pair: &PairShare| pair.links as u64 * pair.seconds;
        by_lost.then_with(|| product(b).cmp(&product(a))).then_with(|| a.jobs.cmp(&b.jobs))
    });
    Sharing { jobs: found, pairs }
}

/// What runs at a moment.
struct Site<'a> {
    jobs: &'a [JobRun],
    capacity: Vec<u64>,
    /// By sending port: what all that run send, and which jobs these are.
    total: Vec<u64>,
    on: Vec<Vec<usize>>,
    /// By job: what it gets now, and since when.
    share: Vec<(f64, u64)>,
    /// `mean` is a sum of seconds here.
    found: Vec<JobShare>,
    pairs: Vec<PairShare>,
}

/// What two jobs have in common so far.
struct Common {
    links: usize,
    /// The least part that a common link leaves to both, and that link.
    part: f64,
    fill: f64,
    most: PortIndex,
}

impl<'a> Site<'a> {
    fn new(topology: &Topology, jobs: &'a [JobRun]) -> Self {
        let capacity: Vec<u64> = topology.ports().map(|port| capacity(topology, port)).collect();
        let alone = |job: &JobRun| {
            let parts = job.loads.iter().map(|&(port, own)| part(capacity[port.index()], own));
            parts.fold(1.0, f64::min)
        };
        let found = jobs.iter().map(|job| {
            let alone = alone(job);
            JobShare { alone, mean: 0.0, worst: alone, others: 0, lost: 0.0 }
        });
        Self {
            jobs,
            found: found.collect(),
            total: vec![0; topology.port_count()],
            on: vec![Vec::new(); topology.port_count()],
            share: vec![(1.0, 0); jobs.len()],
            pairs: Vec::new(),
            capacity,
        }
    }

    /// A job begins or ends: those that are on its links get another part from now on.
    fn change(&mut self, n: usize, begins: bool, now: u64) {
        let met = self.met(n);
        for &other in met.keys().chain((!begins).then_some(&n)) {
            let (share, since) = self.share[other];
            self.found[other].mean += share * (now - since) as f64;
        }
        for &(port, load) in &self.jobs[n].loads {
            let (total, on) = (&mut self.total[port.index()], &mut self.on[port.index()]);
            if begins {
                *total += load;
                on.push(n);
            } else {
                *total -= load;
                on.retain(|&other| other != n);
            }
        }
        for &other in met.keys().chain(begins.then_some(&n)) {
            let loads = self.jobs[other].loads.iter().map(|(port, _)| port.index());
            let share = loads.map(|port| part(self.capacity[port], self.total[port]));
            let share = share.fold(1.0, f64::min);
            self.share[other] = (share, now);
            self.found[other].worst = self.found[other].worst.min(share);
        }
        if begins {
            let pairs = met.iter().map(|(&other, common)| self.pair([other, n], common));
            let pairs: Vec<PairShare> = pairs.collect();
            self.pairs.extend(pairs);
        }
    }

    /// The other jobs on this one's links.
    fn met(&self, n: usize) -> BTreeMap<usize, Common> {
        let mut met = BTreeMap::<usize, Common>::new();
        for &(port, load) in &self.jobs[n].loads {
            for &other in self.on[port.index()].iter().filter(|&&other| other != n) {
                let theirs = &self.jobs[other].loads;
                let at = theirs.partition_point(|&(theirs, _)| theirs < port);
                let both = load + theirs.get(at).map_or(0, |&(_, load)| load);
                let capacity = self.capacity[port.index()];
                let (part, fill) = (part(capacity, both), both as f64 / capacity as f64);
                let common = Common { links: 0, part, fill, most: port };
                let common = met.entry(other).or_insert(common);
                common.links += 1;
                common.part = common.part.min(part);
                if fill > common.fill {
                    (common.fill, common.most) = (fill, port);
                }
            }
        }
        met
    }

    fn pair(&self, both: [usize; 2], common: &Common) -> PairShare {
        let [a, b] = both.map(|n| &self.jobs[n].time);
        let seconds = a.end.min(b.end).saturating_sub(a.start.max(b.start));
        let kept = both.map(|n| common.part.min(self.found[n].alone) / self.found[n].alone);
        let lost = |n: usize| self.jobs[both[n]].hosts as f64 * seconds as f64 * (1.0 - kept[n]);
        let (links, most) = (common.links, common.most);
        PairShare { jobs: both, links, seconds, kept, lost: lost(0) + lost(1), most }
    }
}

/// What a link carries of what is sent over it.
fn part(capacity: u64, sent: u64) -> f64 {
    capacity as f64 / sent.max(capacity) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Recipe;
    use crate::routing::{Engine, Routing};

    /// Two leaves of four hosts and one spine: all that goes from leaf to leaf shares two links.
    fn fabric() -> (Topology, Routing) {
        let topology = "clos:2,1,4".parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        (topology, routing)
    }

    fn run(hosts: &[usize], time: std::ops::Range<u64>, ways: Option<()>) -> JobRun {
        let (topology, routing) = fabric();
        let all: Vec<_> = routing.hosts.iter().map(|(_, host)| (host.port, host.switch)).collect();
        let ends: Vec<_> = hosts.iter().map(|&host| all[host]).collect();
        let tables = Ways::Tables(routing.plan.addresses(), &routing.tables);
        let (loads, lost) = loads(&topology, ways.map_or(tables, |()| Ways::Spread), &ends);
        assert_eq!(lost, 0);
        JobRun { hosts: hosts.len(), time, loads }
    }

    #[test]
    fn a_job_loses_what_others_take_of_its_links() {
        let (topology, _) = fabric();
        for ways in [None, Some(())] {
            // Two hosts each, one a leaf: each sends a whole link's rate over the one uplink.
            let jobs = [
                run(&[0, 4], 0..100, ways),
                run(&[1, 5], 50..150, ways),
                run(&[2, 3], 0..150, ways),
            ];
            let found = sharing(&topology, &jobs);
            let share = |n: usize| {
                let JobShare { alone, mean, worst, others, lost } = found.jobs[n];
                (alone, mean, worst, others, lost)
            };
            assert_eq!(share(0), (1.0, 0.75, 0.5, 1, 50.0));
            assert_eq!(share(1), (1.0, 0.75, 0.5, 1, 50.0));
            // Within a leaf there is nothing to share.
            assert_eq!(share(2), (1.0, 1.0, 1.0, 0, 0.0));
            let [pair] = found.pairs[..] else { panic!("{:?}", found.pairs) };
            assert_eq!((pair.jobs, pair.links, pair.seconds), ([0, 1], 4, 50));
            assert_eq!((pair.kept, pair.lost), ([0.5, 0.5], 100.0));
        }
    }

    #[test]
    fn what_a_job_does_to_itself_is_not_lost_to_others() {
        let (topology, _) = fabric();
        // Four hosts a leaf over one uplink: each sends to four of seven others over it.
        let all = [0, 1, 2, 3, 4, 5, 6, 7];
        let found = sharing(&topology, &[run(&all, 0..10, None)]);
        assert!((found.jobs[0].alone - 7.0 / 16.0).abs() < 1e-9, "{:?}", found.jobs[0]);
        assert_eq!((found.jobs[0].lost, found.pairs.len()), (0.0, 0));
    }
}
