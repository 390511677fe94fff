//! The files in which subnet managers and diagnostic tools keep tables and addresses.
//!
//! [`lfts`]: what `dump_fts`, `ibroute` and `opensm` print of forwarding tables; OpenSM loads the last of
//! these (`opensm -R file -U FILE`). [`guid2lid`]: OpenSM's memory of who has which LIDs.

pub mod guid2lid;
pub mod lfts;

/// What is wrong with a file, and on which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct DumpError<P> {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub problem: P,
}
