//! What agents know of a job: the pairs of hosts that its programs asked for, and what ports counted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

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
    let ports: BTreeMap<String, &Value> =
        told.iter().map(|(agent, told)| (agent.display().to_string(), &told["port"])).collect();
    let answer = json!({ "job": job, "pairs": pairs, "one_sided": one_sided, "ports": ports });
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
        one_sided.iter().try_for_each(|pair| {
            let (from, to) = (text(&pair["from"]), text(&pair["to"]));
            out.line(format!(
                "{from} asked for {to}, but {to} never for {from}: no LD_PRELOAD in its environment?"
            ))
        })
    })?;
    Ok(if one_sided.is_empty() { Verdict::Well } else { Verdict::Unwell })
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
    let of = |name: &str| port[name].as_u64();
    let amount = |words: &str, packets: &str| match (of(words), of(packets)) {
        (Some(words), _) => format!("{} bytes", words.saturating_mul(WORD)),
        (None, Some(packets)) => format!("{packets} packets"),
        (None, None) => "nothing".to_owned(),
    };
    let pairs = rows(&told["pairs"]);
    let trees: BTreeSet<u64> = pairs.iter().filter_map(|pair| pair["tree"].as_u64()).collect();
    let trees: Vec<String> = trees.iter().map(ToString::to_string).collect();
    let along =
        if trees.is_empty() { String::new() } else { format!(" along trees {}", trees.join(", ")) };
    let asked = format!("{} pairs asked for{along}", pairs.len());
    if port.is_null() {
        return asked;
    }
    let sent = amount("port_xmit_data", "sent_pkts");
    let received = amount("port_rcv_data", "rcvd_pkts");
    let waited =
        of("port_xmit_wait").map_or_else(String::new, |ticks| format!(", waited {ticks} ticks"));
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
    fn a_pair_is_one_sided_where_its_other_end_did_not_ask() {
        let pair = |from: u16, to: u16| json!({ "from_lid": from, "to_lid": to });
        let pairs = [pair(1, 2), pair(2, 1), pair(1, 3)];
        assert_eq!(one_sided(&pairs), [&pairs[2]]);
    }
}
