//! Programs that measure two by two: one waits, the other calls it.

use std::error::Error;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a side may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
/// A side that waits for the other, and the other side, which says what they measured.
pub(super) struct Sides {
    waits: Child,
    calls: Child,
}

impl Sides {
    /// Starts both, when who waits listens at the port.
    pub(super) fn start(
        mut waits: Command,
        mut calls: Command,
        port: u16,
    ) -> Result<Self, Box<dyn Error>> {
        let mut waits = waits.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let called = listens(port)
            .and_then(|()| Ok(calls.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?));
        match called {
            Ok(calls) => Ok(Self { waits, calls }),
            Err(error) => {
                // A side that waits for no peer must not outlive its turn.
                waits.kill()?;
                Err(format!("{error}: {:?}", waits.wait_with_output()?).into())
            }
        }
    }

    /// What was said, when both are done.
    pub(super) fn end(mut self) -> Result<String, Box<dyn Error>> {
        let called = self.calls.wait_with_output()?;
        if !called.status.success() {
            self.waits.kill()?;
        }
        let waited = self.waits.wait_with_output()?;
        if !waited.status.success() || !called.status.success() {
            return Err(format!("who waits: {waited:?}\nwho calls: {called:?}").into());
        }
        Ok(String::from_utf8_lossy(&called.stdout).into_owned())
    }
}

/// Waits until a server listens at a TCP port.
fn listens(port: u16) -> Result<(), Box<dyn Error>> {
    let wanted = format!(":{port:04X}");
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
            let table = fs::read_to_string(table)?;
            let is_there = table.lines().any(|line| {
                let mut words = line.split_whitespace().skip(1);
                let local = words.next().is_some_and(|local| local.ends_with(&wanted));
                local && words.nth(1) == Some("0A")
            });
            if is_there {
                return Ok(());
            }
        }
        sleep(Duration::from_millis(10));
    }
    Err(format!("nobody listens at {port}").into())
}
