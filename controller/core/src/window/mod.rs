//! The controller as a pure state machine: what agents and the subnet manager say and the time go in,
//! leases come out.
//!
//! Every window is decided a `lead` before it begins: `collect -> admit -> pack -> certify -> grant`
//! (`decide`). What the packer wants becomes grants as soon as the ledger says that
//! links are clear (`granting`), and that alone decides whether they may: even if admission or packer are wrong,
//! no link is given to a second connection before it is certain that the first has left it.
//!
//! Links become clear when an agent confirms a lease without the grant, or when the grant's `until` +
//! guard has passed. A connection that has to leave, to move or to pause is left out of its agent's next
//! lease; see `transition` for who pauses when trees are changed in circles.

mod agents;
mod asking;
mod collectives;
mod connections;
mod decide;
mod domains;
mod fabric;
mod frames;
mod granting;
mod jobs;
mod ledger;
mod ordered;
mod preferring;
mod slicing;
mod transition;
mod viewing;
mod why;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use snin_fabric::hosts::{Host, HostId};
use snin_fabric::view::View;
use snin_fabric::{Dlid, Guid, Lid, NodeIndex, PortNum};
use snin_protocol::{ConnectionNumber, Epoch, Time};

use crate::admission::{Admission, HostLinks, Limits};
use crate::config::{Bound, Config};
use crate::error::ConfigError;
use crate::events::{Event, GrantStatus, Note, Output};
use crate::metrics::Metrics;
use crate::orders::Answer;
use agents::Agent;
use collectives::Collectives;
use connections::Connections;
use domains::{DomainId, Domains};
use fabric::{Fabric, LinkId, LinkNames};
use frames::Frames;
use ledger::{Claim, ClaimId, Ledger, Way};
use slicing::Slicing;

pub use collectives::CollectiveStatus;
pub use frames::FrameStatus;
pub use why::ConnectionStatus;

/// Admission before there is a view.
const NO_REQUESTS: Limits = Limits { requests: 0, overdue_after: 0 };

/// A switch and the port by which a packet leaves it.
pub type Out = (NodeIndex, PortNum);

/// The controller's core.
#[derive(Clone, Debug)]
pub struct Core {
    config: Config,
    fabric: Fabric,
    names: LinkNames,
    agents: BTreeMap<Guid, Agent>,
    connections: Connections,
    admission: Admission,
    /// What admission was made for.
    links: Option<HostLinks>,
    /// A packer for each slice, and one for what is in none.
    domains: Domains,
    slicing: Slicing,
    frames: Frames,
    collectives: Collectives,
    /// Connections that are gone, but known to their packer.
    departed: Vec<(u32, DomainId)>,
    /// Connections that have had their last window.
    spent: Vec<u32>,
    ledger: Ledger,
    /// View or policy changed: admission and packer begin anew with the next window.
    stale: bool,
    /// Connections that have a way, but not a grant for it yet.
    pending: BTreeSet<u32>,
    /// Links became clear: `pending` is worth a look.
    cleared: bool,
    /// Agents whose lease changed.
    dirty: BTreeSet<Guid>,
    /// Agents that have not confirmed their lease, and when to look at them again.
    unconfirmed: BTreeSet<Guid>,
    repeat_at: Time,
    /// Views, and what is under way still on what each of them called unusable.
    clearing: BTreeMap<u64, BTreeSet<ClaimId>>,
    /// The window decided last, once there is one, and the next.
    window: Epoch,
    next: Epoch,
    /// Since when the subnet manager is not heard.
    manager_lost: Option<Time>,
    /// Nothing is granted before: a predecessor's grants may be in force.
    quiet_until: Time,
    deposed: bool,
    next_owner: u64,
    outputs: VecDeque<Output>,
    metrics: Metrics,
}

