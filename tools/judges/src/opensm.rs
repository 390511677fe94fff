//! OpenSM: brings a fabric up once and leaves.

use std::fs;
use std::time::Duration;

use crate::{JudgeError, Program, Simulator, finish};

/// The largest fabric takes some ten seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// How OpenSM is to bring a fabric up.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenSm<'a> {
    /// The node it runs on, by its name in the netlist; `None` is the first.
    pub host: Option<&'a str>,
    /// 2^LMC addresses a port.
    pub lmc: u8,
    /// The addresses to keep to: the text of `guid2lid`. `None` lets OpenSM choose.
    pub guid2lid: Option<&'a str>,
    /// The tables to load: the text of `opensm-lfts.dump`. `None` lets OpenSM route.
    pub tables: Option<&'a str>,
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
    pub fn bring_up(&self, simulator: &Simulator) -> Result<BringUp, JudgeError> {
        let path = |name: &str| simulator.folder().join(name);
        let write = |name: &str, text: &str| {
            fs::write(path(name), text).map_err(JudgeError::file(path(name)))
        };
        let read = |name: &str| fs::read(path(name)).map_err(JudgeError::file(path(name)));
        let mut command = simulator.command(Program::OPENSM, self.host)?;
        // An empty configuration of our own, so that the machine's is not read.
        write("opensm.conf", "")?;
        command.arg("--once").arg("--config").arg(path("opensm.conf"));
        command.args(["--lmc", &self.lmc.to_string()]);
        command.arg("--log_file").arg(path("opensm.log"));
        // Errors, information, and the dump of the tables.
        command.args(["-D", "0x43"]);
        command.env("OSM_CACHE_DIR", simulator.folder()).env("OSM_TMP_DIR", simulator.folder());
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
}
