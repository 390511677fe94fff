//! A job's trees as a text, and read from it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::{JobHost, JobTrees, MAX_HOSTS, MAX_TEXT};
use crate::{Guid, Lid, TreeId, printable};

const HEAD: &str = "snin-job 1";

/// What is wrong with a text, with its line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}: {what}")]
pub struct JobError {
    /// From 1.
    pub line: usize,
    /// What is wrong, with the value.
    pub what: String,
}

impl fmt::Display for JobTrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\nowner {}", self.owner)?;
        if let Some(user) = self.user {
            writeln!(f, "uid {user}")?;
        }
        for (leaf, trees) in &self.leaves {
            let trees: Vec<String> = trees.iter().map(|tree| tree.0.to_string()).collect();
            writeln!(f, "leaf {leaf} {}", trees.join(","))?;
        }
        for JobHost { name, port, leaf, lids: (first, last), along } in &self.hosts {
            let (along, name) = (addresses(along), printable(name));
            writeln!(f, "host {port} {leaf} {first}-{last} {along} {name}")?;
        }
        for ((leaf, to), along) in &self.from {
            writeln!(f, "from {leaf} {to} {}", addresses(along))?;
        }
        let mut pins = self.pins.iter();
        pins.try_for_each(|((from, to), tree)| writeln!(f, "pin {from} {to} {}", tree.0))?;
        if self.sl > 0 {
            writeln!(f, "sl {}", self.sl)?;
        }
        if let Some(pattern) = &self.collective {
            writeln!(f, "collective {pattern}")?;
        }
        Ok(())
    }
}

impl FromStr for JobTrees {
    type Err = JobError;

    fn from_str(text: &str) -> Result<Self, JobError> {
        let failed = |line, what: String| Err(JobError { line, what });
        if text.len() > MAX_TEXT {
            return failed(1, format!("{} bytes, at most {MAX_TEXT}", text.len()));
        }
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        if lines.next().is_none_or(|(_, line)| line != HEAD) {
            return failed(1, format!("no job's trees: they begin with `{HEAD}`"));
        }
        let (mut owner, mut user, mut sl, mut collective) = (None, None, 0, None);
        let (mut pairs, mut hosts) = (Vec::new(), Vec::new());
        let (mut pins, mut leads) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            let read = match line.split_once(' ') {
                Some(("owner", name)) => {
                    owner = Some(name.to_owned());
                    Some(())
                }
                Some(("collective", pattern)) => {
                    collective = Some(pattern.to_owned());
                    Some(())
                }
                Some(("uid", text)) => text.parse().ok().map(|read| user = Some(read)),
                Some(("leaf", rest)) => leaf(rest).map(|read| pairs.extend(read)),
                Some(("host", rest)) if hosts.len() < MAX_HOSTS => {
                    host(rest).map(|read| hosts.push(read))
                }
                Some(("sl", text)) => {
                    text.parse().ok().filter(|read| (0..16).contains(read)).map(|read| sl = read)
                }
                Some(("pin", rest)) => pin(rest).map(|read| pins.push((number, read))),
                Some(("from", rest)) => from(rest).map(|read| leads.push((number, read))),
                _ => None,
            };
            if read.is_none() {
                return failed(
                    number,
                    format!("`{line:.80}`: no owner, uid, leaf, host, from, pin, sl or collective"),
                );
            }
        }
        let Some(owner) = owner else { return failed(1, "no owner".to_owned()) };
        let trees = Self::new(&owner, user, &pairs, hosts).with_sl(sl);
        let mut trees = Self { collective, ..trees };
        for (line, (from, to, tree)) in pins {
            trees.pin(from, to, tree).map_err(|why| JobError { line, what: why.to_string() })?;
        }
        for (line, (leaf, to, along)) in leads {
            trees.lead(leaf, to, along).map_err(|why| JobError { line, what: why.to_string() })?;
        }
        Ok(trees)
    }
}

