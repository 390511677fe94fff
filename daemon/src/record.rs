//! Recordings of what a core was told, so that what happened once can happen again: a bug report is a file.
//!
//! A recording is JSON lines. The first one says which core it is of, by which version of snin, what the core was
//! made from and when; every other one is an event with its time, or the time at which a deadline was handled:
//!
//! ```json
//! {"core":"agent","version":"0.1.0","at":1000,"config":{}}
//! {"at":2000,"event":{"Port":"Up"}}
//! {"at":3000}
//! {"at":4000,"end":{"outputs":12,"digest":1234}}
//! ```
//!
//! A recording that ended well says what came out of the core: replayed, the same has to come out again.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::marker::PhantomData;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snin_protocol::Time;

/// A recording ends when it has so many bytes: 4 GiB.
const MOST_BYTES: u64 = 4 << 30;

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header<C> {
    core: String,
    version: String,
    at: Time,
    config: C,
}

/// What a core was told at a time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Entry<E> {
    /// By the core's clock.
    pub at: Time,
    /// What happened; `None`: a deadline had come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<E>,
}

/// All that came out of a core: how many outputs, and a digest of them in order (FNV-1a).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How many.
    pub outputs: u64,
    /// Of their bytes.
    pub digest: u64,
}

impl Default for Outcome {
    fn default() -> Self {
        Self { outputs: 0, digest: 0xCBF2_9CE4_8422_2325 }
    }
}

impl Outcome {
    /// One more.
    pub fn add(&mut self, output: &[u8]) {
        self.outputs += 1;
        for &byte in output {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

/// The last line.
#[derive(Serialize)]
struct Last {
    at: Time,
    end: Outcome,
}

/// Any line but the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<E> {
    at: Time,
    #[serde(default = "Option::default")]
    event: Option<E>,
    #[serde(default)]
    end: Option<Outcome>,
}

/// A recording that is no recording, in one line.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A line of it.
    #[error("{}:{line}: {error}", .file.display())]
    Line {
        /// Which file.
        file: PathBuf,
        /// Which line.
        line: u64,
        /// The error.
        error: serde_json::Error,
    },
    /// It is of another core.
    #[error("{}:1: a recording of {found}, but one of {wanted} is wanted", .file.display())]
    OtherCore {
        /// Which file.
        file: PathBuf,
        /// Its core.
        found: String,
        /// The one that was asked for.
        wanted: String,
    },
    /// An entry that no recorder writes.
    #[error("{}: at {at}: {what}", .file.display())]
    Entry {
        /// Which file.
        file: PathBuf,
        /// The entry's time.
        at: Time,
        /// What is wrong with it.
        what: String,
    },
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    file: BufWriter<File>,
    bytes: u64,
    outcome: Outcome,
}

impl Recorder {
    /// Begins a recording of a core that is made from `config` at a time; a file of that name is replaced. Only
    /// its owner may read it: it may hold keys.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create<C: Serialize>(path: &Path, core: &str, config: &C, at: Time) -> io::Result<Self> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut recorder =
            Self { file: BufWriter::new(file), bytes: 0, outcome: Outcome::default() };
        let (core, version) = (core.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        recorder.line(&Header { core, version, at, config })?;
        recorder.flush()?;
        Ok(recorder)
    }

    /// Adds an event, or without one a deadline that was handled.
    ///
    /// # Errors
    /// When the file cannot be written, or is as long as it may be.
    pub fn write<E: Serialize>(&mut self, at: Time, event: Option<&E>) -> io::Result<()> {
        self.line(&Entry { at, event })
    }

    /// Takes note of something that came out of the core.
    pub fn output(&mut self, bytes: &[u8]) {
        self.outcome.add(bytes);
    }

    /// Ends the recording with the outcome.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end(self, at: Time) -> io::Result<()> {
        let outcome = self.outcome;
        self.end_with(at, outcome)
    }

    /// Ends the recording with an outcome that was noted elsewhere.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end_with(mut self, at: Time, end: Outcome) -> io::Result<()> {
        self.line(&Last { at, end })?;
        self.flush()
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn line<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.bytes += line.len() as u64;
        if self.bytes > MOST_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "a recording is full at 4 GiB",
            ));
        }
        self.file.write_all(&line)
    }
}

/// Reads a recording, an entry at a time.
#[derive(Debug)]
pub struct Recording<C, E> {
    /// What the core was made from.
    pub config: C,
    /// When.
    pub at: Time,
    /// What came out of the core, once the last entry was read; `None` of one that did not end well.
    pub end: Option<Outcome>,
    file: PathBuf,
    lines: io::Lines<BufReader<File>>,
    line: u64,
    events: PhantomData<E>,
}

