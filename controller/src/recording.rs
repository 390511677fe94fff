//! Recordings of the controller's core: what `snin-controller --record FILE` writes and `snin replay FILE` reads.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_controller_core::Core;
use snin_controller_core::config::{Config, Policy};
use snin_controller_core::error::ConfigError;
use snin_controller_core::events::{Event, Output};
use snin_controller_core::window::{
    CollectiveError, CollectiveWanted, Frame, FrameError, SliceError, SliceHosts, SliceRecord,
};
use snin_daemon::record::{Recorder, hex, unhex};
use snin_daemon::replay::Replay;
use snin_fabric::routing::Placement;
use snin_fabric::view::View;
use snin_fabric::{Guid, TreeId};
use snin_protocol::codec::{self, Message};
use snin_protocol::message::{FromAgent, LinkTest, ViewChange};
use snin_protocol::view::{Assembly, FromManager, frames};
use snin_protocol::{Term, Time};
use tracing::warn;

/// What recordings call the controller's core.
pub const CORE: &str = "controller";

/// What a core is made from.
#[derive(Serialize, Deserialize)]
pub struct Made {
    config: Config,
    view: Seen,
}

/// A view: its version, and in hex the frames in which a manager would say it.
#[derive(Serialize, Deserialize)]
struct Seen {
    version: u64,
    frames: Vec<String>,
}

/// An event of a recording.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Entry(Told);

/// What a core is told. Messages are frames in hex.
#[derive(Serialize, Deserialize)]
enum Told {
    Received { from: Guid, frame: String },
    AgentLost(Guid),
    View(Seen),
    Unusable(String),
    Policy(Policy),
    Manager(bool),
    Superseded(u64),
    CreateSlice(String, SliceHosts),
    ResizeSlice(String, SliceHosts),
    DeleteSlice(String),
    RestoreSlices(Vec<SliceRecord>),
    AddFrame(Frame),
    RemoveFrame(u64),
    RestoreFrames(Vec<(u64, Frame)>),
    ShareSlice(String, bool),
    SetCollective(String, Option<CollectiveWanted>),
    TestLink(Guid, LinkTest),
}

/// A core of which everything that it is told is recorded, if that is wanted. A file that cannot be written ends
/// the recording, not the controller.
pub struct Recorded {
    core: Core,
    recorder: Option<Recorder>,
    /// The time of what was recorded last.
    last: Time,
    /// From then on another controller may lead.
    until: Time,
}

impl Deref for Recorded {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Recorded {
    /// As [`Core::new`]; recorded to a file, if one is named.
    ///
    /// # Errors
    /// When the configuration contradicts itself.
    pub fn new(
        config: Config,
        view: Arc<dyn View>,
        now: Time,
        file: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let recorder = file.and_then(|file| {
            let made = Made { config: config.clone(), view: seen(&*view)? };
            let recorder = Recorder::create(file, CORE, &made, now);
            recorder.inspect_err(|error| warn!("{}: {error}: not recorded", file.display())).ok()
        });
        let core = Core::new(config, view, now)?;
        Ok(Self { core, recorder, last: now, until: Time::MAX })
    }

    /// The core is told nothing from this moment on, and so decides no grant: another controller may lead then.
    /// What it decided before is bounded by its own times, however late it is sent.
    pub const fn grant_until(&mut self, moment: Time) {
        self.until = moment;
    }

    /// As [`Core::handle`].
    pub fn handle(&mut self, event: Event, now: Time) {
        if now >= self.until {
            return;
        }
        if self.recorder.is_some() {
            match told(&event) {
                Some(told) => self.write(now, Some(&told)),
                None => self.end("an event is too large for a recording"),
            }
        }
        self.core.handle(event, now);
    }

    /// As [`Core::handle_deadline`].
    pub fn handle_deadline(&mut self, now: Time) {
        if now >= self.until {
            return;
        }
        self.write(now, None);
        self.core.handle_deadline(now);
    }

    /// As [`Core::poll_output`].
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.core.poll_output();
        if let (Some(recorder), Some(output)) = (&mut self.recorder, &output)
            && let Some(bytes) = outcome(output)
        {
            recorder.output(&bytes);
        }
        output
    }

    /// As [`Core::create_slice`].
    ///
    /// # Errors
    /// As there.
    pub fn create_slice(&mut self, owner: &str, wanted: &SliceHosts) -> Result<bool, SliceError> {
        self.write(self.last, Some(&Told::CreateSlice(owner.to_owned(), wanted.clone())));
        self.core.create_slice(owner, wanted)
    }

