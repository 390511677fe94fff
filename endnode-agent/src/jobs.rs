//! Jobs on this node: which trees each has, and the pairs that its programs asked for.
//!
//! | command | answer |
//! |---|---|
//! | `pair` | the addresses of both ends for a program of `job` at address `from` whose peer is at `to`; |
//! |        | its queue pair `qp` expects packet `psn` first |
//! | `disconnected` | queue pair `qp` of `job` ends, and expected packet `psn` next |
//! | `jobs` | of each job here, or of `job`, the pairs asked for: both ends, the trees there and back, how |
//! |        | often, the packets that came back; and `port`, and `worst_wait` |
//! | `job_begin` | `job` begins: `port` is what the device's port counts from here on |
//!
//! The trees of a job are a file in the folder `jobs` (`snin_fabric::job`), which the launcher's prolog writes
//! and its epilog removes; it is read again for every pair, so nothing here can be older. A program is told the
//! trees of a job only if the job is its user's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_fabric::job::{JobTrees, Way, file_name};
use snin_fabric::{Lid, TreeId};
use snin_protocol::operator::agent::{
    BeginJob, GetJobs, JobBegun, JobPair, Jobs as JobPairs, WorstWait,
};

use crate::connections::{Connections, Pair};
use crate::port_counters::{self, Counters};

/// The most pairs that are counted, of all jobs; later ones are answered, but not counted.
const MAX_PAIRS: usize = 65_536;

/// The most jobs whose port's counters are kept; of later ones nothing is.
const MAX_JOBS: usize = 1024;

/// How often ports and connections are looked at, and how often at most.
const LOOK: Duration = Duration::from_secs(1);
const SOONEST: Duration = Duration::from_millis(100);

