//! Slices and requests for later: who may ask for what, and what is kept before anybody is told.
//!
//! | command | answer |
//! |---|---|
//! | `slices` | every slice |
//! | `slice_create` | the slice of `owner`: of `count` hosts, or of `hosts`; again the same where there is one |
//! | `slice_resize` | the same slice with another `count`, or other `hosts` |
//! | `slice_delete` | whether `owner` had one |
//! | `slice_explain` | where a slice would go, or why there would be none; or, with `owner`, what one is like |
//! | `request` | the number of a frame `from` one host `to` another: `windows`, or `for_ns`, from `at_ns` on |
//! | `release` | frame `id` is given back |
//! | `requests` | every frame that is not over |
//!
//! With `shared` programs that are not the owner's run on those hosts too: queries for paths are not answered by
//! its addresses.
//!
//! Root, the controller's own user and `operators` may do all of that. `launchers` may change the slices whose
//! names begin as their setting says, make requests and release their own. A user of a host, for whom its agent
//! asks, has requests of its host's port. All others only look.

use serde_json::{Value, json};
use snin_controller_core::Core;
use snin_controller_core::window::{
    Frame, FrameStatus, MAX_FRAMES_OF_OWNER, SliceError, SliceHosts, SliceStatus,
};
use snin_fabric::Guid;
use snin_fabric::hosts::HostId;
use snin_fabric::names::HostNames;
use snin_protocol::Time;
use tracing::warn;

use crate::asked::host_name;
use crate::asker::{Asker, NotKnown, Rank, Refused};
use crate::daemon::Daemon;
use crate::error::Failure;
use crate::io::kept::{Change, TimeOfDay};

/// A request may begin so long ago: its way here took time, and clocks differ.
const PAST: Time = Time::secs(60);

impl Daemon {
    /// Answers a command of this module; `None` where it is none.
    pub(crate) fn reserve(
        &mut self,
        asker: &Asker,
        command: &str,
        body: &Value,
    ) -> Option<Result<Value, Refused>> {
        Some(match command {
            "slices" => self
                .core()
                .map(|core| {
                    let rows: Vec<Value> =
                        core.slices().iter().map(|slice| slice_json(core, slice)).collect();
                    json!({ "slices": rows, "free_hosts": core.free_hosts() })
                })
                .map_err(Refused::from),
            "slice_create" | "slice_resize" | "slice_delete" => {
                let permitted = self.permit(asker, Rank::Launcher, "change slices");
                permitted.and_then(|()| self.change_slice(asker, command, body))
            }
            "slice_explain" => self.explain_slice(body),
            "slice_trees" => self.slice_trees(body),
            "request" => {
                let permitted = self.permit_requests(asker, "make requests");
                permitted.and_then(|()| self.request(asker, body))
            }
            "release" => {
                let permitted = self.permit_requests(asker, "release requests");
                permitted.and_then(|()| self.release(asker, body))
            }
            "requests" => self.requests(asker),
            _ => return None,
        })
    }

    /// Users of a host have requests of their own through its agent.
    fn permit_requests(&mut self, asker: &Asker, what: &str) -> Result<(), Refused> {
        if asker.host.is_some() { Ok(()) } else { self.permit(asker, Rank::Launcher, what) }
    }

    /// Another port than its host's is not for a user to ask for, nor more than the site allows.
    fn permit_user(&mut self, asker: &Asker, source: Guid) -> Result<(), Refused> {
        let Some(host) = asker.host else { return Ok(()) };
        if source != host {
            let what =
                format_args!("have port {source} kept: it is not its host's, which is {host}");
            return Err(self.forbid(asker, what));
        }
        let of_host = format!("agent/{host}/");
        let core = self.core()?;
        let owners = || core.frames().map(|status| status.frame.owner);
        if owners().filter(|owner| *owner == asker.name).count() >= self.requests_per_user {
            let most = self.requests_per_user;
            let why = format!("{} has {most} requests: no user of a host has more", asker.name);
            return Err(Refused::conflict(why));
        }
        if owners().filter(|owner| owner.starts_with(&of_host)).count() >= MAX_FRAMES_OF_OWNER {
            let why = format!(
                "users of {host} have {MAX_FRAMES_OF_OWNER} requests, and no more are kept"
            );
            return Err(Refused::conflict(why));
        }
        Ok(())
    }

