//! Recordings of the manager's core: what `snin-sm --record FILE` writes and `snin replay FILE` reads.
//!
//! A computation is not recorded: the core's own jobs are run again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_configuration::{Instruction, Limits};
use snin_daemon::record::{Recorder, hex, unhex};
use snin_daemon::replay::Replay;
use snin_fabric::{Guid, Lid, Lmc, PortNum};
use snin_mad::PKey;
use snin_mastership::cluster::ClusterEvent;
use snin_mastership::control::Control;
use snin_mastership::mirror::{Link, MirrorEvent};
use snin_protocol::{Time, codec};
use snin_sm_core::Preferences;
use snin_sm_core::{Core, Event, Output};
use snin_sm_database::config::Config;
use snin_sm_database::judgement::Consent;
use snin_sm_database::keys::KeySecret;
use snin_sm_database::mad_address::Origin;
use snin_sm_database::mad_address::{Destination, LocalPort};
use snin_sm_database::merge::Lineage;
use snin_sm_database::records::{KeptRecord, Slice};
use snin_sm_database::saved::Saved;
use snin_sm_database::seen::Seen;
use snin_sweep::Job;
use tracing::warn;

use super::expected::{parse, write};
use super::failure::Failure;
use super::kept;

/// What recordings call the manager's core.
pub const CORE: &str = "sm";

/// What a manager is made from.
#[derive(Serialize, Deserialize)]
pub struct Made {
    config: Config,
    lmc: Option<u8>,
    lids: Vec<(Guid, u16, u8)>,
    trees: Vec<(Guid, u16, u16)>,
    keys: Option<([u8; 32], u32)>,
    /// Lines as in the state directory's `subnets`.
    lineage: String,
    /// Lines as in the state directory's `administration`.
    kept: Vec<String>,
    /// The bits of what the process's clock reads when the world's reads 0, in seconds of the epoch.
    epoch: u64,
}

/// An event of a recording.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Entry(Told);

/// What a manager is told.
#[derive(Serialize, Deserialize)]
enum Told {
    Start,
    Resweep,
    Mad {
        port: u32,
        source: u16,
        bytes: String,
    },
    General {
        port: u32,
        lid: u16,
        qp: u32,
        sl: u8,
        p_key: u16,
        bytes: String,
    },
    Clear {
        version: u64,
    },
    /// GUIDs of both ports and an address; a port's GUID, its job and its address.
    Prefer {
        pins: Vec<(u64, u64, u16)>,
        slices: Vec<(u64, u64, u16)>,
    },
    RotateKeys,
    Configuration(Wanted),
    Cluster(ClusterEvent),
    Instruct {
        to: Guid,
        control: u32,
    },
    Priority(u8),
    /// The text is as in a file.
    Partitions(String),
    QosPolicy(String),
    Crowded(bool),
    Health(Guid),
    LinkTested(u32, Option<u32>),
    PortChanged,
    /// The session's number, what happened (called, answered, closed, asked, heard), and the frame in hex.
    Mirror(u64, u8, String),
    Computed {
        job: u64,
    },
}

/// What is wanted of ports: as an [`Instruction`].
#[derive(Serialize, Deserialize)]
enum Wanted {
    /// The text is as in a file.
    Expect {
        text: Option<String>,
        forced: bool,
    },
    Consent {
        by: Option<String>,
        until: Option<u64>,
    },
    Limit {
        dry_run: bool,
        writes: u32,
    },
    Release(Guid, u8),
    Quarantine(Guid, u8, String),
    Remember(Guid, u8, String),
    Test(Guid, u8),
    PhaseOut(Guid, u8, String),
    PhaseIn(Guid, u8),
}

/// Records a manager. A file that cannot be written ends the recording, not the manager.
pub struct Tape(Option<Recorder>);

