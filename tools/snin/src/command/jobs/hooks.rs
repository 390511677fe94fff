//! `snin hook`: what Slurm calls when a job begins and ends.
//!
//! Beside slurmctld a slice is made and given back; on the job's nodes its trees are fetched and each task is
//! given its environment. A hook that fails says why in one line on stderr, which Slurm logs; what is for the
//! user goes to the job's output by the task prolog.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::Write;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use clap::ValueEnum as _;
use snin_daemon::control::{Connection, ControlError};
use snin_daemon::store;
use snin_fabric::Guid;
use snin_fabric::job::{JobTrees, Mode, file_name};
use snin_fabric::names::node_name;
use snin_protocol::collective::CollectiveKind;
use snin_protocol::operator::agent::{BeginJob, GetJobs};
use snin_protocol::operator::controller::{CreateSlice, ExplainSlice, GetFabric, Host};

use super::environment::Process;
use super::settings::{Checked, NoRoom};
use super::stats;
use super::{
    PATIENCE, ask, begin, end, file, host, is_named, open_to_all, patiently, put, set_collective,
    settings, trees,
};
use crate::Verdict;
use crate::cli::jobs::{Hook, HookName};
use crate::failure::Failure;
use crate::output::{Output, note};

/// What --snin may be.
const FORM: &str =
    "slice, pinned, off, or a pattern: ring, bidir, hd, alltoall, grid:AxB, halo:AxB";

/// What a job asked for, by plugin or comment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wish {
    mode: Mode,
    collective: Option<CollectiveKind>,
    wait: Duration,
}

/// Does what a hook is for.
pub(crate) fn run<W: Write>(asked: &Hook, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let settings = settings::read(&asked.config, None)?;
    let number = variable("SLURM_JOB_ID")?;
    let job = format!("slurm/{number}");
    let done = match asked.hook {
        HookName::PrologSlurmctld => prolog_slurmctld(&settings, &job, &number),
        HookName::EpilogSlurmctld => epilog_slurmctld(&settings, &job),
        HookName::Prolog => prolog(&settings, &job).inspect_err(|failure| tell(&number, failure)),
        HookName::Epilog => epilog(&settings, &job),
        HookName::TaskProlog => task_prolog(&settings, &job, out),
        HookName::TaskEpilog => Ok(task_epilog(&settings, &job)),
    };
    done.inspect_err(|failure| log(&settings, asked.hook, &job, failure))
}

/// A line in the hooks' file; where that cannot be written, stderr has it still.
fn log(settings: &Checked, hook: HookName, job: &str, failure: &Failure) {
    let path = &settings.value.log_file;
    if path.is_empty() {
        return;
    }
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let hook = hook.to_possible_value();
    let hook = hook.as_ref().map_or("hook", |hook| hook.get_name());
    let line = format!("{now} {hook} {job}: {failure}\n");
    let file = fs::OpenOptions::new().append(true).create(true).open(path);
    // Where it cannot be written stderr has the line still.
    let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
}

fn variable(name: &str) -> Result<String, Failure> {
    env::var(name).map_err(|_| Failure::Job(format!("{name} is not set: Slurm calls this")))
}

/// The plugin's options arrive as SPANK_SNIN and SPANK_SNIN_WAIT; without it they are words of the comment.
fn wish(settings: &Checked) -> Result<Wish, Failure> {
    let comment = env::var("SLURM_JOB_COMMENT").unwrap_or_default();
    let asked = |plugin: &str, word: &str| {
        let word = comment.split_whitespace().find_map(|one| one.strip_prefix(word));
        env::var(plugin).ok().or_else(|| word.map(str::to_owned))
    };
    let wrong = |text: &str| Failure::Job(format!("--snin={text:.40}: {FORM}"));
    let (mode, collective) = match asked("SPANK_SNIN", "--snin=") {
        None => (settings.mode, None),
        Some(text) => match Mode::parse(&text).ok_or_else(|| wrong(&text))? {
            Mode::Collective => {
                let kind = text.parse();
                (
                    Mode::Collective,
                    Some(kind.map_err(|why| Failure::Job(format!("--snin: {why}")))?),
                )
            }
            mode => (mode, None),
        },
    };
    let wait = match asked("SPANK_SNIN_WAIT", "--snin-wait=") {
        None => Duration::from_millis(settings.value.wait_ms),
        Some(text) => humantime::parse_duration(&text)
            .map_err(|error| Failure::Job(format!("--snin-wait={text:.40}: {error}")))?,
    };
    Ok(Wish { mode, collective, wait })
}

