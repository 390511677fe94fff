//! Ranks of unmodified MPI programs: where their packets went, and how long it took until they had met.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use snin_fabric::job::{JobHost, JobTrees};
use tempfile::TempDir;

use super::{document, read};

/// A rank on host 1 and one on host 2: each direction on a tree that their slice names, the same that their agents
/// say, and the switches saw no other.
pub(super) fn on_their_trees(out: &TempDir, mpi: &str) {
    let said = read(out, &format!("{mpi}-said"));
    let status = read(out, &format!("{mpi}-status"));
    assert_eq!(status.trim(), "0", "{said}\n{}", read(out, "slurmctld.log"));
    for rank in ["rank 0 of 2: 100 rounds", "rank 1 of 2: 100 rounds"] {
        assert!(said.contains(rank), "{said}");
    }
    // SNIN_STATS=1 asks for a line of each node.
    for host in ["slurm/1 on host1: sent ", "slurm/1 on host2: sent "] {
        assert!(said.contains(host), "{said}");
    }
    let slice = document(out, &format!("{mpi}-slice.json"));
    let pairs = slice["pairs"].as_array().unwrap();
    let has: BTreeSet<u64> = pairs.iter().map(|pair| pair["tree"].as_u64().unwrap()).collect();
    // The first is what programs use that ask no agent.
    assert!(has.len() == 1 && !has.contains(&0), "{slice}");
    let job: JobTrees = read(out, &format!("{mpi}-trees")).parse().unwrap();
    let stats = document(out, &format!("{mpi}-stats.json"));
    assert_eq!(stats["one_sided"].as_array().unwrap().len(), 0, "{stats}");
    assert_eq!(stats["pairs"].as_array().unwrap().len(), 2, "{stats}");
    let carried = document(out, &format!("{mpi}.json"));
    let seen = carried_by_tree(&carried);
    for device in ["snin1", "snin2"] {
        let flows = flows(out, &format!("{mpi}-packets-{device}"));
        assert_eq!(flows.len(), 2, "{flows:?}");
        for (&(from, to), &count) in &flows {
            assert!(count > 100 && flows.contains_key(&(to, from)), "{flows:?}");
            let (sender, receiver) = (at(&job, from), at(&job, to));
            let along = job.along(sender.leaf, receiver).iter().find(|(_, lid)| lid.0 == to);
            let tree = u64::from(along.unwrap_or_else(|| panic!("{to}: {job}")).0.0);
            assert!(has.contains(&tree), "{flows:?}: {slice}");
            let pair = pair(&stats, &receiver.name, &sender.name);
            assert_eq!(pair["back_tree"], tree, "{stats}");
            // What its connections counted is what the switches saw but for how the ends found each other.
            let data = seen[&(u64::from(from), u64::from(to), tree)];
            let came = pair["came_packets"].as_u64().unwrap();
            assert!(came > 100 && came <= data, "{came} of {data}: {stats}");
        }
    }
    assert!(seen.keys().all(|(.., tree)| has.contains(tree)), "{carried:#}");
    let slices = document(out, &format!("{mpi}-slices.json"));
    let left = slices["slices"].as_array().unwrap();
    assert!(left.len() == 1 && left[0]["owner"] == "other", "{slices}");
    let left = read(out, &format!("{mpi}-left"));
    assert!(!left.contains(".trees"), "{left}");
    println!("srun, 2 ranks ({mpi}, UCX): both directions on tree {has:?}\n{}", said.trim());
}

/// Two ranks and four of Open MPI, on hosts whose pairs have several trees: what came along each is told, and the
/// switches saw the same.
pub(super) fn on_several_trees(out: &TempDir) {
    let stats = document(out, "times-with-stats.json");
    assert_eq!(read(out, "times-with-stats-status").trim(), "0", "{stats}");
    let seen = carried_by_tree(&document(out, "times.json"));
    let mut trees = BTreeSet::new();
    for (&(from, to, tree), &data) in &seen {
        let is_of = |pair: &&Value, key: &str, lid: u64| {
            let first = pair[key].as_u64().unwrap();
            (first..first + 4).contains(&lid)
        };
        let mut pairs = stats["pairs"].as_array().unwrap().iter();
        let pair = pairs.find(|pair| is_of(pair, "from_lid", to) && is_of(pair, "to_lid", from));
        let pair = pair.unwrap_or_else(|| panic!("{from} to {to}: {stats}"));
        assert_eq!(pair["back_tree"], tree, "{from} to {to}: {stats}");
        let came = pair["came_packets"].as_u64().unwrap();
        assert!(came > 20 && came <= data, "{from} to {to}: {came} of {data}: {stats}");
        trees.insert(tree.to_string());
    }
    assert!(trees.len() > 1, "{stats}");
    let told = stats["trees"].as_object().unwrap();
    assert_eq!(told.keys().cloned().collect::<BTreeSet<_>>(), trees, "{stats}");
    let received = |amounts: &Value| amounts["received"]["packets"].as_u64().unwrap();
    assert!(told.values().all(|amounts| received(amounts) > 20), "{stats}");
    println!("snin job stats, ports with pairs on several trees: {}", stats["trees"]);
}

