//! The versions of the expected configuration in a store: the cluster's service, or a file of this machine.
//!
//! | key | value |
//! |---|---|
//! | `history` | a line of JSON a version, the oldest first: number, when, by whom, if forced, its text's name |
//! | `text/NAME/N` | piece N of a version's text, as it was given |
//!
//! A version counts when `history` names it, and that key is changed by compare-and-swap by one who has seen what
//! is there: two who apply at the same time do not both have version 7. Pieces that no line names were written by
//! one who came too late; they are taken back.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use snin_daemon::shared::{Conflict, Shared, SharedError};
use snin_protocol::operator::manager::Version;

/// The key of the lines.
pub const HISTORY: &str = "history";
/// Versions that are kept; an older one goes with every new one.
const MOST: usize = 500;
/// The longest text.
const LONGEST: usize = 16 << 20;
/// Bytes of a piece: what etcd takes in one request is less than 1.5 MiB.
const PIECE: usize = 512 << 10;
/// Bytes that are kept of who applied a version.
const LONGEST_NAME: usize = 100;

/// A version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its number, from 1.
    pub version: u64,
    /// When it was applied, in seconds of the epoch.
    pub at: u64,
    /// Who applied it.
    pub by: String,
    /// Whether it is enforced even where it cuts the fabric.
    pub forced: bool,
    /// The name of its text.
    text: String,
    /// In how many pieces that is.
    pieces: usize,
}

/// As operators are told of it.
impl From<&Line> for Version {
    fn from(line: &Line) -> Self {
        let Line { version, at, by, forced, text, pieces } = line.clone();
        Self { version, at, by, forced, text, pieces }
    }
}

/// Why a version cannot be read or added. One line.
#[derive(Debug, thiserror::Error)]
pub enum VersionLogError {
    /// The store.
    #[error(transparent)]
    Store(#[from] SharedError),
    /// What is there is not understood.
    #[error("{0}")]
    Garbled(String),
    /// No such version is kept.
    #[error("no version {0} is kept")]
    Unknown(u64),
    /// Another one was faster.
    #[error(
        "version {version} was applied meanwhile, by {by}: `snin config diff` says what it changes, \
         then apply again"
    )]
    Late {
        /// The version that is there.
        version: u64,
        /// Who applied it.
        by: String,
    },
    /// The text is too long.
    #[error("{0} bytes: at most {LONGEST} are kept")]
    TooLong(usize),
}

/// What a store had when it was last looked at.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct VersionLog {
    /// Which change made the history.
    revision: Option<u64>,
    history: Vec<Line>,
}

