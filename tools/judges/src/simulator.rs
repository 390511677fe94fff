//! ibsim: a fabric of switches and adapters that answer management packets.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::JudgeError;
use crate::console::Console;
use crate::program::{LOOK, Program, Running};

/// Loading the largest fabric takes a second or two.
const LOADING: Duration = Duration::from_secs(60);

/// A running ibsim with a fabric of its own; ends with the value. Several can run at once.
pub struct Simulator {
    // Dropped in this order: the process, then the folder it writes to.
    running: Running,
    folder: TempDir,
    socket: String,
    console: Mutex<Console>,
}

impl Simulator {
    /// Loads a fabric, given as ibnetdiscover's text, and waits until clients can attach.
    ///
    /// # Errors
    /// When ibsim is not installed or refuses the text.
    pub fn start(netlist: &str) -> Result<Self, JudgeError> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("snin-{}-{number}", std::process::id());
        let folder = tempfile::Builder::new().prefix("snin-judges-").tempdir();
        let folder = folder.map_err(JudgeError::file(std::env::temp_dir()))?;
        let file = folder.path().join("netlist");
        fs::write(&file, netlist).map_err(JudgeError::file(&file))?;
        let mut command = Command::new(Program::IBSIM.find()?);
        // Started at once, with room for the largest fabric that is simulated here.
        command.args(["-s", "-N", "40000", "-S", "4000", "-P", "400000"]).arg(&file);
        command.current_dir(&folder).env("IBSIM_SOCKNAME", &socket);
        let (running, input) =
            Running::with_input(&mut command, folder.path(), Program::IBSIM.name)?;
        let console = Mutex::new(Console::new(input, running.out.clone(), running.err.clone()));
        let mut simulator = Self { running, folder, socket, console };
        simulator.wait()?;
        Ok(simulator)
    }

    fn wait(&mut self) -> Result<(), JudgeError> {
        let start = Instant::now();
        while !self.listens().map_err(JudgeError::file(&self.socket))? {
            let program = Program::IBSIM.name.to_owned();
            if let Some(status) = self.running.ended()? {
                return Err(JudgeError::Failed { program, status, tail: self.running.tail() });
            }
            if start.elapsed() > LOADING {
                let tail = self.running.tail();
                return Err(JudgeError::TooLong { program, limit: LOADING, tail });
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Whether ibsim has bound the socket by which clients attach: an abstract one, whose name ends with
    /// a NUL.
    fn listens(&self) -> io::Result<bool> {
        let address = SocketAddr::from_abstract_name(format!("{}:ctl\0", self.socket))?;
        Ok(UnixDatagram::unbound()?.connect_addr(&address).is_ok())
    }

    /// The name of its sockets.
    pub fn name(&self) -> &str {
        &self.socket
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, Console> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// A folder that lives as long as the fabric, for what programs leave behind.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// As [`Simulated::command`].
    ///
    /// # Errors
    /// When the program, or what runs it, is not installed.
    pub fn command(&self, program: Program, host: Option<&str>) -> Result<Command, JudgeError> {
        Simulated::command(self, program, host)
    }
}

/// A fabric in software that speaks ibsim's protocol, ibsim itself or another.
pub trait Simulated {
    /// The name of its sockets.
    fn name(&self) -> &str;

    /// A folder that lives as long as the fabric, for what programs leave behind.
    fn folder(&self) -> &Path;

    /// A command that will run `program` as if on the node called `host` in the netlist (at most 31
    /// characters; `None`: on the first node). Arguments are still to be added.
    ///
    /// # Errors
    /// When the program, or what runs it, is not installed.
    fn command(&self, program: Program, host: Option<&str>) -> Result<Command, JudgeError> {
        let mut command = Command::new(Program::IBSIM_RUN.find()?);
        command.arg(program.find()?).env("IBSIM_SOCKNAME", self.name());
        // The preloaded library makes its devices' files in the current folder.
        command.current_dir(self.folder());
        // Nor may it inherit a node, or a preload, which Debian's ibsim-run does not add to.
        command.env_remove("SIM_HOST").env_remove("LD_PRELOAD");
        if let Some(host) = host {
            command.env("SIM_HOST", host);
        }
        Ok(command)
    }
}

impl Simulated for Simulator {
    fn name(&self) -> &str {
        &self.socket
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}