/// Which core a recording is of.
///
/// # Errors
/// When there is no file, or its first line is none of a recording.
pub fn core_of(path: &Path) -> Result<String, RecordError> {
    let file = || path.to_owned();
    let opened = File::open(path).map_err(|error| RecordError::File { file: file(), error })?;
    let mut first = String::new();
    // A first line holds what the core was made from; one that is longer than a recording may be is none.
    let read = BufReader::new(opened.take(MOST_BYTES)).read_line(&mut first);
    read.map_err(|error| RecordError::File { file: file(), error })?;
    let header = serde_json::from_str::<Header<serde::de::IgnoredAny>>(&first);
    let header = header.map_err(|error| RecordError::Line { file: file(), line: 1, error })?;
    Ok(header.core)
}

impl<C: DeserializeOwned, E: DeserializeOwned> Recording<C, E> {
    /// Opens a recording of a core.
    ///
    /// # Errors
    /// When there is none, or it is of another core.
    pub fn open(path: &Path, core: &str) -> Result<Self, RecordError> {
        let file = path.to_owned();
        let failed = |error| RecordError::File { file: file.clone(), error };
        let mut lines = BufReader::new(File::open(path).map_err(failed)?).lines();
        let empty = || Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty"));
        let first = lines.next().unwrap_or_else(empty).map_err(failed)?;
        let header = serde_json::from_str::<Header<C>>(&first);
        let header = header.map_err(|error| {
            // Of another core the configuration may mean nothing here.
            match serde_json::from_str::<Header<serde_json::Value>>(&first) {
                Ok(Header { core: found, .. }) if found != core => other_core(&file, found, core),
                _ => RecordError::Line { file: file.clone(), line: 1, error },
            }
        })?;
        if header.core != core {
            return Err(other_core(&file, header.core, core));
        }
        let Header { config, at, .. } = header;
        Ok(Self { config, at, end: None, file, lines, line: 1, events: PhantomData })
    }
}

fn other_core(file: &Path, found: String, wanted: &str) -> RecordError {
    RecordError::OtherCore { file: file.to_owned(), found, wanted: wanted.to_owned() }
}

impl<C, E: DeserializeOwned> Iterator for Recording<C, E> {
    type Item = Result<Entry<E>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        self.line += 1;
        let file = || self.file.clone();
        let text = match line {
            Ok(text) => text,
            Err(error) => return Some(Err(RecordError::File { file: file(), error })),
        };
        match serde_json::from_str::<Line<E>>(&text) {
            Ok(Line { end: Some(end), .. }) => {
                self.end = Some(end);
                None
            }
            Ok(Line { at, event, end: None }) => Some(Ok(Entry { at, event })),
            Err(error) => Some(Err(RecordError::Line { file: file(), line: self.line, error })),
        }
    }
}

/// Bytes as an event holds them: two digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// What [`hex`] wrote.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record");
        let mut recorder = Recorder::create(&file, "test", &7_u32, Time(5)).unwrap();
        recorder.write(Time(6), Some(&"up")).unwrap();
        recorder.write::<&str>(Time(8), None).unwrap();
        recorder.output(b"answer");
        recorder.end(Time(9)).unwrap();
        assert_eq!(core_of(&file).unwrap(), "test");
        let mut recording = Recording::<u32, String>::open(&file, "test").unwrap();
        assert_eq!((recording.config, recording.at), (7, Time(5)));
        let entries: Vec<_> = recording.by_ref().map(Result::unwrap).collect();
        let mut outcome = Outcome::default();
        outcome.add(b"answer");
        assert_eq!(recording.end, Some(outcome));
        let up = Entry { at: Time(6), event: Some("up".to_owned()) };
        assert_eq!(entries, [up, Entry { at: Time(8), event: None }]);
        let other = Recording::<String, String>::open(&file, "sm").unwrap_err().to_string();
        assert!(other.ends_with(":1: a recording of test, but one of sm is wanted"), "{other}");
    }

    #[test]
    fn what_is_no_recording_is_named_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record");
        std::fs::write(
            &file,
            "{\"core\":\"x\",\"version\":\"1\",\"at\":1,\"config\":1}\n{\"at\":\n",
        )
        .unwrap();
        let mut recording = Recording::<u32, String>::open(&file, "x").unwrap();
        let why = recording.next().unwrap().unwrap_err().to_string();
        assert!(why.contains("record:2: "), "{why}");
        std::fs::write(&file, "").unwrap();
        let why = Recording::<u32, String>::open(&file, "x").unwrap_err().to_string();
        assert!(why.ends_with("record: the file is empty"), "{why}");
    }
}
