//! OpenSM's file of names (`--node-name-map`): nodes by GUID, as a site calls them.
//!
//! ```text
//! # comment
//! 0x0002c90200200001 "leaf 1"
//! 0x0002c90200200002 "spine 1"   # row C
//! ```
//!
//! As in OpenSM the quotes may be missing: then the name is the rest of the line.

use std::collections::BTreeMap;

use crate::{Guid, Topology};

/// The longest line.
const MAX_LINE: usize = 4096;
/// The most nodes.
const MAX_NODES: usize = crate::topology::MAX_NODES;

/// What is wrong with a map, and on which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct MapError {
    /// Line number, from 1.
    pub line: usize,
    /// The error.
    pub problem: MapProblem,
}

/// The error in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapProblem {
    /// A NUL byte, or a line without end: not a text file.
    #[error("this is no map of node names (binary data)")]
    Binary,
    /// No GUID, or no name.
    #[error("not understood: `{0:.60}` (expected GUID \"NAME\")")]
    Form(String),
    /// A GUID with two names.
    #[error("{guid} has another name on line {first}")]
    Twice {
        /// The node.
        guid: Guid,
        /// Where it was first.
        first: usize,
    },
    /// More than a fabric has.
    #[error("more than {MAX_NODES} nodes")]
    TooMany,
}

/// Names of nodes by GUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNameMap {
    names: BTreeMap<Guid, (Box<str>, usize)>,
}

impl NodeNameMap {
    /// Reads the text. Nodes that the fabric does not have are none of its faults: a map is of a whole site.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &[u8]) -> Result<Self, MapError> {
        let mut names: BTreeMap<Guid, (Box<str>, usize)> = BTreeMap::new();
        for (number, bytes) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            let at = |problem| MapError { line: number, problem };
            if bytes.len() > MAX_LINE || bytes.contains(&0) {
                return Err(at(MapProblem::Binary));
            }
            let line = String::from_utf8_lossy(bytes);
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = entry(line).ok_or_else(|| at(MapProblem::Form(line.to_owned())));
            let (guid, name) = entry?;
            match names.get(&guid) {
                Some((known, first)) if **known != *name => {
                    return Err(at(MapProblem::Twice { guid, first: *first }));
                }
                Some(_) => {}
                None if names.len() >= MAX_NODES => return Err(at(MapProblem::TooMany)),
                None => drop(names.insert(guid, (name.into(), number))),
            }
        }
        Ok(Self { names })
    }

    /// The name of a node, where the map has one.
    pub fn get(&self, node: Guid) -> Option<&str> {
        self.names.get(&node).map(|(name, _)| &**name)
    }

    /// The fabric with these names in place of its own.
    pub fn applied(&self, topology: &Topology) -> Topology {
        topology.renamed(|node| self.get(node))
    }
}

fn entry(line: &str) -> Option<(Guid, &str)> {
    let (guid, rest) = line.split_once(|c: char| c.is_ascii_whitespace() || c == '"')?;
    let guid = if guid.starts_with("0x") { guid.parse().ok()? } else { return None };
    let quoted = line[line.len() - rest.len() - 1..].trim_start().strip_prefix('"');
    let name = match quoted {
        Some(quoted) => quoted.split_once('"')?.0,
        None => rest.split('#').next().unwrap_or_default(),
    };
    let name = name.trim();
    (!name.is_empty()).then_some((guid, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_in_opensms_form_is_read() {
        let text = b"# names\n\n0x10 \"leaf 1\"\n 0x20 spine # row C\n0x30\t\"caf\xe9\" # x\n0x10 \"leaf 1\"\n";
        let map = NodeNameMap::parse(text).unwrap();
        assert_eq!(map.get(Guid(0x10)), Some("leaf 1"));
        assert_eq!(map.get(Guid(0x20)), Some("spine"));
        assert_eq!(map.get(Guid(0x30)), Some("caf\u{fffd}"));
        assert_eq!(map.get(Guid(0x40)), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &[u8]| NodeNameMap::parse(text).unwrap_err().to_string();
        let form = "(expected GUID \"NAME\")";
        assert_eq!(told(b"\nleaf1"), format!("2: not understood: `leaf1` {form}"));
        assert_eq!(told(b"0x1 \"\""), format!("1: not understood: `0x1 \"\"` {form}"));
        assert_eq!(told(b"0x1 \"open"), format!("1: not understood: `0x1 \"open` {form}"));
        assert_eq!(told(b"leaf1 \"a\""), format!("1: not understood: `leaf1 \"a\"` {form}"));
        assert_eq!(told(b"0x1 a\n0x1 b"), "2: 0x0000000000000001 has another name on line 1");
        assert_eq!(told(b"0x1\0"), "1: this is no map of node names (binary data)");
    }
}
