//! Slices and reservations: who may ask for what, and what is kept before anybody is told.
//!
//! With `shared` programs that are not the owner's run on those hosts too: queries for paths are not answered by
//! its addresses.
//!
//! Root, the controller's own user and `operators` may do all of that. `launchers` may change the slices whose
//! names begin as their setting says, make requests and release their own. A user of a host, for whom its agent
//! asks, has requests of its host's port. All others only look.

use serde_json::{Value, json};
use snin_controller_core::Core;
use snin_controller_core::orders::Order;
use snin_controller_core::orders::{
    Frame, FrameError, MAX_FRAMES_OF_OWNER, SliceError, SliceHosts, SliceRecord, SliceStatus,
};
use snin_controller_core::window::FrameStatus;
use snin_fabric::Guid;
use snin_fabric::hosts::HostId;
use snin_fabric::names::HostNames;
use snin_protocol::Time;
use snin_protocol::operator::controller::{
    CreateSlice, DeleteSlice, ExplainSlice, Release, Released, Reservation, Reservations, Reserve,
    ResizeSlice, Slice, SliceDeleted, SliceExplained, SliceMade, SlicePair, Slices,
};
use tracing::warn;

use crate::asked::host_name;
use crate::daemon::Daemon;
use crate::error::Failure;
use crate::io::kept::{Change, TimeOfDay};
use crate::principal::{ApiError, NotKnown, Permission, Principal};
use crate::recording::Recorded;

/// A request may begin so long ago: its way here took time, and clocks differ.
const PAST: Time = Time::secs(60);

impl Daemon {
    /// Every slice.
    pub(crate) fn slices(&self) -> Result<Slices, ApiError> {
        let core = self.core()?;
        let slices = core.slices().iter().map(|status| slice(core, status)).collect();
        let found_tables = core.view().choices().is_some();
        Ok(Slices { slices, free_hosts: core.free_hosts(), found_tables })
    }

    /// Users of a host have reservations of their own through its agent.
    fn permit_reservations(&mut self, principal: &Principal, what: &str) -> Result<(), ApiError> {
        if principal.host.is_some() {
            Ok(())
        } else {
            self.permit(principal, Permission::Launcher, what)
        }
    }

    /// Another port than its host's is not for a user to ask for, nor more than the site allows.
    fn permit_user(&mut self, principal: &Principal, source: Guid) -> Result<(), ApiError> {
        let Some(host) = principal.host else { return Ok(()) };
        if source != host {
            let what =
                format_args!("have port {source} kept: it is not its host's, which is {host}");
            return Err(self.forbid(principal, what));
        }
        let of_host = format!("agent/{host}/");
        let core = self.core()?;
        let owners = || core.frames().map(|status| status.frame.owner);
        if owners().filter(|owner| *owner == principal.name).count() >= self.requests_per_user {
            let most = self.requests_per_user;
            let why = format!("{} has {most} requests: no user of a host has more", principal.name);
            return Err(ApiError::conflict(why));
        }
        if owners().filter(|owner| owner.starts_with(&of_host)).count() >= MAX_FRAMES_OF_OWNER {
            let why = format!(
                "users of {host} have {MAX_FRAMES_OF_OWNER} requests, and no more are kept"
            );
            return Err(ApiError::conflict(why));
        }
        Ok(())
    }

    pub(crate) fn permit_slice(
        &mut self,
        principal: &Principal,
        owner: &str,
    ) -> Result<(), ApiError> {
        self.permit(principal, Permission::Launcher, "change slices")?;
        if principal.may_change(owner) {
            return Ok(());
        }
        let slice = format!("change the slice of {owner:.128}, which is not its own");
        self.permit(principal, Permission::Operator, &slice)
    }

    /// The slice is given back.
    pub(crate) fn delete_slice(
        &mut self,
        principal: &Principal,
        asked: &DeleteSlice,
    ) -> Result<SliceDeleted, ApiError> {
        let owner = &asked.owner;
        self.permit_slice(principal, owner)?;
        let core = self.core.as_mut().ok_or(NotKnown)?;
        // First on disk: what could not be written is not done.
        if core.slice_record(owner).is_some() {
            let gone = self.state.kept().slice(owner, None);
            self.state.promise(gone).map_err(ApiError::failed)?;
        }
        let (order, now) = (Order::DeleteSlice(owner.clone()), self.clock.now());
        let core = self.core.as_mut();
        let deleted = core.is_some_and(|core| core.order(order, now).slice() == Ok(true));
        if deleted {
            self.outlets.notify("SLICE_DELETED", json!({ "owner": owner }));
        }
        Ok(SliceDeleted { owner: owner.clone(), deleted })
    }