/// What the switches saw, without acknowledgements, by the addresses of sender and receiver and the tree.
fn carried_by_tree(carried: &Value) -> BTreeMap<(u64, u64, u64), u64> {
    let links = carried["links"].as_array().unwrap();
    let flows = links.iter().flat_map(|link| link["flows"].as_array().unwrap());
    let number = |flow: &Value, key: &str| flow[key].as_u64().unwrap();
    let flow = |flow: &Value| {
        let ends = (number(flow, "from"), number(flow, "to"), number(flow, "tree"));
        (ends, number(flow, "data"))
    };
    flows.map(flow).collect()
}

/// What the agent of `from` says of its pair with `to`.
fn pair<'a>(stats: &'a Value, from: &str, to: &str) -> &'a Value {
    let mut pairs = stats["pairs"].as_array().unwrap().iter();
    let found = pairs.find(|pair| pair["from"] == from && pair["to"] == to);
    found.unwrap_or_else(|| panic!("{from} to {to}: {stats}"))
}

fn at(job: &JobTrees, lid: u16) -> &JobHost {
    job.host(snin_fabric::Lid(lid)).unwrap_or_else(|| panic!("{lid} is no host's of {job}"))
}

/// Packets by the LIDs of sender and receiver, which are the low 16 bits of their addresses.
fn flows(out: &TempDir, name: &str) -> BTreeMap<(u16, u16), u64> {
    let lid = |address: &str| {
        let [high, low]: [u8; 2] = address
            .strip_prefix("10.9.")
            .and_then(|rest| rest.split_once('.'))
            .map(|(high, low)| [high.parse().unwrap(), low.parse().unwrap()])
            .unwrap_or_else(|| panic!("{address}"));
        u16::from_be_bytes([high, low])
    };
    let flow = |line: &str| {
        let [count, from, _, to] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        ((lid(from), lid(to)), count.parse().unwrap())
    };
    read(out, name).lines().map(flow).collect()
}

/// What the preload library adds by number of peers: to address handles and queue pairs alone, and until MPI_Init
/// returns and all ranks have met - of each run the rank that took longest, of the runs the median.
pub(super) fn times(out: &TempDir) {
    let [with, without] = ["with", "without"].map(|way| meeting(out, &format!("peers-{way}")));
    for ((peers, with), without) in with.iter().zip(without.values()) {
        println!(
            "{peers} peers: their handles and queue pairs take {with:.1} ms with the preload library, \
             {without:.1} ms without"
        );
        let added = with - without;
        assert!(added < MOST_ADDED * f64::from(*peers), "{added} ms for {peers} peers");
    }
    for ranks in [2, 4] {
        let [with, without] = ["with", "without"].map(|way| {
            let runs =
                (1..=runs()).map(|run| longest(out, &format!("times-{way}-{ranks}-{run}"), ranks));
            let (init, met): (Vec<f64>, Vec<f64>) = runs.unzip();
            (median(init), median(met))
        });
        println!(
            "Open MPI, {} peers: MPI_Init takes {:.0} ms with the preload library, {:.0} ms without; all \
             have met after {:.0} and {:.0} ms; median of {}",
            ranks - 1,
            with.0,
            without.0,
            with.1,
            without.1,
            runs()
        );
    }
}

/// The most milliseconds that a peer may add: an emulated machine with too much to do takes a tenth of it.
const MOST_ADDED: f64 = 100.0;

/// Milliseconds by number of peers.
fn meeting(out: &TempDir, name: &str) -> BTreeMap<u32, f64> {
    let said = read(out, name);
    let time = |line: &str| {
        let (peers, time) = line.strip_suffix(" ms")?.split_once(" peers ")?;
        Some((peers.parse().ok()?, time.parse().ok()?))
    };
    let times: BTreeMap<u32, f64> = said.lines().filter_map(time).collect();
    assert_eq!(times.len(), 4, "{name}: {said}");
    times
}

/// Runs of each kind: one shows that it works; `SNIN_RUNS=3` measures.
pub(super) fn runs() -> usize {
    std::env::var("SNIN_RUNS").map_or(1, |runs| runs.parse().expect("a number"))
}

/// Milliseconds until the last rank's MPI_Init returned, and until the last had met all others.
fn longest(out: &TempDir, name: &str, ranks: usize) -> (f64, f64) {
    let said = read(out, name);
    let times = |line: &str| {
        let (_, times) = line.split_once(" rounds, MPI_Init ")?;
        let (init, met) = times.strip_suffix(" ms")?.split_once(" ms, met ")?;
        Some((init.parse::<f64>().ok()?, met.parse::<f64>().ok()?))
    };
    let times: Vec<(f64, f64)> = said.lines().filter_map(times).collect();
    assert_eq!(times.len(), ranks, "{name}: {said}");
    times.into_iter().fold((0.0, 0.0), |most, one| (most.0.max(one.0), most.1.max(one.1)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}