/// The counter of the ticks in which a port had something to send and no credits (IBA 16.1.3.5).
const WAIT: &str = "port_xmit_wait";

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Jobs {
    folder: PathBuf,
    /// The port, as the kernel shows it.
    port: PathBuf,
    /// An entry goes with the job's file.
    began: BTreeMap<String, Began>,
    /// By job and the first addresses of both ends.
    asked: BTreeMap<Pair, Asked>,
    connections: Connections,
    /// When the port was looked at last, and what it had waited then.
    looked: Option<(Instant, Option<u64>)>,
    /// Pairs that were answered but not counted.
    uncounted: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked {
    from: String,
    to: String,
    tree: Option<u16>,
    /// The tree of the way back, and the packets that came along it.
    back: Option<u16>,
    came: u64,
    times: u64,
}

/// What is kept of a job from its beginning on.
#[derive(Clone, Debug)]
struct Began {
    /// What the port had counted already.
    port: Counters,
    /// The most that the port waited between two looks: ticks, and the time between them.
    worst: Option<(u64, Duration)>,
}

impl Jobs {
    /// Jobs whose trees are in this folder, on a port that the kernel shows in the other.
    pub(crate) fn new(folder: &str, port: PathBuf) -> Self {
        let (began, asked) = (BTreeMap::new(), BTreeMap::new());
        // .../DEVICE/ports/NUMBER
        let device = port.ancestors().nth(2).and_then(Path::file_name);
        let device = device.map(|name| name.to_string_lossy().into_owned());
        let connections = Connections::new(device.unwrap_or_default());
        Self { folder: folder.into(), port, began, asked, connections, looked: None, uncounted: 0 }
    }

    /// Answers `job_begin`.
    ///
    /// # Errors
    /// Where no such job is here, or too many are.
    pub(crate) fn begin(&mut self, BeginJob { job }: &BeginJob) -> Result<JobBegun, String> {
        self.trees(job)?;
        self.forget();
        if self.began.len() >= MAX_JOBS {
            return Err(format!("{MAX_JOBS} jobs have begun here, and of no more is counted"));
        }
        // What was waited before is no wait of this job's.
        self.look_now(Instant::now());
        let port = port_counters::read(&self.port);
        self.began.insert(job.clone(), Began { port, worst: None });
        Ok(JobBegun { job: job.clone() })
    }

    /// What is kept of jobs whose file is gone is kept no longer.
    fn forget(&mut self) {
        let is_here = |job: &String| self.folder.join(file_name(job)).exists();
        self.asked.retain(|(job, ..), _| is_here(job));
        self.began.retain(|job, _| is_here(job));
        self.connections.retain(is_here);
    }

    /// Looks at the port and at the connections, where there is a job and it is time.
    pub(crate) fn look(&mut self, now: Instant) {
        let is_time = self.looked.is_none_or(|(last, _)| now >= last + LOOK);
        if is_time && !(self.began.is_empty() && self.connections.is_empty()) {
            self.look_now(now);
        }
    }

    fn look_now(&mut self, now: Instant) {
        let waited = port_counters::one(&self.port, WAIT);
        if let Some((last, Some(before))) = self.looked
            && let Some(more) = waited.and_then(|waited| waited.checked_sub(before))
        {
            let span = now.saturating_duration_since(last);
            for began in self.began.values_mut() {
                if began.worst.is_none_or(|(most, _)| more > most) {
                    began.worst = Some((more, span));
                }
            }
        }
        self.looked = Some((now, waited));
        for (pair, came) in self.connections.look() {
            self.add(&pair, came);
        }
    }

    fn add(&mut self, pair: &Pair, came: u64) {
        if let Some(asked) = self.asked.get_mut(pair) {
            asked.came += came;
        }
    }

    fn trees(&self, job: &str) -> Result<JobTrees, String> {
        let path = self.folder.join(file_name(job));
        let text = fs::read_to_string(&path);
        let text = text
            .map_err(|error| format!("job {job:.128} is not here: {}: {error}", path.display()))?;
        let trees: JobTrees =
            text.parse().map_err(|error| format!("{}:{error}", path.display()))?;
        if trees.owner() != job {
            return Err(format!("{} is of job {}, not {job:.128}", path.display(), trees.owner()));
        }
        Ok(trees)
    }

    /// Answers `pair` for a process of `user`.
    ///
    /// # Errors
    /// One line that says why there is no way.
    pub(crate) fn pair(&mut self, user: Option<u32>, body: &Value) -> Result<Value, String> {
        let job = body["job"].as_str().ok_or("`job` is a name")?;
        let lid = |key: &str| {
            let read = body[key].as_u64().and_then(|lid| u16::try_from(lid).ok());
            read.map(Lid).ok_or_else(|| format!("`{key}` is a LID"))
        };
        let (own, peer) = (lid("from")?, lid("to")?);
        let trees = self.trees_for(user, job)?;
        let Some(way) = trees.way(own, peer).map_err(|why| why.to_string())? else {
            return Ok(Value::Null);
        };
        let back = trees.way(peer, own).ok().flatten().and_then(|way| way.tree);
        if let Some(pair) = self.count(&trees, (own, peer), way, back)
            && let (Some(queue_pair), Some(expected)) = (number(body, "qp"), number(body, "psn"))
        {
            self.connections.begin(queue_pair, expected, &pair);
        }
        Ok(json!({ "to": way.to.0, "from": way.from.0, "base": way.base.0, "sl": way.sl }))
    }

    /// The trees of a job, where they may be told to this user.
    fn trees_for(&self, user: Option<u32>, job: &str) -> Result<JobTrees, String> {
        let trees = self.trees(job)?;
        match (trees.user(), user) {
            (Some(owner), Some(user)) if user != 0 && user != owner => {
                Err(format!("user {user} asks for job {job}, which is user {owner}'s"))
            }
            (Some(owner), None) => Err(format!(
                "the system does not say whose program asks for job {job}, which is user {owner}'s"
            )),
            _ => Ok(trees),
        }
    }

    /// Answers `jobs` to a program: of a job of its user's only.
    ///
    /// # Errors
    /// Where it is another's, or not here.
    pub(crate) fn own(&mut self, user: Option<u32>, asked: &GetJobs) -> Result<JobPairs, String> {
        self.trees_for(user, asked.job.as_deref().ok_or("`job` is a name")?)?;
        Ok(self.list(asked))
    }

    /// Answers `disconnected` for a process of `user`.
    ///
    /// # Errors
    /// Where the job is another user's, or not here.
    pub(crate) fn disconnected(
        &mut self,
        user: Option<u32>,
        body: &Value,
    ) -> Result<Value, String> {
        let job = body["job"].as_str().ok_or("`job` is a name")?;
        self.trees_for(user, job)?;
        if let (Some(queue_pair), Some(expected)) = (number(body, "qp"), number(body, "psn"))
            && let Some((pair, came)) = self.connections.end(job, queue_pair, expected)
        {
            self.add(&pair, came);
        }
        Ok(Value::Null)
    }

    /// The pair, where it is counted.
    fn count(
        &mut self,
        trees: &JobTrees,
        (own, peer): (Lid, Lid),
        way: Way,
        back: Option<TreeId>,
    ) -> Option<Pair> {
        let (from, to) = (trees.host(own)?, trees.host(peer)?);
        let key = (trees.owner().to_owned(), from.lids.0, to.lids.0);
        if let Some(asked) = self.asked.get_mut(&key) {
            asked.times += 1;
        } else if self.asked.len() < MAX_PAIRS {
            let (tree, back) = (way.tree.map(|tree| tree.0), back.map(|tree| tree.0));
            let (from, to) = (from.name.clone(), to.name.clone());
            self.asked.insert(key.clone(), Asked { from, to, tree, back, came: 0, times: 1 });
        } else {
            self.uncounted += 1;
            return None;
        }
        Some(key)
    }

    /// Answers `jobs`. Jobs whose file is gone are forgotten once they have been told.
    pub(crate) fn list(&mut self, asked: &GetJobs) -> JobPairs {
        let now = Instant::now();
        if self.looked.is_none_or(|(last, _)| now >= last + SOONEST) {
            self.look_now(now);
        }
        let wanted = asked.job.as_deref();
        let told = self.asked.iter().filter(|((job, ..), _)| wanted.is_none_or(|one| one == job));
        let pairs = told.map(|((job, from, to), asked)| JobPair {
            job: job.clone(),
            from: asked.from.clone(),
            to: asked.to.clone(),
            from_lid: from.0,
            to_lid: to.0,
            tree: asked.tree,
            back_tree: asked.back,
            came_packets: asked.came,
            times: asked.times,
        });
        let pairs = pairs.collect();
        let began = wanted.and_then(|job| self.began.get(job));
        let port =
            began.map(|began| port_counters::since(&began.port, &port_counters::read(&self.port)));
        let worst = began.and_then(|began| began.worst);
        let worst_wait =
            worst.map(|(ticks, span)| WorstWait { ticks, of_ms: span.as_millis() as u64 });
        self.forget();
        JobPairs { pairs, uncounted: self.uncounted, port, worst_wait }
    }
}

fn number(body: &Value, key: &str) -> Option<u32> {
    body[key].as_u64().and_then(|number| u32::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREES: &str = "snin-job 1\nowner slurm/7\nuid 1000\nleaf 0x1 1\nleaf 0x2 1\n\
                         host 0x20 0x1 32-33 0=32,1=33 h0\nhost 0x21 0x2 64-65 0=64,1=65 h1\nsl 1\n";

    fn jobs() -> (tempfile::TempDir, Jobs) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file_name("slurm/7")), TREES).unwrap();
        let jobs = Jobs::new(folder.path().to_str().unwrap(), folder.path().to_owned());
        (folder, jobs)
    }

    fn of(job: &str) -> GetJobs {
        GetJobs { job: Some(job.to_owned()) }
    }

    fn body(job: &str, from: u16, to: u16) -> Value {
        json!({ "job": job, "from": from, "to": to })
    }

    #[test]
    fn pairs_are_answered_and_counted_while_the_job_is_there() {
        let (folder, mut jobs) = jobs();
        let way = jobs.pair(Some(1000), &body("slurm/7", 32, 65)).unwrap();
        assert_eq!(way, json!({ "to": 65, "from": 33, "base": 32, "sl": 1 }));
        jobs.pair(Some(0), &body("slurm/7", 33, 64)).unwrap();
        assert_eq!(jobs.pair(Some(0), &body("slurm/7", 32, 33)), Ok(Value::Null));
        let told = jobs.list(&of("slurm/7"));
        assert_eq!(told.pairs[0].times, 2);
        assert_eq!((&*told.pairs[0].from, told.pairs[0].tree), ("h0", Some(1)));
        drop(folder);
        assert_eq!(jobs.list(&GetJobs::default()).pairs.len(), 1);
        assert_eq!(jobs.list(&GetJobs::default()).pairs.len(), 0);
    }

    #[test]
    fn what_a_port_counts_is_a_jobs_from_its_beginning_on() {
        let (folder, mut jobs) = jobs();
        fs::create_dir(folder.path().join("counters")).unwrap();
        let count = |count: &str| {
            fs::write(folder.path().join("counters/port_xmit_data"), count).unwrap();
        };
        let job = of("slurm/7");
        let more = Some(Counters::from([("port_xmit_data".to_owned(), 150)]));
        count("100");
        assert_eq!(jobs.own(Some(1000), &job).unwrap().port, None);
        jobs.begin(&BeginJob { job: "slurm/7".to_owned() }).unwrap();
        count("250");
        assert_eq!(jobs.own(Some(1000), &job).unwrap().port, more);
        assert!(jobs.own(Some(1001), &job).unwrap_err().contains("which is user 1000's"));
        assert!(jobs.begin(&BeginJob { job: "slurm/8".to_owned() }).is_err());
        fs::remove_file(folder.path().join(file_name("slurm/7"))).unwrap();
        assert_eq!(jobs.list(&job).port, more);
        assert_eq!(jobs.list(&job).port, None, "told once more, then forgotten");
    }

    #[test]
    fn packets_are_a_pairs_by_the_numbers_of_its_connection() {
        let (_folder, mut jobs) = jobs();
        let with = |mut body: Value, qp: u32, psn: u32| {
            body["qp"] = qp.into();
            body["psn"] = psn.into();
            body
        };
        jobs.pair(Some(1000), &with(body("slurm/7", 32, 64), 17, 5)).unwrap();
        jobs.pair(Some(1000), &with(body("slurm/7", 32, 64), 18, 0)).unwrap();
        let end = |qp: u32, psn: u32| with(json!({ "job": "slurm/7" }), qp, psn);
        assert!(jobs.disconnected(Some(1001), &end(17, 9)).is_err(), "another user's");
        jobs.disconnected(Some(1000), &end(17, 9)).unwrap();
        jobs.disconnected(Some(1000), &end(18, 3)).unwrap();
        jobs.disconnected(Some(1000), &end(18, 30)).unwrap();
        let pair = &jobs.list(&GetJobs::default()).pairs[0];
        assert_eq!((pair.back_tree, pair.came_packets), (Some(1), 7));
    }

    #[test]
    fn the_worst_wait_is_the_most_between_two_looks_of_the_jobs_time() {
        let (folder, mut jobs) = jobs();
        fs::create_dir(folder.path().join("counters")).unwrap();
        let waited = |ticks: u64| {
            let path = folder.path().join("counters/port_xmit_wait");
            fs::write(path, ticks.to_string()).unwrap();
        };
        waited(1000);
        jobs.begin(&BeginJob { job: "slurm/7".to_owned() }).unwrap();
        let began = jobs.looked.unwrap().0;
        let mut look = |second: u64, ticks: u64| {
            waited(ticks);
            jobs.look(began + Duration::from_millis(1000 * second));
            jobs.began["slurm/7"].worst
        };
        assert_eq!(look(0, 1900), None, "too soon");
        assert_eq!(look(1, 1900), Some((900, Duration::from_secs(1))));
        assert_eq!(look(3, 2700), Some((900, Duration::from_secs(1))), "800 in 2 s");
        assert_eq!(look(4, 5000), Some((2300, Duration::from_secs(1))));
        let worst = WorstWait { ticks: 2300, of_ms: 1000 };
        assert_eq!(jobs.list(&of("slurm/7")).worst_wait, Some(worst));
    }

    #[test]
    fn who_lies_about_the_job_is_told_in_a_line() {
        let (folder, mut jobs) = jobs();
        let why = jobs.pair(Some(1001), &body("slurm/7", 32, 64)).unwrap_err();
        assert_eq!(why, "user 1001 asks for job slurm/7, which is user 1000's");
        let unknown =
            "the system does not say whose program asks for job slurm/7, which is user 1000's";
        assert_eq!(jobs.pair(None, &body("slurm/7", 32, 64)).unwrap_err(), unknown);
        assert_eq!(jobs.own(None, &of("slurm/7")).unwrap_err(), unknown);
        let end = json!({ "job": "slurm/7", "qp": 17, "psn": 9 });
        assert_eq!(jobs.disconnected(None, &end).unwrap_err(), unknown);
        let why = jobs.pair(Some(1000), &body("slurm/8", 32, 64)).unwrap_err();
        assert!(why.starts_with("job slurm/8 is not here: "), "{why}");
        let copy = folder.path().join(file_name("slurm/8"));
        fs::write(&copy, TREES).unwrap();
        let why = jobs.pair(Some(1000), &body("slurm/8", 32, 64)).unwrap_err();
        assert!(why.ends_with(" is of job slurm/7, not slurm/8"), "{why}");
        let why = jobs.pair(Some(1000), &body("slurm/7", 32, 99)).unwrap_err();
        assert_eq!(why, "address 99 is no host's of job slurm/7");
        assert_eq!(jobs.pair(None, &json!({})).unwrap_err(), "`job` is a name");
    }
}
