//! Messages for people: to journald, to a file, or to stderr.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::generations::{Generations, Limit};

/// Where messages go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sink {
    /// To stderr.
    Stderr,
    /// To journald, with fields.
    Journald,
    /// To the end of a file.
    File(PathBuf),
}

impl From<&str> for Sink {
    /// `stderr`, `journald`, or a file's name.
    fn from(text: &str) -> Self {
        match text {
            "stderr" => Self::Stderr,
            "journald" => Self::Journald,
            path => Self::File(path.into()),
        }
    }
}

/// The log of a process.
pub struct Log {
    file: Option<Shared>,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// A file that cannot be written.
    #[error("{}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// No journald.
    #[error("journald: {0}: log to a file or to stderr")]
    Journald(io::Error),
    /// No such level.
    #[error("log level {0}: error, warn, info, debug or trace")]
    Level(String),
}

/// The level of this name.
///
/// # Errors
/// [`LogError::Level`].
pub fn level(name: &str) -> Result<Level, LogError> {
    name.parse().map_err(|_| LogError::Level(name.to_owned()))
}

/// From now on messages of this level and above go there; a file is begun anew at its limit. Once a process: later
/// calls change nothing.
///
/// # Errors
/// When that place cannot be written.
pub fn start(sink: &Sink, level: Level, limit: Limit) -> Result<Log, LogError> {
    let filter = LevelFilter::from_level(level);
    let registry = tracing_subscriber::registry().with(filter);
    let lines = tracing_subscriber::fmt::layer().with_target(false);
    let (started, file) = match sink {
        Sink::Stderr => {
            let lines = lines.with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
            (registry.with(lines).try_init(), None)
        }
        Sink::Journald => {
            let layer = tracing_journald::layer().map_err(LogError::Journald)?;
            (registry.with(layer).try_init(), None)
        }
        Sink::File(path) => {
            let failed = |error| LogError::File { path: path.clone(), error };
            let file = Generations::open(path, limit).map_err(failed)?;
            let file = Shared(Arc::new(Mutex::new(file)));
            let lines = lines.with_writer(file.clone()).with_ansi(false);
            (registry.with(lines).try_init(), Some(file))
        }
    };
    // The first log stays: in one process there is one.
    drop(started);
    Ok(Log { file })
}

impl Log {
    /// Goes on in a new file of the same name, after the old one was moved away.
    ///
    /// # Errors
    /// When it cannot be written; the old one is written on.
    pub fn reopen(&self) -> Result<(), LogError> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut file = file.0.lock().unwrap_or_else(PoisonError::into_inner);
        let path = file.path().to_owned();
        file.reopen().map_err(|error| LogError::File { path, error })
    }
}

/// A file that can be exchanged while it is written to.
#[derive(Clone)]
struct Shared(Arc<Mutex<Generations>>);

impl Write for Shared {
    /// A message comes as a whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Shared {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
