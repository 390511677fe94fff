//! htsim's connection matrix.

use super::Demand;
use super::file::{FileError, Problem, demand};
use crate::names::HostNames;

/// What a connection line may say besides the pair, each with a number; only the size is used.
const KEYS: [&str; 7] =
    ["id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio"];
/// Lines about what triggers what and what fails.
const PASSED_OVER: [&str; 4] = ["Triggers", "trigger", "Failures", "failure"];

pub(super) fn is_cm(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.split_ascii_whitespace().next() == Some("Nodes"))
}

pub(super) fn parse(text: &str, names: &HostNames) -> Result<Vec<Demand>, FileError> {
    let mut demands = Vec::new();
    let (mut nodes, mut declared) = (u32::MAX, None);
    let mut last = 1;
    for (line, text) in text.lines().enumerate() {
        last = line + 1;
        let at = |problem| FileError { line: last, problem };
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None => {}
            Some(word) if word.starts_with('#') || PASSED_OVER.contains(&word) => {}
            Some("Nodes") => nodes = count(words.next(), "nodes").map_err(at)?,
            Some("Connections") => {
                declared = Some(count(words.next(), "connections").map_err(at)? as usize);
            }
            Some(pair) => {
                let not_understood = || at(Problem::Connection(text.to_owned()));
                let (source, destination) = pair.split_once("->").ok_or_else(not_understood)?;
                if !is_number(source) || !is_number(destination) {
                    return Err(not_understood());
                }
                let size = size(words).ok_or_else(not_understood)?;
                let bytes = size.map_or(Ok(None), bytes).map_err(at)?;
                let pair = demand(names, source, destination, None).map_err(at)?;
                let demand = Demand { bytes, ..pair };
                let host = demand.source.max(demand.destination);
                if host.0 >= nodes {
                    return Err(at(Problem::BeyondNodes { host, nodes }));
                }
                demands.push(demand);
            }
        }
    }
    match declared {
        Some(declared) if declared != demands.len() => {
            let problem = Problem::Connections { found: demands.len(), declared };
            Err(FileError { line: last, problem })
        }
        _ => Ok(demands),
    }
}

fn count(word: Option<&str>, of: &'static str) -> Result<u32, Problem> {
    let word = word.unwrap_or("");
    word.parse().map_err(|_| Problem::Count(word.to_owned(), of))
}

/// The size among known keys, each with a number; `None` where anything else is there.
fn size<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Option<&'a str>> {
    let mut size = None;
    while let Some(key) = words.next() {
        let value = words.next().filter(|value| value.parse::<f64>().is_ok())?;
        if !KEYS.contains(&key) {
            return None;
        }
        if key == "size" {
            size = Some(value);
        }
    }
    Some(size)
}

/// 0 is without end, as in htsim.
fn bytes(size: &str) -> Result<Option<u64>, Problem> {
    let bytes: u64 = size.parse().map_err(|_| Problem::Size(size.to_owned()))?;
    Ok((bytes > 0).then_some(bytes))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use crate::{Guid, PortNum};

    fn names(hosts: u64) -> HostNames {
        HostNames::new((0..hosts).map(|host| (Guid(host), PortNum(1), "host")))
    }

    #[test]
    fn pairs_and_sizes_are_used() {
        let text = b"Nodes 4\nConnections 2\nTriggers 1\n\
                     0->3 id 1 start 0 size 2000000 send_done_trigger 1\n\
                     3->1 id 2 start 0.5 size 0\n\
                     trigger id 1 oneshot\n";
        let sized = Demand { bytes: Some(2_000_000), ..Demand::new(0, 3) };
        assert_eq!(parse(text, &names(4)), Ok(vec![sized, Demand::new(3, 1)]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let cases = [
            (
                "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 9\n",
                "3: 1 connections, but the file declares 2 (is it truncated?)",
            ),
            ("Nodes 4\n0->4 id 1\n", "2: no host has number 4 (4 hosts, numbered from 0)"),
            ("Nodes 2\n0->3 id 1\n", "2: host 3 is beyond the 2 nodes that the file declares"),
            ("Nodes x\n", "1: `x` is no number of nodes"),
            ("Nodes 4\nConnections\n", "2: `` is no number of connections"),
            ("Nodes 4\n1->1 id 1\n", "2: host 1 sends to itself"),
            ("Nodes 4\n0->1 size 1.5\n", "2: bad size `1.5` (expected bytes, a whole number)"),
            (
                "Nodes 4\n0-1 id 1\n",
                "2: not understood: `0-1 id 1` (expected SOURCE->DESTINATION id I start T size S)",
            ),
            (
                "Nodes 4\n0->1 id\n",
                "2: not understood: `0->1 id` (expected SOURCE->DESTINATION id I start T size S)",
            ),
            (
                "Nodes 4\n0->host id 1\n",
                "2: not understood: `0->host id 1` (expected SOURCE->DESTINATION id I start T size S)",
            ),
        ];
        for (text, told) in cases {
            assert_eq!(parse(text.as_bytes(), &names(4)).unwrap_err().to_string(), told);
        }
    }

    /// A file that htsim's own tools made. It lies beside the repository, not in it.
    #[test]
    fn a_real_file_is_a_permutation() {
        let Some((_, text)) = snin_judges::shared("traffic/perm_1024_seed7.cm") else { return };
        let demands = parse(&text, &names(1024)).unwrap();
        assert_eq!(demands.len(), 1024);
        assert_eq!(demands[0], Demand { bytes: Some(2_000_000), ..Demand::new(871, 509) });
        assert!(demands.iter().all(|demand| demand.bytes == Some(2_000_000)));
        let mut sources: Vec<u32> = demands.iter().map(|demand| demand.source.0).collect();
        sources.sort_unstable();
        assert!(sources.into_iter().eq(0..1024));
    }
}
