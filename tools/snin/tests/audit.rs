//! `snin audit` on a real fabric with tables of OpenSM's: the worst pairs of jobs are reckoned once more here,
//! from the tools' texts, by code that shares nothing with the command's.

mod walking;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use snin_judges::{JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover, shared};

use crate::walking::{End, Walker, hex};

const SNIN: &str = env!("CARGO_BIN_EXE_snin");

fn snin(arguments: &[&str]) -> Output {
    Command::new(SNIN).args(arguments).output().unwrap()
}

/// By node its ports in order of adapters: port GUID and LID.
fn nodes(topology: &str) -> BTreeMap<String, BTreeMap<String, (u64, u16)>> {
    let mut nodes = BTreeMap::<String, BTreeMap<_, _>>::new();
    let mut name = None;
    for line in topology.lines() {
        if line.starts_with("Ca") || line.starts_with("Switch") {
            let described = line.split('"').nth(3).unwrap();
            name = line.starts_with("Ca").then(|| described.split_once(' ')).flatten();
        } else if let (Some((node, adapter)), Some(port)) = (name, line.strip_prefix("[1](")) {
            // [1](e09d7303007a4bd8)  "S-2c5eab0300b87b40"[1]  # lid 647 lmc 0 "leaf" lid 73 4xNDR
            let lid = line.split(" lid ").nth(1).unwrap().split(' ').next().unwrap();
            let port = (hex(port.split(')').next().unwrap()), lid.parse().unwrap());
            nodes.entry(node.to_owned()).or_default().insert(adapter.to_owned(), port);
        }
    }
    nodes
}

/// What a job sends over links: each port to those of its rail, each an equal part of one link's rate.
fn sent(walker: &Walker, job: &[&BTreeMap<String, (u64, u16)>]) -> BTreeMap<End, u64> {
    let mut sent = BTreeMap::new();
    for rail in 0..job[0].len() {
        let ports: Vec<(u64, u16)> =
            job.iter().map(|node| *node.values().nth(rail).unwrap()).collect();
        for from in &ports {
            for to in ports.iter().filter(|to| to.0 != from.0) {
                for link in walker.links(from.0, to.0, to.1).expect("it arrives") {
                    *sent.entry(link).or_insert(0) += 1;
                }
            }
        }
    }
    sent
}