impl Tape {
    /// No recording.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Begins one of a manager that is about to be made from these.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(
        file: &Path,
        (config, saved, kept): (&Config, &Saved, &[KeptRecord]),
        epoch: f64,
        now: Time,
    ) -> Result<Self, Failure> {
        let lids = saved.lids.iter().map(|(guid, (lid, lmc))| (*guid, lid.0, lmc.bits()));
        let trees = saved.trees.iter().map(|((guid, plane), place)| (*guid, *plane, *place));
        let made = Made {
            config: config.clone(),
            lmc: saved.lmc.map(Lmc::bits),
            lids: lids.collect(),
            trees: trees.collect(),
            keys: saved.keys.as_ref().map(|keys| (keys.secret, keys.generation)),
            lineage: saved.lineage.write(),
            kept: kept.iter().map(|kept| kept::line(kept, epoch).trim_end().to_owned()).collect(),
            epoch: epoch.to_bits(),
        };
        let recorder = Recorder::create(file, CORE, &made, now);
        recorder.map(|recorder| Self(Some(recorder))).map_err(Failure::file(file))
    }

    /// The core is told of an event, or without one that a deadline has come.
    pub fn event(&mut self, now: Time, event: Option<&Event<'_>>) {
        // The hex of every MAD takes time: only where it is written.
        if self.0.is_none() {
            return;
        }
        let told = match event {
            None => None,
            // The manager itself makes these.
            Some(Event::Groups(_)) => return,
            Some(event) => Some(Told::of(event)),
        };
        self.with(|recorder| recorder.write(now, told.as_ref()));
    }

    /// The core wants this.
    pub fn output(&mut self, output: &Output) {
        if let (Some(recorder), Some(bytes)) = (&mut self.0, outcome(output)) {
            recorder.output(&bytes);
        }
    }

    /// What was recorded so far is in the file.
    pub fn flush(&mut self) {
        self.with(Recorder::flush);
    }

    /// The manager ends.
    pub fn end(&mut self, now: Time) {
        if let Some(Err(error)) = self.0.take().map(|recorder| recorder.end(now)) {
            warn!("the recording has no end: {error}");
        }
    }

    fn with(&mut self, write: impl FnOnce(&mut Recorder) -> std::io::Result<()>) {
        if let Some(recorder) = &mut self.0
            && let Err(error) = write(recorder)
        {
            warn!("recording ends: {error}");
            self.0 = None;
        }
    }
}

impl Told {
    fn of(event: &Event<'_>) -> Self {
        match *event {
            Event::Start => Self::Start,
            Event::Resweep | Event::Groups(_) => Self::Resweep,
            Event::Mad { port, source, bytes } => {
                Self::Mad { port: port.0, source: source.0, bytes: hex(bytes) }
            }
            Event::General { port, from: Origin { lid, qp, sl, p_key }, bytes } => {
                let bytes = hex(bytes);
                Self::General { port: port.0, lid: lid.0, qp, sl, p_key: p_key.0, bytes }
            }
            Event::Clear { version } => Self::Clear { version },
            Event::Prefer(ref set) => {
                let pins = set.pins.iter();
                let slices = set.slices.iter();
                Self::Prefer {
                    pins: pins.map(|((from, to), lid)| (from.0, to.0, lid.0)).collect(),
                    slices: slices.map(|(port, its)| (port.0, its.job, its.lid.0)).collect(),
                }
            }
            Event::RotateKeys => Self::RotateKeys,
            Event::Configuration(ref instruction) => Self::Configuration(Wanted::of(instruction)),
            Event::Cluster(ref event) => Self::Cluster((**event).clone()),
            Event::Instruct { to, control } => Self::Instruct { to, control: control.modifier() },
            Event::Priority(priority) => Self::Priority(priority),
            Event::Partitions(ref partitions) => Self::Partitions(partitions.to_string()),
            Event::QosPolicy(ref policy) => Self::QosPolicy(policy.to_string()),
            Event::Crowded(crowded) => Self::Crowded(crowded),
            Event::Health(node) => Self::Health(node),
            Event::LinkTested { number, arrived } => Self::LinkTested(number, arrived),
            Event::PortChanged => Self::PortChanged,
            Event::Mirror(ref event) => mirrored(event),
            Event::Computed(ref computed) => Self::Computed { job: computed.number() },
        }
    }
}

fn mirrored(event: &MirrorEvent) -> Told {
    let (link, what, frame) = match event {
        MirrorEvent::Called(link) => (link, 0, None),
        MirrorEvent::Answered(link) => (link, 1, None),
        MirrorEvent::Closed(link) => (link, 2, None),
        MirrorEvent::Asked(link, said) => (link, 3, codec::encode(said).ok()),
        MirrorEvent::Heard(link, said) => (link, 4, codec::encode(said).ok()),
    };
    Told::Mirror(link.0, what, hex(&frame.unwrap_or_default()))
}

