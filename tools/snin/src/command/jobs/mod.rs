//! `snin job`: links and an environment for a job of any launcher.

mod environment;
mod hooks;
mod install;
mod reconcile;
mod settings;
mod stats;
mod topology;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use snin_daemon::control::{Connection, ControlError};
use snin_daemon::store;
use snin_fabric::Guid;
use snin_fabric::job::{JobHost, JobTrees, file_name};
use snin_fabric::names::is_called;
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::operator::controller::{
    CreateSlice, DeleteSlice, GetSliceTrees, SetCollective, Slice, SliceDeleted, SliceMade,
    SliceTrees,
};
use snin_protocol::operator::{Document, Operation, SCHEMA_VERSION};

use crate::Verdict;
use crate::cli::jobs::{Job, JobSettings};
use crate::failure::Failure;
use crate::output::{Output, Target};

use environment::Process;
use settings::Checked;

pub(crate) use hooks::run as hook;
pub(crate) use install::run as slurm;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often room is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Does what is asked.
pub(crate) fn run<W: Write>(asked: &Job, out: &mut Output<W>) -> Result<Verdict, Failure> {
    match asked {
        Job::Begin { job, hosts, shared, collective, wait, settings } => {
            let checked = read(settings)?;
            let wanted = CreateSlice {
                owner: job.clone(),
                count: hosts.hosts,
                hosts: hosts.on.clone(),
                shared: Some(*shared),
            };
            let until = Instant::now() + Duration::from_nanos(wait.map_or(0, Time::nanos));
            let begun = Begun::of(job, begin(&checked, &wanted, until))?;
            if begun.begun && collective.is_some() {
                set_collective(&checked, job, *collective)?;
            }
            let json = Target::open(settings.format.json.as_deref())?;
            out.report(json, &begun, |out| out.line(&begun))?;
            Ok(if begun.begun { Verdict::Well } else { Verdict::Unwell })
        }
        Job::End { job, settings } => {
            let document = end(&read(settings)?, job)?;
            let json = Target::open(settings.format.json.as_deref())?;
            let had = if document.answer.deleted { "are given back" } else { "there were none" };
            out.report(json, &document, |out| out.line(format!("links of {job}: {had}")))?;
            Ok(Verdict::Well)
        }
        Job::Env { .. } => print_environment(asked, out),
        Job::Stats { job, agents, settings } => stats::run(job, agents, settings, out),
        Job::Reconcile { every, settings } => reconcile::run(*every, settings, out),
    }
}

fn read(asked: &JobSettings) -> Result<Checked, Failure> {
    settings::read(&asked.config, asked.socket.as_deref())
}

fn ask<O: Operation>(settings: &Checked, operation: &O) -> Result<Document<O::Answer>, Failure> {
    Ok(Connection::open(settings.controller(), Some(PATIENCE))?.request(operation)?)
}

/// Makes the slice of a job, and waits for room; the same again changes nothing.
fn begin(
    settings: &Checked,
    wanted: &CreateSlice,
    until: Instant,
) -> Result<Document<SliceMade>, Failure> {
    patiently(until, true, || ask(settings, wanted))
}

/// Has the hosts of a job take part in a collective; where there can be none, the job has no links either.
fn set_collective(
    settings: &Checked,
    job: &str,
    kind: Option<CollectiveKind>,
) -> Result<(), Failure> {
    let wanted = SetCollective { owner: job.to_owned(), kind, ..SetCollective::default() };
    let set = ask(settings, &wanted);
    if set.is_err() {
        end(settings, job)?;
    }
    set.map(drop)
}

/// Asks again until then while the controller does not answer; with `refused` also while it refuses.
fn patiently<T>(
    until: Instant,
    refused: bool,
    mut what: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        let answer = what();
        let again = match &answer {
            Err(Failure::Daemon(ControlError::Refused(_) | ControlError::NoRoom(_))) => refused,
            Err(Failure::Daemon(_)) => true,
            _ => false,
        };
        if !again || Instant::now() >= until {
            return answer;
        }
        sleep(LOOK);
    }
}

/// What `snin job begin` says.
#[derive(Serialize)]
struct Begun {
    schema_version: u32,
    job: String,
    begun: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(flatten)]
    made: Option<SliceMade>,
}