    fn change_slice(
        &mut self,
        asker: &Asker,
        command: &str,
        body: &Value,
    ) -> Result<Value, Refused> {
        let owner = body["owner"].as_str().ok_or("`owner` is a name")?.to_owned();
        if !asker.may_change(&owner) {
            let slice = format!("change the slice of {owner:.128}, which is not its own");
            self.permit(asker, Rank::Operator, &slice)?;
        }
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let mut created = false;
        if command == "slice_delete" {
            let known = core.slice_record(&owner).is_some();
            // First on disk: what could not be written is not done.
            if known {
                self.state
                    .promise(self.state.kept().slice(&owner, None))
                    .map_err(Refused::failed)?;
            }
            let deleted = self.core.as_mut().is_some_and(|core| core.delete_slice(&owner));
            if deleted {
                self.outlets.notify("SLICE_DELETED", json!({ "owner": owner }));
            }
            return Ok(json!({ "owner": owner, "deleted": deleted }));
        }
        let wanted = slice_hosts(core, body)?;
        let before = core.slice_record(&owner).cloned();
        if command == "slice_create" {
            created = core.create_slice(&owner, &wanted).map_err(not_made)?;
            // Asked for once more without a word of sharing, a slice stays as it is.
            let shared = body["shared"].as_bool().or_else(|| created.then_some(false));
            if let Some(shared) = shared {
                core.share_slice(&owner, shared);
            }
        } else {
            core.resize_slice(&owner, &wanted).map_err(not_made)?;
        }
        if let Err(failure) = self.promise_slices() {
            // A user is not told of what a restart would forget: it is as it was before.
            match (&mut self.core, before) {
                (Some(core), None) => drop(core.delete_slice(&owner)),
                (Some(core), Some(before)) => {
                    core.share_slice(&owner, before.shared);
                    if core.slice_record(&owner).is_some_and(|now| now.wanted != before.wanted)
                        && let Err(why) = core.resize_slice(&owner, &before.wanted)
                    {
                        warn!("the slice of {owner} is not as it was before: {why}");
                    }
                }
                (None, _) => {}
            }
            return Err(Refused::failed(failure));
        }
        let core = self.core()?;
        let slice = core.slice(&owner).ok_or(NotKnown)?;
        let mut answer = slice_json(core, &slice);
        answer["created"] = created.into();
        if created || command == "slice_resize" {
            let event = if created { "SLICE_CREATED" } else { "SLICE_RESIZED" };
            self.outlets.notify(event, slice_event(&slice));
        }
        Ok(answer)
    }

    fn explain_slice(&self, body: &Value) -> Result<Value, Refused> {
        let core = self.core()?;
        if let Some(owner) = body["owner"].as_str() {
            let slice = core
                .slice(owner)
                .ok_or_else(|| Refused::absent(format!("{owner:.128} has no slice")))?;
            let mut answer = slice_json(core, &slice);
            let topology = core.view().topology();
            let name = |guid: Guid| {
                let found = topology.switches().find(|&s| topology.node(s).guid == guid);
                found.map_or_else(|| guid.to_string(), |s| topology.node(s).name.to_string())
            };
            let pairs = slice.pairs.iter();
            answer["pairs"] =
                pairs.map(|&(leaf, tree)| json!({ "leaf": name(leaf), "tree": tree.0 })).collect();
            return Ok(answer);
        }
        let wanted = slice_hosts(core, body)?;
        let free = core.free_hosts();
        Ok(match core.try_slice(&wanted) {
            Ok(slice) => {
                let mut answer = slice_json(core, &slice);
                (answer["possible"], answer["free_hosts"]) = (true.into(), json!(free));
                answer
            }
            Err(why) => json!({ "possible": false, "why": why.to_string(), "free_hosts": free }),
        })
    }

    fn request(&mut self, asker: &Asker, body: &Value) -> Result<Value, Refused> {
        let now = self.clock.now();
        let (window, day) = (self.config.window, TimeOfDay::at(now));
        let core = self.core()?;
        let source = match asker.host.filter(|_| body["from"].is_null()) {
            Some(port) => port,
            None => host_port(core, body, "from")?,
        };
        let destination = host_port(core, body, "to")?;
        self.permit_user(asker, source)?;
        let number = |key: &str| match &body[key] {
            Value::Null => Ok(None),
            value => value.as_u64().map(Some).ok_or_else(|| format!("`{key}` is a number")),
        };
        let at = number("at_ns")?;
        if at.is_some_and(|at| Time(at) < Time(day.unix(now)) - PAST) {
            return Err("`at_ns` is in the past: leave it out for a request from now on".into());
        }
        let from = at.map_or(now, |at| day.own(at)).max(now);
        let length = match (number("for_ns")?, number("windows")?) {
            (Some(length), None) => Time(length),
            (None, windows) => window * windows.unwrap_or(1),
            (Some(_), Some(_)) => return Err("`windows` and `for_ns`: one of them".into()),
        };
        let owner = body["owner"].as_str().filter(|_| asker.rank == Rank::Operator);
        let owner = owner.map_or_else(|| asker.name.clone(), |owner| format!("{owner:.128}"));
        let until = Time(from.0.saturating_add(length.0));
        let frame = Frame { owner, source, destination, from, until };
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let id = core.add_frame(frame.clone(), now).map_err(Refused::conflict)?;
        let kept = self.state.kept().frame(id, Some(day.keep(&frame)));
        if let Err(failure) = self.state.promise(kept) {
            core.remove_frame(id);
            return Err(Refused::failed(failure));
        }
        self.outlets.notify("REQUEST", json!({ "id": id, "owner": frame.owner }));
        let core = self.core()?;
        Ok(frame_json(core, &FrameStatus { id, frame, windows: 0, used: 0 }, &day, now))
    }

