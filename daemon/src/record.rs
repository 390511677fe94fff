//! Recordings of what a core was told, so that what happened once can happen again: a bug report is a file.
//!
//! A recording begins with a line that every version writes alike; frames follow, each behind its length (u32,
//! little endian):
//!
//! ```text
//! snin recording 2 of agent by 0.1.0
//! LENGTH  when the core was made, and what from
//! LENGTH  when, and what it was told; or that a deadline was handled
//! LENGTH  when it ended, and what came out: how many outputs, and a digest of them
//! ```
//!
//! A frame is bincode of the core's own types, as they are in this version: what another one recorded is refused.
//! A recording that ended well says what came out of the core: replayed, the same has to come out again.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snin_protocol::Time;

/// The version of a recording's frames. Those of version 1 were lines of JSON.
const FORMAT: u32 = 2;
/// The version that writes them: what it tells its cores another may not know.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// A recording ends when it has so many bytes: 4 GiB.
const MOST_BYTES: u64 = 4 << 30;
/// The most bytes of a frame: four times a view's.
const MOST_FRAME: usize = 256 << 20;
/// The most bytes of the first line.
const LONGEST_HEAD: u64 = 256;

/// A length that a frame's bytes give is at most that of a whole frame.
const CONFIG: Configuration<LittleEndian, Varint, Limit<MOST_FRAME>> =
    bincode::config::standard().with_limit::<MOST_FRAME>();

/// What a core was told at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry<E> {
    /// By the core's clock.
    pub at: Time,
    /// What happened; `None`: a deadline had come.
    pub event: Option<E>,
}

/// What a frame after the first says.
#[derive(Serialize, Deserialize)]
enum Said<E> {
    Deadline,
    Event(E),
    End(OutputDigest),
}

/// All that came out of a core: how many outputs, and a digest of them in order (FNV-1a).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputDigest {
    /// How many.
    pub outputs: u64,
    /// Of their bytes.
    pub digest: u64,
}

impl Default for OutputDigest {
    fn default() -> Self {
        Self { outputs: 0, digest: 0xCBF2_9CE4_8422_2325 }
    }
}

impl OutputDigest {
    /// One more.
    pub fn add(&mut self, output: &[u8]) {
        self.outputs += 1;
        for &byte in output {
            self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
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
    /// The file's first line is no recording's.
    #[error("{}: no recording of snin: its first line is another", .0.display())]
    None(PathBuf),
    /// A frame of it.
    #[error("{}: frame {frame}: {what}", .file.display())]
    Frame {
        /// Which file.
        file: PathBuf,
        /// Which frame, from 1.
        frame: u64,
        /// What is wrong with it.
        what: String,
    },
    /// Another version wrote it.
    #[error(
        "{}: a recording of {} in format {} by snin {}, but one in format {FORMAT} by snin {VERSION} is expected",
        .file.display(), .head.core, .head.format, .head.version
    )]
    OtherVersion {
        /// Which file.
        file: PathBuf,
        /// What it says of itself.
        head: Head,
    },
    /// It is of another core.
    #[error("{}: a recording of {found}, but one of {wanted} is wanted", .file.display())]
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

/// The first line of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// The core that was recorded.
    pub core: String,
    /// The version of the frames.
    pub format: u32,
    /// The version of snin.
    pub version: String,
}

