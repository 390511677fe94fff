//! One window planned offline: demands in, a path for every grant and a reason for everything else out.
//!
//! `collect -> admit -> pack -> certify -> grant`, with nothing granted before.

mod admit;
mod shape;

use snin_fabric::hosts::{Host, HostId};
use snin_fabric::routing::{Engine, Routing, TreeChoices};
use snin_fabric::traffic::Demand;
use snin_fabric::{Dlid, Lid, LinkRate, NodeIndex, PortIndex, PortNum, Topology, TreeId};

use crate::bound::degree_bound;
use crate::packing::{Deferral, LeafId, Packer, Refusal, Request, Shape, pack_fixed};
use admit::admit;
use shape::PackingShape;

/// A switch and the port that the packet leaves it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The switch.
    pub switch: NodeIndex,
    /// Its port.
    pub port: PortNum,
}

/// A connection with a path of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Its place among the demands.
    pub demand: usize,
    /// The tree; 0 within a leaf and where the fabric has no trees.
    pub tree: TreeId,
    /// The address to send to.
    pub dlid: Dlid,
    /// Every switch on the way, the last one the destination's.
    pub path: Vec<Hop>,
}

/// Why a demand has to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wait {
    /// The host sends to another in this window.
    #[error("the source host already sends in this window")]
    SourceBusy,
    /// The host receives from another in this window.
    #[error("the destination host already receives in this window")]
    DestinationBusy,
    /// No tree.
    #[error(transparent)]
    Packing(#[from] Deferral),
    /// Its only path crosses another's.
    #[error("its only path needs a link that another connection owns")]
    LinkTaken(PortIndex),
}

/// Why a demand can never be granted on this fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refuse {
    /// A host does not send to itself through the fabric.
    #[error("source and destination are the same host")]
    Itself,
    /// More than the links carry.
    #[error("{asked} bit/s asked for, but the host's link carries {carries}")]
    TooFast {
        /// Bit/s asked for.
        asked: u64,
        /// Bit/s of the slower of the two hosts' links.
        carries: u64,
    },
    /// More than any way between the two carries.
    #[error("{asked} bit/s asked for, but no way between the hosts carries more than {carries}")]
    WayTooSlow {
        /// Bit/s asked for.
        asked: u64,
        /// Bit/s of the slowest link of the fastest way.
        carries: u64,
    },
    /// No tree.
    #[error(transparent)]
    Packing(#[from] Refusal),
    /// The tables lead nowhere.
    #[error("the tables have no route from the source to the destination")]
    NoRoute,
}

/// One window.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Plan {
    /// What may be sent, by demand.
    pub grants: Vec<Grant>,
    /// What has to wait, by demand.
    pub deferred: Vec<(usize, Wait)>,
    /// What cannot be had, by demand.
    pub refused: Vec<(usize, Refuse)>,
    /// The most demands that any packing could grant, as far as hosts and leaves' links tell.
    pub bound: usize,
}

/// Plans one window.
///
/// # Panics
/// Where a demand names a host that the routing does not have.
pub fn plan_window(topology: &Topology, routing: &Routing, demands: &[Demand]) -> Plan {
    Planner { topology, routing, choices: None, demands, plan: Plan::default() }.run()
}

/// Plans one window on tables that another manager wrote: a routing that was [found](Routing::found), and the
/// trees that its addresses lead along.
///
/// # Panics
/// Where a demand names a host that the routing does not have.
pub fn plan_on_found(
    topology: &Topology,
    routing: &Routing,
    choices: &TreeChoices,
    demands: &[Demand],
) -> Plan {
    let choices = Some(choices);
    Planner { topology, routing, choices, demands, plan: Plan::default() }.run()
}

/// A routed fabric as packer and slices see it, and the leaf of every host; `None` where the fabric has no
/// trees.
pub fn packing_shape(topology: &Topology, routing: &Routing) -> Option<(Shape, Vec<LeafId>)> {
    let has_trees = routing.shape.is_ok() && !routing.forest.is_empty();
    has_trees.then(|| PackingShape::new(topology, routing).into_parts())
}

struct Planner<'a> {
    topology: &'a Topology,
    routing: &'a Routing,
    /// The trees behind addresses where they were read from tables; else the plan knows them.
    choices: Option<&'a TreeChoices>,
    demands: &'a [Demand],
    plan: Plan,
}