fn leaf(text: &str) -> Option<Vec<(Guid, TreeId)>> {
    let (leaf, trees) = text.split_once(' ')?;
    let leaf: Guid = leaf.parse().ok()?;
    trees.split(',').map(|tree| Some((leaf, TreeId(tree.parse().ok()?)))).collect()
}

fn host(text: &str) -> Option<JobHost> {
    let mut words = text.splitn(5, ' ');
    let mut word = || words.next();
    let (port, leaf, lids, along, name) = (word()?, word()?, word()?, word()?, word()?);
    let (first, last) = lids.split_once('-')?;
    let lids = (lid(first)?, lid(last)?);
    let along = parse_addresses(along)?;
    if !along.values().all(|lid| (lids.0..=lids.1).contains(lid)) {
        return None;
    }
    let (port, leaf) = (port.parse().ok()?, leaf.parse().ok()?);
    Some(JobHost { name: name.to_owned(), port, leaf, lids, along })
}

/// Leaf, the receiver's first address, and its address along each tree.
fn from(text: &str) -> Option<(Guid, Lid, BTreeMap<TreeId, Lid>)> {
    let mut words = text.splitn(3, ' ');
    let (leaf, to, along) = (words.next()?, words.next()?, words.next()?);
    Some((leaf.parse().ok()?, lid(to)?, parse_addresses(along)?))
}

/// `0=32,1=33`: addresses by tree.
fn addresses(along: &BTreeMap<TreeId, Lid>) -> String {
    let along = along.iter().map(|(tree, lid)| format!("{}={lid}", tree.0));
    along.collect::<Vec<_>>().join(",")
}

fn parse_addresses(text: &str) -> Option<BTreeMap<TreeId, Lid>> {
    let address = |text: &str| {
        let (tree, at) = text.split_once('=')?;
        Some((TreeId(tree.parse().ok()?), lid(at)?))
    };
    text.split(',').filter(|text| !text.is_empty()).map(address).collect()
}

fn pin(text: &str) -> Option<(Lid, Lid, TreeId)> {
    let mut words = text.splitn(3, ' ');
    let (from, to, tree) = (words.next()?, words.next()?, words.next()?);
    Some((lid(from)?, lid(to)?, TreeId(tree.parse().ok()?)))
}

fn lid(text: &str) -> Option<Lid> {
    text.parse().ok().map(Lid)
}

#[cfg(test)]
mod tests {
    use super::super::Mode;
    use super::*;

