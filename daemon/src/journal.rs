//! Events as JSON lines: the last ones are kept for who asks later, all go to a file and to who listens.
//!
//! A line is `{"seq": 7, "time": "2026-11-21T07:05:03.123456Z", "event": "SUBNET_UP", ...}`: `seq` counts
//! from 1 for each run of the daemon, so that a listener sees what he missed.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Map, Value};

use crate::control::{Client, Control};
use crate::generations::{Generations, Limit};
use crate::http::{Asked, Follower};

/// So many events are kept ...
const KEPT: usize = 4_096;
/// ... unless their text is longer than this: one of a large fabric may take kilobytes.
const KEPT_BYTES: usize = 1 << 20;

/// So many events of one name are told in a second; more are counted.
const MOST_A_SECOND: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);
/// So many clients of HTTP follow events; the oldest gives way to one more.
const FOLLOWERS: usize = 16;

/// How often an event of one name happened lately.
struct Rate {
    since: Instant,
    told: u32,
    left_out: u64,
}

/// The events of a daemon.
#[derive(Default)]
pub struct Journal {
    seq: u64,
    /// As text, which takes a tenth of what values do.
    last: VecDeque<String>,
    bytes: usize,
    file: Option<Generations>,
    listeners: Vec<Client>,
    /// By HTTP.
    followers: Vec<Follower>,
    cut_off: u64,
    lost: u64,
    /// By name: as many as the daemon's code has names.
    rates: BTreeMap<String, Rate>,
    left_out: u64,
}

impl Journal {
    /// Keeps events in memory only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes every event to the end of a file too, which is begun anew at its limit.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn to_file(path: &Path, limit: Limit) -> io::Result<Self> {
        mend(path)?;
        Ok(Self { file: Some(Generations::open(path, limit)?), ..Self::default() })
    }

    /// Goes on in a new file of the same name, after the old one was moved away.
    ///
    /// # Errors
    /// When it cannot be written; the old one is written on.
    pub fn reopen(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            mend(file.path())?;
            file.reopen()?;
        }
        Ok(())
    }

    /// An event: to every follower, and to the file. `false` where it happens so often that it
    /// is only counted: how many were left out is an event of its own, `EVENTS_LEFT_OUT`.
    pub fn notify(
        &mut self,
        mut control: Option<&mut Control>,
        event: &str,
        fields: Map<String, Value>,
    ) -> bool {
        self.settle(control.as_deref_mut());
        let now = Instant::now();
        if !self.rates.contains_key(event) {
            self.rates.insert(event.to_owned(), Rate { since: now, told: 0, left_out: 0 });
        }
        if let Some(rate) = self.rates.get_mut(event) {
            if now.duration_since(rate.since) >= SECOND {
                (rate.since, rate.told) = (now, 0);
            }
            if rate.told >= MOST_A_SECOND {
                rate.left_out += 1;
                self.left_out += 1;
                return false;
            }
            rate.told += 1;
        }
        self.tell(control, event, fields);
        true
    }

    /// Tells how many events were left out, where that is over.
    pub fn settle(&mut self, mut control: Option<&mut Control>) {
        let over = |rate: &Rate| rate.left_out > 0 && rate.since.elapsed() >= SECOND;
        let names = self.rates.iter_mut().filter(|(_, rate)| over(rate));
        let left_out: Vec<(String, u64)> =
            names.map(|(name, rate)| (name.clone(), std::mem::take(&mut rate.left_out))).collect();
        for (name, count) in left_out {
            let fields = Map::from_iter([
                ("of".to_owned(), name.into()),
                ("count".to_owned(), count.into()),
            ]);
            self.tell(control.as_deref_mut(), "EVENTS_LEFT_OUT", fields);
        }
    }

    fn tell(&mut self, control: Option<&mut Control>, event: &str, fields: Map<String, Value>) {
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
        self.tell_followers(&text);
        if let Some(file) = &mut self.file
            && file.add(text.as_bytes()).is_err()
        {
            self.lost += 1;
        }
        self.keep(text);
    }

    fn tell_followers(&mut self, text: &str) {
        self.followers.retain(|follower| !follower.is_gone());
        let before = self.followers.len();
        self.followers.retain(|follower| follower.tell(text));
        let cut_off = (before - self.followers.len()) as u64;
        if cut_off > 0 {
            self.cut_off += cut_off;
            tracing::warn!(
                "{cut_off} clients that follow events do not read them, and are cut off"
            );
        }
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
        self.texts_since(since).filter_map(|text| serde_json::from_str(text).ok())
    }

    fn texts_since(&self, since: u64) -> impl Iterator<Item = &str> {
        let first = self.seq + 1 - self.last.len() as u64;
        let skip = since.saturating_add(1).saturating_sub(first);
        let kept = self.last.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX));
        kept.map(String::as_str)
    }

    /// The number of the last event.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// From now on every event goes to this one too.
    pub fn follow(&mut self, client: Client) {
        self.listeners.push(client);
    }

    /// Answers a client of HTTP with the events after number `since` that are still kept, and then with every
    /// later one, each a line.
    pub fn answer(&mut self, asked: Asked, since: u64) {
        let follower = asked.follow();
        let kept: String = self.texts_since(since).collect();
        if !kept.is_empty() && !follower.tell(&kept) {
            return;
        }
        self.followers.retain(|follower| !follower.is_gone());
        if self.followers.len() >= FOLLOWERS {
            drop(self.followers.remove(0));
            self.cut_off += 1;
        }
        self.followers.push(follower);
    }

    /// Clients of HTTP that follow events now.
    pub fn followers(&self) -> usize {
        self.followers.iter().filter(|follower| !follower.is_gone()).count()
    }

    /// Clients of HTTP that followed events and were cut off: they did not read, or made room for others.
    pub const fn cut_off(&self) -> u64 {
        self.cut_off
    }

    /// Events that were counted only.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Events that could not be written to the file.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