fn mirror_event(link: Link, what: u8, frame: &[u8]) -> Option<MirrorEvent> {
    Some(match what {
        0 => MirrorEvent::Called(link),
        1 => MirrorEvent::Answered(link),
        2 => MirrorEvent::Closed(link),
        3 => MirrorEvent::Asked(link, codec::decode(frame).ok()??.0),
        4 => MirrorEvent::Heard(link, codec::decode(frame).ok()??.0),
        _ => return None,
    })
}

impl Wanted {
    fn of(instruction: &Instruction) -> Self {
        match instruction {
            Instruction::Expect { expected, forced } => {
                let text = expected.as_ref().map(|expected| write(expected, &Seen::default()));
                Self::Expect { text, forced: *forced }
            }
            Instruction::Consent(Consent::Absent) => Self::Consent { by: None, until: None },
            Instruction::Consent(Consent::Granted { by, until }) => {
                Self::Consent { by: Some(by.clone()), until: until.map(Time::nanos) }
            }
            Instruction::Limit(Limits { dry_run, writes }) => {
                Self::Limit { dry_run: *dry_run, writes: *writes }
            }
            Instruction::Release((guid, port)) => Self::Release(*guid, port.0),
            Instruction::Quarantine((guid, port), why) => {
                Self::Quarantine(*guid, port.0, why.clone())
            }
            Instruction::Remember((guid, port), why) => Self::Remember(*guid, port.0, why.clone()),
            Instruction::Test((guid, port)) => Self::Test(*guid, port.0),
            Instruction::PhaseOut((guid, port), why) => Self::PhaseOut(*guid, port.0, why.clone()),
            Instruction::PhaseIn((guid, port)) => Self::PhaseIn(*guid, port.0),
        }
    }

    fn instruction(self) -> Option<Instruction> {
        let place = |guid, port| (guid, PortNum(port));
        Some(match self {
            Self::Expect { text: None, forced } => Instruction::Expect { expected: None, forced },
            Self::Expect { text: Some(text), forced } => {
                let expected = parse(&text, "recorded").ok()?;
                Instruction::Expect { expected: Some(Arc::new(expected)), forced }
            }
            Self::Consent { by: None, .. } => Instruction::Consent(Consent::Absent),
            Self::Consent { by: Some(by), until } => {
                Instruction::Consent(Consent::Granted { by, until: until.map(Time) })
            }
            Self::Limit { dry_run, writes } => Instruction::Limit(Limits { dry_run, writes }),
            Self::Release(guid, port) => Instruction::Release(place(guid, port)),
            Self::Quarantine(guid, port, why) => Instruction::Quarantine(place(guid, port), why),
            Self::Remember(guid, port, why) => Instruction::Remember(place(guid, port), why),
            Self::Test(guid, port) => Instruction::Test(place(guid, port)),
            Self::PhaseOut(guid, port, why) => Instruction::PhaseOut(place(guid, port), why),
            Self::PhaseIn(guid, port) => Instruction::PhaseIn(place(guid, port)),
        })
    }
}

/// The bytes by which what comes out of a manager is compared: what it sends. The rest follows from what it
/// is told.
fn outcome(output: &Output) -> Option<Vec<u8>> {
    let (to, mad) = match output {
        Output::Send { to: Destination::Directed, mad, .. } => (0xFFFF, mad),
        Output::Send { to: Destination::Lid(lid), mad, .. } => (lid.0, mad),
        Output::Answer { to, mad, .. } => (to.lid.0, mad),
        _ => return None,
    };
    let mut bytes = to.to_be_bytes().to_vec();
    bytes.extend_from_slice(&mad.0);
    Some(bytes)
}

/// A manager that is told again what a recorded one was told.
pub struct Replaying {
    /// The manager, or a reader in its place.
    pub core: Core,
    /// Computations that the manager gave out, by number, until their results are due.
    jobs: BTreeMap<u64, Job>,
}

impl Replay for Replaying {
    const CORE: &'static str = CORE;
    type Made = Made;
    type Told = Entry;
    type Output = Output;

    fn make(made: &Made, _at: Time) -> Result<Self, String> {
        Ok(Self { core: made.core()?, jobs: BTreeMap::new() })
    }

    fn tell(&mut self, told: Option<Entry>, now: Time) -> Result<(), String> {
        match told.map(|Entry(told)| told) {
            None => self.core.handle_deadline(now),
            Some(Told::Computed { job }) => {
                let job = self.jobs.remove(&job).ok_or("of a job that was not given")?;
                self.core.handle(Event::Computed(Box::new(job.run())), now);
            }
            Some(told) => told.give(&mut self.core, now).ok_or("not understood")?,
        }
        Ok(())
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.core.poll_output()
    }

