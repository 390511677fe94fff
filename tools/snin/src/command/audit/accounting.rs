//! Jobs as Slurm's accounting prints them: `sacct -P -X -o JobID,JobName,NodeList,Start,End`, or a file made by
//! hand with such columns.

use std::time::{SystemTime, UNIX_EPOCH};

use snin_fabric::printable;

/// The most jobs of a file.
pub(super) const MAX_JOBS: usize = 1_000_000;

/// A job that ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    /// Its number, and its name behind it where there is one.
    pub(super) name: String,
    /// Its nodes as Slurm lists them.
    pub(super) nodes: String,
    /// The line that it is on.
    pub(super) line: usize,
    /// Seconds since 1970, by the clock that the file's times are of.
    pub(super) begin: u64,
    /// `None` while it runs.
    pub(super) end: Option<u64>,
}

/// What a file holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Accounting {
    pub(super) jobs: Vec<Job>,
    /// Lines of jobs that never had nodes.
    pub(super) without_nodes: usize,
}

/// Reads a file. Steps of jobs (`4711.batch`) are left out: their job's line says where they ran.
pub(super) fn parse(text: &[u8]) -> Result<Accounting, String> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let line = text[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("{line}: bytes that are no UTF-8")
    })?;
    let is_of_data = |&(_, line): &(usize, &str)| !line.trim().is_empty() && !line.starts_with('#');
    let mut lines = (1..).zip(text.lines()).filter(is_of_data);
    let (line, header) = lines.next().ok_or(" no line of column names (sacct -P prints one)")?;
    let columns = Columns::of(header).map_err(|why| format!("{line}: {why}"))?;
    let mut found = Accounting::default();
    for (line, text) in lines {
        let job = columns.job(text, line).map_err(|why| format!("{line}: {why}"))?;
        match job {
            None => {}
            Some(job) if job.nodes.is_empty() || job.nodes == "None assigned" => {
                found.without_nodes += 1;
            }
            Some(_) if found.jobs.len() == MAX_JOBS => {
                return Err(format!("{line}: more than {MAX_JOBS} jobs: give a part of them"));
            }
            Some(job) => found.jobs.push(job),
        }
    }
    if found.jobs.is_empty() {
        return Err(" no job that had nodes".to_owned());
    }
    Ok(found)
}

/// Where the columns are.
struct Columns {
    count: usize,
    id: usize,
    name: Option<usize>,
    nodes: usize,
    begin: usize,
    end: usize,
}

impl Columns {
    fn of(header: &str) -> Result<Self, String> {
        let names: Vec<&str> = header.split('|').map(str::trim).collect();
        let place = |name: &str| names.iter().position(|other| other.eq_ignore_ascii_case(name));
        let needed = |name: &str| {
            place(name).ok_or_else(|| {
                format!(
                    "no column {name} in `{:.80}` (expected the output of sacct -P -X -o \
                     JobID,JobName,NodeList,Start,End)",
                    printable(header)
                )
            })
        };
        Ok(Self {
            count: names.len(),
            id: needed("JobID")?,
            name: place("JobName"),
            nodes: needed("NodeList")?,
            begin: needed("Start")?,
            end: needed("End")?,
        })
    }

    /// `None` for a step, and for a job that never began.
    fn job(&self, text: &str, line: usize) -> Result<Option<Job>, String> {
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        // Without -P's header option a line may end with a separator.
        let cells = match cells.split_last() {
            Some((&"", rest)) if rest.len() == self.count => rest,
            _ => &cells[..],
        };
        if cells.len() != self.count {
            return Err(format!("{} columns, the first line names {}", cells.len(), self.count));
        }
        let id = cells[self.id];
        if id.is_empty() {
            return Err("no JobID".to_owned());
        }
        if id.contains('.') {
            return Ok(None);
        }
        let (begin, end) = (cells[self.begin], cells[self.end]);
        let is_unknown = |text: &str| ["Unknown", "None", ""].contains(&text);
        if is_unknown(begin) {
            return Ok(None);
        }
        let begin = seconds(begin).ok_or_else(|| wrong_time("Start", begin))?;
        let end = match is_unknown(end) {
            true => None,
            false => Some(seconds(end).ok_or_else(|| wrong_time("End", end))?),
        };
        if end.is_some_and(|end| end < begin) {
            return Err(format!("job {id:.40} ends before it begins"));
        }
        let name = self.name.map_or("", |name| cells[name]);
        let name = format!("{id} {name}");
        Ok(Some(Job {
            name: printable(name.trim()).into_owned(),
            nodes: cells[self.nodes].to_owned(),
            line,
            begin,
            end,
        }))
    }
}

fn wrong_time(column: &str, text: &str) -> String {
    format!(
        "{column} `{:.40}` is no moment (expected such as 2026-11-27T08:30:00)",
        printable(text)
    )
}

/// A moment as Slurm prints it, without a zone, or seconds since 1970 (SLURM_TIME_FORMAT=%s).
fn seconds(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    let time: SystemTime = humantime::parse_rfc3339_weak(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The moment as Slurm prints it.
pub(super) fn moment(seconds: u64) -> String {
    let at = UNIX_EPOCH.checked_add(std::time::Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
    // A year beyond 9999 cannot be shown so.
    let far = seconds >= 253_402_300_800;
    if far { format!("{seconds} s") } else { shown(at) }
}

fn shown(at: SystemTime) -> String {
    humantime::format_rfc3339_seconds(at).to_string().trim_end_matches('Z').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sacct_is_read_steps_and_jobs_without_nodes_left_out() {
        let text = "JobID|JobName|State|NodeList|Start|End\n\
                    10|sim|COMPLETED|n[1-4]|2026-11-20T08:00:00|2026-11-20T09:00:00\n\
                    10.batch|batch|COMPLETED|n1|2026-11-20T08:00:00|2026-11-20T09:00:00\n\
                    11_3||RUNNING|n5,n6|2026-11-20T08:30:00|Unknown\n\
                    12|no|CANCELLED|None assigned|2026-11-20T08:30:00|2026-11-20T08:30:00\n\
                    13|wait|PENDING|None assigned|Unknown|Unknown\n";
        let found = parse(text.as_bytes()).unwrap();
        assert_eq!((found.jobs.len(), found.without_nodes), (2, 1));
        let [a, b] = &found.jobs[..] else { panic!() };
        assert_eq!((&*a.name, &*a.nodes, a.line), ("10 sim", "n[1-4]", 2));
        assert_eq!(a.end.unwrap() - a.begin, 3600);
        assert_eq!((&*b.name, b.end, b.begin - a.begin), ("11_3", None, 1800));
        assert_eq!(moment(a.begin), "2026-11-20T08:00:00");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let head = "JobID|NodeList|Start|End\n";
        for (text, why) in [
            ("", "no line of column names"),
            ("JobID|Nodes|Start|End\n", "1: no column NodeList"),
            ("JobID|NodeList|Start|End\n1|n1|2026-11-20T08:00:00\n", "2: 3 columns"),
            ("JobID|NodeList|Start|End\n1|n1|yesterday|Unknown\n", "2: Start `yesterday`"),
            ("JobID|NodeList|Start|End\n1|n1|20|10\n", "ends before it begins"),
            (head, "no job that had nodes"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(
            parse(b"JobID|NodeList|Start|End\n1|\xff|1|2\n").unwrap_err().starts_with("2: bytes")
        );
    }
}
