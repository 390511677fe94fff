//! Time frames: a connection that is wanted at some later time. Frames are admitted against each other when they
//! are asked for; when one comes, its two ports are its own, and the connection between them is chosen before
//! all others, with its tree as usual.
//!
//! What keeps the promise: frames that overlap share no port in one direction, and leave no leaf more often
//! than it has links. A frame whose hosts belong to one slice needs no links of others.

use std::collections::{BTreeMap, BTreeSet};

use snin_fabric::hosts::HostId;
use snin_protocol::Time;
use snin_protocol::message::{Refusal, Verdict, Wait};

use super::Core;
use crate::orders::{Frame, FrameError, MAX_AHEAD, MAX_FRAMES, MAX_FRAMES_OF_OWNER};

/// A frame as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameStatus {
    /// Its number.
    pub id: u64,
    /// The requested frame.
    pub frame: Frame,
    /// Windows of it that are over or under way.
    pub windows: u64,
    /// Those of them in which its connection was chosen.
    pub used: u64,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Frames {
    /// Kept until they are over, or given back.
    frames: BTreeMap<u64, Kept>,
    next: u64,
}

#[derive(Clone, Debug)]
struct Kept {
    frame: Frame,
    windows: u64,
    used: u64,
}

const fn overlap(one: &Frame, other: &Frame) -> bool {
    one.from.0 < other.until.0 && other.from.0 < one.until.0
}

impl Frames {
    /// Those that are over.
    pub(super) fn expire(&mut self, now: Time) {
        self.frames.retain(|_, kept| kept.frame.until > now);
    }

    fn overlapping<'a>(&'a self, frame: &'a Frame) -> impl Iterator<Item = (u64, &'a Frame)> {
        let all = self.frames.iter().map(|(&id, kept)| (id, &kept.frame));
        all.filter(move |(_, other)| overlap(frame, other))
    }
}

impl Core {
    /// Its number.
    pub(crate) fn keep_frame(&mut self, frame: Frame, now: Time) -> Result<u64, FrameError> {
        let id = self.frames.next;
        self.judge_frame(&frame, now)?;
        self.frames.next += 1;
        self.frames.frames.insert(id, Kept { frame, windows: 0, used: 0 });
        Ok(id)
    }

    pub(crate) fn recall_frames(&mut self, frames: Vec<(u64, Frame)>) {
        for (id, frame) in frames {
            self.frames.next = self.frames.next.max(id + 1);
            self.frames.frames.insert(id, Kept { frame, windows: 0, used: 0 });
        }
    }

    /// False where there was none.
    pub(crate) fn end_frame(&mut self, id: u64) -> bool {
        self.frames.frames.remove(&id).is_some()
    }

    /// Every frame that is not over, by number.
    pub fn frames(&self) -> impl Iterator<Item = FrameStatus> {
        let status = |(&id, kept): (&u64, &Kept)| FrameStatus {
            id,
            frame: kept.frame.clone(),
            windows: kept.windows,
            used: kept.used,
        };
        self.frames.frames.iter().map(status)
    }

    /// A frame by its number.
    pub fn frame(&self, id: u64) -> Option<&Frame> {
        self.frames.frames.get(&id).map(|kept| &kept.frame)
    }

    fn judge_frame(&self, frame: &Frame, now: Time) -> Result<(), FrameError> {
        if frame.until <= frame.from || frame.until <= now {
            return Err(FrameError::Empty);
        } else if frame.until > now + MAX_AHEAD {
            return Err(FrameError::TooFar);
        } else if self.frames.frames.len() >= MAX_FRAMES {
            return Err(FrameError::TooMany);
        }
        let of_owner = self.frames.frames.values().filter(|kept| kept.frame.owner == frame.owner);
        if of_owner.count() >= MAX_FRAMES_OF_OWNER {
            return Err(FrameError::TooManyOf(frame.owner.clone()));
        }
        let ends = self.frame_ends(frame).map_err(FrameError::Refused)?;
        for (other, kept) in self.frames.overlapping(frame) {
            let end = if kept.source == frame.source {
                "sending"
            } else if kept.destination == frame.destination {
                "receiving"
            } else {
                continue;
            };
            return Err(FrameError::PortTaken { other, end, ends: kept.until - now });
        }
        self.judge_leaves(frame, ends)
    }

