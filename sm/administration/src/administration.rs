//! The core that answers: which request is for which handler, and what waits.

use std::collections::VecDeque;

use snin_fabric::Guid;
use snin_mad::header::Header;
use snin_mad::sa::{SaNotice, SaRequest, SaStatus};
use snin_mad::{Class, Mad, Method, Notice, PKey, Table as _};
use snin_protocol::Time;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::records::Database;

use crate::answer::{self, Answer};
use crate::metrics::{AdministrationMetrics, Unanswered};
use crate::reports::Reports;
use crate::transport::{self, Arrived, Limits, Transport};
use crate::trust::Requester;
use crate::world::World;
use crate::{aliases, info, membership, paths, records, services, subscriptions, table};

/// What is said to a request that there is no room for, where who asks is to be told.
pub fn busy(request: &Mad) -> Option<Box<Mad>> {
    transport::busy_answer(request)
}

/// The core that answers.
#[derive(Debug)]
pub struct Administration {
    transport: Transport,
    reports: Reports,
    outputs: VecDeque<(Origin, Box<Mad>)>,
    metrics: AdministrationMetrics,
    /// GUIDs that subscribers know to be in service.
    in_service: std::collections::BTreeSet<Guid>,
    /// Ports that are gone and were in groups or subscribed: their hosts have to be told, should they return.
    lapsed: Vec<Guid>,
    parked: Parked,
}

/// Requests that wait, the oldest first.
#[derive(Debug, Default)]
struct Parked {
    /// For tables which were not read yet.
    requests: VecDeque<(Time, Origin, Box<SaRequest>)>,
    /// For a discovery under way, since nothing is known yet of what they ask for.
    undiscovered: VecDeque<(Time, Origin, Box<SaRequest>)>,
    /// The nodes whose tables are wanted; all, where it is none.
    wanted: Vec<Option<Guid>>,
}

/// How many requests wait for tables, and how long at most.
const MOST_PARKED: usize = 1_024;
const PARKED_FOR: Time = Time::secs(10);
/// How long one waits for a discovery at most: less than a client waits for its answer.
const DISCOVERED_FOR: Time = Time::millis(500);

impl Administration {
    /// Without any requests.
    pub fn new(limits: Limits) -> Self {
        Self {
            transport: Transport::new(limits),
            reports: Reports::default(),
            outputs: VecDeque::new(),
            metrics: AdministrationMetrics::default(),
            in_service: std::collections::BTreeSet::new(),
            lapsed: Vec::new(),
            parked: Parked::default(),
        }
    }

    /// Nodes whose tables of lanes are wanted, of all nodes where it is none.
    pub fn take_wanted(&mut self) -> Vec<Option<Guid>> {
        std::mem::take(&mut self.parked.wanted)
    }

    /// Ports whose hosts have to register again, should they return.
    pub fn take_lapsed(&mut self) -> Vec<Guid> {
        std::mem::take(&mut self.lapsed)
    }

    /// The counters.
    pub const fn metrics(&self) -> &AdministrationMetrics {
        &self.metrics
    }

    /// The next MAD to be sent.
    pub fn poll(&mut self) -> Option<(Origin, Box<Mad>)> {
        self.outputs.pop_front()
    }

    /// MADs that wait to be polled.
    pub fn waiting(&self) -> usize {
        self.outputs.len()
    }

