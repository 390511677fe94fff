//! What admission promises, judged from the requests alone: nothing here is taken from admission.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this one")]

use std::collections::{BTreeMap, BTreeSet};

/// A request as it was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub source: u32,
    pub destination: u32,
    pub arrival: u64,
    pub windows: u32,
    /// Bit/s, the unit for most.
    pub rate: u64,
}

/// What is wrong with a choice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// Not pending.
    Unknown(u32),
    /// Chosen twice.
    Twice(u32),
    /// More than a host's link carries.
    Overload(u32),
    /// A host of greatest degree does nothing.
    GreatestIdle(u32),
    /// It could have been chosen beside all that were.
    Idle(u32),
    /// Both of its hosts serve younger requests that nothing forced.
    Older(u32),
    /// It is overdue, and neither of its hosts serves one that came no later.
    Overdue(u32),
    /// A host with the most requests of the oldest, overdue arrival serves none of them.
    OldestIdle(u32),
    /// It was to be done by now.
    Late(u32),
}

/// Everything that is pending, and what must become of it.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub rates: Vec<u64>,
    pub unit: u64,
    pub overdue_after: u64,
    pub pending: BTreeMap<u32, Wanted>,
    /// Windows wanted at unit rate, by side and host.
    degree: [Vec<u64>; 2],
    /// The last window in which an overdue request may be pending.
    due: BTreeMap<u32, u64>,
}

impl Ledger {
    pub fn new(rates: Vec<u64>, overdue_after: u64) -> Self {
        let unit = rates.iter().copied().min().unwrap();
        let degree = [vec![0; rates.len()], vec![0; rates.len()]];
        Self { rates, unit, overdue_after, pending: BTreeMap::new(), degree, due: BTreeMap::new() }
    }

    pub fn add(&mut self, id: u32, wanted: Wanted) {
        assert!(self.pending.insert(id, wanted).is_none());
        self.count(&wanted, |degree| *degree += u64::from(wanted.windows));
    }

    pub fn remove(&mut self, id: u32) {
        self.due.remove(&id);
        let gone = self.pending.remove(&id).unwrap();
        self.count(&gone, |degree| *degree -= u64::from(gone.windows));
    }

    pub fn serve(&mut self, id: u32) {
        let wanted = self.pending.get_mut(&id).unwrap();
        if wanted.windows == 1 {
            return self.remove(id);
        }
        wanted.windows -= 1;
        let served = *wanted;
        self.count(&served, |degree| *degree -= 1);
    }

    fn count(&mut self, wanted: &Wanted, change: impl Fn(&mut u64)) {
        if wanted.rate == self.unit {
            change(&mut self.degree[0][wanted.source as usize]);
            change(&mut self.degree[1][wanted.destination as usize]);
        }
    }

    /// The windows that a pattern of unit requests needs at least.
    pub fn degree(&self) -> u64 {
        let sides = self.degree.iter().map(|side| {
            let needs = side.iter().zip(&self.rates).map(|(d, rate)| d.div_ceil(rate / self.unit));
            needs.max().unwrap_or(0)
        });
        let longest = self.pending.values().map(|wanted| u64::from(wanted.windows)).max();
        sides.max().unwrap_or(0).max(longest.unwrap_or(0))
    }

    fn is_overdue(&self, wanted: &Wanted, window: u64) -> bool {
        window - wanted.arrival >= self.overdue_after
    }

