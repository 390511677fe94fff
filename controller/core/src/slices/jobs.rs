//! Lists of jobs: from CSV, or made from a seed.

use super::JobId;

/// The most jobs of a list.
pub const MAX_JOBS: usize = 1 << 22;

/// Hosts of a made job, on average.
pub const MEAN_HOSTS: u64 = 8;

/// A job that asks for hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// How many hosts it wants.
    pub hosts: u32,
    /// When it comes, in any unit of time.
    pub arrival: u64,
    /// How long it runs once it has its hosts, in the same unit.
    pub run: u64,
}

/// What is wrong with a list, and on which line (from 1).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {what}")]
pub struct JobsError {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

/// Reads `id,hosts,arrival,run`, a line a job, all of them whole numbers; in any order of arrival. Empty
/// lines and those that begin with `#` do not count, nor does a header on the first that does.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &[u8]) -> Result<Vec<Job>, JobsError> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    let mut first = true;
    for (place, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let fail = |what| JobsError { line: place + 1, what };
        let line =
            str::from_utf8(line).map_err(|_| fail("this is no text (binary data)".into()))?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let header = std::mem::take(&mut first) && line.to_ascii_lowercase().starts_with("id");
        if header {
            continue;
        }
        let job = record(line).map_err(fail)?;
        if let Some(before) = known.insert(job.id, place + 1) {
            return Err(fail(format!("job {} is on line {before} already", job.id.0)));
        }
        if jobs.len() == MAX_JOBS {
            return Err(fail(format!("more than {MAX_JOBS} jobs")));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn record(line: &str) -> Result<Job, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let &[id, hosts, arrival, run] = fields.as_slice() else {
        return Err(format!("{} fields (expected id,hosts,arrival,run)", fields.len()));
    };
    let number = |name: &str, text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u64>().ok().filter(|_| digits);
        number.ok_or_else(|| format!("{name} `{text:.40}` is no whole number"))
    };
    let count = number("hosts", hosts)?;
    let hosts = u32::try_from(count).ok().filter(|&hosts| hosts > 0);
    Ok(Job {
        id: JobId(number("id", id)?),
        hosts: hosts.ok_or_else(|| format!("{count} hosts (1 to {} are possible)", u32::MAX))?,
        arrival: number("arrival", arrival)?,
        run: number("run", run)?,
    })
}

/// Makes jobs as studies of allocators usually do: all are there from the start; sizes are exponential (in
/// whole numbers: geometric) with mean [`MEAN_HOSTS`], cut off at `most`; run times are uniform from
/// 20 to 3,000. Same seed, same jobs.
pub fn generate(count: usize, seed: u64, most: u32) -> Vec<Job> {
    let mut random = SplitMix(seed);
    let job = |number| {
        let mut hosts = 1;
        while hosts < most && random.below(MEAN_HOSTS) != 0 {
            hosts += 1;
        }
        Job { id: JobId(number), hosts, arrival: 0, run: 20 + random.below(2981) }
    };
    (0..count.min(MAX_JOBS) as u64).map(job).collect()
}

/// Steele, Lea and Flood's generator (2014): enough for lists of jobs, the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    /// A number below `end`; that some come up more often by one in 2^50 does not matter here.
    const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = b"# jobs\n\nID,hosts,arrival,run\r\n7, 3,0,20\r\n  \n8,1,5,0";
        let job = |id, hosts, arrival, run| Job { id: JobId(id), hosts, arrival, run };
        assert_eq!(parse(text).unwrap(), [job(7, 3, 0, 20), job(8, 1, 5, 0)]);
        assert_eq!(parse(b"").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases: [(&[u8], &str); 8] = [
            (b"1,2,3\n", "1: 3 fields (expected id,hosts,arrival,run)"),
            (b"id,hosts,arrival,run\n1,0,3,4\n", "2: 0 hosts (1 to 4294967295 are possible)"),
            (b"1,5000000000,3,4", "1: 5000000000 hosts (1 to 4294967295 are possible)"),
            (b"1,2,3,4\n\nid,2,3,4", "3: id `id` is no whole number"),
            (b"1,2,-3,4", "1: arrival `-3` is no whole number"),
            (b"1,+2,3,4", "1: hosts `+2` is no whole number"),
            (b"1,2,3,4\n1,2,3,4", "2: job 1 is on line 1 already"),
            (b"1,2,3,4\n\xff\n", "2: this is no text (binary data)"),
        ];
        for (text, told) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), told);
        }
    }

    #[test]
    fn made_lists_have_the_mean_and_the_run_times_they_should() {
        let jobs = generate(10_000, 1, 1000);
        assert_eq!(jobs, generate(10_000, 1, 1000));
        assert_ne!(jobs, generate(10_000, 2, 1000));
        let hosts: u32 = jobs.iter().map(|job| job.hosts).sum();
        assert!((78_000..82_000).contains(&hosts), "{hosts}");
        assert!(jobs.iter().all(|job| (20..=3000).contains(&job.run)));
        assert!(generate(1000, 1, 4).iter().all(|job| job.hosts <= 4));
    }
}
