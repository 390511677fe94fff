//! Signals as something to poll.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::pipe;

use crate::watch::Watch;

/// What a daemon is told by a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM, SIGINT: end well.
    End,
    /// SIGHUP: look at everything again.
    Again,
    /// SIGUSR1: the log file was moved away.
    Reopen,
}

/// The signals that came.
pub struct Signals {
    pipes: Vec<(Signal, UnixStream)>,
}

impl Signals {
    /// From now on signals no longer end the process.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> io::Result<Self> {
        let meant = [
            (SIGTERM, Signal::End),
            (SIGINT, Signal::End),
            (SIGHUP, Signal::Again),
            (SIGUSR1, Signal::Reopen),
        ];
        let mut pipes = Vec::with_capacity(meant.len());
        for (number, signal) in meant {
            let (here, there) = UnixStream::pair()?;
            here.set_nonblocking(true)?;
            pipe::register(number, there)?;
            pipes.push((signal, here));
        }
        Ok(Self { pipes })
    }

    /// Waits for signals too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        for (_, pipe) in &self.pipes {
            watch.readable(pipe.as_fd());
        }
    }

    /// The next signal that came; the same one many times in a row counts once.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<Signal> {
        self.pipes.iter_mut().find_map(|(signal, pipe)| {
            let mut buffer = [0; 64];
            let mut came = false;
            while pipe.read(&mut buffer).is_ok_and(|n| n > 0) {
                came = true;
            }
            came.then_some(*signal)
        })
    }
}