    /// What is wrong with a choice as far as it can be told from what was chosen.
    pub fn judge_quickly(&self, chosen: &[u32], nothing_overdue: bool) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut load = [vec![0u64; self.rates.len()], vec![0; self.rates.len()]];
        let mut seen = BTreeSet::new();
        for &id in chosen {
            if !seen.insert(id) {
                faults.push(Fault::Twice(id));
            }
            match self.pending.get(&id) {
                None => faults.push(Fault::Unknown(id)),
                Some(wanted) => {
                    load[0][wanted.source as usize] += wanted.rate;
                    load[1][wanted.destination as usize] += wanted.rate;
                }
            }
        }
        let greatest = self.degree.iter().flatten().copied().max().unwrap_or(0);
        let one_lane = self.rates.iter().all(|&rate| rate == self.unit);
        for (side, load) in load.iter().enumerate() {
            for (host, &load) in load.iter().enumerate() {
                if load > self.rates[host] {
                    faults.push(Fault::Overload(host as u32));
                }
                let must = greatest > 0 && self.degree[side][host] == greatest;
                if one_lane && nothing_overdue && must && load == 0 {
                    faults.push(Fault::GreatestIdle(host as u32));
                }
            }
        }
        faults
    }

    /// Everything that is wrong with a choice.
    pub fn judge(&mut self, window: u64, chosen: &[u32]) -> Vec<Fault> {
        let some_overdue = self.pending.values().any(|wanted| self.is_overdue(wanted, window));
        let mut faults = self.judge_quickly(chosen, !some_overdue);
        if !faults.is_empty() {
            return faults;
        }
        let serves = self.by_host(chosen);
        let plain = self.rates.iter().all(|&rate| rate == self.unit)
            && self.pending.values().all(|wanted| wanted.rate == self.unit);
        let greatest = self.degree.iter().flatten().copied().max().unwrap_or(0);
        let is_chosen: BTreeSet<u32> = chosen.iter().copied().collect();
        for (&id, wanted) in &self.pending {
            if is_chosen.contains(&id) {
                continue;
            }
            let served =
                [&serves[0][wanted.source as usize], &serves[1][wanted.destination as usize]];
            let load =
                |side: usize| served[side].iter().map(|id| self.pending[id].rate).sum::<u64>();
            let hosts = [wanted.source as usize, wanted.destination as usize];
            if (0..2).all(|side| load(side) + wanted.rate <= self.rates[hosts[side]]) {
                // Lanes are chosen when a request comes: one may be idle while this one's is not.
                let own_lane = self.rates[hosts[0]] > self.unit || self.rates[hosts[1]] > self.unit;
                if !(own_lane && wanted.rate == self.unit) {
                    faults.push(Fault::Idle(id));
                }
            }
            let not_younger = |side: usize| {
                served[side].iter().any(|id| self.pending[id].arrival <= wanted.arrival)
            };
            let waits_for_older = not_younger(0) || not_younger(1);
            if self.is_overdue(wanted, window) && !waits_for_older {
                faults.push(Fault::Overdue(id));
            }
            let forced = |side: usize| served[side].iter().any(|&id| self.is_forced(id, greatest));
            if plain && !some_overdue && !waits_for_older && !forced(0) && !forced(1) {
                faults.push(Fault::Older(id));
            }
        }
        self.judge_oldest(window, &serves, &mut faults);
        self.judge_waiting(window, &mut faults);
        faults
    }

    fn by_host(&self, chosen: &[u32]) -> [Vec<Vec<u32>>; 2] {
        let mut serves = [vec![Vec::new(); self.rates.len()], vec![Vec::new(); self.rates.len()]];
        for &id in chosen {
            serves[0][self.pending[&id].source as usize].push(id);
            serves[1][self.pending[&id].destination as usize].push(id);
        }
        serves
    }

    /// Whether it serves a host of greatest degree.
    fn is_forced(&self, id: u32, greatest: u64) -> bool {
        let wanted = self.pending[&id];
        self.degree[0][wanted.source as usize] == greatest
            || self.degree[1][wanted.destination as usize] == greatest
    }

    /// Where the oldest arrival is overdue and has only unit requests, its busiest hosts are served by it.
    fn judge_oldest(&self, window: u64, serves: &[Vec<Vec<u32>>; 2], faults: &mut Vec<Fault>) {
        let Some(oldest) = self.pending.values().map(|wanted| wanted.arrival).min() else {
            return;
        };
        let of = |wanted: &&Wanted| wanted.arrival == oldest;
        let one_lane = self.rates.iter().all(|&rate| rate == self.unit);
        let unit = self.pending.values().filter(of).all(|wanted| wanted.rate == self.unit);
        if window - oldest < self.overdue_after || !one_lane || !unit {
            return;
        }
        let mut degree = [vec![0; self.rates.len()], vec![0; self.rates.len()]];
        for wanted in self.pending.values().filter(of) {
            degree[0][wanted.source as usize] += wanted.windows;
            degree[1][wanted.destination as usize] += wanted.windows;
        }
        let greatest = degree.iter().flatten().copied().max().unwrap_or(0);
        for side in 0..2 {
            for host in (0..self.rates.len()).filter(|&host| degree[side][host] == greatest) {
                if !serves[side][host].iter().any(|id| self.pending[id].arrival == oldest) {
                    faults.push(Fault::OldestIdle(host as u32));
                }
            }
        }
    }

    /// The bound on waiting: fixed when a request becomes overdue, for all that comes later.
    fn judge_waiting(&mut self, window: u64, faults: &mut Vec<Fault>) {
        for (&id, wanted) in &self.pending {
            if !self.is_overdue(wanted, window) || self.due.contains_key(&id) {
                continue;
            }
            let others = self
                .pending
                .iter()
                .filter(|&(&other, request)| other != id && request.arrival <= wanted.arrival);
            let before: u64 = others
                .map(|(_, other)| {
                    let shared = u64::from(other.source == wanted.source)
                        + u64::from(other.destination == wanted.destination);
                    shared * u64::from(other.windows)
                })
                .sum();
            self.due.insert(id, window + before + u64::from(wanted.windows) - 1);
        }
        let late = self.due.iter().filter(|&(_, &due)| window > due);
        faults.extend(late.map(|(&id, _)| Fault::Late(id)));
    }
}
