//! `snin sm merge`: several subnet databases become one, offline.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_sm_database::merge::{self, Merged, Rules, Snapshot, check};

use crate::Verdict;
use crate::cli::Merge;
use crate::failure::Failure;
use crate::input;
use crate::output::{Output, Target};

/// Merges, has the result checked, writes it and says what changed.
pub(crate) fn run<W: Write>(asked: &Merge, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let json = Target::open(asked.format.json.as_deref())?;
    let report = Target::open(asked.report.as_deref().filter(|path| *path != Path::new("-")))?;
    let output = Target::open(asked.output.as_deref())?;
    Target::one_on_stdout(&[("--json", &json), ("--output", &output)])?;
    let databases: Vec<Snapshot> =
        asked.databases.iter().map(|path| database(path)).collect::<Result<_, _>>()?;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time(u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX));
    let keep = asked.keep.as_deref().map(|name| keep(name, &databases)).transpose()?;
    let common = asked.common.iter().copied().collect();
    let rules = Rules { keep, common, ..Rules::at(now) };
    let Merged { snapshot, report: changes } =
        merge::merge(&databases, &rules).map_err(|error| Failure::Merge(error.to_string()))?;
    let wrong = check::check(&databases, &rules, &snapshot);
    if let Some(first) = wrong.first() {
        return Err(Failure::Merge(format!("the checker refuses the result: {first}")));
    }
    let well = changes.ahead.is_empty() && changes.unordered().next().is_none();
    let is_on_stdout = matches!(output, Some(Target::Stdout));
    if let Some(output) = output {
        output.write(&merge::write(&snapshot, true), out)?;
    }
    let text = changes.to_string();
    let document = json!({ "report": changes, "records": snapshot.len() });
    match report {
        Some(file) => file.write(&text, out).map(drop)?,
        None if is_on_stdout => return Ok(if well { Verdict::Well } else { Verdict::Unwell }),
        None => {}
    }
    let lines = |out: &mut Output<W>| text.lines().try_for_each(|line| out.line(line));
    match (json, is_on_stdout) {
        (Some(json), _) => out.report(Some(json), &document, lines)?,
        (None, false)
            if asked.report.is_none() || asked.report.as_deref() == Some(Path::new("-")) =>
        {
            lines(out)?;
        }
        _ => {}
    }
    Ok(if well { Verdict::Well } else { Verdict::Unwell })
}

fn database(path: &Path) -> Result<Snapshot, Failure> {
    let bytes = input::file(path)?;
    let name = path.display().to_string();
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| Failure::content(&name, "1: no text (expected `snin-smdb 1`)"))?;
    merge::read(text).map_err(|error| Failure::content(&name, error))
}

/// The master of the subnet of that name, or with that GUID.
fn keep(name: &str, databases: &[Snapshot]) -> Result<Guid, Failure> {
    let has_name = |database: &&Snapshot| {
        let called = database.own().is_some_and(|subnet| *subnet.name == *name);
        called || name.parse() == Ok(database.master)
    };
    let mut found: Vec<Guid> =
        databases.iter().filter(has_name).map(|database| database.master).collect();
    found.dedup();
    match found[..] {
        [one] => Ok(one),
        [] => {
            let names = databases.iter().filter_map(|database| {
                database.own().map(|subnet| format!("{} ({})", subnet.name, database.master))
            });
            let names: Vec<String> = names.collect();
            Err(Failure::Merge(format!(
                "--keep {name}: no such subnet; there is {}",
                names.join(", ")
            )))
        }
        _ => Err(Failure::Merge(format!("--keep {name}: several have that name; take a GUID"))),
    }
}