    /// A slice; again the same where there is one.
    pub(crate) fn create_slice(
        &mut self,
        principal: &Principal,
        asked: &CreateSlice,
    ) -> Result<SliceMade, ApiError> {
        let owner = &asked.owner;
        self.permit_slice(principal, owner)?;
        let now = self.clock.now();
        let (core, wanted, before) = self.slice_wanted(owner, asked.count, &asked.hosts)?;
        let order = Order::CreateSlice(owner.clone(), wanted);
        let created = core.order(order, now).slice().map_err(not_made)?;
        // Asked for once more without a word of sharing, a slice stays as it is.
        if let Some(shared) = asked.shared.or_else(|| created.then_some(false)) {
            core.order(Order::ShareSlice(owner.clone(), shared), now);
        }
        self.slice_made(owner, before, created, created.then_some("SLICE_CREATED"))
    }

    /// The same slice with other hosts.
    pub(crate) fn resize_slice(
        &mut self,
        principal: &Principal,
        asked: &ResizeSlice,
    ) -> Result<SliceMade, ApiError> {
        let owner = &asked.owner;
        self.permit_slice(principal, owner)?;
        let now = self.clock.now();
        let (core, wanted, before) = self.slice_wanted(owner, asked.count, &asked.hosts)?;
        let order = Order::ResizeSlice(owner.clone(), wanted);
        core.order(order, now).slice().map_err(not_made)?;
        self.slice_made(owner, before, false, Some("SLICE_RESIZED"))
    }

    /// The core, the hosts that are asked for, and the slice as it is.
    fn slice_wanted(
        &mut self,
        owner: &str,
        count: Option<u32>,
        hosts: &Option<Vec<String>>,
    ) -> Result<(&mut Recorded, SliceHosts, Option<SliceRecord>), ApiError> {
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let wanted = slice_hosts(core, count, hosts.as_deref())?;
        let before = core.slice_record(owner).cloned();
        Ok((core, wanted, before))
    }

    /// Keeps a slice, and answers with it. What cannot be kept is as it was `before`.
    fn slice_made(
        &mut self,
        owner: &str,
        before: Option<SliceRecord>,
        created: bool,
        event: Option<&str>,
    ) -> Result<SliceMade, ApiError> {
        if let Err(failure) = self.promise_slices() {
            // A user is not told of what a restart would forget.
            let (owned, now) = (owner.to_owned(), self.clock.now());
            match (&mut self.core, before) {
                (Some(core), None) => drop(core.order(Order::DeleteSlice(owned), now)),
                (Some(core), Some(before)) => {
                    core.order(Order::ShareSlice(owned.clone(), before.shared), now);
                    if core.slice_record(owner).is_some_and(|now| now.wanted != before.wanted)
                        && let order = Order::ResizeSlice(owned, before.wanted)
                        && let Err(why) = core.order(order, now).slice()
                    {
                        warn!("the slice of {owner} is not as it was before: {why}");
                    }
                }
                (None, _) => {}
            }
            return Err(ApiError::failed(failure));
        }
        let core = self.core()?;
        let status = core.slice(owner).ok_or(NotKnown)?;
        let made = SliceMade { slice: slice(core, &status), created };
        if let Some(event) = event {
            self.outlets.notify(event, slice_event(&status));
        }
        Ok(made)
    }

    /// What a slice is like, or where one would go.
    pub(crate) fn explain_slice(&self, asked: &ExplainSlice) -> Result<SliceExplained, ApiError> {
        let core = self.core()?;
        let free_hosts = core.free_hosts();
        if let Some(owner) = &asked.owner {
            let status = core
                .slice(owner)
                .ok_or_else(|| ApiError::absent(format!("{owner:.128} has no slice")))?;
            let topology = core.view().topology();
            let name = |guid: Guid| {
                let found = topology.switches().find(|&s| topology.node(s).guid == guid);
                found.map_or_else(|| guid.to_string(), |s| topology.node(s).name.to_string())
            };
            let pairs = status.pairs.iter();
            let pairs = pairs.map(|&(leaf, tree)| SlicePair { leaf: name(leaf), tree: tree.0 });
            return Ok(SliceExplained {
                possible: true,
                why: None,
                free_hosts,
                slice: Some(slice(core, &status)),
                pairs: pairs.collect(),
            });
        }
        let wanted = slice_hosts(core, asked.count, asked.hosts.as_deref())?;
        let (slice, why) = match core.try_slice(&wanted) {
            Ok(status) => (Some(slice(core, &status)), None),
            Err(why) => (None, Some(why.to_string())),
        };
        let possible = slice.is_some();
        Ok(SliceExplained { possible, why, free_hosts, slice, pairs: Vec::new() })
    }

