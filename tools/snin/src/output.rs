//! Where a command writes: data to stdout, progress and errors to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;

use crate::failure::Failure;

/// Stdout, buffered. A closed pipe (`snin ... | head`) ends the command quietly.
pub(crate) struct Output<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// One line.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        writeln!(self.out, "{text}").map_err(Failure::Output)
    }

    /// Text as it is.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes()).map_err(Failure::Output)
    }

    /// A document, indented.
    pub(crate) fn json(&mut self, document: &impl Serialize) -> Result<(), Failure> {
        let write = serde_json::to_writer_pretty(&mut self.out, document);
        write.map_err(|error| Failure::Output(error.into()))?;
        self.line("")
    }

    /// What was written so far goes out now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::Output)
    }

    /// Everything out.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.out.flush().map_err(Failure::Output)
    }
}

/// What is being done, on stderr while it is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        if io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self { bar }
    }

    /// The next step has begun.
    pub(crate) fn step(&self, what: impl Into<std::borrow::Cow<'static, str>>) {
        self.bar.set_message(what);
    }
}

/// One line on stderr for a person; a closed stderr is not worth failing for.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "snin: {text}");
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