    fn release(&mut self, asker: &Asker, body: &Value) -> Result<Value, Refused> {
        let id = body["id"].as_u64().ok_or("`id` is a request's number")?;
        let core = self.core.as_mut().ok_or(NotKnown)?;
        let owner = core.frame(id).map(|frame| frame.owner.clone());
        let owner = owner.ok_or_else(|| Refused::absent(format!("there is no request {id}")))?;
        if owner != asker.name {
            self.permit(
                asker,
                Rank::Operator,
                &format!("release request {id}, which is {owner}'s"),
            )?;
        }
        // First on disk: what could not be written is not done.
        let kept = self.state.kept().frame(id, None);
        self.state.promise(kept).map_err(Refused::failed)?;
        if let Some(core) = &mut self.core {
            core.remove_frame(id);
        }
        self.outlets.notify("RELEASE", json!({ "id": id, "owner": owner }));
        Ok(json!({ "id": id, "released": true }))
    }

    /// Every frame, but for a user of a host, who sees its own.
    fn requests(&self, asker: &Asker) -> Result<Value, Refused> {
        let (core, now) = (self.core()?, self.clock.now());
        let day = TimeOfDay::at(now);
        let shown = |owner: &str| asker.host.is_none() || owner == asker.name;
        Ok(core
            .frames()
            .filter(|frame| shown(&frame.frame.owner))
            .map(|frame| frame_json(core, &frame, &day, now))
            .collect())
    }

    /// Slices and frames of before.
    pub(crate) fn recall_reserved(&mut self) {
        let day = TimeOfDay::at(self.clock.now());
        let Some(core) = &mut self.core else { return };
        core.restore_slices(self.state.kept().slices().cloned());
        for slice in core.slices() {
            self.outlets.notify("SLICE_KEPT", slice_event(&slice));
        }
        core.restore_frames(self.state.kept().frames().map(|(id, kept)| (id, day.recall(kept))));
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
    fn promise_slices(&mut self) -> Result<(), Failure> {
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
fn host_port(core: &Core, body: &Value, key: &str) -> Result<Guid, Refused> {
    let text = body[key].as_str().ok_or_else(|| format!("`{key}` is a host"))?;
    find_port(core, &HostNames::of(core.view().topology(), &core.view().routing().hosts), text)
}

fn find_port(core: &Core, names: &HostNames, text: &str) -> Result<Guid, Refused> {
    port_of(core, names.find(text).map_err(|error| error.to_string())?)
}

fn port_of(core: &Core, host: HostId) -> Result<Guid, Refused> {
    let view = core.view();
    let host = view.routing().hosts.get(host).ok_or(NotKnown)?;
    Ok(view.topology().port(host.port).guid)
}

/// Why a slice is not made: that there is no room is told apart from what else is in the way.
fn not_made(error: SliceError) -> Refused {
    match error {
        SliceError::Refused(why) => Refused::no_room(why),
        other => Refused::conflict(other),
    }
}

/// `count`, or `hosts` by name, each a host or a list of them.
fn slice_hosts(core: &Core, body: &Value) -> Result<SliceHosts, Refused> {
    match (&body["count"], &body["hosts"]) {
        (Value::Null, Value::Array(hosts)) => {
            let names = HostNames::of(core.view().topology(), &core.view().routing().hosts);
            let mut ports = Vec::new();
            for host in hosts {
                let text = host.as_str().ok_or("`hosts` are names of hosts")?;
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
        (count, Value::Null) => {
            let count = count.as_u64().and_then(|count| u32::try_from(count).ok());
            Ok(SliceHosts::Count(count.ok_or("`count` is a number of hosts")?))
        }
        _ => Err("`count` and `hosts`: one of them".into()),
    }
}

/// What an event says of a slice: its ports, and its (leaf, tree) pairs.
fn slice_event(slice: &SliceStatus) -> Value {
    let ports: Vec<String> = slice.hosts.iter().map(ToString::to_string).collect();
    let pairs: Vec<String> =
        slice.pairs.iter().map(|(leaf, tree)| format!("{leaf}/{}", tree.0)).collect();
    json!({ "owner": slice.owner, "hosts": ports.len(), "ports": ports, "pairs": pairs })
}

fn slice_json(core: &Core, slice: &SliceStatus) -> Value {
    let names: Vec<String> = slice.hosts.iter().map(|&port| host_name(core, port)).collect();
    let ports: Vec<String> = slice.hosts.iter().map(ToString::to_string).collect();
    json!({
        "owner": slice.owner, "hosts": names, "ports": ports, "links": slice.links, "whole": slice.whole,
        "foreign": slice.foreign, "shared": slice.shared, "ready": slice.whole && slice.foreign == 0,
    })
}

fn frame_json(core: &Core, status: &FrameStatus, day: &TimeOfDay, now: Time) -> Value {
    let frame = &status.frame;
    let state = if frame.from > now { "waits for its time" } else { "has its ports" };
    json!({
        "id": status.id, "owner": frame.owner,
        "from": host_name(core, frame.source), "to": host_name(core, frame.destination),
        "at_ns": day.unix(frame.from), "until_ns": day.unix(frame.until), "state": state,
        "windows": status.windows, "used": status.used,
    })
}
