//! OpenSM: brings a fabric up once and leaves, or stays.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{JudgeError, Program, Running, Simulated, finish};

/// The largest fabric takes some ten seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// How often its log is looked at.
const LOOK: Duration = Duration::from_millis(5);
const DAY: u64 = 86_400_000_000;
const UP: &str = "SUBNET UP";
const TABLES: &str = "tables configured on all switches";

/// How OpenSM is to bring a fabric up.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenSm<'a> {
    /// The node it runs on, by its name in the netlist; `None` is the first.
    pub host: Option<&'a str>,
    /// 2^LMC addresses a port.
    pub lmc: u8,
    /// How it routes; `None` is its default, `minhop`.
    pub engine: Option<&'a str>,
    /// SMPs in flight; `None` is its default, 4.
    pub max_smps: Option<u32>,
    /// 0 to 15: of several managers the highest is master; `None` is its default, 0.
    pub priority: Option<u8>,
    /// A standby asks its master every so many milliseconds, and as many times more before the master is dead;
    /// `None` are its defaults, 10 s and 4 times.
    pub polls: Option<(u32, u32)>,
    /// The addresses to keep to: the text of `guid2lid`. `None` lets OpenSM choose.
    pub guid2lid: Option<&'a str>,
    /// The tables to load: the text of `opensm-lfts.dump`. `None` lets OpenSM route.
    pub tables: Option<&'a str>,
    /// The text of `partitions.conf`. `None`: the default partition alone.
    pub partitions: Option<&'a str>,
    /// Further lines of its configuration.
    pub options: Option<&'a str>,
}

/// What OpenSM left behind.
#[derive(Clone, Debug)]
pub struct BringUp {
    /// Its log.
    pub log: String,
    /// `guid2lid`: the addresses it gave.
    pub guid2lid: Vec<u8>,
    /// `opensm-lfts.dump`: the tables it wrote.
    pub tables: Vec<u8>,
}

impl OpenSm<'_> {
    /// Runs one sweep. No fallback: tables that cannot be loaded leave the switches without any.
    ///
    /// # Errors
    /// When OpenSM is missing, fails, or takes too long.
    pub fn bring_up(&self, simulator: &impl Simulated) -> Result<BringUp, JudgeError> {
        let path = |name: &str| simulator.folder().join(name);
        let write = |name: &str, text: &str| {
            fs::write(path(name), text).map_err(JudgeError::file(path(name)))
        };
        let read = |name: &str| fs::read(path(name)).map_err(JudgeError::file(path(name)));
        let mut command = self.command(simulator)?;
        // Errors, information, and the dump of the tables.
        command.args(["--once", "-D", "0x43"]);
        if let Some(text) = self.guid2lid {
            write("guid2lid", text)?;
        }
        if let Some(text) = self.tables {
            write("loaded-lfts.dump", text)?;
            command.args(["--routing_engine", "file,no_fallback"]);
            command.arg("--lfts_file").arg(path("loaded-lfts.dump"));
        }
        finish(&mut command, simulator.folder(), LIMIT)?;
        let log = String::from_utf8_lossy(&read("opensm.log")?).into_owned();
        Ok(BringUp { log, guid2lid: read("guid2lid")?, tables: read("opensm-lfts.dump")? })
    }

    /// How long it takes from its start until it says that the subnet is up, without any dumps.
    ///
    /// # Errors
    /// When OpenSM is missing, fails, takes too long, or ran out of addresses.
    pub fn time(&self, simulator: &impl Simulated) -> Result<Duration, JudgeError> {
        let mut command = self.command(simulator)?;
        command.args(["--once", "-D", "0x03"]);
        let begin = now();
        finish(&mut command, simulator.folder(), LIMIT)?;
        let log = read_log(&log_of(simulator))?;
        sound(&log)?;
        match moments(&log, UP).first() {
            Some(&up) => Ok(Duration::from_micros((up + DAY - begin) % DAY)),
            None => Err(JudgeError::Incomplete { program: "opensm", why: format!("no {UP}") }),
        }
    }

    /// Starts it as a daemon, and waits until the subnet is up.
    ///
    /// # Errors
    /// As [`Self::time`].
    pub fn keep(&self, simulator: &impl Simulated) -> Result<Keeper, JudgeError> {
        let mut command = self.command(simulator)?;
        command.args(["-D", "0x03"]);
        let running = Running::start(&mut command, simulator.folder(), Program::OPENSM.name)?;
        let mut keeper = Keeper { running, log: log_of(simulator) };
        keeper.wait_up(1)?;
        sound(&read_log(&keeper.log)?)?;
        Ok(keeper)
    }

    fn command(&self, simulator: &impl Simulated) -> Result<Command, JudgeError> {
        let mut command = simulator.command(Program::OPENSM, self.host)?;
        // A configuration of our own, so that the machine's is not read.
        let path = simulator.folder().join("opensm.conf");
        let mut options = "force_log_flush TRUE\n".to_owned();
        if let Some((every, again)) = self.polls {
            options += &format!("sminfo_polling_timeout {every}\npolling_retry_number {again}\n");
        }
        options += self.options.unwrap_or_default();
        fs::write(&path, options).map_err(JudgeError::file(&path))?;
        command.arg("--config").arg(&path);
        command.args(["--lmc", &self.lmc.to_string()]);
        command.arg("--log_file").arg(log_of(simulator)).arg("--erase_log_file");
        if let Some(engine) = self.engine {
            command.args(["--routing_engine", &format!("{engine},no_fallback")]);
        }
        if let Some(priority) = self.priority {
            command.args(["--priority", &priority.to_string()]);
        }
        if let Some(text) = self.partitions {
            let path = simulator.folder().join("partitions.conf");
            fs::write(&path, text).map_err(JudgeError::file(&path))?;
            command.arg("--Pconfig").arg(&path);
        }
        if let Some(max) = self.max_smps {
            command.args(["--maxsmps", &max.to_string()]);
        }
        command.env("OSM_CACHE_DIR", simulator.folder()).env("OSM_TMP_DIR", simulator.folder());
        // Its log has no time zone.
        command.env("TZ", "UTC");
        Ok(command)
    }
}