impl VersionLog {
    /// Reads which versions there are.
    ///
    /// # Errors
    /// When the store cannot be read, or holds something else.
    pub fn read(store: &dyn Shared) -> Result<Self, VersionLogError> {
        let Some(found) = store.get(HISTORY)? else { return Ok(Self::default()) };
        let text = String::from_utf8_lossy(&found.value);
        let line = |(number, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| {
                VersionLogError::Garbled(format!("{HISTORY}, line {}: {error}", number + 1))
            })
        };
        let history = text.lines().enumerate().map(line).collect::<Result<_, _>>()?;
        Ok(Self { revision: Some(found.revision), history })
    }

    /// All versions, the oldest first.
    pub fn history(&self) -> &[Line] {
        &self.history
    }

    /// The newest.
    pub fn newest(&self) -> Option<&Line> {
        self.history.last()
    }

    /// Whether the same versions are in both.
    pub fn is_as(&self, other: &Self) -> bool {
        self.history == other.history
    }

    /// The text of a version.
    ///
    /// # Errors
    /// When it is not kept, or cannot be read.
    pub fn text(&self, store: &dyn Shared, version: u64) -> Result<String, VersionLogError> {
        let line = self.history.iter().rfind(|line| line.version == version);
        let line = line.ok_or(VersionLogError::Unknown(version))?;
        let mut bytes = Vec::new();
        for number in 0..line.pieces {
            let piece = store.get(&key(&line.text, number))?;
            bytes.extend(piece.ok_or(VersionLogError::Unknown(version))?.value);
            if bytes.len() > LONGEST {
                return Err(VersionLogError::TooLong(bytes.len()));
            }
        }
        String::from_utf8(bytes)
            .map_err(|error| VersionLogError::Garbled(format!("version {version}: {error}")))
    }

    /// Adds a version after those that are known here; its number.
    ///
    /// # Errors
    /// [`VersionLogError::Late`] where there are others by now; then nothing is changed.
    pub fn add(
        &mut self,
        store: &dyn Shared,
        text: &str,
        by: &str,
        forced: bool,
    ) -> Result<u64, VersionLogError> {
        let line = self.line(by, forced, text.len().div_ceil(PIECE));
        let version = line.version;
        let mut history = self.history.clone();
        history.push(line);
        self.put(store, history, text)?;
        Ok(version)
    }

    /// Adds a version that no store keeps.
    pub fn note(&mut self, by: &str, forced: bool) {
        let line = self.line(by, forced, 0);
        self.history.push(line);
        self.history.drain(..self.history.len().saturating_sub(MOST));
    }

    /// What a version can be added to by one who knows only those of `known`: where there are none yet, to those.
    ///
    /// # Errors
    /// [`VersionLogError::Late`] where there are others.
    pub fn after(self, known: &Self) -> Result<Self, VersionLogError> {
        match self.newest() {
            None => Ok(Self { revision: self.revision, ..known.clone() }),
            Some(_) if self.is_as(known) => Ok(self),
            Some(newest) => {
                Err(VersionLogError::Late { version: newest.version, by: newest.by.clone() })
            }
        }
    }

    fn line(&self, by: &str, forced: bool, pieces: usize) -> Line {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let version = self.newest().map_or(0, |line| line.version) + 1;
        let (nanos, process) = (since.as_nanos(), std::process::id());
        let text = format!("{version}-{nanos:x}-{process:x}");
        let by = by.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
        Line { version, at: since.as_secs(), by, forced, text, pieces }
    }

    /// Has another store's versions here too, with the text of the newest.
    ///
    /// # Errors
    /// When they cannot be kept.
    pub fn copy(
        &mut self,
        store: &dyn Shared,
        from: &Self,
        text: &str,
    ) -> Result<(), VersionLogError> {
        *self = Self::read(store)?;
        if self.is_as(from) || from.history.is_empty() {
            return Ok(());
        }
        self.put(store, from.history.clone(), text)
    }

    /// Writes a history and the text of its last line.
    fn put(
        &mut self,
        store: &dyn Shared,
        mut history: Vec<Line>,
        text: &str,
    ) -> Result<(), VersionLogError> {
        if text.len() > LONGEST {
            return Err(VersionLogError::TooLong(text.len()));
        }
        let Some(line) = history.last().cloned() else { return Ok(()) };
        for (number, piece) in text.as_bytes().chunks(PIECE).enumerate() {
            let key = key(&line.text, number);
            let before = store.get(&key)?.map(|found| found.revision);
            // What is there is of a copy that was interrupted.
            let _ = store.compare_and_swap(&key, before, Some(piece))?;
        }
        let gone: Vec<Line> = history.drain(..history.len().saturating_sub(MOST)).collect();
        let written = |line: &Line| serde_json::to_string(line).unwrap_or_default() + "\n";
        let lines: String = history.iter().map(written).collect();
        match store.compare_and_swap(HISTORY, self.revision, Some(lines.as_bytes()))? {
            Ok(revision) => {
                *self = Self { revision: Some(revision), history };
                gone.iter().try_for_each(|line| forget(store, line))
            }
            Err(Conflict(_)) => {
                forget(store, &line)?;
                let now = Self::read(store)?;
                let (version, by) =
                    now.newest().map_or((0, ""), |line| (line.version, line.by.as_str()));
                Err(VersionLogError::Late { version, by: by.to_owned() })
            }
        }
    }
}

