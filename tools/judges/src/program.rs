//! Programs: where they are, and running them to their end.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::JudgeError;

/// How often a running program is looked after.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// A program and the Debian package it comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The Debian package.
    pub package: &'static str,
}

impl Program {
    /// The simulator of a whole fabric.
    pub const IBSIM: Self = Self { name: "ibsim", package: "ibsim-utils" };
    /// Runs another program in the simulated fabric.
    pub const IBSIM_RUN: Self = Self { name: "ibsim-run", package: "ibsim-utils" };
    /// The subnet manager.
    pub const OPENSM: Self = Self { name: "opensm", package: "opensm" };
    /// Prints the forwarding tables of all switches.
    pub const DUMP_FTS: Self = Self { name: "dump_fts", package: "infiniband-diags" };
    /// Prints one switch's forwarding table.
    pub const IBROUTE: Self = Self { name: "ibroute", package: "infiniband-diags" };
    /// Follows the tables from one address to another.
    pub const IBTRACERT: Self = Self { name: "ibtracert", package: "infiniband-diags" };
    /// Prints every link and its state.
    pub const IBLINKINFO: Self = Self { name: "iblinkinfo", package: "infiniband-diags" };
    /// Asks one node one thing.
    pub const SMPQUERY: Self = Self { name: "smpquery", package: "infiniband-diags" };
    /// Asks a subnet manager what it is.
    pub const SMINFO: Self = Self { name: "sminfo", package: "infiniband-diags" };
    /// Reads and judges every port's counters.
    pub const IBQUERYERRORS: Self = Self { name: "ibqueryerrors", package: "infiniband-diags" };
    /// Asks subnet administration.
    pub const SAQUERY: Self = Self { name: "saquery", package: "infiniband-diags" };
    /// OpenSM's own test of subnet administration.
    pub const OSMTEST: Self = Self { name: "osmtest", package: "opensm" };
    /// Prints nodes, cables and addresses.
    pub const IBNETDISCOVER: Self = Self { name: "ibnetdiscover", package: "infiniband-diags" };

    /// Judges units.
    pub const SYSTEMD_ANALYZE: Self = Self { name: "systemd-analyze", package: "systemd" };
    /// The store of a cluster.
    pub const ETCD: Self = Self { name: "etcd", package: "etcd-server" };
    /// Asks it.
    pub const ETCDCTL: Self = Self { name: "etcdctl", package: "etcd-client" };

    /// Where it is: on the search path, or where Debian keeps the administrator's programs, which the
    /// search path of others lacks.
    ///
    /// # Errors
    /// [`JudgeError::Missing`].
    pub fn find(&self) -> Result<PathBuf, JudgeError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let administrators = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        std::env::split_paths(&path)
            .chain(administrators)
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or(JudgeError::Missing { program: self.name, package: self.package })
    }
}

/// What a program wrote.
#[derive(Clone, Debug)]
pub struct Said {
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

/// Runs a program to its end, which must be good. What it writes passes through files in `folder`: pipes
/// would stall a program that says much.
///
/// # Errors
/// When it cannot be started, takes longer than `limit` or ends with a status other than 0.
pub fn finish(command: &mut Command, folder: &Path, limit: Duration) -> Result<Said, JudgeError> {
    let name = name_of(command);
    let mut running = Running::start(command, folder, &name)?;
    let start = Instant::now();
    let status = loop {
        match running.ended()? {
            Some(status) => break status,
            None if start.elapsed() > limit => {
                let tail = running.tail();
                return Err(JudgeError::TooLong { program: name, limit, tail });
            }
            None => sleep(LOOK),
        }
    };
    if !status.success() {
        return Err(JudgeError::Failed { program: name, status, tail: running.tail() });
    }
    let read = |path: &Path| fs::read(path).map_err(JudgeError::file(path));
    let err = String::from_utf8_lossy(&read(&running.err)?).into_owned();
    Ok(Said { out: read(&running.out)?, err })
}

/// The program that `ibsim-run` is to run, or the command's own.
fn name_of(command: &Command) -> String {
    let wrapped = command.get_program().to_string_lossy().ends_with(Program::IBSIM_RUN.name);
    let program =
        command.get_args().next().filter(|_| wrapped).unwrap_or_else(|| command.get_program());
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

/// A process that ends with the value, and the files it writes to.
pub struct Running {
    child: Child,
    /// What it says.
    pub out: PathBuf,
    /// What it complains of.
    pub err: PathBuf,
}

impl Running {
    /// Starts it; what it says goes to files in `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command, folder: &Path, name: &str) -> Result<Self, JudgeError> {
        Self::spawn(command.stdin(Stdio::null()), folder, name)
    }

    /// With a pipe to type into.
    pub(crate) fn with_input(
        command: &mut Command,
        folder: &Path,
        name: &str,
    ) -> Result<(Self, ChildStdin), JudgeError> {
        let mut running = Self::spawn(command.stdin(Stdio::piped()), folder, name)?;
        let closed = || JudgeError::file(folder)(io::ErrorKind::BrokenPipe.into());
        let input = running.child.stdin.take().ok_or_else(closed)?;
        Ok((running, input))
    }

    fn spawn(command: &mut Command, folder: &Path, name: &str) -> Result<Self, JudgeError> {
        let create = |path: &PathBuf| File::create(path).map_err(JudgeError::file(path));
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        command.stdout(create(&out)?).stderr(create(&err)?);
        let child = command.spawn().map_err(JudgeError::file(command.get_program()))?;
        Ok(Self { child, out, err })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, JudgeError> {
        self.child.try_wait().map_err(JudgeError::file(&self.out))
    }

    /// The last three lines of either output, on one line.
    pub fn tail(&self) -> String {
        let last = |path: &PathBuf| {
            let text = fs::read(path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            lines[lines.len().saturating_sub(3)..].join(" | ")
        };
        [last(&self.err), last(&self.out)].join(" | ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_one_line_with_its_package() {
        let program = Program { name: "no-such-judge", package: "judges" };
        let error = format!("{:?}", program.find().unwrap_err());
        assert_eq!(error, "no-such-judge is not installed: install the Debian package judges");
    }

    #[test]
    fn a_program_that_fails_or_hangs_is_told_with_its_last_words() -> Result<(), JudgeError> {
        let folder = tempfile::tempdir().map_err(JudgeError::file("a temporary folder"))?;
        let run = |script: &str, limit| {
            let limit = Duration::from_millis(limit);
            finish(Command::new("sh").args(["-c", script]), folder.path(), limit)
        };
        assert_eq!(run("echo good", 60_000)?.out, b"good\n");
        let failed = run("echo bad >&2; exit 3", 60_000).unwrap_err().to_string();
        assert_eq!(failed, "sh failed (exit status: 3); it said: bad | ");
        let hangs = run("exec sleep 60", 100).unwrap_err().to_string();
        assert_eq!(hangs, "sh was not done after 0 s; it said:  | ");
        Ok(())
    }
}
