//! Windows, one after the other: a pattern is asked for, what is left of it is planned until all of it is
//! done, then the next one. Nothing is granted from one window to the next.

use snin_controller::plan::{Plan, plan_window};
use snin_fabric::check::owner::{OwnerReport, PlannedPath, owner};
use snin_fabric::routing::Routing;
use snin_fabric::traffic::Demand;
use snin_fabric::{Addresses, Topology};

/// Violations named in a certificate; all are counted.
const NAMED: usize = 10;

/// What was asked for in a window, and what came of it.
#[derive(Clone, Debug)]
pub struct Window {
    /// From 0.
    pub number: usize,
    /// What was left of the pattern.
    pub demands: Vec<Demand>,
    /// Grants, and reasons for all else.
    pub plan: Plan,
}

/// Counted over all windows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Windows.
    pub count: usize,
    /// Connections that patterns asked for, each counted once.
    pub requested: usize,
    /// Of those, granted.
    pub granted: usize,
    /// Times that one had to wait for the next window.
    pub deferred: usize,
    /// Of those asked for, never to be had.
    pub refused: usize,
    /// The most owners that a directed link had in any window, as the independent checker counts.
    pub max_link_load: u32,
    /// What else that checker found wrong, sharing included.
    pub violations: u64,
}

/// How a pattern was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Served {
    /// The most connections that a host asked for in one direction: no fewer windows can do.
    pub degree: usize,
    /// Windows that it took so far.
    pub windows: usize,
    /// Connections that still wait.
    pub waiting: usize,
}

impl Served {
    /// All done, and no window more than needed.
    pub const fn in_time(&self) -> bool {
        self.waiting == 0 && self.windows <= self.degree
    }
}

/// The loop over windows.
pub struct Windows<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    addresses: &'a Addresses,
    waiting: Vec<Demand>,
    patterns: Vec<Served>,
    tally: Tally,
}

impl<'a> Windows<'a> {
    /// None planned yet. Certificates are by `addresses` and the routing's tables: both are what the fabric
    /// holds, whoever planned it.
    pub fn new(topology: &'a Topology, routing: &'a Routing, addresses: &'a Addresses) -> Self {
        let (waiting, patterns, tally) = (Vec::new(), Vec::new(), Tally::default());
        Self { topology, routing, addresses, waiting, patterns, tally }
    }

    /// Plans the next window. `pattern` is asked for the pattern of that number when the last one is done.
    ///
    /// # Errors
    /// What `pattern` says.
    pub fn plan<E>(
        &mut self,
        pattern: impl FnOnce(usize) -> Result<Vec<Demand>, E>,
    ) -> Result<Window, E> {
        if self.waiting.is_empty() {
            self.waiting = pattern(self.patterns.len())?;
            self.tally.requested += self.waiting.len();
            let degree = degree(&self.waiting, self.routing.hosts.len());
            self.patterns.push(Served { degree, windows: 0, waiting: self.waiting.len() });
        }
        let demands = std::mem::take(&mut self.waiting);
        let plan = plan_window(self.topology, self.routing, &demands);
        let certificate = self.certify(&demands, &plan);
        self.waiting.extend(plan.deferred.iter().map(|&(demand, _)| demands[demand]));
        let number = self.tally.count;
        self.count(&plan, &certificate);
        Ok(Window { number, demands, plan })
    }

    fn count(&mut self, plan: &Plan, certificate: &OwnerReport) {
        let tally = &mut self.tally;
        tally.count += 1;
        tally.granted += plan.grants.len();
        tally.deferred += plan.deferred.len();
        tally.refused += plan.refused.len();
        tally.max_link_load = tally.max_link_load.max(certificate.max_link_load);
        tally.violations += certificate.violations.total;
        if let Some(served) = self.patterns.last_mut() {
            served.windows += 1;
            served.waiting = self.waiting.len();
        }
    }

    /// The independent checker's word on a plan.
    fn certify(&self, demands: &[Demand], plan: &Plan) -> OwnerReport {
        let port = |host| self.routing.hosts.get(host).map(|host| host.port);
        let paths = plan.grants.iter().filter_map(|grant| {
            let demand = demands[grant.demand];
            Some(PlannedPath {
                source: port(demand.source)?,
                destination: port(demand.destination)?,
                dlid: grant.dlid.0,
                path: grant.path.iter().map(|hop| (hop.switch, hop.port)).collect(),
            })
        });
        let paths: Vec<PlannedPath> = paths.collect();
        owner(self.topology, self.addresses, &self.routing.tables, &paths, NAMED)
    }

    /// Counted so far.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Every pattern asked for so far.
    pub fn patterns(&self) -> &[Served] {
        &self.patterns
    }
}

/// The most demands that a host has in one direction.
fn degree(demands: &[Demand], hosts: usize) -> usize {
    let (mut out, mut into) = (vec![0; hosts], vec![0; hosts]);
    for demand in demands {
        out[demand.source.index()] += 1;
        into[demand.destination.index()] += 1;
    }
    out.into_iter().chain(into).max().unwrap_or(0)
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

    #[test]
    fn the_degree_is_of_the_busiest_host_in_either_direction() {
        let demands = [Demand::new(0, 1), Demand::new(2, 1), Demand::new(3, 1), Demand::new(0, 2)];
        assert_eq!(degree(&demands, 4), 3);
        assert_eq!(degree(&[], 4), 0);
    }
}
