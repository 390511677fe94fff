//! Jobs on this node: which trees each has, and the pairs that its programs asked for.
//!
//! | command | answer |
//! |---|---|
//! | `pair` | the addresses of both ends for a program of `job` whose address is `from` and whose peer's is `to` |
//! | `jobs` | of each job here, or of `job`, the pairs asked for: both ends, the tree, how often; and `port` |
//! | `job_begin` | `job` begins: `port` is what the device's port counts from here on |
//!
//! The trees of a job are a file in the folder `jobs` (`snin_fabric::job`), which the launcher's prolog writes
//! and its epilog removes; it is read again for every pair, so nothing here can be older. A program is told the
//! trees of a job only if the job is its user's.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use snin_fabric::Lid;
use snin_fabric::job::{JobTrees, Way, file_name};

use crate::port_counters::{self, Counters};

/// The most pairs that are counted, of all jobs; later ones are answered, but not counted.
const MAX_PAIRS: usize = 65_536;

/// The most jobs whose port's counters are kept; of later ones nothing is.
const MAX_JOBS: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Jobs {
    folder: PathBuf,
    /// The port, as the kernel shows it.
    port: PathBuf,
    /// What the port had counted when each job began. An entry goes with the job's file.
    began: BTreeMap<String, Counters>,
    /// By job and the first addresses of both ends.
    asked: BTreeMap<(String, Lid, Lid), Asked>,
    /// Pairs that were answered but not counted.
    uncounted: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked {
    from: String,
    to: String,
    tree: Option<u16>,
    times: u64,
}

impl Jobs {
    /// Jobs whose trees are in this folder, on a port that the kernel shows in the other.
    pub(crate) fn new(folder: &str, port: PathBuf) -> Self {
        let (began, asked) = (BTreeMap::new(), BTreeMap::new());
        Self { folder: folder.into(), port, began, asked, uncounted: 0 }
    }

    /// Answers `job_begin`.
    ///
    /// # Errors
    /// Where no such job is here, or too many are.
    pub(crate) fn begin(&mut self, body: &Value) -> Result<Value, String> {
        let job = body["job"].as_str().ok_or("`job` is a name")?;
        self.trees(job)?;
        self.forget();
        if self.began.len() >= MAX_JOBS {
            return Err(format!("{MAX_JOBS} jobs have begun here, and of no more is counted"));
        }
        self.began.insert(job.to_owned(), port_counters::read(&self.port));
        Ok(json!({ "job": job }))
    }

    /// What is kept of jobs whose file is gone is kept no longer.
    fn forget(&mut self) {
        let is_here = |job: &String| self.folder.join(file_name(job)).exists();
        self.asked.retain(|(job, ..), _| is_here(job));
        self.began.retain(|job, _| is_here(job));
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
        self.count(&trees, own, peer, way);
        Ok(json!({ "to": way.to.0, "from": way.from.0, "base": way.base.0 }))
    }

    /// The trees of a job, where they may be told to this user.
    fn trees_for(&self, user: Option<u32>, job: &str) -> Result<JobTrees, String> {
        let trees = self.trees(job)?;
        match (trees.user(), user) {
            (Some(owner), Some(user)) if user != 0 && user != owner => {
                Err(format!("user {user} asks for job {job}, which is user {owner}'s"))
            }
            _ => Ok(trees),
        }
    }

    /// Answers `jobs` to a program: of a job of its user's only.
    ///
    /// # Errors
    /// Where it is another's, or not here.
    pub(crate) fn own(&mut self, user: Option<u32>, body: &Value) -> Result<Value, String> {
        self.trees_for(user, body["job"].as_str().ok_or("`job` is a name")?)?;
        Ok(self.list(body))
    }

    fn count(&mut self, trees: &JobTrees, own: Lid, peer: Lid, way: Way) {
        let (Some(from), Some(to)) = (trees.host(own), trees.host(peer)) else { return };
        let key = (trees.owner().to_owned(), from.lids.0, to.lids.0);
        if let Some(asked) = self.asked.get_mut(&key) {
            asked.times += 1;
        } else if self.asked.len() < MAX_PAIRS {
            let tree = way.tree.map(|tree| tree.0);
            let asked = Asked { from: from.name.clone(), to: to.name.clone(), tree, times: 1 };
            self.asked.insert(key, asked);
        } else {
            self.uncounted += 1;
        }
    }

    /// Answers `jobs`. Jobs whose file is gone are forgotten once they have been told.
    pub(crate) fn list(&mut self, body: &Value) -> Value {
        let wanted = body["job"].as_str();
        let told = self.asked.iter().filter(|((job, ..), _)| wanted.is_none_or(|one| one == job));
        let pairs: Vec<Value> = told
            .map(|((job, from, to), asked)| {
                json!({
                    "job": job, "from": asked.from, "to": asked.to, "from_lid": from.0, "to_lid": to.0,
                    "tree": asked.tree, "times": asked.times,
                })
            })
            .collect();
        let began = wanted.and_then(|job| self.began.get(job));
        let port = began.map(|began| port_counters::since(began, &port_counters::read(&self.port)));
        self.forget();
        json!({ "pairs": pairs, "uncounted": self.uncounted, "port": port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREES: &str = "snin-job 1\nowner slurm/7\nuid 1000\nleaf 0x1 1\nleaf 0x2 1\n\
                         host 0x20 0x1 32-33 0=32,1=33 h0\nhost 0x21 0x2 64-65 0=64,1=65 h1\n";

    fn jobs() -> (tempfile::TempDir, Jobs) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file_name("slurm/7")), TREES).unwrap();
        let jobs = Jobs::new(folder.path().to_str().unwrap(), folder.path().to_owned());
        (folder, jobs)
    }

    fn body(job: &str, from: u16, to: u16) -> Value {
        json!({ "job": job, "from": from, "to": to })
    }

    #[test]
    fn pairs_are_answered_and_counted_while_the_job_is_there() {
        let (folder, mut jobs) = jobs();
        let way = jobs.pair(Some(1000), &body("slurm/7", 32, 65)).unwrap();
        assert_eq!(way, json!({ "to": 65, "from": 33, "base": 32 }));
        jobs.pair(Some(0), &body("slurm/7", 33, 64)).unwrap();
        assert_eq!(jobs.pair(None, &body("slurm/7", 32, 33)), Ok(Value::Null));
        let told = jobs.list(&json!({ "job": "slurm/7" }));
        assert_eq!(told["pairs"][0]["times"], 2);
        assert_eq!(
            (&told["pairs"][0]["from"], &told["pairs"][0]["tree"]),
            (&json!("h0"), &json!(1))
        );
        drop(folder);
        assert_eq!(jobs.list(&Value::Null)["pairs"].as_array().unwrap().len(), 1);
        assert_eq!(jobs.list(&Value::Null)["pairs"].as_array().unwrap().len(), 0);
    }

    #[test]
    fn what_a_port_counts_is_a_jobs_from_its_beginning_on() {
        let (folder, mut jobs) = jobs();
        fs::create_dir(folder.path().join("counters")).unwrap();
        let count = |count: &str| {
            fs::write(folder.path().join("counters/port_xmit_data"), count).unwrap();
        };
        let job = json!({ "job": "slurm/7" });
        count("100");
        assert_eq!(jobs.own(Some(1000), &job).unwrap()["port"], Value::Null);
        jobs.begin(&job).unwrap();
        count("250");
        assert_eq!(jobs.own(Some(1000), &job).unwrap()["port"], json!({ "port_xmit_data": 150 }));
        assert!(jobs.own(Some(1001), &job).unwrap_err().contains("which is user 1000's"));
        assert!(jobs.begin(&json!({ "job": "slurm/8" })).is_err());
        fs::remove_file(folder.path().join(file_name("slurm/7"))).unwrap();
        assert_eq!(jobs.list(&job)["port"], json!({ "port_xmit_data": 150 }));
        assert_eq!(jobs.list(&job)["port"], Value::Null, "told once more, then forgotten");
    }

    #[test]
    fn who_lies_about_the_job_is_told_in_a_line() {
        let (folder, mut jobs) = jobs();
        let why = jobs.pair(Some(1001), &body("slurm/7", 32, 64)).unwrap_err();
        assert_eq!(why, "user 1001 asks for job slurm/7, which is user 1000's");
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
