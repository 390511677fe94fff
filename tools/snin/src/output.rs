//! Output of commands: data to stdout, progress and errors to stderr.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use snin_daemon::store::Draft;
use snin_fabric::printable;
use snin_protocol::operator::Document;

use crate::cli::Format;
use crate::failure::Failure;

/// Stdout, buffered. A closed pipe (`snin ... | head`) ends the command quietly.
pub(crate) struct Output<W: Write> {
    out: BufWriter<W>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out: BufWriter::new(out) }
    }

    /// One line, or several. Names come from the wire and from files: nothing in them moves the cursor.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        let text = text.to_string();
        let mut lines = text.split('\n').map(printable);
        lines.try_for_each(|line| writeln!(self.out, "{line}")).map_err(Failure::Output)
    }

    /// What a command found out: as text, as JSON in its place, or as text here and JSON in a file.
    pub(crate) fn report(
        &mut self,
        json: Option<Target>,
        document: &impl Serialize,
        text: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match json {
            Some(Target::Stdout) => self.json(document),
            Some(Target::File(file)) => {
                file.json(document)?;
                text(self)
            }
            None => text(self),
        }
    }

    /// A daemon's answer: as text by `print`, or as JSON where `format` wants it.
    pub(crate) fn answer<A: Serialize>(
        &mut self,
        document: Document<A>,
        format: &Format,
        print: impl FnOnce(&A, &mut Self) -> Result<(), Failure>,
    ) -> Result<A, Failure> {
        let json = Target::open(format.json.as_deref())?;
        self.report(json, &document, |out| print(&document.answer, out))?;
        Ok(document.answer)
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

/// Where a document goes that a user asked for.
#[derive(Debug)]
pub(crate) enum Target {
    /// In place of the text.
    Stdout,
    /// There as a whole when all is done, or not at all.
    File(OutputFile),
}

impl Target {
    /// `-` is stdout. A file is opened before the work begins: what cannot be written is not worked for.
    pub(crate) fn open(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        match path {
            None => Ok(None),
            Some(path) if path.as_os_str() == "-" => Ok(Some(Self::Stdout)),
            Some(path) => OutputFile::open(path).map(|file| Some(Self::File(file))),
        }
    }

    /// At most one of what was asked for goes to stdout.
    pub(crate) fn one_on_stdout(targets: &[(&'static str, &Option<Self>)]) -> Result<(), Failure> {
        let on_stdout =
            |target: &&(&'static str, &Option<Self>)| matches!(target.1, Some(Self::Stdout));
        let names: Vec<&str> = targets.iter().filter(on_stdout).map(|target| target.0).collect();
        if names.len() > 1 { Err(Failure::BothOnStdout(names.join(" and "))) } else { Ok(()) }
    }

    /// Writes it. `false` where it took the place of the text.
    pub(crate) fn write<W: Write>(self, text: &str, out: &mut Output<W>) -> Result<bool, Failure> {
        match self {
            Self::Stdout => out.text(text).map(|()| false),
            Self::File(file) => file.write(text.as_bytes()).map(|()| true),
        }
    }
}

/// A file that is there as a whole or not at all.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    draft: Draft,
}

impl OutputFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), draft: Draft::open(path)? })
    }

    /// All of it.
    pub(crate) fn write(mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.draft.write_all(bytes).map_err(Failure::file(&self.path))?;
        Ok(self.draft.publish()?)
    }

    /// One line more of it.
    pub(crate) fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        writeln!(self.draft, "{text}").map_err(Failure::file(&self.path))
    }

    /// There was no more.
    pub(crate) fn publish(self) -> Result<(), Failure> {
        Ok(self.draft.publish()?)
    }

    /// A document, indented.
    pub(crate) fn json(self, document: &impl Serialize) -> Result<(), Failure> {
        let Self { path, mut draft } = self;
        serde_json::to_writer_pretty(&mut draft, document)
            .map_err(io::Error::from)
            .and_then(|()| draft.write_all(b"\n"))
            .map_err(Failure::file(&path))?;
        Ok(draft.publish()?)
    }
}

/// What is being done, on stderr while it is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new_spinner();
        // As wide as the terminal at most: of a line that is broken in two only one would be cleared.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
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
    let text = text.to_string();
    let lines: Vec<_> = text.split('\n').map(printable).collect();
    let _ = writeln!(io::stderr(), "snin: {}", lines.join("\n"));
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