    fn compared(output: &Output) -> Option<Vec<u8>> {
        outcome(output)
    }

    fn keep(&mut self, output: Output) {
        if let Output::Compute(job) = output {
            self.jobs.insert(job.number(), *job);
        }
    }
}

impl Made {
    fn core(&self) -> Result<Core, String> {
        let lmc = |bits: u8| Lmc::new(bits).ok_or_else(|| format!("no LMC is {bits}"));
        let mut saved = Saved { lmc: self.lmc.map(lmc).transpose()?, ..Saved::default() };
        for &(guid, lid, bits) in &self.lids {
            saved.lids.insert(guid, (Lid(lid), lmc(bits)?));
        }
        saved.trees =
            self.trees.iter().map(|&(guid, plane, place)| ((guid, plane), place)).collect();
        let wrong = |(_, line): (usize, String)| format!("not understood: `{line:.60}`");
        saved.lineage = Lineage::read(&self.lineage).map_err(wrong)?;
        saved.keys = self.keys.map(|(secret, generation)| KeySecret { secret, generation });
        let epoch = f64::from_bits(self.epoch);
        let kept = self.kept.iter().map(|line| {
            kept::parse(line, epoch).ok_or_else(|| format!("not understood: `{line:.60}`"))
        });
        let kept: Vec<KeptRecord> = kept.collect::<Result<_, _>>()?;
        let mut core =
            Core::new(self.config.clone(), saved, kept).map_err(|error| error.to_string())?;
        core.manager_mut().set_epoch(Time((epoch.max(0.0) * 1e9) as u64));
        Ok(core)
    }
}

impl Told {
    fn give(self, core: &mut Core, now: Time) -> Option<()> {
        match self {
            Self::Start => core.handle(Event::Start, now),
            Self::Resweep => core.handle(Event::Resweep, now),
            Self::Mad { port, source, bytes } => {
                let bytes = unhex(&bytes)?;
                let (port, source) = (LocalPort(port), Lid(source));
                core.handle(Event::Mad { port, source, bytes: &bytes }, now);
            }
            Self::General { port, lid, qp, sl, p_key, bytes } => {
                let bytes = unhex(&bytes)?;
                let (lid, p_key) = (Lid(lid), PKey(p_key));
                let (port, from) = (LocalPort(port), Origin { lid, qp, sl, p_key });
                core.handle(Event::General { port, from, bytes: &bytes }, now);
            }
            Self::Clear { version } => core.handle(Event::Clear { version }, now),
            Self::Prefer { pins, slices } => {
                let pin = |(from, to, lid)| ((Guid(from), Guid(to)), Lid(lid));
                let slice = |(port, job, lid)| (Guid(port), Slice { job, lid: Lid(lid) });
                let pins = pins.into_iter().map(pin).collect();
                let slices = slices.into_iter().map(slice).collect();
                core.handle(Event::Prefer(Box::new(Preferences { pins, slices })), now);
            }
            Self::RotateKeys => core.handle(Event::RotateKeys, now),
            Self::Configuration(wanted) => {
                let instruction = Box::new(wanted.instruction()?);
                core.handle(Event::Configuration(instruction), now);
            }
            Self::Cluster(event) => core.handle(Event::Cluster(Box::new(event)), now),
            Self::Instruct { to, control } => {
                let control = Control::of(control)?;
                core.handle(Event::Instruct { to, control }, now);
            }
            Self::Priority(priority) => core.handle(Event::Priority(priority), now),
            Self::QosPolicy(text) => {
                core.handle(Event::QosPolicy(Box::new(text.parse().ok()?)), now);
            }
            Self::Partitions(text) => {
                core.handle(Event::Partitions(Box::new(text.parse().ok()?)), now);
            }
            Self::Crowded(crowded) => core.handle(Event::Crowded(crowded), now),
            Self::Health(node) => core.handle(Event::Health(node), now),
            Self::LinkTested(number, arrived) => {
                core.handle(Event::LinkTested { number, arrived }, now);
            }
            Self::PortChanged => core.handle(Event::PortChanged, now),
            Self::Mirror(link, what, frame) => {
                let event = mirror_event(Link(link), what, &unhex(&frame)?)?;
                core.handle(Event::Mirror(Box::new(event)), now);
            }
            Self::Computed { .. } => return None,
        }
        Some(())
    }
}