/// The names of a job's nodes, as Slurm itself reads the list.
fn nodes() -> Result<Vec<String>, Failure> {
    let list = variable("SLURM_JOB_NODELIST")?;
    let said = run_slurm("scontrol", &["show", "hostnames", &list])?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

/// What a program of Slurm says.
pub(super) fn run_slurm(program: &str, arguments: &[&str]) -> Result<String, Failure> {
    slurm_says(Command::new(program).args(arguments))
}

/// The same of a program with an environment of its own.
pub(super) fn slurm_says(command: &mut Command) -> Result<String, Failure> {
    let called = |command: &Command| {
        let words = iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    let output = command.output();
    let output = output.map_err(|error| Failure::Job(format!("{}: {error}", called(command))))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().next().unwrap_or("no word why");
        return Err(Failure::Job(format!("{}: {why}", called(command))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The job's user, whose programs alone are told its trees.
fn user() -> Option<u32> {
    env::var("SLURM_JOB_UID").ok().and_then(|text| text.parse().ok())
}

/// Both directions between the first node and the second, the third and the fourth, and so on, where pairs are to
/// be pinned. Of a node with several ports the n-th is paired with the n-th.
fn pairs(mode: Mode, ports: &[Vec<Guid>]) -> Vec<(Guid, Guid)> {
    if mode != Mode::Pinned {
        return Vec::new();
    }
    let pairs = ports.chunks_exact(2).flat_map(|two| two[0].iter().zip(&two[1]));
    pairs.flat_map(|(&a, &b)| [(a, b), (b, a)]).collect()
}

/// The same on a node, where there is no folder that tells it.
fn asked_pairs(settings: &Checked) -> Result<Vec<(Guid, Guid)>, Failure> {
    match wish(settings)?.mode {
        Mode::Pinned => Ok(pairs(Mode::Pinned, &ports(settings, &nodes()?)?)),
        Mode::Slice | Mode::Collective | Mode::Off => Ok(Vec::new()),
    }
}

/// The ports of each of these nodes, by the controller's names of hosts.
fn ports(settings: &Checked, nodes: &[String]) -> Result<Vec<Vec<Guid>>, Failure> {
    let names = Some(nodes.iter().cloned().collect());
    let fabric = ask(settings, &GetFabric { names })?.answer;
    let mut by_name: BTreeMap<String, Vec<Guid>> = BTreeMap::new();
    for Host { name, port, .. } in fabric.hosts {
        let node = node_name(&name).filter(|node| *node != name).map(str::to_owned);
        if let Some(node) = node {
            by_name.entry(node).or_default().push(port);
        }
        by_name.entry(name).or_default().push(port);
    }
    let mut found = Vec::new();
    for node in nodes {
        let ports = by_name.get(node).ok_or_else(|| {
            Failure::Job(format!("node {node} is no host of the fabric (`snin controller fabric`)"))
        })?;
        found.push(ports.clone());
    }
    Ok(found)
}

fn prolog_slurmctld(settings: &Checked, job: &str, number: &str) -> Result<Verdict, Failure> {
    let wish = wish(settings)?;
    if wish.mode == Mode::Off {
        return Ok(Verdict::Well);
    }
    let made = make(settings, job, wish);
    let Err(failure) = made else { return Ok(Verdict::Well) };
    tell(number, &failure);
    match settings.no_room {
        // Slurm puts a job back into the queue whose prolog fails here.
        NoRoom::Requeue => Err(failure),
        NoRoom::Hold => {
            run_slurm("scontrol", &["requeuehold", number])?;
            Err(failure)
        }
        NoRoom::Shared => {
            note(format!("{job} runs without links of its own: {failure}"));
            share(settings, job, &format!("none {failure}\n"))?;
            Ok(Verdict::Well)
        }
    }
}

/// A line that `scontrol show job` shows the user.
fn tell(number: &str, failure: &Failure) {
    let told = format!("AdminComment=snin: {failure}");
    // The job may be gone already.
    let _ = run_slurm("scontrol", &["update", &format!("JobId={number}"), &told]);
}

fn make(settings: &Checked, job: &str, wish: Wish) -> Result<(), Failure> {
    let until = Instant::now() + wish.wait;
    let nodes = nodes()?;
    let ports = patiently(until, false, || ports(settings, &nodes))?;
    let pairs = pairs(wish.mode, &ports);
    let ports: BTreeSet<Guid> = ports.into_iter().flatten().collect();
    let wanted = CreateSlice {
        owner: job.to_owned(),
        count: None,
        hosts: Some(ports.iter().map(Guid::to_string).collect()),
        shared: Some(!settings.value.alone),
    };
    // A job that was put back into the queue may come again with other nodes.
    let asked = ExplainSlice { owner: Some(job.to_owned()), ..ExplainSlice::default() };
    let existing = ask(settings, &asked).ok().and_then(|document| document.answer.slice);
    if existing.is_some_and(|slice| slice.ports.into_iter().collect::<BTreeSet<_>>() != ports) {
        end(settings, job)?;
    }
    begin(settings, &wanted, until)?;
    if wish.collective.is_some() {
        set_collective(settings, job, wish.collective)?;
    }
    let given = trees(settings, job, user(), &pairs)
        .and_then(|trees| share(settings, job, &trees.to_string()));
    if given.is_err() {
        // The job does not run, so it keeps no links either.
        end(settings, job)?;
    }
    given
}

/// Puts a text where all nodes see it, if there is such a place.
fn share(settings: &Checked, job: &str, text: &str) -> Result<(), Failure> {
    let Some(path) = shared(settings, job) else { return Ok(()) };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    }
    store::replace(&path, text.as_bytes())?;
    open_to_all(&path)
}

fn shared(settings: &Checked, job: &str) -> Option<PathBuf> {
    settings.value.shared.as_ref().map(|folder| Path::new(folder).join(file_name(job)))
}

fn epilog_slurmctld(settings: &Checked, job: &str) -> Result<Verdict, Failure> {
    let until = Instant::now() + Duration::from_millis(settings.value.wait_ms);
    let given_back = patiently(until, false, || end(settings, job));
    if let Some(path) = shared(settings, job) {
        forget(&path)?;
    }
    given_back?;
    Ok(Verdict::Well)
}

fn forget(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::file(path)(error))
        }
        _ => Ok(()),
    }
}

/// What was shared for a job: its trees, or why it has none.
enum Told {
    Trees(JobTrees),
    None(String),
}

/// Without a shared folder the controller is asked.
fn told(settings: &Checked, job: &str) -> Result<Told, Failure> {
    let Some(path) = shared(settings, job) else {
        return match trees(settings, job, user(), &asked_pairs(settings)?) {
            Ok(trees) => Ok(Told::Trees(trees)),
            Err(Failure::Daemon(ControlError::Refused(why) | ControlError::NoRoom(why))) => {
                Ok(Told::None(why))
            }
            Err(failure) => Err(failure),
        };
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Told::None("it asked for none".to_owned()));
        }
        Err(error) => return Err(Failure::file(&path)(error)),
    };
    if let Some(why) = text.strip_prefix("none ") {
        return Ok(Told::None(why.trim_end().to_owned()));
    }
    let trees = text.parse();
    trees.map(Told::Trees).map_err(|error| Failure::content(&path.display().to_string(), error))
}