impl Core {
    /// A controller that begins at `now` and knows no agent.
    ///
    /// # Errors
    /// When the configuration cannot work.
    pub fn new(config: Config, view: Arc<dyn View>, now: Time) -> Result<Self, ConfigError> {
        config.check()?;
        let mut names = LinkNames::default();
        let fabric = Fabric::new(view, config.policy, &mut names);
        let mut ledger = Ledger::new(config.guard);
        ledger.grow(names.len());
        let first = config.term.0 <= 1;
        let before = config.predecessor.or_else(|| (!first).then(|| config.longest_in_force()));
        let mut core = Self {
            admission: Admission::new(HostLinks::uniform(0, 1), NO_REQUESTS),
            links: None,
            domains: Domains::default(),
            slicing: Slicing::default(),
            frames: Frames::default(),
            collectives: Collectives::default(),
            fabric,
            names,
            agents: BTreeMap::new(),
            connections: Connections::default(),
            departed: Vec::new(),
            spent: Vec::new(),
            ledger,
            stale: true,
            pending: BTreeSet::new(),
            cleared: false,
            dirty: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            repeat_at: Time::MAX,
            clearing: BTreeMap::new(),
            window: Epoch(0),
            next: Epoch::of(now + config.lead, config.window).after(1),
            manager_lost: None,
            quiet_until: before.map_or(Time::ZERO, |before| now + before),
            deposed: false,
            next_owner: 0,
            outputs: VecDeque::new(),
            metrics: Metrics::default(),
            config,
        };
        core.slicing.take_view(&core.fabric);
        core.renew();
        Ok(core)
    }

    /// Something happened; the answer to whom it is an order of.
    pub fn handle(&mut self, event: Event, now: Time) -> Answer {
        match event {
            Event::Order(order) => return self.carry_out(order, now),
            _ if self.deposed => return Answer::None,
            Event::Received { from, message } => self.receive(from, message, now),
            Event::AgentLost(port) => self.lose(port),
            Event::View(view) => self.take_view(view),
            Event::Unusable(change) => self.take_change(&change),
            Event::Policy(policy) => self.take_policy(policy),
            Event::Manager(is_heard) => self.manager_lost = (!is_heard).then_some(now),
            Event::TestLink(port, test) => self.test_link(port, test, now),
            Event::Superseded { by } => {
                self.deposed = true;
                self.note(Note::Superseded { by });
            }
        }
        self.go_on(now);
        Answer::None
    }

    /// What is to be done next; to be asked until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`handle_deadline`](Self::handle_deadline) is to be called at the latest. Earlier calls do no
    /// harm.
    pub fn next_deadline(&self) -> Option<Time> {
        (!self.deposed).then(|| self.decide_at().min(self.repeat_at))
    }

    /// Time has passed.
    pub fn handle_deadline(&mut self, now: Time) {
        if self.deposed {
            return;
        }
        if now >= self.decide_at() {
            // A window that begins within the lead is due; windows that were missed are gone.
            let due = Epoch::of(now + self.config.lead, self.config.window).max(self.next);
            self.metrics.windows_missed += due.0 - self.next.0;
            self.next = due.after(1);
            self.decide(due, now);
        }
        self.go_on(now);
        if now >= self.repeat_at {
            self.repeat(now);
        }
    }

    /// When the next window is to be decided.
    pub fn decide_at(&self) -> Time {
        self.next.start(self.config.window) - self.config.lead
    }

    /// What every event may have made possible.
    fn go_on(&mut self, now: Time) {
        if std::mem::take(&mut self.cleared) {
            self.grant_pending(now);
            self.grant_collectives(now);
        }
        self.send_leases(now);
        self.send_clear(now);
    }

    fn note(&mut self, note: Note) {
        self.outputs.push_back(Output::Note(note));
    }

