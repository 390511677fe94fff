//! Why a judge gave no verdict.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a judge gave no verdict. `Debug` is `Display`, so that a test that returns it fails in one line.
#[derive(thiserror::Error)]
pub enum JudgeError {
    /// The program is not there.
    #[error("{program} is not installed: install the Debian package {package}")]
    Missing {
        /// The program.
        program: &'static str,
        /// Where it comes from.
        package: &'static str,
    },
    /// A file that cannot be written or read, or a process that cannot be started.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The program ended with an error.
    #[error("{program} failed ({status}); it said: {tail}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last of what it said.
        tail: String,
    },
    /// ibsim's console does not take a line.
    #[error("ibsim refuses {line}: {said}")]
    Refused {
        /// What was typed.
        line: String,
        /// What it said.
        said: String,
    },
    /// The program could not read all it was asked for.
    #[error("{program} left something out: {why}")]
    Incomplete {
        /// The program.
        program: &'static str,
        /// Its complaint.
        why: String,
    },
    /// The program took too long and was ended.
    #[error("{program} was not done after {} s; it said: {tail}", limit.as_secs())]
    TooLong {
        /// The program.
        program: String,
        /// How long it was given.
        limit: Duration,
        /// The last of what it said.
        tail: String,
    },
}

impl fmt::Debug for JudgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl JudgeError {
    /// For `map_err`: what failed at this path.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |error| Self::File { path, error }
    }
}