fn prolog(settings: &Checked, job: &str) -> Result<Verdict, Failure> {
    let Told::Trees(trees) = told(settings, job)? else { return Ok(Verdict::Well) };
    let node = variable("SLURMD_NODENAME")?;
    if host(&trees, &node).is_none() {
        return Err(Failure::Job(format!("node {node} is none of job {job}'s hosts")));
    }
    put(settings, &trees)?;
    if settings.value.agent.is_empty() {
        return Ok(Verdict::Well);
    }
    let agent = Path::new(&settings.value.agent);
    let answers = Connection::open(agent, Some(PATIENCE))
        .and_then(|mut agent| agent.request(&BeginJob { job: job.to_owned() }));
    match answers {
        Ok(_) => Ok(Verdict::Well),
        Err(error) if settings.value.require => {
            Err(Failure::Job(format!("job {job} cannot run on {node}: {error}")))
        }
        Err(error) => {
            note(format!("job {job} on {node} goes without an agent: {error}"));
            Ok(Verdict::Well)
        }
    }
}

fn epilog(settings: &Checked, job: &str) -> Result<Verdict, Failure> {
    forget(&file(settings, job))?;
    Ok(Verdict::Well)
}

/// Lines as Slurm takes them: `export NAME=VALUE` for the task, `print TEXT` for its output.
fn task_prolog<W: Write>(
    settings: &Checked,
    job: &str,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let path = file(settings, job);
    let trees = match fs::read_to_string(&path) {
        Ok(text) => text
            .parse::<JobTrees>()
            .map_err(|error| Failure::content(&path.display().to_string(), error))?,
        Err(_) => {
            let first = env::var("SLURM_PROCID").is_ok_and(|rank| rank == "0");
            if let (true, Told::None(why)) = (first, told(settings, job)?)
                && why != "it asked for none"
            {
                out.line(format!("print snin: this job has no links of its own: {why}"))?;
            }
            return Ok(Verdict::Well);
        }
    };
    let node = variable("SLURMD_NODENAME")?;
    let none = || Failure::Job(format!("node {node} is none of job {job}'s hosts"));
    let found =
        trees.hosts().iter().find(|host| is_named(&host.name, &host.port.to_string(), &node));
    let host = found.ok_or_else(none)?;
    let preloaded = env::var("LD_PRELOAD").ok();
    let process =
        Process { settings: &settings.value, trees: &trees, host, file: &path, preloaded };
    let variables = process.variables(&[], false).map_err(Failure::Job)?;
    for (name, value) in variables {
        out.line(format!("export {name}={value}"))?;
    }
    Ok(Verdict::Well)
}

/// Slurm shows the user what this writes to stderr. It keeps no job from ending: where nothing is to be told, or
/// no agent answers, it says nothing.
fn task_epilog(settings: &Checked, job: &str) -> Verdict {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|text| text == value);
    let wanted = is("SNIN_STATS", "1") && is("SLURM_LOCALID", "0");
    let Some(socket) = settings.value.pairs.as_ref().filter(|_| wanted) else {
        return Verdict::Well;
    };
    let told = Connection::open(Path::new(socket), Some(PATIENCE))
        .and_then(|mut agent| agent.request(&GetJobs { job: Some(job.to_owned()) }));
    if let Ok(told) = told {
        let node = env::var("SLURMD_NODENAME").unwrap_or_default();
        note(format!("{job} on {node}: {}", stats::line(&told.answer)));
    }
    Verdict::Well
}
