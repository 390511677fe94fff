//! What agents know of a job: the pairs of hosts that its programs asked for, and what ports counted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use snin_daemon::control::Connection;

use super::{PATIENCE, read};
use crate::Verdict;
use crate::cli::jobs::JobSettings;
use crate::command::controller::{rows, text};
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Bytes of a word of `port_xmit_data` and `port_rcv_data` (IBA 16.1.3.5).
const WORD: u64 = 4;

/// The pairs that agents were asked for, those whose other end did not ask, and a line for each agent's port.
pub(super) fn run<W: Write>(
    job: &str,
    agents: &[PathBuf],
    settings: &JobSettings,
    out: &mut Output<W>,
) -> Result<Verdict, Failure> {
    let checked = read(settings)?;
    let own = [PathBuf::from(&checked.value.agent)];
    let agents = if agents.is_empty() { &own[..] } else { agents };
    let mut told: Vec<(&Path, Value)> = Vec::new();
    for agent in agents {
        let request = json!({ "command": "jobs", "job": job });
        told.push((agent, Connection::open(agent, Some(PATIENCE))?.ask(&request)?));
    }
    let pairs: Vec<Value> =
        told.iter().flat_map(|(_, told)| rows(&told["pairs"]).to_vec()).collect();
    let one_sided = one_sided(&pairs);
    let (by_tree, mixed) = by_tree(&told);
    let ports: BTreeMap<String, &Value> =
        told.iter().map(|(agent, told)| (agent.display().to_string(), &told["port"])).collect();
    let trees: BTreeMap<String, &Amounts> =
        by_tree.iter().map(|(tree, amounts)| (tree.to_string(), amounts)).collect();
    let answer = json!({
        "job": job, "pairs": pairs, "one_sided": one_sided, "ports": ports, "trees": trees, "mixed": mixed,
    });
    let json = Target::open(settings.format.json.as_deref())?;
    out.report(json, &answer, |out| {
        for pair in &pairs {
            let (from, to) = (text(&pair["from"]), text(&pair["to"]));
            let tree = pair["tree"].as_u64();
            let tree = tree.map_or_else(|| "within a leaf".to_owned(), |tree| format!("tree {tree}"));
            out.line(format!("{from} to {to}: {tree}, asked {} times", pair["times"]))?;
        }
        told.iter().try_for_each(|(agent, told)| {
            out.line(format!("{}: {}", agent.display(), line(told)))
        })?;
        by_tree.iter().try_for_each(|(tree, amounts)| {
            let ports = amounts.ports;
            out.line(format!(
                "tree {tree}: sent {}, received {} ({ports} ports)",
                amounts.sent, amounts.received
            ))
        })?;
        if !mixed.is_empty() {
            out.line(format!(
                "not known by tree, since these ports have pairs on several and count in total: {}",
                mixed.join(", ")
            ))?;
        }
        one_sided.iter().try_for_each(|pair| {
            let (from, to) = (text(&pair["from"]), text(&pair["to"]));
            out.line(format!(
                "{from} asked for {to}, but {to} never for {from}: no LD_PRELOAD in its environment?"
            ))
        })
    })?;
    Ok(if one_sided.is_empty() { Verdict::Well } else { Verdict::Unwell })
}

/// The counts of ports along one tree: in bytes where all devices count them, else in packets.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
struct Amounts {
    ports: u64,
    sent: Amount,
    received: Amount,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
struct Amount {
    bytes: Option<u64>,
    packets: Option<u64>,
}

impl Amount {
    fn of(port: &Value, words: &str, packets: &str) -> Self {
        let bytes = port[words].as_u64().map(|words| words.saturating_mul(WORD));
        Self { bytes, packets: port[packets].as_u64() }
    }

    /// Both together; what one of them does not count is not known of both.
    fn and(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        Self { bytes: sum(self.bytes, other.bytes), packets: sum(self.packets, other.packets) }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.packets) {
            (Some(bytes), _) => write!(f, "{bytes} bytes"),
            (None, Some(packets)) => write!(f, "{packets} packets"),
            (None, None) => write!(f, "nothing"),
        }
    }
}

