//! Jobs on real verbs, in the virtual machine: `srun` of programs of MPICH and Open MPI, perftest and
//! ibv_rc_pingpong, all of them unmodified, on the trees of their slices. What each directed link carried is
//! counted by the emulated switches, and what left the hosts by tcpdump.
#![cfg(feature = "verbs")]
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

mod ranks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use snin_fabric::generate::Recipe;
use snin_fabric::{Topology, ibnet};
use snin_judges::{JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover};
use tempfile::TempDir;

const SNIN: &str = env!("CARGO_BIN_EXE_snin");

fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vm").join(name)
}

/// What a tool makes, by the path that it prints.
fn made(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool(name)).args(arguments).output().expect(name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tools/vm/{name} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A program that makes address handles, two of its libraries, which it opens each in another way, and one that
/// meets many peers.
fn programs(folder: &Path) -> [PathBuf; 4] {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jobs_verbs");
    let built = |name: &str, source: &str, how: &[&str]| {
        let (path, source) = (folder.join(name), sources.join(source));
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall", "-Werror"]).args(how).arg("-o").arg(&path).arg(&source);
        let status = gcc.args(["-libverbs", "-lpthread"]).status();
        assert!(status.expect("gcc").success(), "{name}");
        path
    };
    let library = ["-shared", "-fPIC", "-DPLUGIN"];
    let one = "handles.c";
    let libraries = ["plugin.so", "deep.so"].map(|name| built(name, one, &library));
    let [plugin, deep] = libraries;
    [built("handles", one, &[]), plugin, deep, built("peers", "peers.c", &[])]
}

/// The same fabric as OpenSM brings it up on ibsim with an address a tree, and the tables that it wrote: the files
/// `found` and `dump_fts`.
fn written_by_opensm(fabric: &Topology, folder: &Path) -> Result<(), JudgeError> {
    let netlist = ibnet::write(fabric);
    let simulator = Simulator::start(&netlist)?;
    // On a switch it waits for ever for an answer of its own.
    let host = netlist.lines().find(|line| line.starts_with("Ca")).unwrap();
    OpenSm { host: host.split('"').nth(1), lmc: 2, ..OpenSm::default() }.bring_up(&simulator)?;
    fs::write(folder.join("found"), ibnetdiscover(&simulator)?).unwrap();
    fs::write(folder.join("dump_fts"), dump_fts(&simulator)?).unwrap();
    Ok(())
}

/// Runs all scripts in one machine; gives the folder of what they left.
fn run() -> TempDir {
    let (files, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let fabric = "clos:2,4,2".parse::<Recipe>().unwrap().build().unwrap();
    fs::write(files.path().join("fabric"), ibnet::write(&fabric)).unwrap();
    written_by_opensm(&fabric, files.path()).unwrap_or_else(|error| panic!("{error}"));
    let scripts = [
        ("common.sh", include_str!("common.sh")),
        ("srun.sh", include_str!("srun.sh")),
        ("times.sh", include_str!("times.sh")),
        ("two.sh", include_str!("two.sh")),
        ("alone.sh", include_str!("alone.sh")),
        ("agents.sh", include_str!("agents.sh")),
    ];
    let mut machine = Command::new(tool("run"));
    machine.args(["--limit", "1800", "--memory", "2048", "--out"]).arg(out.path());
    for (name, arguments) in [("mpi", &["mpich"][..]), ("mpi", &["openmpi"]), ("slurm", &[])] {
        machine.arg("--cpio").arg(made(name, arguments));
    }
    for (name, text) in scripts {
        fs::write(files.path().join(name), text).unwrap();
        machine.arg("--with").arg(files.path().join(name));
    }
    for name in ["fabric", "found", "dump_fts"] {
        machine.arg("--with").arg(files.path().join(name));
    }
    let built = Path::new(SNIN).parent().unwrap();
    for name in ["snin", "snin-controller", "snin-agent", "libsnin_preload.so"] {
        let path = built.join(name);
        assert!(path.is_file(), "{} is missing: cargo build --workspace", path.display());
        machine.arg("--with").arg(path);
    }
    for program in programs(files.path()) {
        machine.arg("--with").arg(program);
    }
    // The guest's own setpriv cannot give up a user for good.
    machine.args(["--with", "/usr/bin/tcpdump", "--with", "/usr/bin/setpriv"]);
    let stage = |script: &str, name: &str| {
        format!(
            "snin lab --verbs /root/fabric --run 'bash /root/{script}' --json $OUT/{name}.json >/dev/null; "
        )
    };
    let runs = ranks::runs();
    let command = [
        stage("srun.sh mpich pmi2", "mpich"),
        stage("srun.sh openmpi pmix", "openmpi"),
        stage("srun.sh openmpi pmix found", "found")
            .replace("--verbs /root/fabric", "--verbs /root/found --lfts /root/dump_fts")
            .replace("bash ", "FABRIC=/root/found TABLES=/root/dump_fts bash "),
        stage("srun.sh openmpi pmix ring", "ring").replace("bash ", "PATTERN=ring bash "),
        stage(&format!("times.sh with {runs}"), "times"),
        stage(&format!("times.sh without {runs}"), "times-without"),
        stage("two.sh slices", "with"),
        // On one tree: base addresses of four hosts that are spread over four trees meet on no link.
        stage("two.sh none", "without").replace("--verbs", "--verbs --policy strict"),
        stage("alone.sh", "alone"),
        stage("agents.sh", "agents"),
    ];
    // What the machine and the daemons that are killed in it say is of interest only where it fails.
    let ended =
        machine.args(["--", "bash", "-c", &command.concat()]).output().expect("tools/vm/run");
    let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(ended.status.success(), "{}{}", said[0], said[1]);
    out
}

fn read(out: &TempDir, name: &str) -> String {
    fs::read_to_string(out.path().join(name)).unwrap_or_default()
}

fn document(out: &TempDir, name: &str) -> Value {
    serde_json::from_str(&read(out, name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn unmodified_programs_go_along_the_trees_of_their_jobs_in_the_virtual_machine() {
    let out = run();
    ranks::on_their_trees(&out, "mpich");
    ranks::on_their_trees(&out, "openmpi");
    ranks::on_their_trees(&out, "found");
    ranks::on_their_trees(&out, "ring");
    assert!(
        read(&out, "ring-trees").contains("\ncollective ring\n"),
        "{}",
        read(&out, "ring-trees")
    );
    ranks::on_several_trees(&out);
    ranks::times(&out);
    two_jobs(&out);
    strangers(&out);
    every_way(&out);
    agents_over_tls(&out);
    users_of_a_host(&out);
    println!("\n{}", table(&document(&out, "with.json"), &document(&out, "without.json")));
}

/// Two jobs at once: what each sent along which tree in which direction, as the links' ends counted it.
fn table(slices: &Value, none: &Value) -> String {
    let host = |number: &Value| number.as_u64().unwrap();
    // By job, tree, sender and receiver: a flow is counted on every link that it crosses.
    let mut sent: BTreeMap<(u64, u64, u64, u64), u64> = BTreeMap::new();
    for link in slices["links"].as_array().unwrap() {
        let [pair] = &link["connections"].as_array().unwrap()[..] else { continue };
        let (from, to) = (host(&pair[0]), host(&pair[1]));
        for flow in link["flows"].as_array().unwrap() {
            let (tree, data) = (host(&flow["tree"]), host(&flow["data"]));
            let most = sent.entry((from % 2, tree, from, to)).or_default();
            *most = data.max(*most);
        }
    }
    let mut lines = vec!["job     tree  from   to     packets".to_owned()];
    for ((job, tree, from, to), packets) in sent {
        let job = if job == 0 { "test/a" } else { "test/b" };
        lines.push(format!("{job}  {tree:>4}  host{from}  host{to}  {packets:>7}"));
    }
    let (with, without) = (shared(slices), shared(none));
    lines.push(format!(
        "directed links that carried both jobs: {with} with slices, {without} without"
    ));
    lines.join("\n")
}

/// Directed links that carried data of both jobs.
fn shared(carried: &Value) -> usize {
    let links = carried["links"].as_array().unwrap();
    let jobs = |link: &&Value| {
        let connections = link["connections"].as_array().unwrap();
        // Hosts of the first job have even numbers, those of the other odd ones.
        let jobs: BTreeSet<u64> =
            connections.iter().map(|pair| pair[0].as_u64().unwrap() % 2).collect();
        jobs.len() > 1
    };
    links.iter().filter(jobs).count()
}

fn two_jobs(out: &TempDir) {
    let (slices, none) = (document(out, "with.json"), document(out, "without.json"));
    for (way, carried) in [("slices", &slices), ("none", &none)] {
        let said = ["client0", "client1", "server2", "server3"]
            .map(|end| format!("{end}: {}", read(out, &format!("{way}-{end}"))));
        assert_eq!(carried["exit_code"], 0, "{}", said.concat());
        assert!(!carried["links"].as_array().unwrap().is_empty(), "{carried}");
    }
    let said = read(out, "slices-client0");
    assert!(said.contains("snin: 10.9.0."), "{said}");
    let (with, without) = (shared(&slices), shared(&none));
    assert_eq!(with, 0, "{slices:#}");
    assert!(without > 0, "{none:#}");
}

fn strangers(out: &TempDir) {
    let failed = |name: &str| read(out, &format!("{name}-status")).trim() != "0";
    let said = |name: &str| read(out, &format!("{name}-client"));
    let server = read(out, "stranger-server");
    assert!(failed("stranger"), "{}", said("stranger"));
    let line = "is no host's of job test/a: refused, since SNIN_REQUIRE is set";
    assert!(server.contains(line) || said("stranger").contains(line), "{server}");
    assert!(!failed("unmanaged"), "{}", said("unmanaged"));
    assert!(said("unmanaged").contains("go unmanaged"), "{}", said("unmanaged"));
    assert!(!failed("no-agent"), "{}", said("no-agent"));
    assert!(said("no-agent").contains("no agent answers at /tmp/nobody"), "{}", said("no-agent"));
    assert!(failed("nobody"), "{}", said("nobody"));
    assert!(failed("liar"), "{}", said("liar"));
    let lines: Vec<String> = said("liar").lines().map(str::to_owned).collect();
    let line = "snin: user 4712 asks for job test/a, which is user 4711's: refused, since SNIN_REQUIRE is set";
    assert_eq!(lines.iter().filter(|one| *one == line).count(), 1, "{lines:?}");
    assert!(!failed("owner"), "{}", said("owner"));
}

/// Programs that fork from several threads, and programs that come by libibverbs' functions in other ways than by
/// being linked to it. docs/jobs.md says which of them the library reaches.
fn every_way(out: &TempDir) {
    let said = read(out, "handles");
    assert_eq!(read(out, "handles-status").trim(), "0", "{said}{}", read(out, "handles-said"));
    let ways = [
        "forked 8 times, 0 of them badly; handles of threads that failed: 0",
        "linked: refused",
        "library by dlopen: refused",
        "dlvsym of libibverbs: not refused",
        "library by RTLD_DEEPBIND: not refused",
    ];
    for line in ways {
        assert!(said.lines().any(|one| one == line), "{line} is not in\n{said}");
    }
    let without = read(out, "handles-without");
    assert!(without.contains("linked: not refused"), "{without}");
    let time = |said: &str| {
        let line = said.lines().find_map(|line| line.strip_suffix(" us a handle"));
        line.expect("a time").to_owned()
    };
    println!(
        "an address handle: {} us with the library, {} us without",
        time(&said),
        time(&without)
    );
}

/// Controller and agents as daemons over TLS: what was sent went along the tree that was granted.
fn agents_over_tls(out: &TempDir) {
    let carried = document(out, "agents.json");
    let logs =
        ["controller", "1", "2"].map(|name| read(out, &format!("agents-{name}.log"))).concat();
    assert_eq!(carried["exit_code"], 0, "{logs}{}", read(out, "agents-status1.json"));
    let [near, far] = [1, 2].map(|number| document(out, &format!("agents-status{number}.json")));
    for agent in [&near, &far] {
        assert_eq!(agent["controller"], "heard", "{agent:#}");
        assert_eq!(
            (&agent["counters"]["broken"], &agent["counters"]["overruns"]),
            (&0.into(), &0.into())
        );
    }
    assert_eq!(near["counters"]["messages"], 200);
    assert_eq!(
        (&far["received"][0]["messages"], &far["received"][0]["lost"]),
        (&200.into(), &0.into())
    );
    let tested = document(out, "agents-link-test.json");
    assert_eq!((&tested["messages"], &tested["arrived"]), (&300.into(), &300.into()), "{tested}");
    let far = document(out, "agents-after-test.json");
    assert_eq!(far["received"][0]["messages"], 500, "{far:#}");
    let controller = document(out, "agents-controller.json");
    assert_eq!(controller["sessions"], 2);
    assert!(controller["listen"][0].as_str().unwrap().starts_with("tls://"), "{controller:#}");
    // Hosts 1 and 2 are on different leaves: all of it, acknowledgements too, crossed one spine.
    let grants = document(out, "agents-grants.json")["grants"].clone();
    let tree = &grants[0]["tree"];
    assert_eq!(
        (&grants[0]["from"], &grants[0]["to"]),
        (&"host1".into(), &"host2".into()),
        "{grants}"
    );
    let links = carried["links"].as_array().unwrap();
    let data = links.iter().filter(|link| link["connections"] == serde_json::json!([[1, 2]]));
    assert_eq!(data.count(), 2, "up to the spine and down: {carried:#}");
    let mut flows = links.iter().flat_map(|link| link["flows"].as_array().unwrap());
    assert!(flows.all(|flow| flow["tree"] == *tree), "{carried:#}");
    assert!(tree.as_u64() > Some(0), "the first carries what nobody granted: {grants}");
    println!("snin-agent and snin-controller over TLS: 200 messages along tree {tree}");
}

/// Users have requests of their host's port through its agent, so many each, and none of others'.
fn users_of_a_host(out: &TempDir) {
    let said = |name: &str| {
        let (said, error) =
            (read(out, &format!("asked-{name}")), read(out, &format!("asked-{name}.error")));
        (read(out, &format!("asked-{name}.status")).trim().to_owned(), said, error)
    };
    let answer = |name: &str| -> Value {
        let (status, said, error) = said(name);
        assert_eq!(status, "0", "{name}: {error}");
        serde_json::from_str(&said).unwrap()
    };
    let (first, second, other) = (answer("first"), answer("second"), answer("other"));
    for (request, user) in [(&first, 4711), (&second, 4711), (&other, 4712)] {
        assert_eq!(request["from"], "host1", "{request}");
        let owner = request["owner"].as_str().unwrap();
        assert!(
            owner.starts_with("agent/0x") && owner.ends_with(&format!("/user/{user}")),
            "{request}"
        );
    }
    for (name, why) in [
        ("third", "/user/4711 has 2 requests: no user of a host has more"),
        ("foreign", "it is not its host's, which is 0x"),
        ("steals", "/user/4712 may not release request "),
    ] {
        let (status, _, error) = said(name);
        assert_eq!(status, "3", "{name}");
        assert!(error.contains(why) && error.lines().count() == 1, "{name}: {error}");
    }
    let numbers = |name: &str| -> Vec<Value> {
        let said = answer(name);
        let requests = said["requests"].as_array().unwrap().iter();
        requests.map(|request| request["id"].clone()).collect()
    };
    assert_eq!(numbers("list"), [first["id"].clone(), second["id"].clone()]);
    assert_eq!(answer("gives")["released"], true);
    assert_eq!(numbers("after"), [second["id"].clone()]);
    let metrics = read(out, "agents-metrics");
    let count =
        |name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    assert_eq!(count("snin_agent_user_commands_total"), Some(9), "{metrics}");
    assert_eq!(count("snin_agent_user_refusals_total"), Some(3), "{metrics}");
}