    /// Ports are kept for a connection.
    pub(crate) fn reserve(
        &mut self,
        principal: &Principal,
        asked: &Reserve,
    ) -> Result<Reservation, ApiError> {
        self.permit_reservations(principal, "make requests")?;
        let now = self.clock.now();
        let (window, day) = (self.config.window, TimeOfDay::at(now));
        let core = self.core()?;
        let source = match (&asked.from, principal.host) {
            (None, Some(port)) => port,
            (None, None) => return Err("`from` is a host".into()),
            (Some(from), _) => host_port(core, from)?,
        };
        let destination = host_port(core, &asked.to)?;
        self.permit_user(principal, source)?;
        if asked.at_ns.is_some_and(|at| Time(at) < Time(day.unix(now)) - PAST) {
            return Err("`at_ns` is in the past: leave it out for a request from now on".into());
        }
        let from = asked.at_ns.map_or(now, |at| day.own(at)).max(now);
        let length = match (asked.for_ns, asked.windows) {
            (Some(length), None) => Time(length),
            (None, windows) => window * windows.unwrap_or(1),
            (Some(_), Some(_)) => return Err("`windows` and `for_ns`: one of them".into()),
        };
        let owner = asked.owner.as_ref().filter(|_| principal.rank == Permission::Operator);
        let owner = owner.map_or_else(|| principal.name.clone(), |owner| format!("{owner:.128}"));
        let until = Time(from.0.saturating_add(length.0));
        let frame = Frame { owner, source, destination, from, until };
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let id = core.order(Order::AddFrame(frame.clone()), now).frame().map_err(not_kept)?;
        let id = id.ok_or(NotKnown)?;
        let kept = self.state.kept().frame(id, Some(day.keep(&frame)));
        if let Err(failure) = self.state.promise(kept) {
            core.order(Order::RemoveFrame(id), now);
            return Err(ApiError::failed(failure));
        }
        self.outlets.notify("REQUEST", json!({ "id": id, "owner": frame.owner }));
        let core = self.core()?;
        Ok(reservation(core, &FrameStatus { id, frame, windows: 0, used: 0 }, &day, now))
    }

    /// A reservation is given back.
    pub(crate) fn release(
        &mut self,
        principal: &Principal,
        asked: &Release,
    ) -> Result<Released, ApiError> {
        self.permit_reservations(principal, "release requests")?;
        let id = asked.id;
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let owner = core.frame(id).map(|frame| frame.owner.clone());
        let owner = owner.ok_or_else(|| ApiError::absent(format!("there is no request {id}")))?;
        if owner != principal.name {
            let what = format!("release request {id}, which is {owner}'s");
            self.permit(principal, Permission::Operator, &what)?;
        }
        // First on disk: what could not be written is not done.
        let kept = self.state.kept().frame(id, None);
        self.state.promise(kept).map_err(ApiError::failed)?;
        let now = self.clock.now();
        if let Some(core) = &mut self.core {
            core.order(Order::RemoveFrame(id), now);
        }
        self.outlets.notify("RELEASE", json!({ "id": id, "owner": owner }));
        Ok(Released { id, released: true })
    }

    /// Every frame, but for a user of a host, who sees its own.
    pub(crate) fn reservations(&self, principal: &Principal) -> Result<Reservations, ApiError> {
        let (core, now) = (self.core()?, self.clock.now());
        let day = TimeOfDay::at(now);
        let shown = |owner: &str| principal.host.is_none() || owner == principal.name;
        let frames = core.frames().filter(|frame| shown(&frame.frame.owner));
        let requests = frames.map(|frame| reservation(core, &frame, &day, now)).collect();
        Ok(Reservations { requests })
    }

    /// Slices and frames of before.
    pub(crate) fn recall_reserved(&mut self) {
        let now = self.clock.now();
        let (day, kept) = (TimeOfDay::at(now), self.state.kept());
        let Some(core) = &mut self.core else { return };
        core.order(Order::RestoreSlices(kept.slices().cloned().collect()), now);
        for slice in core.slices() {
            self.outlets.notify("SLICE_KEPT", slice_event(&slice));
        }
        let frames = kept.frames().map(|(id, kept)| (id, day.recall(kept)));
        core.order(Order::RestoreFrames(frames.collect()), now);
    }

    /// Keeps slices as they are, where they may be others than before, and forgets frames that are over: soon, by
    /// another thread.
    pub(crate) fn keep_reserved(&mut self) {
        let Some(core) = &self.core else { return };
        let over = self.state.kept().frames().map(|(id, _)| id);
        let over: Vec<u64> = over.filter(|&id| core.frame(id).is_none()).collect();
        for id in over {
            self.state.keep(self.state.kept().frame(id, None));
        }
        for change in self.changed_slices() {
            self.state.keep(change);
        }
        self.slices_version = self.core.as_deref().map(Core::slices_version);
    }