impl Planner<'_> {
    fn run(mut self) -> Plan {
        let admitted = self.admit();
        let has_trees = matches!(self.routing.engine, Engine::Trees | Engine::Found);
        if self.routing.forest.is_empty() || !has_trees {
            self.pack_fixed_paths(&admitted);
        } else {
            self.pack_on_trees(&admitted);
        }
        self.plan.grants.sort_by_key(|grant| grant.demand);
        self.plan.deferred.sort_by_key(|&(demand, _)| demand);
        self.plan.refused.sort_by_key(|&(demand, _)| demand);
        self.plan
    }

    /// The trees that lead from one host to another, each with its address.
    fn addressed(&self, source: HostId, destination: HostId) -> Vec<(TreeId, Dlid)> {
        match self.choices {
            Some(choices) => {
                let found = choices.from(self.switch_of(source), destination).iter();
                found.map(|&(tree, dlid)| (tree, Dlid(dlid))).collect()
            }
            None => {
                let (plan, port) = (&self.routing.plan, self.host_port(destination));
                let dlid = |tree| Some((tree, plan.dlid(port, tree)?));
                plan.trees(port).filter_map(dlid).collect()
            }
        }
    }

    /// The demands that this window can hold as far as hosts go.
    fn admit(&mut self) -> Vec<usize> {
        let mut possible = Vec::with_capacity(self.demands.len());
        for (index, demand) in self.demands.iter().enumerate() {
            match self.impossible(demand) {
                Some(reason) => self.plan.refused.push((index, reason)),
                None => possible.push(index),
            }
        }
        let admission = admit(self.demands, &possible, self.routing.hosts.len());
        self.plan.deferred.extend(admission.waiting);
        admission.now
    }

    fn impossible(&self, demand: &Demand) -> Option<Refuse> {
        if demand.source == demand.destination {
            return Some(Refuse::Itself);
        }
        let asked = demand.rate?;
        let carries = |host| self.topology.port(self.host_port(host)).rate;
        let slower = [demand.source, demand.destination].into_iter().filter_map(carries);
        let carries = slower.map(|rate| rate.bits_per_second()).min()?;
        (asked > carries).then_some(Refuse::TooFast { asked, carries })
    }

    fn pack_on_trees(&mut self, admitted: &[usize]) {
        let mut shape = PackingShape::new(self.topology, self.routing);
        let unmanaged = self.routing.plan.unmanaged_trees();
        // Trees that are ordinary traffic's alone; if all are, it has none of its own.
        if unmanaged.len() < self.routing.forest.len() {
            shape.keep_free(unmanaged);
        }
        let mut requests = Vec::with_capacity(admitted.len());
        let mut within_leaf = 0;
        for &index in admitted {
            let Demand { source, destination, .. } = self.demands[index];
            if self.switch_of(source) == self.switch_of(destination) {
                within_leaf += 1;
                self.grant_base(index);
                continue;
            }
            let leaves = (shape.leaf(source), shape.leaf(destination));
            let request = Request::new(index as u32, leaves.0, leaves.1);
            let allowed = match self.demands[index].rate {
                None if self.choices.is_none() => shape.addressed(destination),
                None => {
                    let addressed = self.addressed(source, destination);
                    shape.add_set(addressed.into_iter().map(|(tree, _)| tree).collect())
                }
                Some(asked) => match self.fast_enough(source, destination, asked) {
                    Ok(trees) => shape.add_set(trees),
                    Err(reason) => {
                        self.plan.refused.push((index, reason));
                        continue;
                    }
                },
            };
            requests.push(Request { allowed, ..request });
        }
        self.plan.bound = within_leaf + bound(&shape, &requests);
        let mut packer = Packer::new(shape.into_shape());
        let outcome = packer.apply(&[], &requests);
        for &(id, tree) in &outcome.granted {
            self.grant_on(id.index(), tree);
        }
        let deferred = outcome.deferred.iter().map(|&(id, why)| (id.index(), why.into()));
        self.plan.deferred.extend(deferred);
        let refused = outcome.refused.iter().map(|&(id, why)| (id.index(), why.into()));
        self.plan.refused.extend(refused);
    }

    /// The trees whose way between two hosts carries so many bit/s.
    fn fast_enough(
        &self,
        source: HostId,
        destination: HostId,
        asked: u64,
    ) -> Result<Vec<TreeId>, Refuse> {
        let addressed = self.addressed(source, destination).into_iter();
        let ways = addressed
            .filter_map(|(tree, dlid)| Some((tree, self.carries(&self.path(source, dlid.0)?))));
        let ways: Vec<(TreeId, u64)> = ways.collect();
        let fast = ways.iter().filter(|&&(_, carries)| carries >= asked).map(|&(tree, _)| tree);
        let fast: Vec<TreeId> = fast.collect();
        match ways.iter().map(|&(_, carries)| carries).max() {
            Some(carries) if fast.is_empty() => Err(Refuse::WayTooSlow { asked, carries }),
            // Without any way the packer says why.
            _ => Ok(fast),
        }
    }

    /// Bit/s of the slowest link that the switches of a way send on; the greatest number where no rate is known.
    fn carries(&self, path: &[Hop]) -> u64 {
        let rate = |hop: &Hop| {
            let port = self.topology.port_of(hop.switch, hop.port)?;
            let ends = [Some(port), self.topology.peer(port)].into_iter().flatten();
            ends.filter_map(|end| self.topology.port(end).rate).map(LinkRate::bits_per_second).min()
        };
        path.iter().filter_map(rate).min().unwrap_or(u64::MAX)
    }

    /// Tables that give every connection one path: first come, first served.
    fn pack_fixed_paths(&mut self, admitted: &[usize]) {
        let mut routed = Vec::with_capacity(admitted.len());
        let mut paths: Vec<Vec<u32>> = Vec::with_capacity(admitted.len());
        for &index in admitted {
            let base = self.base_of(self.demands[index].destination);
            match base.and_then(|lid| self.path(self.demands[index].source, lid)) {
                None => self.plan.refused.push((index, Refuse::NoRoute)),
                Some(path) => {
                    paths.push(path.iter().filter_map(|hop| self.link(hop)).collect());
                    routed.push(index);
                }
            }
        }
        self.plan.bound = routed.len();
        let packing = pack_fixed(&paths, self.topology.port_count());
        for place in packing.granted {
            self.grant_base(routed[place]);
        }
        for blocked in packing.deferred {
            let why = Wait::LinkTaken(PortIndex(blocked.link));
            self.plan.deferred.push((routed[blocked.path], why));
        }
    }

    fn grant_base(&mut self, demand: usize) {
        let Some(base) = self.base_of(self.demands[demand].destination) else {
            return self.plan.refused.push((demand, Refuse::NoRoute));
        };
        self.grant(demand, TreeId(0), Dlid(base));
    }

    fn grant_on(&mut self, demand: usize, tree: TreeId) {
        let Demand { source, destination, .. } = self.demands[demand];
        let dlid = match self.choices {
            Some(choices) => choices.dlid(self.switch_of(source), destination, tree),
            None => self.routing.plan.dlid(self.host_port(destination), tree),
        };
        match dlid {
            Some(dlid) => self.grant(demand, tree, dlid),
            None => self.plan.refused.push((demand, Refusal::NotAddressed.into())),
        }
    }

    fn grant(&mut self, demand: usize, tree: TreeId, dlid: Dlid) {
        match self.path(self.demands[demand].source, dlid.0) {
            Some(path) => self.plan.grants.push(Grant { demand, tree, dlid, path }),
            None => self.plan.refused.push((demand, Refuse::NoRoute)),
        }
    }

    /// The way of a packet from `source` to the address, by the tables.
    fn path(&self, source: HostId, lid: Lid) -> Option<Vec<Hop>> {
        let mut path = Vec::with_capacity(5);
        let mut switch = self.switch_of(source);
        while path.len() <= self.topology.switch_count() {
            let port = self.routing.tables[switch.index()].get(lid);
            path.push(Hop { switch, port });
            let out = self.topology.port_of(switch, port).filter(|_| port != PortNum::ZERO)?;
            let next = self.topology.peer_node(out)?;
            if !self.topology.is_switch(next) {
                return Some(path);
            }
            switch = next;
        }
        None
    }

    /// The directed link that a hop sends on; hops to hosts own the host's link alone.
    fn link(&self, hop: &Hop) -> Option<u32> {
        self.topology.port_of(hop.switch, hop.port).map(|port| port.0)
    }

    fn host_port(&self, host: HostId) -> PortIndex {
        self.host(host).port
    }

    fn switch_of(&self, host: HostId) -> NodeIndex {
        self.host(host).switch
    }

    fn host(&self, host: HostId) -> &Host {
        // The caller promised that every demand names hosts of this routing.
        self.routing.hosts.get(host).expect("demand names a host of the fabric")
    }

    fn base_of(&self, host: HostId) -> Option<Lid> {
        self.routing.plan.addresses().base(self.host_port(host))
    }
}

fn bound(shape: &PackingShape, requests: &[Request]) -> usize {
    let capacity = shape.capacities();
    let place = |leaf: LeafId| leaf.index();
    let pairs: Vec<(usize, usize)> =
        requests.iter().map(|r| (place(r.source), place(r.destination))).collect();
    degree_bound(&capacity, &capacity, &pairs).count
}
