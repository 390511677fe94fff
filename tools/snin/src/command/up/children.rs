//! The processes: started, looked after, ended; none is left over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snin_daemon::control::{Connection, ControlError};
use snin_daemon::signals::Signals;
use snin_protocol::operator::Operation;

use super::{LOOK, PATIENCE, UpError, pause};

/// How long a process may take to end well.
const ENDING: Duration = Duration::from_secs(10);
/// How long a daemon may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

struct One {
    child: Child,
    program: &'static str,
    /// As it was started.
    command: Command,
}

/// See the module's documentation. Dropped, it ends them all.
pub(super) struct Children {
    signals: Signals,
    folder: PathBuf,
    /// In the order of their starts, by a number before the name.
    running: Vec<(String, One)>,
    sockets: BTreeMap<String, Connection>,
}

impl Children {
    pub(super) const fn new(signals: Signals, folder: PathBuf) -> Self {
        Self { signals, folder, running: Vec::new(), sockets: BTreeMap::new() }
    }

    /// A file of the run.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// One of our programs: beside this one, or on the search path.
    #[expect(clippy::unused_self, reason = "commands are started by this")]
    pub(super) fn command(&self, program: &'static str) -> Result<Command, UpError> {
        let own = std::env::current_exe().ok();
        if program == "snin"
            && let Some(own) = own
        {
            return Ok(Command::new(own));
        }
        // Beside it where it was built, in `sbin` beside `bin` where it was installed.
        let beside = own_folder()
            .into_iter()
            .flat_map(|folder| [folder.join(program), folder.join("../sbin").join(program)]);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let elsewhere = std::env::split_paths(&path).map(|folder| folder.join(program));
        let found = beside.chain(elsewhere).find(|file| file.is_file());
        let missing = if program == "etcd" { UpError::NoEtcd } else { UpError::Missing(program) };
        found.map(Command::new).ok_or(missing)
    }

    /// Starts one; what it says goes to a log of its name.
    pub(super) fn start(
        &mut self,
        name: &str,
        program: &'static str,
        mut command: Command,
    ) -> Result<(), UpError> {
        let failed = |error| UpError::Start { program, error };
        let log = File::options().create(true).append(true).open(self.log(name)).map_err(failed)?;
        let other = log.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(log).stderr(other).current_dir(&self.folder);
        // A Ctrl-C is for this process, which ends the others in order.
        command.process_group(0).env_remove("NOTIFY_SOCKET");
        let child = command.spawn().map_err(failed)?;
        self.running.push((name.to_owned(), One { child, program, command }));
        Ok(())
    }

    /// Kills one, as `kill -9` does, and starts it again as it was started.
    pub(super) fn restart(&mut self, name: &str) -> Result<(), UpError> {
        let Some((_, one)) = self.running.iter_mut().find(|(running, _)| running == name) else {
            return Ok(());
        };
        // It may have ended by itself.
        let _ = one.child.kill();
        let _ = one.child.wait();
        let failed = |error| UpError::Start { program: one.program, error };
        one.child = one.command.spawn().map_err(failed)?;
        Ok(())
    }

    fn log(&self, name: &str) -> PathBuf {
        self.path(&format!("{name}.log"))
    }

    /// How many run.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Waits until one is ready, which `is_ready` asks it.
    pub(super) fn wait(
        &mut self,
        name: &str,
        mut is_ready: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), UpError> {
        let begin = Instant::now();
        while let Err(why) = is_ready(self) {
            self.look()?;
            if begin.elapsed() > PATIENCE {
                let log = self.log(name).display().to_string();
                return Err(UpError::Late { name: name.to_owned(), why, log });
            }
        }
        Ok(())
    }

    /// Asks one of them.
    pub(super) fn ask(&mut self, socket: &str, request: &Value) -> Result<Value, String> {
        self.answered(socket, |connection| connection.ask(request))
    }

    /// Asks one of them what operators may ask.
    pub(super) fn request<O: Operation>(
        &mut self,
        socket: &str,
        operation: &O,
    ) -> Result<O::Answer, String> {
        self.answered(socket, |connection| connection.request(operation))
            .map(|document| document.answer)
    }

    fn answered<A>(
        &mut self,
        socket: &str,
        ask: impl FnOnce(&mut Connection) -> Result<A, ControlError>,
    ) -> Result<A, String> {
        if !self.sockets.contains_key(socket) {
            let open = Connection::open(&self.path(socket), Some(ANSWER));
            self.sockets.insert(socket.to_owned(), open.map_err(|error| error.to_string())?);
        }
        let Some(connection) = self.sockets.get_mut(socket) else { return Err(String::new()) };
        ask(connection).map_err(|error| {
            // It may be another's by now.
            self.sockets.remove(socket);
            error.to_string()
        })
    }

    /// Waits a moment.
    ///
    /// # Errors
    /// When one has ended, or a signal came.
    pub(super) fn look(&mut self) -> Result<(), UpError> {
        self.look_for(LOOK)
    }

    /// Waits so long.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub(super) fn look_for(&mut self, moment: Duration) -> Result<(), UpError> {
        if pause(&mut self.signals, moment) {
            return Err(UpError::Signal);
        }
        for (name, one) in &mut self.running {
            if let Ok(Some(status)) = one.child.try_wait() {
                let log = self.folder.join(format!("{name}.log"));
                let (name, last) = (name.clone(), last_line(&log));
                let (status, log) = (status.to_string(), log.display().to_string());
                return Err(UpError::Ended { name, status, last, log });
            }
        }
        Ok(())
    }

    /// Until a signal says to end.
    ///
    /// # Errors
    /// When one has ended.
    pub(super) fn wait_for_signal(&mut self) -> Result<(), UpError> {
        loop {
            match self.look_for(Duration::from_millis(200)) {
                Err(UpError::Signal) => return Ok(()),
                other => other?,
            }
        }
    }

    /// Whether one of this name runs.
    pub(super) fn runs(&self, name: &str) -> bool {
        self.running.iter().any(|(running, _)| running == name)
    }

    /// Kills one, as `kill -9` does.
    pub(super) fn kill(&mut self, name: &str) -> bool {
        let Some(place) = self.running.iter().position(|(running, _)| running == name) else {
            return false;
        };
        let (_, mut one) = self.running.remove(place);
        // It may have ended by itself.
        let _ = one.child.kill();
        let _ = one.child.wait();
        true
    }

    /// Sends one a signal.
    pub(super) fn signal(&self, name: &str, signal: Signal) {
        let one = self.running.iter().find(|(running, _)| running == name);
        if let Some(pid) = one.and_then(|(_, one)| Pid::from_raw(one.child.id() as i32)) {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends all, the last that was started first.
    pub(super) fn end(&mut self) {
        self.sockets.clear();
        while let Some((_, mut one)) = self.running.pop() {
            if let Some(pid) = Pid::from_raw(one.child.id() as i32) {
                // It may have ended by itself.
                let _ = kill_process(pid, Signal::TERM);
                // It may stand still.
                let _ = kill_process(pid, Signal::CONT);
            }
            let begin = Instant::now();
            while matches!(one.child.try_wait(), Ok(None)) {
                if begin.elapsed() > ENDING {
                    crate::output::note(format_args!("{} does not end: it is killed", one.program));
                    let _ = one.child.kill();
                    let _ = one.child.wait();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        self.end();
    }
}

fn own_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// The last that a process said.
fn last_line(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}