/// Takes the text of a version away.
fn forget(store: &dyn Shared, line: &Line) -> Result<(), VersionLogError> {
    for number in 0..line.pieces {
        let key = key(&line.text, number);
        if let Some(found) = store.get(&key)? {
            let _ = store.compare_and_swap(&key, Some(found.revision), None)?;
        }
    }
    Ok(())
}

fn key(name: &str, piece: usize) -> String {
    format!("text/{name}/{piece}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use snin_daemon::shared::Embedded;

    fn keys(store: &Embedded) -> usize {
        store.list("").unwrap().len()
    }

    #[test]
    fn who_has_not_seen_the_newest_version_adds_none() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("versions"), "all").unwrap();
        let mut first = VersionLog::read(&store).unwrap();
        let mut second = first.clone();
        assert_eq!(first.add(&store, "one", "uid 1", false).unwrap(), 1);
        let late = second.add(&store, "other", "uid 2", true).unwrap_err();
        assert!(late.to_string().contains("version 1 was applied meanwhile, by uid 1"), "{late}");
        assert_eq!(keys(&store), 2, "what came too late is taken back");
        second = VersionLog::read(&store).unwrap();
        assert_eq!(second.add(&store, "two", "uid 2\n{}", true).unwrap(), 2);
        let read = VersionLog::read(&store).unwrap();
        assert_eq!((read.text(&store, 1).unwrap(), read.text(&store, 2).unwrap()), {
            ("one".to_owned(), "two".to_owned())
        });
        let said: Vec<_> =
            read.history().iter().map(|line| (line.version, &*line.by, line.forced)).collect();
        assert_eq!(said, [(1, "uid 1", false), (2, "uid 2{}", true)]);
        assert!(matches!(read.text(&store, 3), Err(VersionLogError::Unknown(3))));
    }

    #[test]
    fn a_long_text_is_kept_in_pieces_and_old_versions_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("versions"), "all").unwrap();
        let mut book = VersionLog::default();
        let long: String = ('a'..='z').cycle().take(2 * PIECE + 7).collect();
        book.add(&store, &long, "me", false).unwrap();
        assert_eq!((book.text(&store, 1).unwrap() == long, keys(&store)), (true, 4));
        assert!(matches!(
            book.add(&store, &"x".repeat(LONGEST + 1), "me", false),
            Err(VersionLogError::TooLong(_))
        ));
        // As many as are kept, and two more.
        let mut all: Vec<Line> = (1..=MOST as u64 + 1)
            .map(|version| Line { version, ..book.newest().unwrap().clone() })
            .collect();
        all[1..].iter_mut().for_each(|line| line.text = "none".to_owned());
        book.put(&store, all, "text").unwrap();
        assert_eq!((book.history().len(), book.history()[0].version), (MOST, 2));
        assert!(book.text(&store, 1).is_err());
    }

    #[test]
    fn a_copy_has_the_versions_of_the_other_and_the_newest_text() {
        let folder = tempfile::tempdir().unwrap();
        let there = Embedded::open(&folder.path().join("there"), "all").unwrap();
        let here = Embedded::open(&folder.path().join("here"), "all").unwrap();
        let mut book = VersionLog::default();
        book.add(&there, "one", "me", false).unwrap();
        book.add(&there, "two", "me", false).unwrap();
        let mut copy = VersionLog::default();
        copy.copy(&here, &book, "two").unwrap();
        copy.copy(&here, &book, "two").unwrap();
        assert!(copy.is_as(&book) && VersionLog::read(&here).unwrap().is_as(&book));
        assert_eq!(copy.text(&here, 2).unwrap(), "two");
        assert!(matches!(copy.text(&here, 1), Err(VersionLogError::Unknown(1))));
    }
}
