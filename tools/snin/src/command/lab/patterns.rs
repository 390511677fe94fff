//! `snin lab --list-patterns`.

use std::io::Write;

use snin_fabric::traffic::{Listed, Pattern};

use crate::cli::Format;
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Every pattern with its degree and meaning.
pub(super) fn list<W: Write>(format: &Format, out: &mut Output<W>) -> Result<(), Failure> {
    if format.json.is_some() {
        let pattern = |listed: &Listed| {
            let Listed { name, degree, meaning } = *listed;
            serde_json::json!({ "name": name, "degree": degree, "meaning": meaning })
        };
        let all: Vec<_> = Pattern::LIST.iter().map(pattern).collect();
        return out.report(Target::open(format.json.as_deref())?, &all, |_| Ok(()));
    }
    out.line(format_args!("{:<13}{:<11}MEANING", "PATTERN", "DEGREE"))?;
    for Listed { name, degree, meaning } in Pattern::LIST {
        out.line(format_args!("{name:<13}{degree:<11}{meaning}"))?;
    }
    out.line("")?;
    out.line(
        "A pattern is served in as many windows as its degree. `static`, D-mod-K, is made for",
    )?;
    out.line("shifts: on them it is as good as snin.")
}