    /// Keeps slices as they are before somebody is told of it.
    pub(crate) fn promise_slices(&mut self) -> Result<(), Failure> {
        self.changed_slices().into_iter().try_for_each(|change| self.state.promise(change))?;
        self.slices_version = self.core.as_deref().map(Core::slices_version);
        Ok(())
    }

    /// Slices that may be others than are kept.
    fn changed_slices(&self) -> Vec<Change> {
        let Some(core) = &self.core else { return Vec::new() };
        if self.slices_version == Some(core.slices_version()) {
            return Vec::new();
        }
        let kept = self.state.kept();
        let gone = kept.slices().filter(|record| core.slice_record(&record.owner).is_none());
        let gone = gone.map(|record| kept.slice(&record.owner, None));
        let there = core.slice_owners();
        let there = there.map(|owner| kept.slice(owner, core.slice_record(owner)));
        gone.chain(there).collect()
    }
}

/// A host by name, port GUID or number: its port.
fn host_port(core: &Core, name: &str) -> Result<Guid, ApiError> {
    let names = HostNames::of(core.view().topology(), &core.view().routing().hosts);
    port_of(core, names.find(name).map_err(|error| error.to_string())?)
}

fn port_of(core: &Core, host: HostId) -> Result<Guid, ApiError> {
    let view = core.view();
    let host = view.routing().hosts.get(host).ok_or(NotKnown)?;
    Ok(view.topology().port(host.port).guid)
}

/// Why a slice is not made: that there is no room is told apart from what else is in the way.
fn not_made(error: SliceError) -> ApiError {
    match error {
        SliceError::Refused(why) => ApiError::no_room(why),
        other => ApiError::conflict(other),
    }
}

fn not_kept(error: FrameError) -> ApiError {
    match error {
        FrameError::PortTaken { .. } | FrameError::LeafFull(_) => ApiError::no_room(error),
        other => ApiError::conflict(other),
    }
}

/// `count`, or `hosts` by name, each a host or a list of them.
fn slice_hosts(
    core: &Core,
    count: Option<u32>,
    hosts: Option<&[String]>,
) -> Result<SliceHosts, ApiError> {
    match (count, hosts) {
        (None, Some(hosts)) => {
            let names = HostNames::of(core.view().topology(), &core.view().routing().hosts);
            let mut ports = Vec::new();
            for text in hosts {
                for host in names.find_all(text).map_err(|error| error.to_string())? {
                    ports.push(port_of(core, host)?);
                }
                // One more than there are is one twice.
                if ports.len() > names.len() {
                    return Err(format!("`{text:.80}`: more hosts than the fabric has").into());
                }
            }
            Ok(SliceHosts::Ports(ports))
        }
        (Some(count), None) => Ok(SliceHosts::Count(count)),
        (None, None) => Err("`count` is a number of hosts".into()),
        (Some(_), Some(_)) => Err("`count` and `hosts`: one of them".into()),
    }
}

/// What an event says of a slice: its ports, and its (leaf, tree) pairs.
fn slice_event(slice: &SliceStatus) -> Value {
    let ports: Vec<String> = slice.hosts.iter().map(ToString::to_string).collect();
    let pairs: Vec<String> =
        slice.pairs.iter().map(|(leaf, tree)| format!("{leaf}/{}", tree.0)).collect();
    json!({ "owner": slice.owner, "hosts": ports.len(), "ports": ports, "pairs": pairs })
}

fn slice(core: &Core, status: &SliceStatus) -> Slice {
    Slice {
        owner: status.owner.clone(),
        hosts: status.hosts.iter().map(|&port| host_name(core, port)).collect(),
        ports: status.hosts.clone(),
        links: status.links,
        whole: status.whole,
        foreign: status.foreign,
        shared: status.shared,
        collective: core.collective_wanted(&status.owner).map(|wanted| wanted.kind.to_string()),
        ready: status.whole && status.foreign == 0,
    }
}

fn reservation(core: &Core, status: &FrameStatus, day: &TimeOfDay, now: Time) -> Reservation {
    let frame = &status.frame;
    let state = if frame.from > now { "waits for its time" } else { "has its ports" };
    Reservation {
        id: status.id,
        owner: frame.owner.clone(),
        from: host_name(core, frame.source),
        to: host_name(core, frame.destination),
        at_ns: day.unix(frame.from),
        until_ns: day.unix(frame.until),
        state: state.to_owned(),
        windows: status.windows,
        used: status.used,
    }
}