    fn frame_ends(&self, frame: &Frame) -> Result<(HostId, HostId), Refusal> {
        let source = self.fabric.host_of(frame.source).ok_or(Refusal::UnknownSource)?;
        let destination =
            self.fabric.host_of(frame.destination).ok_or(Refusal::UnknownDestination)?;
        if source == destination {
            return Err(Refusal::Itself);
        }
        let ends = (source, destination);
        if self.fabric.shape().is_none() && !self.fabric.on_one_leaf(ends) {
            return Err(Refusal::NoRoute);
        }
        Ok(ends)
    }

    /// The most frames at one moment is that at the beginning of one of them.
    fn judge_leaves(&self, frame: &Frame, ends: (HostId, HostId)) -> Result<(), FrameError> {
        if self.fabric.on_one_leaf(ends) || self.slicing.of(ends).is_some() {
            return Ok(());
        }
        let crossing: Vec<(&Frame, (HostId, HostId))> = self
            .frames
            .overlapping(frame)
            .filter_map(|(_, other)| Some((other, self.frame_ends(other).ok()?)))
            .filter(|&(_, ends)| !self.fabric.on_one_leaf(ends) && self.slicing.of(ends).is_none())
            .collect();
        for (name, place) in [("sending", 0), ("receiving", 1)] {
            let host = |ends: (HostId, HostId)| if place == 0 { ends.0 } else { ends.1 };
            let Some(leaf) = self.fabric.leaf(host(ends)) else { continue };
            let here =
                crossing.iter().filter(|(_, ends)| self.fabric.leaf(host(*ends)) == Some(leaf));
            let here: Vec<&Frame> = here.map(|(other, _)| *other).collect();
            let begins = here.iter().map(|other| other.from.max(frame.from)).chain([frame.from]);
            let at =
                |begin: Time| here.iter().filter(|f| f.from <= begin && begin < f.until).count();
            let most = begins.map(at).max().unwrap_or(0);
            if most + 1 > self.domains.outside_capacity(leaf) {
                return Err(FrameError::LeafFull(name));
            }
        }
        Ok(())
    }

    /// Connections of frames that have come are chosen before all others at their ports; others wait.
    pub(super) fn choose_frames(&mut self, chosen: &mut BTreeSet<u32>) {
        let (start, end) =
            (self.window.start(self.config.window), self.window.end(self.config.window));
        let active = self.frames.frames.iter();
        let active = active.filter(|(_, kept)| kept.frame.from < end && kept.frame.until > start);
        let active: Vec<u64> = active.map(|(&id, _)| id).collect();
        for id in active {
            let Some(ends) = self.frame(id).and_then(|frame| self.frame_ends(frame).ok()) else {
                continue;
            };
            let used = self.choose_frame(ends, chosen);
            if let Some(kept) = self.frames.frames.get_mut(&id) {
                kept.windows += 1;
                kept.used += u64::from(used);
            }
        }
    }

    /// Whether there is a connection between these hosts: it is chosen then.
    fn choose_frame(&mut self, ends: (HostId, HostId), chosen: &mut BTreeSet<u32>) -> bool {
        let (mut own, mut held, mut others) = (None, None, Vec::new());
        for (slot, connection) in self.connections.iter() {
            let Ok(there) = connection.ends else { continue };
            if there == ends {
                own = own.or(Some(slot));
                if held.is_none() && chosen.contains(&slot) {
                    held = Some(slot);
                }
            } else if (there.0 == ends.0 || there.1 == ends.1) && chosen.contains(&slot) {
                others.push(slot);
            }
        }
        let own = held.or(own);
        for slot in others {
            chosen.remove(&slot);
            if let Some(connection) = self.connections.get_mut(slot) {
                connection.verdict = Some(Verdict::Deferred(Wait::PortsBusy));
            }
        }
        if let Some(connection) = own.and_then(|slot| self.connections.get_mut(slot)) {
            connection.verdict = None;
        }
        chosen.extend(own);
        own.is_some()
    }
}