    /// As [`Core::resize_slice`].
    ///
    /// # Errors
    /// As there.
    pub fn resize_slice(&mut self, owner: &str, wanted: &SliceHosts) -> Result<(), SliceError> {
        self.write(self.last, Some(&Told::ResizeSlice(owner.to_owned(), wanted.clone())));
        self.core.resize_slice(owner, wanted)
    }

    /// As [`Core::share_slice`].
    pub fn share_slice(&mut self, owner: &str, shared: bool) {
        self.write(self.last, Some(&Told::ShareSlice(owner.to_owned(), shared)));
        self.core.share_slice(owner, shared);
    }

    /// As [`Core::set_collective`].
    ///
    /// # Errors
    /// As there.
    pub fn set_collective(
        &mut self,
        owner: &str,
        wanted: Option<CollectiveWanted>,
    ) -> Result<(), CollectiveError> {
        self.write(self.last, Some(&Told::SetCollective(owner.to_owned(), wanted)));
        self.core.set_collective(owner, wanted)
    }

    /// As [`Core::delete_slice`].
    pub fn delete_slice(&mut self, owner: &str) -> bool {
        self.write(self.last, Some(&Told::DeleteSlice(owner.to_owned())));
        self.core.delete_slice(owner)
    }

    /// As [`Core::restore_slices`].
    pub fn restore_slices(&mut self, records: impl IntoIterator<Item = SliceRecord>) {
        let records: Vec<SliceRecord> = records.into_iter().collect();
        self.write(self.last, Some(&Told::RestoreSlices(records.clone())));
        self.core.restore_slices(records);
    }

    /// As [`Core::add_frame`].
    ///
    /// # Errors
    /// As there.
    pub fn add_frame(&mut self, frame: Frame, now: Time) -> Result<u64, FrameError> {
        self.write(now, Some(&Told::AddFrame(frame.clone())));
        self.core.add_frame(frame, now)
    }

    /// As [`Core::remove_frame`].
    pub fn remove_frame(&mut self, id: u64) -> Option<Frame> {
        self.write(self.last, Some(&Told::RemoveFrame(id)));
        self.core.remove_frame(id)
    }

    /// As [`Core::restore_frames`].
    pub fn restore_frames(&mut self, frames: impl IntoIterator<Item = (u64, Frame)>) {
        let frames: Vec<(u64, Frame)> = frames.into_iter().collect();
        self.write(self.last, Some(&Told::RestoreFrames(frames.clone())));
        self.core.restore_frames(frames);
    }

    /// The controller ends, and its recording with it.
    pub fn finish(&mut self) {
        if let Some(Err(error)) = self.recorder.take().map(|recorder| recorder.end(self.last)) {
            warn!("the recording has no end: {error}");
        }
    }

    fn write(&mut self, now: Time, told: Option<&Told>) {
        self.last = now;
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.write(now, told)
        {
            self.end(&error.to_string());
        }
    }

    fn end(&mut self, why: &str) {
        warn!("recording ends: {why}");
        self.recorder = None;
    }
}

/// A view in the frames in which a manager says it; `None` of one that is larger than a view may be.
fn seen(view: &dyn View) -> Option<Seen> {
    let routing = view.routing();
    let (trees, plan) = (routing.forest.len(), &routing.plan);
    let placement = if plan.is_rotated() {
        Placement::planned_by(plan, trees)
    } else {
        // By any host's addresses: all have their trees at the same places.
        let port = routing.hosts.iter().next().map(|(_, host)| host.port)?;
        let base = view.addresses().base(port)?.0;
        let place =
            |tree: usize| Some(view.dlid(port, TreeId(tree as u16))?.0.0.wrapping_sub(base));
        Placement::new((0..trees).map(place).collect::<Option<_>>()?, plan)
    };
    let frames = frames(view, &placement).ok()?;
    let frames = frames.iter().map(|frame| codec::encode(frame).ok().map(|bytes| hex(&bytes)));
    Some(Seen { version: view.version(), frames: frames.collect::<Option<_>>()? })
}