impl Head {
    fn parse(line: &str) -> Option<Self> {
        let (format, core, version) = if let Some(rest) = line.strip_prefix("snin recording ") {
            let (format, rest) = rest.trim_end().split_once(" of ")?;
            let (core, version) = rest.split_once(" by ")?;
            (format.parse().ok()?, core, version)
        } else {
            // Version 1: what the core was made from is in the same line.
            let (core, rest) = line.strip_prefix(r#"{"core":""#)?.split_once('"')?;
            let (version, _) = rest.strip_prefix(r#","version":""#)?.split_once('"')?;
            (1, core, version)
        };
        Some(Self { core: core.to_owned(), format, version: version.to_owned() })
    }

    fn read(from: &mut BufReader<File>, file: &Path) -> Result<Self, RecordError> {
        let mut line = Vec::new();
        let read = from.by_ref().take(LONGEST_HEAD).read_until(b'\n', &mut line);
        read.map_err(|error| RecordError::File { file: file.to_owned(), error })?;
        let head = Self::parse(&String::from_utf8_lossy(&line));
        let head = head.ok_or_else(|| RecordError::None(file.to_owned()))?;
        if head.format == FORMAT && head.version == VERSION {
            Ok(head)
        } else {
            Err(RecordError::OtherVersion { file: file.to_owned(), head })
        }
    }
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    file: BufWriter<File>,
    bytes: u64,
    outcome: OutputDigest,
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
            Self { file: BufWriter::new(file), bytes: 0, outcome: OutputDigest::default() };
        writeln!(recorder.file, "snin recording {FORMAT} of {core} by {VERSION}")?;
        recorder.frame(&(at, config))?;
        recorder.flush()?;
        Ok(recorder)
    }

    /// Adds an event, or without one a deadline that was handled.
    ///
    /// # Errors
    /// When the file cannot be written or is as long as it may be, or the event cannot be.
    pub fn write<E: Serialize>(&mut self, at: Time, event: Option<&E>) -> io::Result<()> {
        self.frame(&(at, event.map_or(Said::Deadline, Said::Event)))
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
    pub fn end_with(mut self, at: Time, end: OutputDigest) -> io::Result<()> {
        self.frame(&(at, Said::<()>::End(end)))?;
        self.flush()
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn frame<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let frame = bincode::serde::encode_to_vec(value, CONFIG).map_err(io::Error::other)?;
        self.bytes += (size_of::<u32>() + frame.len()) as u64;
        let full = |what| Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        if frame.len() > MOST_FRAME {
            return full("an event of a recording has 256 MiB at most");
        }
        if self.bytes > MOST_BYTES {
            return full("a recording is full at 4 GiB");
        }
        self.file.write_all(&(frame.len() as u32).to_le_bytes())?;
        self.file.write_all(&frame)
    }
}

/// Reads a recording, an entry at a time.
#[derive(Debug)]
pub struct Recording<C> {
    /// What the core was made from.
    pub config: C,
    /// When.
    pub at: Time,
    /// What came out of the core, once the last entry was read; `None` of one that did not end well.
    pub end: Option<OutputDigest>,
    /// Whether the file ends within a frame: that one is left out.
    pub cut: bool,
    frames: Frames,
}

/// Which core a recording is of.
///
/// # Errors
/// When there is no file, its first line is none of a recording, or another version wrote it.
pub fn core_of(path: &Path) -> Result<String, RecordError> {
    Ok(Frames::open(path)?.0.core)
}

impl<C: DeserializeOwned> Recording<C> {
    /// Opens a recording of a core.
    ///
    /// # Errors
    /// When there is none, or it is of another core, or another version wrote it.
    pub fn open(path: &Path, core: &str) -> Result<Self, RecordError> {
        let (head, mut frames) = Frames::open(path)?;
        if head.core != core {
            let (file, wanted) = (path.to_owned(), core.to_owned());
            return Err(RecordError::OtherCore { file, found: head.core, wanted });
        }
        if !frames.next()? {
            return Err(frames.wrong("the file is cut short before it"));
        }
        let (at, config) = frames.understood()?;
        Ok(Self { config, at, end: None, cut: false, frames })
    }

    /// The next entry, which may borrow from the recording; `None` after the last one.
    ///
    /// # Errors
    /// When the file cannot be read, or holds none.
    pub fn entry<'a, E: Deserialize<'a>>(&'a mut self) -> Result<Option<Entry<E>>, RecordError> {
        if self.end.is_some() || !self.frames.next()? {
            self.cut = self.frames.cut;
            return Ok(None);
        }
        let (at, said) = self.frames.understood()?;
        Ok(Some(match said {
            Said::Deadline => Entry { at, event: None },
            Said::Event(event) => Entry { at, event: Some(event) },
            Said::End(end) => {
                self.end = Some(end);
                return Ok(None);
            }
        }))
    }
}

/// The frames of a file.
#[derive(Debug)]
struct Frames {
    file: PathBuf,
    from: BufReader<File>,
    /// The last that was read, and its number from 1.
    frame: Vec<u8>,
    number: u64,
    cut: bool,
}

impl Frames {
    fn open(path: &Path) -> Result<(Head, Self), RecordError> {
        let file = path.to_owned();
        let opened =
            File::open(path).map_err(|error| RecordError::File { file: file.clone(), error })?;
        let mut from = BufReader::new(opened);
        let head = Head::read(&mut from, path)?;
        Ok((head, Self { file, from, frame: Vec::new(), number: 0, cut: false }))
    }

    /// Reads the next one, if there is one.
    fn next(&mut self) -> Result<bool, RecordError> {
        self.number += 1;
        let (mut length, most) = (Vec::new(), size_of::<u32>());
        self.take(&mut length, most)?;
        let Ok(bytes) = <[u8; 4]>::try_from(&*length) else {
            self.cut = !length.is_empty();
            return Ok(false);
        };
        let length = u32::from_le_bytes(bytes) as usize;
        if length > MOST_FRAME {
            return Err(self.wrong("it is longer than a frame may be"));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        self.take(&mut frame, length)?;
        self.cut = frame.len() < length;
        self.frame = frame;
        Ok(!self.cut)
    }

    fn take(&mut self, to: &mut Vec<u8>, most: usize) -> Result<(), RecordError> {
        let read = self.from.by_ref().take(most as u64).read_to_end(to);
        read.map(drop).map_err(|error| RecordError::File { file: self.file.clone(), error })
    }

    fn understood<'a, T: Deserialize<'a>>(&'a self) -> Result<T, RecordError> {
        match bincode::serde::borrow_decode_from_slice(&self.frame, CONFIG) {
            Ok((value, read)) if read == self.frame.len() => Ok(value),
            Ok(_) => Err(self.wrong("it is longer than what it says")),
            Err(error) => Err(self.wrong(error)),
        }
    }

    fn wrong(&self, what: impl ToString) -> RecordError {
        RecordError::Frame { file: self.file.clone(), frame: self.number, what: what.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(folder: &Path) -> PathBuf {
        let file = folder.join("record");
        let mut recorder = Recorder::create(&file, "test", &7_u32, Time(5)).unwrap();
        recorder.write(Time(6), Some(&"up")).unwrap();
        recorder.write::<&str>(Time(8), None).unwrap();
        recorder.output(b"answer");
        recorder.end(Time(9)).unwrap();
        file
    }

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = recorded(folder.path());
        assert_eq!(core_of(&file).unwrap(), "test");
        let mut recording = Recording::<u32>::open(&file, "test").unwrap();
        assert_eq!((recording.config, recording.at), (7, Time(5)));
        let up: Option<Entry<&str>> = recording.entry().unwrap();
        assert_eq!(up, Some(Entry { at: Time(6), event: Some("up") }));
        let deadline: Option<Entry<&str>> = recording.entry().unwrap();
        assert_eq!(deadline, Some(Entry { at: Time(8), event: None }));
        assert_eq!(recording.entry::<&str>().unwrap(), None);
        let mut outcome = OutputDigest::default();
        outcome.add(b"answer");
        assert_eq!((recording.end, recording.cut), (Some(outcome), false));
        let other = Recording::<u32>::open(&file, "sm").unwrap_err().to_string();
        assert!(other.ends_with("record: a recording of test, but one of sm is wanted"), "{other}");
    }

    #[test]
    fn what_another_version_wrote_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("record");
        let refused = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let why = core_of(&file).unwrap_err().to_string();
            assert_eq!(why, Recording::<u32>::open(&file, "sm").unwrap_err().to_string());
            why.rsplit_once("record: ").unwrap().1.to_owned()
        };
        let expected = format!("but one in format 2 by snin {VERSION} is expected");
        let first = "{\"core\":\"sm\",\"version\":\"0.1.0\",\"at\":1,\"config\":{}}\n{\"at\":2}\n";
        assert_eq!(
            refused(first),
            format!("a recording of sm in format 1 by snin 0.1.0, {expected}")
        );
        let later = "snin recording 3 of sm by 7.0.0\nanything";
        assert_eq!(
            refused(later),
            format!("a recording of sm in format 3 by snin 7.0.0, {expected}")
        );
        let same = refused("snin recording 2 of agent by 0.0.9\n");
        assert_eq!(same, format!("a recording of agent in format 2 by snin 0.0.9, {expected}"));
        for none in ["", "nonsense\n", "snin recording of sm\n"] {
            assert_eq!(refused(none), "no recording of snin: its first line is another");
        }
    }

    /// How many entries can be read, and whether the file ends within one.
    fn read(file: &Path) -> Result<(u32, bool), RecordError> {
        let mut recording = Recording::<u32>::open(file, "test")?;
        let mut entries = 0;
        while recording.entry::<&str>()?.is_some() {
            entries += 1;
        }
        Ok((entries, recording.cut))
    }

    #[test]
    fn a_recording_is_read_up_to_where_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = recorded(folder.path());
        let whole = std::fs::read(&file).unwrap();
        assert_eq!(read(&file).unwrap(), (2, false));
        let mut before = 2;
        for length in (0..whole.len()).rev() {
            std::fs::write(&file, &whole[..length]).unwrap();
            match read(&file) {
                Ok((entries, cut)) => {
                    // Between two entries nothing is cut; there is one less from there on.
                    assert!(cut || length + 1 < whole.len());
                    assert!(entries == before || entries + 1 == before, "{length}");
                    before = entries;
                }
                // Not even what the core was made from is there.
                Err(_) => assert_eq!(before, 0, "{length}"),
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_named_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let file = recorded(folder.path());
        let whole = std::fs::read(&file).unwrap();
        let head = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        // What the core was made from: its length, 5 and 7.
        let first = &whole[..head + 6];
        for nonsense in [&b"\x02\0\0\0\x06\x09"[..], b"\xFF\xFF\xFF\xFF", b"\x03\0\0\0\x06\x00!"] {
            std::fs::write(&file, [first, nonsense].concat()).unwrap();
            let why = read(&file).unwrap_err().to_string();
            assert!(why.contains("record: frame 2: "), "{why}");
        }
        std::fs::write(&file, first).unwrap();
        assert_eq!(read(&file).unwrap(), (0, false));
    }
}
