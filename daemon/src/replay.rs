//! A recorded core told again what it was told: every daemon's core is replayed by this one function.

use std::fmt::Debug;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use snin_protocol::Time;

use crate::record::{OutputDigest, RecordError, Recording};

/// A core, and how a recording's entries are given to it.
pub trait Replay: Sized {
    /// What recordings call the core.
    const CORE: &'static str;
    /// What the core is made from.
    type Made: DeserializeOwned;
    /// One event, as it is recorded; it may borrow from the recording.
    type Event<'a>: Deserialize<'a>;
    /// What comes out of the core.
    type Output: Debug;

    /// Makes the core as it was made at `at`.
    ///
    /// # Errors
    /// What `made` cannot mean, in one line.
    fn make(made: &Self::Made, at: Time) -> Result<Self, String>;

    /// Gives the core an event, or with `None` a deadline that had come.
    ///
    /// # Errors
    /// Why no recorder writes such an event, in one line.
    fn handle(&mut self, event: Option<Self::Event<'_>>, now: Time) -> Result<(), String>;

    /// The core's next output.
    fn poll_output(&mut self) -> Option<Self::Output>;

    /// The bytes by which an output is compared with the recorded one; `None`: it is not compared.
    fn compared(output: &Self::Output) -> Option<Vec<u8>>;

    /// Takes an output once it is compared, if a later entry needs it.
    fn keep(&mut self, _output: Self::Output) {}
}

/// A core after its replay.
#[derive(Debug)]
pub struct Replayed<C> {
    /// It ends as the recorded core did.
    pub core: C,
    /// What came out of it.
    pub outcome: OutputDigest,
    /// What came out of the recorded core; `None` of a recording that did not end well.
    pub recorded: Option<OutputDigest>,
    /// Whether the file ends within an entry: that one is left out.
    pub cut: bool,
    /// Events, and deadlines that had come.
    pub entries: u64,
    /// When the core was made, by its own clock.
    pub began: Time,
    /// The time of the last entry.
    pub ended: Time,
}

/// Makes a core again from a file; each output is given to `output` with its time.
///
/// # Errors
/// When the file is no recording of such a core.
pub fn replay<C: Replay>(
    file: &Path,
    mut output: impl FnMut(Time, &C::Output),
) -> Result<Replayed<C>, RecordError> {
    let mut recording = Recording::<C::Made>::open(file, C::CORE)?;
    let began = recording.at;
    let wrong = |at| move |what| RecordError::Entry { file: file.to_owned(), at, what };
    let mut core = C::make(&recording.config, began).map_err(wrong(began))?;
    let (mut outcome, mut entries, mut ended) = (OutputDigest::default(), 0, began);
    while let Some(entry) = recording.entry::<C::Event<'_>>()? {
        (entries, ended) = (entries + 1, entry.at);
        core.handle(entry.event, entry.at).map_err(wrong(entry.at))?;
        while let Some(wanted) = core.poll_output() {
            if let Some(bytes) = C::compared(&wanted) {
                outcome.add(&bytes);
            }
            output(entry.at, &wanted);
            core.keep(wanted);
        }
    }
    let Recording { end: recorded, cut, .. } = recording;
    Ok(Replayed { core, outcome, recorded, cut, entries, began, ended })
}