impl Seen {
    fn view(&self) -> Result<Arc<dyn View>, String> {
        let mut assembly: Option<Assembly> = None;
        for frame in &self.frames {
            match (message::<FromManager>(frame)?, &mut assembly) {
                (FromManager::Begin(begin), None) => assembly = Some(Assembly::new(begin)),
                (FromManager::Part(part), Some(assembly)) => {
                    assembly.add(&part).map_err(|error| error.to_string())?;
                }
                _ => return Err("frames of no view".to_owned()),
            }
        }
        let assembly = assembly.ok_or("no view")?;
        let view = assembly.finish(self.version).map_err(|error| error.to_string())?;
        Ok(Arc::new(view))
    }
}

fn message<M: Message>(text: &str) -> Result<M, String> {
    let bytes = unhex(text).ok_or("frames are in hex")?;
    let decoded = codec::decode::<M>(&bytes).map_err(|error| error.to_string())?;
    decoded.map(|(message, _)| message).ok_or_else(|| "half a frame".to_owned())
}

fn frame<M: Message>(message: &M) -> Option<String> {
    codec::encode(message).ok().map(|bytes| hex(&bytes))
}

fn told(event: &Event) -> Option<Told> {
    Some(match event {
        Event::Received { from, message } => Told::Received { from: *from, frame: frame(message)? },
        Event::AgentLost(port) => Told::AgentLost(*port),
        Event::View(view) => Told::View(seen(&**view)?),
        Event::Unusable(change) => Told::Unusable(frame(change)?),
        Event::Policy(policy) => Told::Policy(*policy),
        Event::Manager(is_heard) => Told::Manager(*is_heard),
        Event::Superseded { by } => Told::Superseded(by.0),
        Event::TestLink(port, test) => Told::TestLink(*port, *test),
    })
}

/// The bytes by which what comes out of a core is compared: what agents are sent.
fn outcome(output: &Output) -> Option<Vec<u8>> {
    let Output::Send { to, message } = output else { return None };
    let mut bytes = to.0.to_be_bytes().to_vec();
    bytes.extend(codec::encode(message).ok()?);
    Some(bytes)
}

/// A core that is told again what a recorded one was told.
pub struct Replaying(
    /// The core.
    pub Core,
);

impl Replay for Replaying {
    const CORE: &'static str = CORE;
    type Made = Made;
    type Told = Entry;
    type Output = Output;

    fn make(made: &Made, at: Time) -> Result<Self, String> {
        let core = Core::new(made.config.clone(), made.view.view()?, at);
        core.map(Self).map_err(|error| error.to_string())
    }

    fn tell(&mut self, told: Option<Entry>, now: Time) -> Result<(), String> {
        match told.map(|Entry(told)| told) {
            Some(told) => told.give(&mut self.0, now),
            None => {
                self.0.handle_deadline(now);
                Ok(())
            }
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    fn compared(output: &Output) -> Option<Vec<u8>> {
        outcome(output)
    }
}

impl Told {
    /// What the core refused then it refuses again.
    fn give(self, core: &mut Core, now: Time) -> Result<(), String> {
        match self {
            Self::Received { from, frame } => {
                let message = message::<FromAgent>(&frame)?;
                core.handle(Event::Received { from, message }, now);
            }
            Self::AgentLost(port) => core.handle(Event::AgentLost(port), now),
            Self::View(seen) => core.handle(Event::View(seen.view()?), now),
            Self::Unusable(frame) => {
                core.handle(Event::Unusable(message::<ViewChange>(&frame)?), now);
            }
            Self::Policy(policy) => core.handle(Event::Policy(policy), now),
            Self::Manager(is_heard) => core.handle(Event::Manager(is_heard), now),
            Self::Superseded(term) => core.handle(Event::Superseded { by: Term(term) }, now),
            Self::CreateSlice(owner, wanted) => drop(core.create_slice(&owner, &wanted)),
            Self::ResizeSlice(owner, wanted) => drop(core.resize_slice(&owner, &wanted)),
            Self::DeleteSlice(owner) => {
                core.delete_slice(&owner);
            }
            Self::RestoreSlices(records) => core.restore_slices(records),
            Self::AddFrame(frame) => drop(core.add_frame(frame, now)),
            Self::RemoveFrame(id) => drop(core.remove_frame(id)),
            Self::RestoreFrames(frames) => core.restore_frames(frames),
            Self::ShareSlice(owner, shared) => core.share_slice(&owner, shared),
            Self::SetCollective(owner, wanted) => drop(core.set_collective(&owner, wanted)),
            Self::TestLink(port, test) => core.handle(Event::TestLink(port, test), now),
        }
        Ok(())
    }
}
