//! What agents know of a job: the pairs of hosts that its programs asked for, and what ports counted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;
use snin_daemon::control::Connection;
use snin_protocol::operator::SCHEMA_VERSION;
use snin_protocol::operator::agent::{GetJobs, JobPair, Jobs, WorstWait};

use super::{PATIENCE, read};
use crate::Verdict;
use crate::cli::jobs::JobSettings;
use crate::failure::Failure;
use crate::output::{Output, Target};

/// Bytes of a word of `port_xmit_data` and `port_rcv_data` (IBA 16.1.3.5).
const WORD: u64 = 4;

/// What a port counted, by counter.
type Counters = BTreeMap<String, u64>;

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
    let mut told: Vec<(&Path, Jobs)> = Vec::new();
    let asked = GetJobs { job: Some(job.to_owned()) };
    for agent in agents {
        told.push((agent, Connection::open(agent, Some(PATIENCE))?.request(&asked)?.answer));
    }
    let pairs: Vec<JobPair> = told.iter().flat_map(|(_, told)| told.pairs.clone()).collect();
    let one_sided = one_sided(&pairs);
    let (by_tree, mixed) = by_tree(&told);
    let ports: BTreeMap<String, &Option<Counters>> =
        told.iter().map(|(agent, told)| (agent.display().to_string(), &told.port)).collect();
    let trees: BTreeMap<String, &Amounts> =
        by_tree.iter().map(|(tree, amounts)| (tree.to_string(), amounts)).collect();
    let answer = json!({
        "schema_version": SCHEMA_VERSION, "job": job, "pairs": pairs, "one_sided": one_sided, "ports": ports,
        "trees": trees, "mixed": mixed,
    });
    let json = Target::open(settings.format.json.as_deref())?;
    out.report(json, &answer, |out| {
        for pair in &pairs {
            let JobPair { from, to, times, came_packets: came, tree, .. } = pair;
            let tree = tree.map_or_else(|| "within a leaf".to_owned(), |tree| format!("tree {tree}"));
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
            let JobPair { from, to, .. } = pair;
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
    fn of(port: Option<&Counters>, words: &str, packets: &str) -> Self {
        let count = |name: &str| port.and_then(|port| port.get(name)).copied();
        let bytes = count(words).map(|words| words.saturating_mul(WORD));
        Self { bytes, packets: count(packets) }
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
fn by_tree(told: &[(&Path, Jobs)]) -> (BTreeMap<u16, Amounts>, Vec<String>) {
    let (mut trees, mut mixed) = (BTreeMap::<u16, Amounts>::new(), Vec::new());
    for (agent, told) in told {
        let (port, pairs) = (told.port.as_ref(), &told.pairs);
        let along: BTreeSet<Option<u16>> =
            pairs.iter().flat_map(|pair| [pair.tree, pair.back_tree]).collect();
        let sent = Amount::of(port, "port_xmit_data", "sent_pkts");
        let received = Amount::of(port, "port_rcv_data", "rcvd_pkts");
        let of_port = |sent, received, shared_out| Amounts { ports: 1, sent, received, shared_out };
        let mut add = |tree: u16, amounts: Amounts| {
            let before = trees.remove(&tree);
            let sum = before.map_or_else(|| amounts.clone(), |before| before.and(amounts.clone()));
            trees.insert(tree, sum);
        };
        match along.iter().copied().collect::<Vec<_>>()[..] {
            [Some(tree)] if port.is_some() => add(tree, of_port(sent, received, false)),
            [_, _, ..] => {
                mixed.push(agent.display().to_string());
                let mut came = BTreeMap::<Option<u16>, u64>::new();
                for pair in pairs {
                    *came.entry(pair.back_tree).or_default() += pair.came_packets;
                }
                let all: u64 = came.values().sum();
                for (tree, parts) in came {
                    if let Some(tree) = tree.filter(|_| parts > 0 && port.is_some()) {
                        add(tree, of_port(Amount::default(), received.share(parts, all), true));
                    }
                }
            }
            _ => {}
        }
    }
    (trees, mixed)
}

/// Pairs whose other end did not ask.
fn one_sided(pairs: &[JobPair]) -> Vec<&JobPair> {
    let asked: BTreeSet<_> = pairs.iter().map(|pair| (pair.from_lid, pair.to_lid)).collect();
    let alone = |pair: &&JobPair| !asked.contains(&(pair.to_lid, pair.from_lid));
    pairs.iter().filter(alone).collect()
}

/// What an agent counted of a job, as one line: in bytes where the device counts them, else in packets.
pub(super) fn line(told: &Jobs) -> String {
    let trees: BTreeSet<u16> = told.pairs.iter().filter_map(|pair| pair.tree).collect();
    let trees: Vec<String> = trees.iter().map(ToString::to_string).collect();
    let along =
        if trees.is_empty() { String::new() } else { format!(" along trees {}", trees.join(", ")) };
    let asked = format!("{} pairs asked for{along}", told.pairs.len());
    let Some(port) = &told.port else { return asked };
    let sent = Amount::of(Some(port), "port_xmit_data", "sent_pkts");
    let received = Amount::of(Some(port), "port_rcv_data", "rcvd_pkts");
    let worst = told.worst_wait.map_or_else(String::new, |WorstWait { ticks, of_ms }| {
        format!(", at worst {ticks} in {of_ms} ms")
    });
    let waited = port.get("port_xmit_wait");
    let waited = waited.map_or_else(String::new, |ticks| format!(", waited {ticks} ticks{worst}"));
    format!("sent {sent}, received {received}{waited}; {asked}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(tree: Option<u16>, back_tree: Option<u16>, came_packets: u64) -> JobPair {
        let name = String::new();
        JobPair {
            job: name.clone(),
            from: name.clone(),
            to: name,
            from_lid: 0,
            to_lid: 0,
            tree,
            back_tree,
            came_packets,
            times: 1,
        }
    }

    #[test]
    fn bytes_count_before_packets_and_trees_are_named_once() {
        let pairs = [Some(2), Some(1), Some(2), None].map(|tree| pair(tree, None, 0)).into();
        let port = Counters::from(
            [("port_xmit_data", 100), ("rcvd_pkts", 7), ("port_xmit_wait", 3)]
                .map(|(name, count)| (name.to_owned(), count)),
        );
        let port = Some(port);
        assert_eq!(
            line(&Jobs { pairs, port: port.clone(), ..Jobs::default() }),
            "sent 400 bytes, received 7 packets, waited 3 ticks; 4 pairs asked for along trees 1, 2"
        );
        let worst_wait = Some(WorstWait { ticks: 2, of_ms: 1000 });
        let waited = line(&Jobs { port, worst_wait, ..Jobs::default() });
        assert!(waited.contains(", waited 3 ticks, at worst 2 in 1000 ms;"), "{waited}");
        assert_eq!(line(&Jobs::default()), "0 pairs asked for");
    }

    #[test]
    fn what_a_port_counts_is_a_trees_where_all_its_pairs_have_that_tree() {
        // Trees there and back, and packets that came back.
        let told = |pairs: &[(Option<u16>, Option<u16>, u64)], words: u64| {
            let pairs = pairs.iter().map(|&(tree, back, came)| pair(tree, back, came)).collect();
            let port = ["port_xmit_data", "rcvd_pkts"].map(|name| (name.to_owned(), words));
            Jobs { pairs, port: Some(port.into()), ..Jobs::default() }
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
        let ends = |from_lid, to_lid| JobPair { from_lid, to_lid, ..pair(None, None, 0) };
        let pairs = [ends(1, 2), ends(2, 1), ends(1, 3)];
        assert_eq!(one_sided(&pairs), [&pairs[2]]);
    }
}