impl Begun {
    fn of(job: &str, answer: Result<Document<SliceMade>, Failure>) -> Result<Self, Failure> {
        let (made, why) = match answer {
            Ok(document) => (Some(document.answer), None),
            Err(Failure::Daemon(ControlError::Refused(why) | ControlError::NoRoom(why))) => {
                (None, Some(why))
            }
            Err(failure) => return Err(failure),
        };
        let (schema_version, begun) = (SCHEMA_VERSION, made.is_some());
        Ok(Self { schema_version, job: job.to_owned(), begun, why, made })
    }
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        match &self.made {
            Some(SliceMade { slice: Slice { hosts, links, .. }, .. }) => {
                write!(f, "{job}: {} hosts ({}), {links} links", hosts.len(), hosts.join(", "))
            }
            None => write!(f, "no links for {job}: {}", self.why.as_deref().unwrap_or_default()),
        }
    }
}

fn end(settings: &Checked, job: &str) -> Result<Document<SliceDeleted>, Failure> {
    ask(settings, &DeleteSlice { owner: job.to_owned() })
}

/// The trees of a job, by the controller; `pairs` of ports have trees of their own.
fn trees(
    settings: &Checked,
    job: &str,
    user: Option<u32>,
    pairs: &[(Guid, Guid)],
) -> Result<JobTrees, Failure> {
    let pairs = Some(pairs.to_vec());
    let asked = GetSliceTrees { owner: job.to_owned(), uid: user, pairs };
    let SliceTrees { text, .. } = ask(settings, &asked)?.answer;
    let place = settings.controller().display().to_string();
    text.parse().map_err(|error| Failure::content(&place, error))
}

/// Where the trees of a job are on this node.
fn file(settings: &Checked, job: &str) -> PathBuf {
    settings.jobs().join(file_name(job))
}

/// Puts the trees of a job where its programs look for them.
fn put(settings: &Checked, trees: &JobTrees) -> Result<PathBuf, Failure> {
    let (folder, path) = (settings.jobs(), file(settings, trees.owner()));
    std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    store::replace(&path, trees.to_string().as_bytes())?;
    open_to_all(&path)?;
    Ok(path)
}

/// Programs of any user read it.
fn open_to_all(path: &std::path::Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let all = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(path, all).map_err(Failure::file(path))
}

/// The host that a node's name means, or its port's GUID; of several adapters the first.
fn host<'a>(trees: &'a JobTrees, node: &str) -> Option<&'a JobHost> {
    trees.hosts().iter().find(|host| is_named(&host.name, &host.port.to_string(), node))
}

fn is_named(name: &str, port: &str, node: &str) -> bool {
    is_called(name, node) || port == node
}

fn print_environment<W: Write>(asked: &Job, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let Job::Env { job, host: node, libraries, one_tree, uid, dry_run, settings } = asked else {
        return Ok(Verdict::Well);
    };
    let checked = read(settings)?;
    let trees = trees(&checked, job, *uid, &[])?;
    let unknown = || Failure::Job(format!("job {job} has no host {node}"));
    let host = host(&trees, node).ok_or_else(unknown)?;
    let path = if *dry_run { file(&checked, job) } else { put(&checked, &trees)? };
    let preloaded = std::env::var("LD_PRELOAD").ok();
    let process = Process { settings: &checked.value, trees: &trees, host, file: &path, preloaded };
    let variables = process.variables(libraries, *one_tree).map_err(Failure::Job)?;
    let json = Target::open(settings.format.json.as_deref())?;
    let document: BTreeMap<&str, &String> =
        variables.iter().map(|(name, value)| (*name, value)).collect();
    out.report(json, &document, |out| {
        variables
            .iter()
            .try_for_each(|(name, value)| out.line(format!("export {name}={}", quoted(value))))
    })?;
    Ok(Verdict::Well)
}

/// As a shell reads it back.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._:/@+-=,%".contains(&b);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_from_a_shell_as_they_were() {
        assert_eq!(quoted("/lib/a.so:/lib/b.so"), "/lib/a.so:/lib/b.so");
        assert_eq!(quoted("verbs;ofi_rxm"), "'verbs;ofi_rxm'");
        assert_eq!(quoted("a'b"), "'a'\\''b'");
    }

    #[test]
    fn a_node_is_its_adapters_first_word() {
        assert!(is_named("node7 mlx5_0", "0x1", "node7"));
        assert!(is_named("node7", "0x1", "node7") && is_named("x", "0x1", "0x1"));
        assert!(!is_named("node77 mlx5_0", "0x1", "node7"));
    }
}
