//! Demands from files, in either of the two forms.

use super::{Demand, cm, csv};
use crate::hosts::HostId;
use crate::names::{HostNames, NameError};

/// What is wrong with a file of demands, and on which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct FileError {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub problem: Problem,
}

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not UTF-8, or a NUL byte.
    #[error("this is no text (binary data)")]
    Binary,
    /// No host, or more than one, has this name.
    #[error(transparent)]
    Host(#[from] NameError),
    /// A host that wants to send to itself.
    #[error("host {0} sends to itself")]
    Itself(HostId),
    /// Too few or too many fields.
    #[error("{fields} fields (expected source,destination or source,destination,rate)")]
    Fields {
        /// How many there are.
        fields: usize,
    },
    /// A quoted field that goes on over the end of the line.
    #[error("a quoted field is not closed on this line")]
    OpenQuote,
    /// A rate that is no number of bits a second.
    #[error("bad rate `{0:.40}` (expected bit/s, at least 1, such as 400G, 2500M, 64k or 1000)")]
    Rate(String),
    /// A size that is no number of bytes.
    #[error("bad size `{0:.40}` (expected bytes, a whole number)")]
    Size(String),
    /// A line of a `.cm` file that has no meaning.
    #[error("not understood: `{0:.40}` (expected SOURCE->DESTINATION id I start T size S)")]
    Connection(String),
    /// The count in the head of a `.cm` file.
    #[error("`{0:.40}` is no number of {1}")]
    Count(String, &'static str),
    /// A host number beyond those that the `.cm` file itself declares.
    #[error("host {host} is beyond the {nodes} nodes that the file declares")]
    BeyondNodes {
        /// The host.
        host: HostId,
        /// `Nodes N`.
        nodes: u32,
    },
    /// More or fewer connections than the file's head says.
    #[error("{found} connections, but the file declares {declared} (is it truncated?)")]
    Connections {
        /// How many there are.
        found: usize,
        /// `Connections M`.
        declared: usize,
    },
}

/// Reads demands, in the order of the file. What begins with `Nodes N` is htsim's connection matrix:
///
/// ```text
/// Nodes 1024
/// Connections 2
/// 871->509 id 1 start 0 size 2000000
/// 473->700 id 2 start 0 size 2000000
/// ```
///
/// of which hosts are numbers, and the pairs and sizes (in bytes; 0 is without end) are used: not when or
/// after what. Lines that say what triggers what, and what fails, are passed over.
///
/// All else is CSV, `source,destination[,rate]`: hosts as in [`names`](crate::names)
/// (in quotes where it holds a comma; spaces around it do not count), rates in bit/s, with k, M or G for
/// 10^3, 10^6 and 10^9. Empty lines and lines that begin with `#` do not count, nor does a header
/// (`source,destination,...`) on the first line that does.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &[u8], names: &HostNames) -> Result<Vec<Demand>, FileError> {
    if let Some(nul) = text.iter().position(|&byte| byte == 0) {
        return Err(binary(text, nul));
    }
    let utf8 = str::from_utf8(text).map_err(|error| binary(text, error.valid_up_to()))?;
    if cm::is_cm(utf8) { cm::parse(utf8, names) } else { csv::parse(utf8, names) }
}

fn binary(text: &[u8], at: usize) -> FileError {
    let line = text[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
    FileError { line, problem: Problem::Binary }
}

/// A demand of two named hosts.
pub(super) fn demand(
    names: &HostNames,
    source: &str,
    destination: &str,
    rate: Option<u64>,
) -> Result<Demand, Problem> {
    let (source, destination) = (names.find(source)?, names.find(destination)?);
    if source == destination {
        return Err(Problem::Itself(source));
    }
    Ok(Demand { source, destination, rate, bytes: None })
}