/// The amounts along each tree, and the agents of which they are not known. A port counts in total: all of it went
/// along one tree where all pairs that its programs asked for have that tree.
fn by_tree(told: &[(&Path, Value)]) -> (BTreeMap<u64, Amounts>, Vec<String>) {
    let (mut trees, mut mixed) = (BTreeMap::<u64, Amounts>::new(), Vec::new());
    for (agent, told) in told {
        let port = &told["port"];
        let along: BTreeSet<Option<u64>> =
            rows(&told["pairs"]).iter().map(|pair| pair["tree"].as_u64()).collect();
        match along.iter().copied().collect::<Vec<_>>()[..] {
            [Some(tree)] if !port.is_null() => {
                let sent = Amount::of(port, "port_xmit_data", "sent_pkts");
                let received = Amount::of(port, "port_rcv_data", "rcvd_pkts");
                let (mut ports, mut all) = (1, (sent, received));
                if let Some(known) = trees.get(&tree) {
                    ports += known.ports;
                    all = (known.sent.and(sent), known.received.and(received));
                }
                trees.insert(tree, Amounts { ports, sent: all.0, received: all.1 });
            }
            [_, _, ..] => mixed.push(agent.display().to_string()),
            _ => {}
        }
    }
    (trees, mixed)
}

/// Pairs whose other end did not ask.
fn one_sided(pairs: &[Value]) -> Vec<&Value> {
    let ends = |pair: &Value| (pair["from_lid"].as_u64(), pair["to_lid"].as_u64());
    let asked: BTreeSet<_> = pairs.iter().map(ends).collect();
    let alone = |pair: &&Value| {
        let (from, to) = ends(pair);
        !asked.contains(&(to, from))
    };
    pairs.iter().filter(alone).collect()
}

/// What an agent counted of a job, as one line: in bytes where the device counts them, else in packets.
pub(super) fn line(told: &Value) -> String {
    let port = &told["port"];
    let pairs = rows(&told["pairs"]);
    let trees: BTreeSet<u64> = pairs.iter().filter_map(|pair| pair["tree"].as_u64()).collect();
    let trees: Vec<String> = trees.iter().map(ToString::to_string).collect();
    let along =
        if trees.is_empty() { String::new() } else { format!(" along trees {}", trees.join(", ")) };
    let asked = format!("{} pairs asked for{along}", pairs.len());
    if port.is_null() {
        return asked;
    }
    let sent = Amount::of(port, "port_xmit_data", "sent_pkts");
    let received = Amount::of(port, "port_rcv_data", "rcvd_pkts");
    let waited = port["port_xmit_wait"]
        .as_u64()
        .map_or_else(String::new, |ticks| format!(", waited {ticks} ticks"));
    format!("sent {sent}, received {received}{waited}; {asked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_before_packets_and_trees_are_named_once() {
        let pairs = [json!({ "tree": 2 }), json!({ "tree": 1 }), json!({ "tree": 2 }), json!({})];
        let port = json!({ "port_xmit_data": 100, "rcvd_pkts": 7, "port_xmit_wait": 3 });
        assert_eq!(
            line(&json!({ "pairs": pairs, "port": port })),
            "sent 400 bytes, received 7 packets, waited 3 ticks; 4 pairs asked for along trees 1, 2"
        );
        assert_eq!(line(&json!({ "pairs": [], "port": null })), "0 pairs asked for");
    }

    #[test]
    fn what_a_port_counts_is_a_trees_where_all_its_pairs_have_that_tree() {
        let told = |trees: &[Option<u64>], words: u64| {
            let pairs: Vec<Value> = trees.iter().map(|tree| json!({ "tree": tree })).collect();
            json!({ "pairs": pairs, "port": { "port_xmit_data": words, "rcvd_pkts": words } })
        };
        let agents = [
            (Path::new("a"), told(&[Some(2), Some(2)], 10)),
            (Path::new("b"), told(&[Some(2)], 5)),
            (Path::new("c"), told(&[Some(1), Some(2)], 7)),
            (Path::new("d"), told(&[Some(2), None], 7)),
            (Path::new("e"), told(&[], 7)),
        ];
        let (trees, mixed) = by_tree(&agents);
        let sent = Amount { bytes: Some(60), packets: None };
        let received = Amount { bytes: None, packets: Some(15) };
        assert_eq!(trees, BTreeMap::from([(2, Amounts { ports: 2, sent, received })]));
        assert_eq!(mixed, ["c", "d"]);
        assert_eq!(
            (sent.to_string(), received.to_string()),
            ("60 bytes".into(), "15 packets".into())
        );
    }

    #[test]
    fn a_pair_is_one_sided_where_its_other_end_did_not_ask() {
        let pair = |from: u16, to: u16| json!({ "from_lid": from, "to_lid": to });
        let pairs = [pair(1, 2), pair(2, 1), pair(1, 3)];
        assert_eq!(one_sided(&pairs), [&pairs[2]]);
    }
}
