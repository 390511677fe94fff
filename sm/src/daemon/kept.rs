//! What hosts said and must not be asked again: groups, members, services, subscriptions, further GUIDs.
//!
//! The file `administration` in the state directory has a line a change, appended before the host is answered
//! and forced to the disk once a turn. When it is opened, and when it has grown to many times what counts, it
//! is written anew. A line is a kind, the record's key, and its value in hex as the specification lays it out
//! (`-` where the record is gone), then the stamp of its last change (`@TIME.COUNT@ORIGIN`):
//!
//! ```text
//! group ff12401bffff00000000ffffffff permanent ff12401b...
//! member ff12401bffff00000000ffffffff 0x0002c90300a1b2c3 fe80...c3 1 0
//! service 0000000001064321 ... 1790000000 00000000...
//! subscription 0x0002c90300a1b2c3 5 1 0 0 0000... 0000...
//! alias 0x0002c90300a1b2c3 1 0x0202c90300a1b2c3
//! ```

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use snin_daemon::store;
use snin_daemon::text::{hex, unhex};
use snin_fabric::{Guid, Lid};
use snin_mad::Gid;
use snin_mad::sa::{InformInfo, JoinState, McMemberRecord, Record, ServiceRecord};
use snin_protocol::Time;
use snin_sm_database::records::{
    Group, Kept, KeptRecord, Member, Service, Stamp, Subscriber, Subscription,
};

use tracing::warn;

use super::failure::Failure;

/// What is in the file, for who loses it.
const HOLDS: &str = "multicast groups, services and subscriptions, until hosts register again";
/// Lines beyond which the file is written anew, if they are as many times what counts.
const LINES: usize = 4_096;
const TIMES: usize = 4;

/// The file, or none at all.
#[derive(Debug)]
pub struct KeptFile {
    path: Option<PathBuf>,
    file: Option<File>,
    /// The length of the file's whole lines, where half a one is behind them.
    whole: Option<u64>,
    lines: usize,
    unsynced: bool,
    /// What the process's clock reads when the world's reads 0, in seconds of the epoch.
    epoch: f64,
}

impl KeptFile {
    /// Reads what is there, in order. `now`: what the process's clock reads.
    ///
    /// # Errors
    /// When the file cannot be read, or has lines and none of them is understood. One that is not is left out.
    pub fn open(folder: Option<&Path>, now: Time) -> Result<(Self, Vec<KeptRecord>), Failure> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let epoch = wall.as_secs_f64() - now.nanos() as f64 / 1e9;
        let path = folder.map(|folder| folder.join("administration"));
        let (mut all, mut whole) = (Vec::new(), None);
        if let Some(path) = &path {
            let bytes = match std::fs::read(path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(Failure::file(path)(error)),
            };
            let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            if end < bytes.len() {
                // A manager that died while it wrote left it; no host was answered for it.
                warn!("{}: ends in half a line, which is left out", path.display());
                whole = Some(end as u64);
            }
            all = understood(path, &String::from_utf8_lossy(&bytes[..end]), epoch)?;
        }
        Ok((Self { path, file: None, whole, lines: all.len(), unsynced: false, epoch }, all))
    }

    /// Appends changes. They are safe after [`sync`](Self::sync).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, changes: &[KeptRecord]) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |error| Failure::file(path)(error);
        if self.file.is_none() {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            let opened = OpenOptions::new().create(true).append(true).open(path);
            let file = opened.map_err(failed)?;
            if let Some(end) = self.whole {
                // Else the next line would be of no use either.
                file.set_len(end).map_err(failed)?;
                self.whole = None;
            }
            self.file = Some(file);
        }
        let text: String = changes.iter().map(|kept| line(kept, self.epoch)).collect();
        if let Some(file) = &mut self.file {
            file.write_all(text.as_bytes()).map_err(failed)?;
        }
        self.lines += changes.len();
        self.unsynced = true;
        Ok(())
    }

    /// Forces what was appended to the disk.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn sync(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.unsynced)
            && let (Some(file), Some(path)) = (&self.file, &self.path)
        {
            file.sync_data().map_err(Failure::file(path))?;
        }
        Ok(())
    }

    /// Whether it is worth to be written anew, when this many records count.
    pub const fn is_long(&self, counting: usize) -> bool {
        self.path.is_some() && self.lines > LINES && self.lines / TIMES > counting
    }

    /// Replaces the file by these records.
    ///
    /// # Errors
    /// When it cannot be written; it is then as it was before.
    pub fn rewrite(&mut self, all: &[KeptRecord]) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let text: String = all.iter().map(|kept| line(kept, self.epoch)).collect();
        store::replace(path, text.as_bytes())?;
        (self.file, self.whole, self.lines, self.unsynced) = (None, None, all.len(), false);
        Ok(())
    }
}