/// An OpenSM that keeps a subnet; ends with the value.
pub struct Keeper {
    running: Running,
    log: PathBuf,
}

impl Keeper {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// How often the subnet has come up.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn ups(&self) -> Result<usize, JudgeError> {
        Ok(moments(&read_log(&self.log)?, UP).len())
    }

    /// Waits until the subnet has come up so often.
    ///
    /// # Errors
    /// When OpenSM ends or it takes too long.
    pub fn wait_up(&mut self, times: usize) -> Result<(), JudgeError> {
        let start = Instant::now();
        // The log is there when it is.
        while self.ups().unwrap_or(0) < times {
            let program = Program::OPENSM.name.to_owned();
            if let Some(status) = self.running.ended()? {
                return Err(JudgeError::Failed { program, status, tail: self.running.tail() });
            }
            if start.elapsed() > LIMIT {
                return Err(JudgeError::TooLong {
                    program,
                    limit: LIMIT,
                    tail: self.running.tail(),
                });
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// What it did about a change after the subnet had come up `times` times.
    ///
    /// # Errors
    /// When the log does not tell.
    pub fn reaction(&self, times: usize) -> Result<Reaction, JudgeError> {
        let log = read_log(&self.log)?;
        let missing = |what: &str| JudgeError::Incomplete {
            program: Program::OPENSM.name,
            why: format!("no {what}"),
        };
        let [ups, tables] = [UP, TABLES].map(|what| moments(&log, what));
        let before = *ups.get(times - 1).ok_or_else(|| missing(UP))?;
        let noticed = moments(&log, "num:128").into_iter().find(|&at| at > before);
        let noticed = noticed.ok_or_else(|| missing("notice"))?;
        let since = |moments: &[u64], what: &str| {
            let last = moments.last().filter(|&&at| at > noticed).ok_or_else(|| missing(what))?;
            Ok(Duration::from_micros(last - noticed))
        };
        Ok(Reaction { tables: since(&tables, TABLES)?, up: since(&ups, UP)? })
    }
}

/// From the first notice of a change on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reaction {
    /// Until it said for the last time that tables are configured: all writes were sent, not all answered.
    pub tables: Duration,
    /// Until it said for the last time that the subnet is up.
    pub up: Duration,
}

fn log_of(simulator: &impl Simulated) -> PathBuf {
    simulator.folder().join("opensm.log")
}

fn read_log(path: &PathBuf) -> Result<String, JudgeError> {
    let read = fs::read(path).map_err(JudgeError::file(path))?;
    Ok(String::from_utf8_lossy(&read).into_owned())
}

/// Neither out of addresses, nor another engine than the one asked for.
fn sound(log: &str) -> Result<(), JudgeError> {
    let trouble = |line: &&str| line.contains("RAN OUT OF LIDS") || line.contains("AB26");
    match log.lines().find(trouble) {
        Some(line) => {
            Err(JudgeError::Incomplete { program: "opensm", why: line.trim().to_owned() })
        }
        None => Ok(()),
    }
}

/// Microseconds of the day now.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros() as u64 % DAY
}

/// When, in microseconds of the day, lines that contain `what` were written.
fn moments(log: &str, what: &str) -> Vec<u64> {
    log.lines().filter(|line| line.contains(what)).filter_map(moment).collect()
}

/// `Nov 21 07:32:57 123456 [A0B1] 0x02 -> SUBNET UP`.
fn moment(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let clock: Vec<u64> = words.next()?.split(':').map_while(|n| n.parse().ok()).collect();
    let micros: u64 = words.next()?.parse().ok()?;
    match clock[..] {
        [hours, minutes, seconds] => {
            Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_clock_is_read() {
        let line = "Nov 21 07:32:57 123456 [A0B1] 0x02 -> SUBNET UP";
        assert_eq!(moments(line, UP), [((7 * 60 + 32) * 60 + 57) * 1_000_000 + 123_456]);
        assert_eq!(moments("SUBNET UP", UP), []);
    }
}