    /// Admission and packer for the present view; what they knew is asked of them anew.
    fn renew(&mut self) {
        self.stale = false;
        // One lane a host: what a faster link has beyond that is not used yet.
        let slowest =
            (0..self.fabric.hosts() as u32).filter_map(|h| self.fabric.rate(HostId(h))).min();
        let links = HostLinks::uniform(self.fabric.hosts(), slowest.unwrap_or(1));
        let limits =
            Limits { requests: self.config.connections, overdue_after: self.config.overdue_after };
        // Its tables are large: they are made anew only for another set of hosts.
        if self.links.as_ref() != Some(&links) {
            self.admission = Admission::new(links.clone(), limits);
            self.links = Some(links);
        }
        self.domains = Domains::new(&self.fabric, self.slicing.slices());
        self.departed.drain(..).for_each(|(slot, _)| self.connections.give_back(slot));
        let slots: Vec<u32> = self.connections.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.place(slot);
        }
    }

    /// What the operator configured.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The bounds declared for traffic classes.
    pub fn bounds(&self) -> &[Bound] {
        &self.config.bounds
    }

    /// The counters.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            agents: self.agents.len() as u64,
            connections: self.connections.len() as u64,
            holding: self.ledger.iter().filter(|(_, claim)| claim.gone.is_none()).count() as u64,
            ..self.metrics
        }
    }

    /// The view in use.
    pub fn view(&self) -> &Arc<dyn View> {
        &self.fabric.view
    }

    /// Another controller is in charge: this one grants nothing any more.
    pub const fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// The host with this port.
    pub fn host(&self, port: Guid) -> Option<&Host> {
        self.fabric.host(self.fabric.host_of(port)?)
    }

    /// The grants that agents hold or are about to, oldest first; those being taken back are left out.
    pub fn grants(&self) -> impl Iterator<Item = GrantStatus> {
        self.ledger
            .iter()
            .filter(|(_, claim)| claim.gone.is_none())
            .filter_map(|(_, claim)| Some(self.status(claim, claim.way.as_ref()?)))
    }

    /// The grants that never move: what answers to path queries may show.
    pub fn pinned(&self) -> impl Iterator<Item = GrantStatus> {
        self.grants().filter(|grant| grant.pinned)
    }

    /// The switches on the way between two hosts and the ports by which a packet to `dlid` leaves them; to the
    /// destination's base address where none is given. `None` where the tables have no way.
    pub fn way(&self, ends: (HostId, HostId), dlid: Option<Dlid>) -> Option<(Lid, Vec<Out>)> {
        let destination = self.fabric.host(ends.1)?.port;
        let base = self.fabric.view.addresses().base(destination)?;
        let lid = dlid.map_or(base, |dlid| dlid.0);
        Some((lid, self.fabric.walk(ends, lid)?))
    }

    /// The grants that stand on the directed link which leaves a port, those being taken back included.
    pub fn owners_of(&self, node: Guid, port: PortNum) -> Vec<GrantStatus> {
        let Some(link) = self.names.get(node, port) else { return Vec::new() };
        let on = self.ledger.iter().filter(|(_, claim)| claim.links.contains(&link));
        let mut grants = Vec::new();
        for (_, claim) in on {
            match &claim.way {
                Some(way) => grants.push(self.status(claim, way)),
                None => grants.extend(self.collective_grants(claim, link)),
            }
        }
        grants
    }

    /// The connections of a member of a collective that use a link, each in its turns.
    fn collective_grants(&self, claim: &Claim, link: LinkId) -> Vec<GrantStatus> {
        let users = self.collectives.receivers_over(&self.fabric, claim, link);
        let way = |(destination, tree, dlid)| Way {
            number: ConnectionNumber(0),
            slot: 0,
            destination,
            tree,
            dlid,
            rate: 0,
            pinned: false,
            class: 0,
        };
        users.into_iter().map(|user| self.status(claim, &way(user))).collect()
    }

    fn status(&self, claim: &Claim, way: &Way) -> GrantStatus {
        let source = self.fabric.host_of(claim.holder.port);
        GrantStatus {
            source: claim.holder.port,
            connection: way.number,
            destination: way.destination,
            hosts: source.zip(self.fabric.host_of(way.destination)),
            class: way.class,
            tree: way.tree,
            dlid: way.dlid,
            from: claim.from,
            until: claim.until,
            pinned: way.pinned,
        }
    }
}