/// What the lines of a file say. Those that are not understood - a bad disk's - are left out, unless all are.
fn understood(path: &Path, text: &str, epoch: f64) -> Result<Vec<KeptRecord>, Failure> {
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        match parse(line, epoch) {
            Some(kept) => all.push(kept),
            None => wrong.push(format!("{}: not understood: `{line:.60}`", number + 1)),
        }
    }
    let more = wrong.len().saturating_sub(1);
    match wrong.into_iter().next() {
        Some(what) if all.is_empty() => {
            Err(Failure::State { path: path.to_owned(), what, holds: HOLDS })
        }
        Some(what) => {
            let path = path.display();
            warn!(
                "{path}:{what}; it and {more} more are left out: those hosts have to register again"
            );
            Ok(all)
        }
        None => Ok(all),
    }
}

fn record<R: Record>(text: &str) -> Option<R> {
    R::from_bytes(&unhex(text)?).ok()
}

fn gid(text: &str) -> Option<Gid> {
    unhex(text)?.try_into().ok().map(Gid)
}

fn line(record: &KeptRecord, epoch: f64) -> String {
    let gone = "-".to_owned();
    let (kind, key, value) = match &record.kept {
        Kept::Group(mgid, group) => {
            let value = group.as_ref().map(|group| {
                let kind = if group.permanent { "permanent" } else { "transient" };
                format!("{kind} {}", hex(&group.record.bytes()))
            });
            ("group", hex(&mgid.0), value)
        }
        Kept::Member((mgid, guid), member) => {
            let value = member.map(|Member { port_gid, state, proxy }| {
                format!("{} {} {}", hex(&port_gid.0), state.0, u8::from(proxy))
            });
            ("member", format!("{} {guid}", hex(&mgid.0)), value)
        }
        Kept::Service((id, gid, p_key), service) => {
            let value = service.as_ref().map(|service| {
                let until = service.until.map(|until| epoch + until.nanos() as f64 / 1e9);
                let until = until.map_or_else(|| gone.clone(), |until| format!("{until:.0}"));
                format!("{until} {}", hex(&service.record.bytes()))
            });
            ("service", format!("{id:#x} {} {p_key:#x}", hex(&gid.0)), value)
        }
        Kept::Subscription(subscriber, subscription) => {
            let Subscriber { port, lid, qp, to } = subscriber;
            let value = subscription.as_ref().map(|Subscription { info, sl, trusted }| {
                format!("{} {sl} {}", hex(&info.bytes()), u8::from(*trusted))
            });
            ("subscription", format!("{port} {lid} {qp} {}", hex(to)), value)
        }
        Kept::Alias((port, entry), alias) => {
            ("alias", format!("{port} {entry}"), alias.map(|alias| alias.to_string()))
        }
    };
    let stamp = record.stamp.map_or_else(String::new, |Stamp { time, count, origin }| {
        format!(" @{}.{count}@{origin}", time.0)
    });
    format!("{kind} {key} {}{stamp}\n", value.unwrap_or(gone))
}

fn stamp(word: &str) -> Option<Stamp> {
    let (time, origin) = word.split_once('@')?;
    let (time, count) = time.split_once('.')?;
    let (time, origin) = (Time(time.parse().ok()?), origin.parse().ok()?);
    Some(Stamp { time, count: count.parse().ok()?, origin })
}

