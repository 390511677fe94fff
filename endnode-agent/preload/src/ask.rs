//! Which way a pair has: by the node's agent, else by the job's file.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use snin_fabric::Lid;
use snin_fabric::job::JobTrees;

use super::say::{self, Once};

/// How long an agent may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 4096;

/// What an address vector is to say. Addresses are LIDs; `from` less `base` is the path bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    pub(super) to: Lid,
    pub(super) from: Lid,
    pub(super) base: Lid,
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
    Ok(way.map(|way| Addresses { to: way.to, from: way.from, base: way.base }))
}

type Answer = Result<Option<Addresses>, String>;

/// A connection for one question: a process that forks has none open.
fn ask_agent(socket: &OsStr, request: &Value) -> std::io::Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(std::io::Read::take(stream, MAX_ANSWER)).read_line(&mut line)?;
    read(&line).ok_or_else(|| std::io::Error::other(format!("not understood: `{line:.60}`")))
}

/// Whether an agent did not hear that a queue pair ended: no other is told of, so that a program with many ends.
static UNHEARD: AtomicBool = AtomicBool::new(false);

/// Tells the agent, where there is one, how far a queue pair came that ends.
pub(super) fn disconnected(job: &str, Connection { queue_pair, expected }: Connection) {
    let Some(socket) = env::var_os("SNIN_AGENT") else { return };
    if UNHEARD.load(Ordering::Relaxed) {
        return;
    }
    let request =
        json!({ "command": "disconnected", "job": job, "qp": queue_pair, "psn": expected });
    if ask_agent(&socket, &request).is_err() {
        UNHEARD.store(true, Ordering::Relaxed);
    }
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
    Some(Ok(Some(Addresses { to: lid("to")?, from: lid("from")?, base: lid("base")? })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_nonsense_is_none() {
        let way = Addresses { to: Lid(41), from: Lid(33), base: Lid(32) };
        assert_eq!(read(r#"{"ok":{"to":41,"from":33,"base":32}}"#), Some(Ok(Some(way))));
        assert_eq!(read(r#"{"ok":null}"#), Some(Ok(None)));
        assert_eq!(read(r#"{"error":"no"}"#), Some(Err("no".to_owned())));
        for nonsense in ["", "7", "{}", r#"{"ok":{"to":41,"from":65536,"base":32}}"#] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }
}