    /// When [`handle_deadline`](Self::handle_deadline) has to be called.
    pub fn next_deadline(&self, database: &Database) -> Option<Time> {
        let lease = services::next_end(database);
        let parked = self.parked.requests.front().map(|(since, ..)| *since + PARKED_FOR);
        let discovered =
            self.parked.undiscovered.front().map(|(since, ..)| *since + DISCOVERED_FOR);
        [self.transport.next_deadline(), self.reports.next_deadline(), lease, parked, discovered]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due.
    pub fn handle_deadline(&mut self, world: &mut World<'_>) {
        let given_up = self.transport.expire(world.now, &mut self.outputs);
        self.metrics.messages_given_up += given_up;
        self.reports.expire(world.now, &mut self.outputs, &mut self.metrics);
        services::end_leases(world);
        while self.parked.requests.front().is_some_and(|(at, ..)| *at + PARKED_FOR <= world.now) {
            self.resume_one(world);
        }
        let now = world.now;
        let late = |(at, ..): &mut (Time, Origin, Box<SaRequest>)| *at + DISCOVERED_FOR <= now;
        while let Some((_, from, request)) = self.parked.undiscovered.pop_front_if(late) {
            self.resume_with(from, &request, world);
        }
    }

    /// No discovery is under way any more: answers requests that wait for its end.
    pub fn discovered(&mut self, world: &mut World<'_>) {
        for (_, from, request) in std::mem::take(&mut self.parked.undiscovered) {
            self.resume_with(from, &request, world);
        }
    }

    /// Requests that wait for a discovery.
    pub fn undiscovered(&self) -> usize {
        self.parked.undiscovered.len()
    }

    /// What was to be read is read, or cannot be: answers who waits for it.
    pub fn resume(&mut self, world: &mut World<'_>) {
        for _ in 0..self.parked.requests.len() {
            self.resume_one(world);
        }
    }

    fn resume_one(&mut self, world: &mut World<'_>) {
        let Some((_, from, request)) = self.parked.requests.pop_front() else { return };
        self.resume_with(from, &request, world);
    }

    fn resume_with(&mut self, from: Origin, request: &SaRequest, world: &mut World<'_>) {
        let done = match world.view {
            Some(_) => self.respond(from, request, world),
            None => Err(Unanswered::NotMaster),
        };
        self.count(done);
    }

    /// Takes a MAD of class 3.
    pub fn handle(&mut self, from: Origin, bytes: &[u8], world: &mut World<'_>) {
        let taken = self.take(from, bytes, world);
        self.count(taken);
    }

    fn count(&mut self, taken: Result<(), Unanswered>) {
        if let Err(why) = taken {
            *self.metrics.unanswered.entry(why).or_insert(0) += 1;
        }
    }

    fn take(
        &mut self,
        from: Origin,
        bytes: &[u8],
        world: &mut World<'_>,
    ) -> Result<(), Unanswered> {
        let mad = Mad::from_slice(bytes).map_err(|_| Unanswered::Malformed)?;
        let header = Header::parse(&mad.0).map_err(|_| Unanswered::Malformed)?;
        if header.class != Class::Administration {
            return Err(Unanswered::Malformed);
        }
        let arrived = self.transport.receive(from, &mad, world.now, &mut self.outputs)?;
        let Arrived::Request(request) = arrived else { return Ok(()) };
        if request.method == Method::ReportResp {
            return self.reports.acknowledged(from, request.transaction_id);
        }
        if request.method.is_response() {
            return Err(Unanswered::NoRequest);
        }
        if world.view.is_none() {
            return Err(Unanswered::NotMaster);
        }
        if world.read_only && matches!(request.method, Method::Set | Method::Delete) {
            return Err(Unanswered::NotMaster);
        }
        let requester = Requester::of(&from, request.sm_key, world)?;
        if !world.read_only
            && let Some(node) = records::lanes::unread(&request, world)
        {
            park(&mut self.parked.requests, from, request, world.now)?;
            self.parked.wanted.push(node);
            return Ok(());
        }
        let answer = self.answer(&requester, &request, world);
        let reads = matches!(request.method, Method::Get | Method::GetTable | Method::GetMulti);
        let nothing =
            answer.status == SaStatus::NO_RECORDS || answer.status.is_ok() && answer.count() == 0;
        // What is not found now may be there when the discovery under way has ended.
        if reads && nothing && !world.read_only && !world.sweep.is_settled() {
            return park(&mut self.parked.undiscovered, from, request, world.now);
        }
        self.send(from, &request, answer, world)
    }

    /// Answers a request that has waited.
    fn respond(
        &mut self,
        from: Origin,
        request: &SaRequest,
        world: &mut World<'_>,
    ) -> Result<(), Unanswered> {
        let requester = Requester::of(&from, request.sm_key, world)?;
        let answer = self.answer(&requester, request, world);
        self.send(from, request, answer, world)
    }

    fn send(
        &mut self,
        from: Origin,
        request: &SaRequest,
        answer: Answer,
        world: &World<'_>,
    ) -> Result<(), Unanswered> {
        let counted = (request.attribute, request.method.code());
        *self.metrics.requests.entry(counted).or_insert(0) += 1;
        *self.metrics.answers.entry(answer.status.0).or_insert(0) += 1;
        self.transport.send(from, request, answer, world.now, &mut self.outputs)
    }

    /// What there is to say to a request.
    fn answer(
        &mut self,
        requester: &Requester,
        request: &SaRequest,
        world: &mut World<'_>,
    ) -> Answer {
        use snin_mad::sa::*;
        type Info = snin_mad::ClassPortInfo;
        let reads = matches!(request.method, Method::Get | Method::GetTable);
        let answer = match (request.attribute, request.method) {
            (Info::ID, Method::Get) => Ok(info::class_port_info()),
            (PathRecord::ID, Method::Get | Method::GetTable) => {
                paths::paths(requester, request, world)
            }
            (PathRecord::ID | TraceRecord::ID, Method::GetTraceTable) => {
                paths::trace(requester, request, world)
            }
            (MultiPathRecord::ID, Method::GetMulti) => {
                paths::multi_paths(requester, request, world)
            }
            (McMemberRecord::ID, Method::Set) => membership::join(requester, request, world),
            (McMemberRecord::ID, Method::Delete) => membership::leave(requester, request, world),
            (ServiceRecord::ID, Method::Set) => services::register(requester, request, world),
            (ServiceRecord::ID, Method::Delete) => services::withdraw(requester, request, world),
            (InformInfo::ID, Method::Set) => subscriptions::inform(requester, request, world),
            (GuidInfoRecord::ID, Method::Set) => aliases::set(requester, request, world),
            (GuidInfoRecord::ID, Method::Delete) => aliases::delete(requester, request, world),
            _ if reads => table::read(requester, request, world),
            (_, method) => Err(answer::refusal(request.attribute, method)),
        };
        self.follow(world);
        answer.unwrap_or_else(Answer::refused)
    }

    /// Tells subscribers of groups that came or went with what was just done.
    fn follow(&mut self, world: &mut World<'_>) {
        for notice in std::mem::take(&mut world.notices) {
            self.notify(&notice, world);
        }
    }

    /// Sends a notice to its subscribers.
    fn notify(&mut self, notice: &SaNotice, world: &World<'_>) {
        let Ok(inner) = notice.notice.parse() else { return };
        for (subscriber, sl) in subscriptions::listeners(notice, &inner, world) {
            let to = Origin { lid: subscriber.lid, qp: subscriber.qp, sl, p_key: PKey::DEFAULT };
            self.reports.send(to, notice, world.now, &mut self.outputs, &mut self.metrics);
        }
    }

    /// A node's trap, which subscribers may want to know of.
    pub fn trap(&mut self, notice: &Notice, world: &World<'_>) {
        if world.view.is_none() || world.read_only {
            return;
        }
        let issuer = world.database.by_lid(notice.issuer).and_then(|(_, port)| port.guid);
        let Some(issuer) = issuer else { return };
        let prefix = world.config.subnet_prefix();
        let notice = SaNotice {
            notice: snin_mad::Inner::of(notice),
            issuer_gid: snin_mad::Gid::new(prefix, issuer),
        };
        self.notify(&notice, world);
    }

    /// Groups that are always there are made, as far as they are not.
    pub fn found(&mut self, world: &mut World<'_>) {
        membership::found_permanent(world);
        self.follow(world);
    }

    /// The subnet is as the database says, tables and all: makes what belongs to every subnet, tells of ports
    /// that came or went, and takes what is gone out of groups.
    pub fn settle(&mut self, world: &mut World<'_>) {
        let now: std::collections::BTreeSet<Guid> = {
            let in_service = world.database.ends().filter(|(_, port)| port.is_active());
            in_service.filter_map(|(_, port)| port.guid).collect()
        };
        let before = std::mem::replace(&mut self.in_service, now.clone());
        for &guid in before.difference(&now) {
            if world.database.by_guid(guid).is_none() {
                let left = membership::leave_all(guid, world);
                if subscriptions::end_all(guid, world) | left {
                    self.lapsed.push(guid);
                }
            }
            info::note(world, snin_mad::Trap::GidOutOfService, guid);
        }
        membership::leave_partitions(world);
        for &guid in now.difference(&before) {
            info::note(world, snin_mad::Trap::GidInService, guid);
        }
        self.follow(world);
    }

    /// This manager is no longer the master: what is under way is another's.
    pub fn stand_aside(&mut self) {
        self.in_service.clear();
        self.reports.clear();
        self.parked = Parked::default();
    }
}

/// A request waits, unless it does already or too many do.
fn park(
    waiting: &mut VecDeque<(Time, Origin, Box<SaRequest>)>,
    from: Origin,
    request: Box<SaRequest>,
    now: Time,
) -> Result<(), Unanswered> {
    let again = |(_, by, other): &(Time, Origin, Box<SaRequest>)| {
        *by == from && other.transaction_id == request.transaction_id
    };
    match (waiting.iter().any(again), waiting.len() >= MOST_PARKED) {
        (true, _) => Err(Unanswered::Repeated),
        (_, true) => Err(Unanswered::Overload),
        _ => {
            waiting.push_back((now, from, request));
            Ok(())
        }
    }
}
