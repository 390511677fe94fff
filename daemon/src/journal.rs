//! Events as JSON lines: the last ones are kept for who asks later, all go to a file and to who listens.
//!
//! A line is `{"seq": 7, "time": "2026-11-21T07:05:03.123456Z", "event": "SUBNET_UP", ...}`: `seq` counts
//! from 1 for each run of the daemon, so that a listener sees what he missed.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::control::{Client, Control};

/// So many events are kept ...
const KEPT: usize = 4_096;
/// ... unless their text is longer than this: one of a large fabric may take kilobytes.
const KEPT_BYTES: usize = 1 << 20;

/// The events of a daemon.
#[derive(Default)]
pub struct Journal {
    seq: u64,
    /// As text, which takes a tenth of what values do.
    last: VecDeque<String>,
    bytes: usize,
    file: Option<(PathBuf, File)>,
    listeners: Vec<Client>,
    lost: u64,
}

impl Journal {
    /// Keeps events in memory only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes every event to the end of a file too.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Some((path.to_owned(), append(path)?)), ..Self::default() })
    }

    /// Goes on in a new file of the same name, after the old one was moved away.
    ///
    /// # Errors
    /// When it cannot be written; the old one is written on.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Some((path, file)) = &mut self.file {
            *file = append(path)?;
        }
        Ok(())
    }

    /// Something happened: to everybody who listens, and to the file.
    pub fn notify(
        &mut self,
        control: Option<&mut Control>,
        event: &str,
        fields: Map<String, Value>,
    ) {
        self.seq += 1;
        let now = humantime::format_rfc3339_micros(SystemTime::now());
        let mut line = Map::new();
        line.insert("seq".to_owned(), self.seq.into());
        line.insert("time".to_owned(), now.to_string().into());
        line.insert("event".to_owned(), event.into());
        line.extend(fields);
        let line = Value::Object(line);
        if let Some(control) = control {
            self.listeners.retain(|&client| control.line(client, &line));
        }
        let text = format!("{line}\n");
        if let Some((_, file)) = &mut self.file
            && file.write_all(text.as_bytes()).is_err()
        {
            self.lost += 1;
        }
        self.keep(text);
    }

    fn keep(&mut self, text: String) {
        self.bytes += text.len();
        self.last.push_back(text);
        while self.last.len() > KEPT || self.bytes > KEPT_BYTES {
            let Some(oldest) = self.last.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    /// The events after number `since` that are still kept.
    pub fn since(&self, since: u64) -> impl Iterator<Item = Value> {
        let first = self.seq + 1 - self.last.len() as u64;
        let skip = (since + 1).saturating_sub(first);
        let kept = self.last.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX));
        kept.filter_map(|text| serde_json::from_str(text).ok())
    }

    /// The number of the last event.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// From now on every event goes to this one too.
    pub fn follow(&mut self, client: Client) {
        self.listeners.push(client);
    }

    /// Events that could not be written to the file.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_by_number() {
        let mut journal = Journal::new();
        let seen = |journal: &Journal, since| {
            journal.since(since).map(|line| line["seq"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert!(seen(&journal, 0).is_empty());
        for _ in 0..KEPT + 2 {
            journal.notify(None, "TRAP", Map::new());
        }
        assert_eq!(seen(&journal, 0).first(), Some(&3));
        assert_eq!(seen(&journal, KEPT as u64), [KEPT as u64 + 1, KEPT as u64 + 2]);
        assert!(seen(&journal, 1 << 40).is_empty());
        // Large ones push more of them out.
        let large = Map::from_iter([("named".to_owned(), Value::from("x".repeat(KEPT_BYTES / 4)))]);
        (0..9).for_each(|_| journal.notify(None, "LFT_CHANGE", large.clone()));
        assert_eq!(seen(&journal, 0), [KEPT as u64 + 9, KEPT as u64 + 10, KEPT as u64 + 11]);
        assert!(journal.bytes <= KEPT_BYTES);
    }
}