    /// Two leaves, two hosts on each, four trees; the slice has trees 1 and 3.
    fn text() -> String {
        let mut text = "snin-job 1\nowner slurm/7\nuid 1000\n".to_owned();
        for leaf in 1..=2 {
            text += &format!("leaf 0x{leaf:016x} 1,3\n");
        }
        for host in 0..4_u32 {
            let (leaf, base) = (host / 2 + 1, 32 * (host + 1));
            let along: Vec<String> = (0..4).map(|tree| format!("{tree}={}", base + tree)).collect();
            let lids = format!("{base}-{}", base + 3);
            text += &format!(
                "host 0x{:016x} 0x{leaf:016x} {lids} {} node {host}\n",
                0x20 + host,
                along.join(",")
            );
        }
        text
    }

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let trees: JobTrees = text().parse().unwrap();
        assert_eq!(trees.to_string(), text());
        assert_eq!((trees.owner(), trees.user()), ("slurm/7", Some(1000)));
        assert_eq!(trees.host(Lid(98)).unwrap().name, "node 2");
    }

    #[test]
    fn both_ends_agree_in_both_directions() {
        let mut trees: JobTrees = text().parse().unwrap();
        trees.pin(Lid(32), Lid(99), TreeId(0)).unwrap();
        for (a, b) in [(32, 96), (32, 128), (64, 96), (64, 128), (32, 64)] {
            let here = trees.way(Lid(a), Lid(b)).unwrap().unwrap();
            // The other end knows the address that it is called by.
            let there = trees.way(Lid(b + 2), Lid(a + 1)).unwrap().unwrap();
            assert_eq!((here.to, here.from), (there.from, there.to), "{a} {b}");
        }
        let way = |a, b| trees.way(Lid(a), Lid(b)).unwrap().unwrap();
        assert_eq!((way(32, 96).tree, way(96, 32).tree), (Some(TreeId(0)), Some(TreeId(1))));
        // By the receiver's place on its leaf; none within a leaf.
        assert_eq!((way(64, 96).to, way(64, 128).to), (Lid(97), Lid(131)));
        assert_eq!((way(32, 65).to, way(32, 65).tree), (Lid(64), None));
        assert_eq!(trees.way(Lid(32), Lid(33)), Ok(None));
    }

    /// From the first leaf the addresses of the second one's hosts lead along the trees in another order.
    #[test]
    fn another_managers_addresses_are_by_the_senders_leaf() {
        let mut said = text();
        for at in 0..4 {
            let base = 32 * (at + 1);
            let along: Vec<String> = (0..4).map(|tree| format!("{tree}={}", base + tree)).collect();
            said = said.replace(&along.join(","), "");
        }
        for (leaf, to) in [(1, 96), (1, 128), (2, 32), (2, 64)] {
            let along = |tree| to + (tree + leaf) % 4;
            said += &format!("from 0x{leaf:016x} {to} 1={},3={}\n", along(1), along(3));
        }
        let trees: JobTrees = said.parse().unwrap();
        assert_eq!(trees.to_string(), said);
        let way = trees.way(Lid(64), Lid(130)).unwrap().unwrap();
        // There along tree 3, as the receiver is the second of its leaf; back along tree 3 too.
        assert_eq!((way.to, way.tree), (Lid(128), Some(TreeId(3))));
        assert_eq!(way.from, Lid(65));
        let why = (said + "from 0x1 96 1=32\n").parse::<JobTrees>().unwrap_err().to_string();
        assert_eq!(why, "14: address 32 is no host's of job slurm/7");
    }

    #[test]
    fn a_pattern_is_told() {
        let said = text() + "sl 3\ncollective halo 2x2x1\n";
        let trees: JobTrees = said.parse().unwrap();
        assert_eq!((trees.to_string(), trees.collective()), (said, Some("halo 2x2x1")));
        let modes = ["slice", "ring", "halo:4x4"].map(Mode::parse);
        assert_eq!(modes, [Some(Mode::Slice), Some(Mode::Collective), Some(Mode::Collective)]);
        for wrong in ["rings", "ring:4", "halo", "halo:", "halo:4x", "grid:0x4", "grid:1x2x3x4"] {
            assert_eq!(Mode::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_has_no_way_is_named() {
        let trees: JobTrees = text().replace("leaf 0x0000000000000002 1,3\n", "").parse().unwrap();
        let why = |a, b| trees.way(Lid(a), Lid(b)).unwrap_err().to_string();
        assert_eq!(why(32, 96), "job slurm/7 has no tree from node 0 to node 2");
        assert_eq!(why(32, 36), "address 36 is no host's of job slurm/7");
        assert_eq!(why(31, 32), "address 31 is no host's of job slurm/7");
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        let refused = |text: &str| text.parse::<JobTrees>().unwrap_err().to_string();
        assert!(refused("").starts_with("1: no job's trees"));
        assert_eq!(refused("snin-job 1\n"), "1: no owner");
        assert!(refused("snin-job 1\nowner a\nleaf 0x1 x").starts_with("3: `leaf 0x1 x`"));
        assert!(refused("snin-job 1\nhost 0x1 0x2 4-5 0=9 a").starts_with("2: "));
        assert!(refused(&(text() + "pin 1 2 3\n")).starts_with("10: address 1 is no"));
    }
}