/// What an end of the process left of a last line is taken away: the next one begins a line.
fn mend(path: &Path) -> io::Result<()> {
    let length = match path.metadata() {
        Ok(found) if found.is_file() => found.len(),
        // What is no file, such as a pipe, has no end.
        _ => return Ok(()),
    };
    let (mut end, mut piece, mut read) = (length, [0; 4_096], File::open(path)?);
    while end > 0 {
        let size = end.min(piece.len() as u64);
        read.seek(SeekFrom::Start(end - size))?;
        let piece = &mut piece[..size as usize];
        read.read_exact(piece)?;
        match piece.iter().rposition(|&byte| byte == b'\n') {
            Some(at) => {
                end = end - size + at as u64 + 1;
                break;
            }
            None => end -= size,
        }
    }
    if end < length {
        OpenOptions::new().append(true).open(path)?.set_len(end)?;
    }
    Ok(())
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
        for n in 0..KEPT + 2 {
            journal.notify(None, &format!("EVENT_{}", n / 50), Map::new());
        }
        assert_eq!(seen(&journal, 0).first(), Some(&3));
        assert_eq!(seen(&journal, KEPT as u64), [KEPT as u64 + 1, KEPT as u64 + 2]);
        assert!(seen(&journal, 1 << 40).is_empty());
        // Large ones push more of them out.
        let large = Map::from_iter([("named".to_owned(), Value::from("x".repeat(KEPT_BYTES / 4)))]);
        (0..9).for_each(|_| {
            let _ = journal.notify(None, "LFT_CHANGE", large.clone());
        });
        assert_eq!(seen(&journal, 0), [KEPT as u64 + 9, KEPT as u64 + 10, KEPT as u64 + 11]);
        assert!(journal.bytes <= KEPT_BYTES);
    }

    #[test]
    fn half_a_line_of_an_earlier_run_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        for (before, left) in [
            ("", ""),
            ("{\"seq\":1}\n", "{\"seq\":1}\n"),
            ("{\"seq\":1}\n{\"se", "{\"seq\":1}\n"),
            ("{\"se", ""),
            (&format!("{{}}\n{}", "x".repeat(10_000)), "{}\n"),
        ] {
            std::fs::write(&path, before).unwrap();
            let mut journal = Journal::to_file(&path, Limit::NONE).unwrap();
            journal.notify(None, "SUBNET_UP", Map::new());
            let text = std::fs::read_to_string(&path).unwrap();
            let event = text.strip_prefix(left).unwrap();
            assert_eq!(serde_json::from_str::<Value>(event).unwrap()["event"], "SUBNET_UP");
        }
        // What is no file is written to as it is.
        Journal::to_file(Path::new("/dev/null"), Limit::NONE).unwrap().notify(
            None,
            "SUBNET_UP",
            Map::new(),
        );
    }

    #[test]
    fn a_flood_of_one_event_leaves_the_others_their_place_and_is_counted() {
        let mut journal = Journal::new();
        let begin = Instant::now();
        journal.notify(None, "SUBNET_UP", Map::new());
        let told = (0..100_000).filter(|_| journal.notify(None, "TRAP", Map::new())).count();
        let flooded = begin.elapsed().as_secs() as usize + 1;
        assert!(told <= flooded * MOST_A_SECOND as usize, "{told}");
        assert_eq!(journal.since(0).next().unwrap()["event"], "SUBNET_UP");
        assert_eq!(journal.left_out() + told as u64, 100_000);
        // When the flood is over it is told how many were left out, once.
        std::thread::sleep(SECOND);
        journal.settle(None);
        journal.settle(None);
        let all: Vec<Value> = journal.since(0).collect();
        let left_out = all.iter().filter(|line| line["event"] == "EVENTS_LEFT_OUT");
        let counts: Vec<u64> = left_out.map(|line| line["count"].as_u64().unwrap()).collect();
        assert_eq!(counts.iter().sum::<u64>(), journal.left_out());
        assert_eq!(all.last().unwrap()["of"], "TRAP");
    }
}