#[test]
fn the_worst_pairs_of_jobs_on_a_real_fabric() -> Result<(), JudgeError> {
    let Some((_, netlist)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return Ok(());
    };
    let netlist = String::from_utf8(netlist).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let simulator = Simulator::start(&netlist)?;
    let host = netlist.lines().find(|line| line.starts_with("Ca") && line.contains("dgx"));
    let host = host.and_then(|line| line.split('"').nth(1));
    OpenSm { host, engine: Some("updn"), ..OpenSm::default() }.bring_up(&simulator)?;
    let read = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (topology, tables) = (read(ibnetdiscover(&simulator)?), read(dump_fts(&simulator)?));
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let nodes = nodes(&topology);
    let of_four: Vec<_> = nodes.iter().filter(|(_, ports)| ports.len() == 4).collect();
    assert!(of_four.len() > 100, "{}", of_four.len());

    // Six jobs of 12 nodes, each node beside those of other jobs; each begins 1,000 s after the one before.
    const NODES: usize = 12;
    let jobs: Vec<Vec<_>> =
        (0..6).map(|job| of_four.iter().skip(job).step_by(6).take(NODES).collect()).collect();
    let times: Vec<[u64; 2]> = (0..6).map(|job| [job * 1_000, job * 1_000 + 2_500]).collect();
    let mut sacct = String::from("JobID|JobName|NodeList|Start|End\n");
    for (n, (job, [begin, end])) in jobs.iter().zip(&times).enumerate() {
        let names: Vec<&str> = job.iter().map(|(name, _)| name.as_str()).collect();
        sacct += &format!(
            "{n}|train|{}|{begin}|{end}\n{n}.batch||{}|{begin}|{end}\n",
            names.join(","),
            names[0]
        );
    }
    sacct += "9|never|None assigned|Unknown|Unknown\n";

    let walker = Walker::read(&topology, &tables);
    let sent: Vec<BTreeMap<End, u64>> = jobs
        .iter()
        .map(|job| sent(&walker, &job.iter().map(|(_, ports)| *ports).collect::<Vec<_>>()))
        .collect();
    // So many parts are a link's rate.
    let whole = NODES as f64 - 1.0;
    let least = |loads: &mut dyn Iterator<Item = u64>| {
        loads.map(|load| (whole / load as f64).min(1.0)).fold(1.0, f64::min)
    };
    let mut pairs = Vec::new();
    for a in 0..6 {
        for b in a + 1..6 {
            let seconds = times[a][1].min(times[b][1]).saturating_sub(times[b][0]);
            let both: Vec<u64> =
                sent[a].iter().filter_map(|(link, load)| Some(load + sent[b].get(link)?)).collect();
            if seconds == 0 || both.is_empty() {
                continue;
            }
            let kept = [a, b].map(|n| {
                let alone = least(&mut sent[n].values().copied());
                least(&mut both.iter().copied()).min(alone) / alone
            });
            let lost: f64 =
                kept.iter().map(|kept| NODES as f64 * seconds as f64 * (1.0 - kept)).sum();
            pairs.push((lost / 3600.0, [a, b], both.len() as u64, seconds));
        }
    }
    let product = |links: u64, seconds: u64| links * seconds;
    pairs.sort_by(|a, b| {
        b.0.total_cmp(&a.0).then(product(b.2, b.3).cmp(&product(a.2, a.3))).then(a.1.cmp(&b.1))
    });
    assert!(pairs.len() >= 5, "{pairs:?}");

    let (fabric, dump, list) = (
        file("fabric.ibnetdiscover", &topology),
        file("dump_fts.txt", &tables),
        file("sacct.txt", &sacct),
    );
    let said = snin(&["audit", &fabric, "--tables", &dump, "--jobs", &list, "--json"]);
    assert_eq!(said.status.code(), Some(1), "{}", String::from_utf8_lossy(&said.stderr));
    let report: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&report["jobs"], &report["lost"]), (&6.into(), &0.into()));
    let named = report["pairs"].as_array().unwrap();
    assert_eq!(named.len(), 5);
    for (named, (lost, jobs, links, seconds)) in named.iter().zip(&pairs) {
        assert_eq!(
            named["jobs"],
            serde_json::json!(jobs.map(|n| format!("{n} train"))),
            "{pairs:?}"
        );
        assert_eq!((&named["links"], &named["seconds"]), (&(*links).into(), &(*seconds).into()));
        assert!(
            (named["node_hours_lost"].as_f64().unwrap() - lost).abs() < 1e-6,
            "{named}: {lost}"
        );
    }
    let ways = report["ways"].as_array().unwrap();
    let lost = |n: usize| ways[n]["node_hours_lost"].as_f64().unwrap();
    assert!(ways.len() == 3 && lost(0) > 0.0 && lost(2) <= lost(0), "{ways:?}");

    // As text: a table, the pairs, and how it was reckoned.
    let said = snin(&["audit", &fabric, "--tables", &dump, "--jobs", &list]);
    let text = String::from_utf8(said.stdout).unwrap();
    for part in
        ["6 jobs from 1970-01-01T00:00:00", "these tables", "the worst of", "adaptive", "Reckoned"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A node that the fabric does not have, by file and line.
    let list = file("wrong.txt", "JobID|NodeList|Start|End\n1|n[1-2]|0|10\n");
    let said = snin(&["audit", &fabric, "--tables", &dump, "--jobs", &list]);
    assert_eq!(said.status.code(), Some(3));
    let why = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(why.contains("wrong.txt:2: no host is called `n1`"), "{why}");
    Ok(())
}
