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
    if agents.is_empty() && checked.value.agent.is_empty() {
        return Err(Failure::Settings(format!(
            "{}: agent is empty, so no agent is asked here: name others with --agents SOCKET,...",
            checked.agent_place
        )));
    }
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
            let came = pair["came_packets"].as_u64().unwrap_or(0);
            let times = &pair["times"];
            out.line(format!("{from} to {to}: {tree}, asked {times} times; {came} packets came back"))?;
        }
        told.iter().try_for_each(|(agent, told)| {
            out.line(format!("{}: {}", agent.display(), line(told)))
        })?;
        by_tree.iter().try_for_each(|(tree, amounts)| out.line(format!("tree {tree}: {amounts}")))?;
        if !mixed.is_empty() {
            out.line(format!(
                "what these ports sent is not known by tree, since they have pairs on several and count \
                 in total: {}",
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
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Amounts {
    ports: u64,
    sent: Amount,
    received: Amount,
    /// Whether a port's count was shared out among its trees by the packets of its connections.
    shared_out: bool,
}

impl Amounts {
    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            ports: self.ports + other.ports,
            sent: self.sent.and(other.sent),
            received: self.received.and(other.received),
            shared_out: self.shared_out || other.shared_out,
        }
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sent != Amount::default() {
            write!(f, "sent {}, ", self.sent)?;
        }
        let about = if self.shared_out { "about " } else { "" };
        write!(f, "received {about}{} ({} ports)", self.received, self.ports)
    }
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

    /// So many parts of so many.
    fn share(self, parts: u64, all: u64) -> Self {
        let of = |amount: u64| {
            let share = u128::from(amount) * u128::from(parts) / u128::from(all.max(1));
            u64::try_from(share).unwrap_or(amount)
        };
        Self { bytes: self.bytes.map(of), packets: self.packets.map(of) }
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

/// The amounts along each tree, and the agents of which what was sent is not known by tree. A port counts in
/// total: all of it went along one tree where all pairs that its programs asked for have that tree. Else what it
/// received is shared out by the packets that came along its connections; what it sent, others received.
fn by_tree(told: &[(&Path, Value)]) -> (BTreeMap<u64, Amounts>, Vec<String>) {
    let (mut trees, mut mixed) = (BTreeMap::<u64, Amounts>::new(), Vec::new());
    for (agent, told) in told {
        let port = &told["port"];
        let pairs = rows(&told["pairs"]);
        let along: BTreeSet<Option<u64>> = pairs
            .iter()
            .flat_map(|pair| ["tree", "back_tree"].map(|key| pair[key].as_u64()))
            .collect();
        let sent = Amount::of(port, "port_xmit_data", "sent_pkts");
        let received = Amount::of(port, "port_rcv_data", "rcvd_pkts");
        let of_port = |sent, received, shared_out| Amounts { ports: 1, sent, received, shared_out };
        let mut add = |tree: u64, amounts: Amounts| {
            let before = trees.remove(&tree);
            let sum = before.map_or_else(|| amounts.clone(), |before| before.and(amounts.clone()));
            trees.insert(tree, sum);
        };
        match along.iter().copied().collect::<Vec<_>>()[..] {
            [Some(tree)] if !port.is_null() => add(tree, of_port(sent, received, false)),
            [_, _, ..] => {
                mixed.push(agent.display().to_string());
                let mut came = BTreeMap::<Option<u64>, u64>::new();
                for pair in pairs {
                    *came.entry(pair["back_tree"].as_u64()).or_default() +=
                        pair["came_packets"].as_u64().unwrap_or(0);
                }
                let all: u64 = came.values().sum();
                for (tree, parts) in came {
                    if let Some(tree) = tree.filter(|_| parts > 0 && !port.is_null()) {
                        add(tree, of_port(Amount::default(), received.share(parts, all), true));
                    }
                }
            }
            _ => {}
        }
    }
    (trees, mixed)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
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
        .map_or_else(String::new, |ticks| format!(", waited {ticks} ticks{}", worst(told)));
    format!("sent {sent}, received {received}{waited}; {asked}")
}

/// The longest wait between two looks of an agent.
fn worst(told: &Value) -> String {
    let [ticks, span] = ["ticks", "of_ms"].map(|key| told["worst_wait"][key].as_u64());
    let (Some(ticks), Some(span)) = (ticks, span) else { return String::new() };
    format!(", at worst {ticks} in {span} ms")
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
        let waited = json!({ "port": port, "worst_wait": { "ticks": 2, "of_ms": 1000 } });
        assert!(line(&waited).contains(", waited 3 ticks, at worst 2 in 1000 ms;"), "{waited}");
        assert_eq!(line(&json!({ "pairs": [], "port": null })), "0 pairs asked for");
    }

    #[test]
    fn what_a_port_counts_is_a_trees_where_all_its_pairs_have_that_tree() {
        // Trees there and back, and packets that came back.
        let told = |pairs: &[(Option<u64>, Option<u64>, u64)], words: u64| {
            let pair = |pair: &(Option<u64>, Option<u64>, u64)| {
                let (tree, back, came) = *pair;
                json!({ "tree": tree, "back_tree": back, "came_packets": came })
            };
            let pairs: Vec<Value> = pairs.iter().map(pair).collect();
            json!({ "pairs": pairs, "port": { "port_xmit_data": words, "rcvd_pkts": words } })
        };
        let (one, two) = (Some(1), Some(2));
        let agents = [
            (Path::new("a"), told(&[(two, two, 4), (two, two, 0)], 10)),
            (Path::new("b"), told(&[(two, two, 1)], 5)),
            (Path::new("c"), told(&[(one, one, 3), (two, two, 1), (None, None, 4)], 80)),
            (Path::new("d"), told(&[(two, None, 0)], 7)),
            (Path::new("e"), told(&[], 7)),
        ];
        let (trees, mixed) = by_tree(&agents[..2]);
        let sent = Amount { bytes: Some(60), packets: None };
        let received = Amount { bytes: None, packets: Some(15) };
        let all = Amounts { ports: 2, sent, received, shared_out: false };
        assert_eq!(all.to_string(), "sent 60 bytes, received 15 packets (2 ports)");
        assert_eq!((trees, mixed), (BTreeMap::from([(2, all)]), vec![]));
        // Of 80 packets 3 of 8 and 1 of 8.
        let (trees, mixed) = by_tree(&agents);
        assert_eq!(mixed, ["c", "d"]);
        assert_eq!(trees[&1].to_string(), "received about 30 packets (1 ports)");
        assert_eq!(trees[&2].to_string(), "received about 25 packets (3 ports)");
    }

    #[test]
    fn a_pair_is_one_sided_where_its_other_end_did_not_ask() {
        let pair = |from: u16, to: u16| json!({ "from_lid": from, "to_lid": to });
        let pairs = [pair(1, 2), pair(2, 1), pair(1, 3)];
        assert_eq!(one_sided(&pairs), [&pairs[2]]);
    }
}