/// What [`line`] wrote, or a version that did not keep stamps.
fn parse(line: &str, epoch: f64) -> Option<KeptRecord> {
    match line.rsplit_once(" @") {
        Some((line, word)) => {
            Some(KeptRecord { kept: parse_kept(line, epoch)?, stamp: Some(stamp(word)?) })
        }
        None => parse_kept(line, epoch).map(KeptRecord::from),
    }
}

fn parse_kept(line: &str, epoch: f64) -> Option<Kept> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |text: &str| {
        let text = text.strip_prefix("0x")?;
        u64::from_str_radix(text, 16).ok()
    };
    let guid = |text: &str| text.parse::<Guid>().ok();
    Some(match words[..] {
        ["group", mgid, "-"] => Kept::Group(gid(mgid)?, None),
        ["group", mgid, kind, value] => {
            let permanent = match kind {
                "permanent" => true,
                "transient" => false,
                _ => return None,
            };
            let record: McMemberRecord = record(value)?;
            Kept::Group(gid(mgid)?, Some(Group { record, permanent }))
        }
        ["member", mgid, port, "-"] => Kept::Member((gid(mgid)?, guid(port)?), None),
        ["member", mgid, port, port_gid, state, proxy] => {
            let (state, proxy) = (JoinState(state.parse().ok()?), proxy == "1");
            let member = Member { port_gid: gid(port_gid)?, state, proxy };
            Kept::Member((gid(mgid)?, guid(port)?), Some(member))
        }
        ["service", id, port, p_key, "-"] => {
            let p_key = u16::try_from(number(p_key)?).ok()?;
            Kept::Service((number(id)?, gid(port)?, p_key), None)
        }
        ["service", id, port, p_key, until, value] => {
            let p_key = u16::try_from(number(p_key)?).ok()?;
            let until = match until {
                "-" => None,
                seconds => {
                    let left = seconds.parse::<f64>().ok()? - epoch;
                    Some(Time((left.max(0.0) * 1e9) as u64))
                }
            };
            let record: ServiceRecord = record(value)?;
            Kept::Service((number(id)?, gid(port)?, p_key), Some(Service { record, until }))
        }
        ["subscription", port, lid, qp, to, ref value @ ..] => {
            let to: [u8; 40] = unhex(to)?.try_into().ok()?;
            let (lid, qp) = (Lid(lid.parse().ok()?), qp.parse().ok()?);
            let subscriber = Subscriber { port: guid(port)?, lid, qp, to };
            let subscription = match *value {
                ["-"] => None,
                [info, sl, trusted] => {
                    let info: InformInfo = record(info)?;
                    let (sl, trusted) = (sl.parse().ok()?, trusted == "1");
                    Some(Subscription { info, sl, trusted })
                }
                _ => return None,
            };
            Kept::Subscription(subscriber, subscription)
        }
        ["alias", port, entry, "-"] => Kept::Alias((guid(port)?, entry.parse().ok()?), None),
        ["alias", port, entry, alias] => {
            Kept::Alias((guid(port)?, entry.parse().ok()?), Some(guid(alias)?))
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<KeptRecord> {
        let gid = |n| Gid([n; 16]);
        let record =
            McMemberRecord { mgid: gid(7), mlid: Lid(0xC001), ..McMemberRecord::default() };
        let member = Member { port_gid: gid(2), state: JoinState(5), proxy: true };
        let service = ServiceRecord { id: 9, lease: 60, ..ServiceRecord::default() };
        let until = Some(Time::secs(100));
        let subscriber = Subscriber { port: Guid(1), lid: Lid(5), qp: 1, to: [3; 40] };
        let info = InformInfo { kind: 3, trap_number: 64, ..InformInfo::default() };
        let subscription = Subscription { info, sl: 2, trusted: true };
        let all = vec![
            Kept::Group(gid(7), Some(Group { record, permanent: true })),
            Kept::Group(gid(8), None),
            Kept::Member((gid(7), Guid(2)), Some(member)),
            Kept::Member((gid(7), Guid(3)), None),
            Kept::Service((9, gid(1), 0xFFFF), Some(Service { record: service.clone(), until })),
            Kept::Service((9, gid(2), 0xFFFF), Some(Service { record: service, until: None })),
            Kept::Service((10, gid(1), 0xFFFF), None),
            Kept::Subscription(subscriber.clone(), Some(subscription)),
            Kept::Subscription(subscriber, None),
            Kept::Alias((Guid(1), 4), Some(Guid(5))),
            Kept::Alias((Guid(1), 5), None),
        ];
        // The first one is of a version without stamps.
        let stamp = |n| Stamp { time: Time(u64::MAX - n), count: 3, origin: Guid(0x77) };
        let stamp = |n: u64| Some(n).filter(|n| *n > 0).map(stamp);
        all.into_iter().zip(0..).map(|(kept, n)| KeptRecord { kept, stamp: stamp(n) }).collect()
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("state");
        let (mut file, nothing) = KeptFile::open(Some(&folder), Time::ZERO).unwrap();
        assert!(nothing.is_empty());
        file.append(&all()).unwrap();
        file.sync().unwrap();
        let text = std::fs::read_to_string(folder.join("administration")).unwrap();
        let half = format!("{text}member ff12");
        std::fs::write(folder.join("administration"), half).unwrap();
        let (mut file, read) = KeptFile::open(Some(&folder), Time::ZERO).unwrap();
        assert_eq!(read.len(), all().len());
        for (read, written) in read.iter().zip(all()) {
            assert_eq!(read.stamp, written.stamp);
            match (&read.kept, &written.kept) {
                // A lease ends by the world's clock, which is read twice.
                (Kept::Service(a, Some(read)), Kept::Service(b, Some(written))) => {
                    assert_eq!((a, &read.record), (b, &written.record));
                    let left = |until: Option<Time>| until.map(|until| until.as_secs());
                    let (read, written) = (left(read.until), left(written.until));
                    assert_eq!(read.is_some(), written.is_some());
                    assert!((read.unwrap_or(0.0) - written.unwrap_or(0.0)).abs() < 60.0);
                }
                (read, written) => assert_eq!(read, written),
            }
        }
        file.rewrite(&all()[..1]).unwrap();
        assert_eq!(KeptFile::open(Some(&folder), Time::ZERO).unwrap().1, all()[..1]);
    }

    #[test]
    fn what_is_wrong_is_left_out_unless_nothing_is_right() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("administration");
        let open = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            KeptFile::open(Some(folder.path()), Time::ZERO).map(|(_, all)| all.len())
        };
        let error = open(b"group 12 -\nalias\n").unwrap_err().to_string();
        let told = "administration:1: not understood: `group 12 -`; lost with it: multicast groups";
        let cure = format!("; `mv {0} {0}.bad` puts it aside", path.display());
        assert!(error.contains(told) && error.ends_with(&cure), "{error}");
        assert_eq!(open(b"alias 0x1 1 -\ngroup 12 -\n\xFF\xFE\nalias 0x1 2 -\n").unwrap(), 2);
        assert_eq!((open(b"").unwrap(), open(b"alias").unwrap()), (0, 0));
    }

    /// Lengths that a file can have after an end of the process in the middle of a write.
    #[test]
    fn half_a_line_is_left_out_and_the_next_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("administration");
        let text: String = all().iter().map(|kept| line(kept, 0.0)).collect();
        for end in (0..text.len()).step_by(7) {
            std::fs::write(&path, &text[..end]).unwrap();
            let (mut file, read) = KeptFile::open(Some(folder.path()), Time::ZERO).unwrap();
            assert_eq!(read.len(), text[..end].matches('\n').count(), "cut at {end}");
            file.append(&all()[9..]).unwrap();
            file.sync().unwrap();
            let (_, again) = KeptFile::open(Some(folder.path()), Time::ZERO).unwrap();
            assert_eq!(again[read.len()..], all()[9..], "cut at {end}");
            assert!(std::fs::read(&path).unwrap().ends_with(b"\n"));
        }
    }
}
