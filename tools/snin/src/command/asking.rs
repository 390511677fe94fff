//! A running daemon is asked, and its answer is shown: the one way of every command that does.

use std::io::Write;

use snin_protocol::operator::{Document, Operation};

use crate::cli::Format;
use crate::failure::Failure;
use crate::output::Output;

/// A daemon as the command line names it, and how its answers are shown.
pub(super) trait Daemon {
    /// Asks it.
    fn ask<O: Operation>(&self, operation: &O) -> Result<Document<O::Answer>, Failure>;

    /// As text, or as JSON.
    fn format(&self) -> &Format;
}

/// Asks, and shows the answer by `print`.
pub(super) fn show<O: Operation, W: Write>(
    daemon: &impl Daemon,
    operation: &O,
    out: &mut Output<W>,
    print: impl FnOnce(&O::Answer, &mut Output<W>) -> Result<(), Failure>,
) -> Result<O::Answer, Failure> {
    out.answer(daemon.ask(operation)?, daemon.format(), print)
}
