//! Which way a pair has: by the node's agent, else by the job's file.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use serde_json::{Value, json};
use snin_fabric::Lid;
use snin_fabric::job::JobTrees;

use super::say::{self, Once};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// An agent that did not answer in time is asked nothing for so many seconds by this process: a program with a
/// thousand pairs waits once, not a thousand times.
const PAUSE: u64 = 30;
/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 4096;

/// What an address vector is to say. Addresses are LIDs; `from` less `base` is the path bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    pub(super) to: Lid,
    pub(super) from: Lid,
    pub(super) base: Lid,
    /// The service level; 0: what the program has.
    pub(super) sl: u8,
}

/// A queue pair, and the number of the packet that it expects next: from then on an agent counts what comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Connection {
    pub(super) queue_pair: u32,
    pub(super) expected: u32,
}

/// Why a pair has no way along the job's trees.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// Refused: an agent or a file says so.
    #[error("{0}")]
    Refused(String),
    /// Nothing that could be asked.
    #[error(
        "job {job}: neither an agent (SNIN_AGENT) nor a file (SNIN_JOB_FILE) says which trees it has"
    )]
    NothingToAsk { job: String },
}

/// Whether variable `name` is set to something other than 0.
pub(super) fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The job, where this process belongs to one.
pub(super) fn job() -> Option<String> {
    env::var("SNIN_JOB").ok().filter(|job| !job.is_empty())
}

/// The addresses of both ends, as the end with address `own` has them; `None` where no packet leaves the port.
///
/// # Errors
/// When there is no way, or it cannot be learnt.
pub(super) fn way(
    job: &str,
    (own, peer): (Lid, Lid),
    connection: Option<Connection>,
) -> Result<Option<Addresses>, Unanswered> {
    let file = env::var_os("SNIN_JOB_FILE");
    if let Some(socket) = env::var_os("SNIN_AGENT") {
        let mut request = json!({ "command": "pair", "job": job, "from": own.0, "to": peer.0 });
        if let Some(Connection { queue_pair, expected }) = connection {
            request["qp"] = queue_pair.into();
            request["psn"] = expected.into();
        }
        match ask_agent(&socket, &request) {
            Ok(answer) => return answer.map_err(Unanswered::Refused),
            Err(error) => {
                let socket = socket.display();
                let next = if file.is_some() { ": its file is used" } else { "" };
                say::once(
                    Once::NoAgent,
                    format!("job {job}: no agent answers at {socket} ({error}){next}"),
                );
            }
        }
    }
    let Some(file) = file else {
        return Err(Unanswered::NothingToAsk { job: job.to_owned() });
    };
    let named = |what: String| format!("{}:{what}", file.display());
    let text = fs::read_to_string(&file).map_err(|error| named(format!(" {error}")));
    let trees =
        text.and_then(|text| text.parse::<JobTrees>().map_err(|error| named(error.to_string())));
    let trees = trees.map_err(|why| {
        say::once(Once::NoFile, &why);
        Unanswered::Refused(why)
    })?;
    let way = trees.way(own, peer).map_err(|why| Unanswered::Refused(why.to_string()))?;
    Ok(way.map(|way| Addresses { to: way.to, from: way.from, base: way.base, sl: way.sl }))
}

type Answer = Result<Option<Addresses>, String>;

/// Until when an agent that did not answer in time is asked nothing: seconds since 1970. A number and no lock, so
/// that a process may fork at any moment.
static SILENT_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Asks the agent, unless it did not answer shortly before.
fn ask_agent(socket: &OsStr, request: &Value) -> io::Result<Answer> {
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let until = SILENT_UNTIL.load(Ordering::Relaxed);
    // A clock that was put back keeps it from being asked no longer than that.
    if (now + 1..=now + PATIENCE.as_secs() + PAUSE).contains(&until) {
        let why = format!("it did not answer in time, and is asked again in {} s", until - now);
        return Err(io::Error::new(ErrorKind::TimedOut, why));
    }
    let answer = exchange(socket, request);
    if answer
        .as_ref()
        .is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    {
        SILENT_UNTIL.store(now + PATIENCE.as_secs() + PAUSE, Ordering::Relaxed);
    }
    answer
}

/// A connection for one question: a process that forks has none open.
fn exchange(socket: &OsStr, request: &Value) -> io::Result<Answer> {
    let mut stream = connect(socket)?;
    let sent = stream.write_all(format!("{request}\n").as_bytes());
    let mut line = String::new();
    let heard = BufReader::new(io::Read::take(stream, MAX_ANSWER)).read_line(&mut line);
    // One that does not hear the question has said why, if it could.
    match (read(&line), sent) {
        (Some(answer), _) => Ok(answer),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => {
            heard?;
            Err(io::Error::other(format!("not understood: `{line:.60}`")))
        }
    }
}

/// Connects: also that takes no longer than an answer may, where too many wait for an agent that stands still.
fn connect(socket: &OsStr) -> io::Result<UnixStream> {
    let kind = SocketType::STREAM;
    let ours = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    for what in [sockopt::Timeout::Send, sockopt::Timeout::Recv] {
        sockopt::set_socket_timeout(&ours, what, Some(PATIENCE))?;
    }
    rustix::net::connect(&ours, &SocketAddrUnix::new(socket)?)?;
    Ok(UnixStream::from(ours))
}

/// Tells the agent, where there is one, how far a queue pair came that ends.
pub(super) fn disconnected(job: &str, Connection { queue_pair, expected }: Connection) {
    let Some(socket) = env::var_os("SNIN_AGENT") else { return };
    let request =
        json!({ "command": "disconnected", "job": job, "qp": queue_pair, "psn": expected });
    // It counts less then: the program is not kept from its end for that.
    let _ = ask_agent(&socket, &request);
}

fn read(line: &str) -> Option<Answer> {
    let answer: Value = serde_json::from_str(line).ok()?;
    if let Some(why) = answer["error"].as_str() {
        return Some(Err(why.to_owned()));
    }
    let pair = answer.get("ok")?;
    if pair.is_null() {
        return Some(Ok(None));
    }
    let lid = |key: &str| Some(Lid(u16::try_from(pair[key].as_u64()?).ok()?));
    // An agent of an earlier version says none.
    let sl =
        pair["sl"].as_u64().and_then(|sl| u8::try_from(sl).ok()).filter(|&sl| sl < 16).unwrap_or(0);
    Some(Ok(Some(Addresses { to: lid("to")?, from: lid("from")?, base: lid("base")?, sl })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The agent's socket takes connections, but the agent does not answer: the first question waits, and those
    /// after it do not. With as many waiting as may be the connection itself would wait.
    #[test]
    fn an_agent_that_stands_still_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let request = json!({ "command": "pair" });
        let began = std::time::Instant::now();
        let asked = || ask_agent(socket.as_os_str(), &request).unwrap_err();
        assert_eq!(asked().kind(), ErrorKind::WouldBlock);
        assert!(began.elapsed() >= PATIENCE);
        for _ in 0..1000 {
            let why = asked().to_string();
            assert!(why.starts_with("it did not answer in time, and is asked again in "), "{why}");
        }
        assert!(began.elapsed() < 3 * PATIENCE, "{:?}", began.elapsed());
        // Its clock was put back by a day: it is asked.
        SILENT_UNTIL.fetch_add(86_400, Ordering::Relaxed);
        drop(listener);
        assert_eq!(asked().kind(), ErrorKind::ConnectionRefused);
        SILENT_UNTIL.store(0, Ordering::Relaxed);
        let listener =
            std::os::unix::net::UnixListener::bind(folder.path().join("full.sock")).unwrap();
        let full = folder.path().join("full.sock");
        let waiting: Vec<_> = std::iter::from_fn(|| {
            let one = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::NONBLOCK,
                None,
            )
            .unwrap();
            rustix::net::connect(&one, &SocketAddrUnix::new(&full).unwrap()).ok().map(|()| one)
        })
        .collect();
        assert!(!waiting.is_empty());
        assert_eq!(connect(full.as_os_str()).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listener);
    }

    #[test]
    fn answers_are_read_and_nonsense_is_none() {
        let way = Addresses { to: Lid(41), from: Lid(33), base: Lid(32), sl: 0 };
        assert_eq!(read(r#"{"ok":{"to":41,"from":33,"base":32}}"#), Some(Ok(Some(way))));
        for (told, sl) in [(1, 1), (15, 15), (16, 0)] {
            let said = format!(r#"{{"ok":{{"to":41,"from":33,"base":32,"sl":{told}}}}}"#);
            assert_eq!(read(&said), Some(Ok(Some(Addresses { sl, ..way }))));
        }
        assert_eq!(read(r#"{"ok":null}"#), Some(Ok(None)));
        assert_eq!(read(r#"{"error":"no"}"#), Some(Err("no".to_owned())));
        for nonsense in ["", "7", "{}", r#"{"ok":{"to":41,"from":65536,"base":32}}"#] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
