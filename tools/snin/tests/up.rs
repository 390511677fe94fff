//! `snin up`: all daemons as processes; permutations, a cut, a controller that is killed; nothing left over.

mod daemons;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use snin_fabric::Topology;
use snin_fabric::generate::Recipe;
use snin_judges::{Program, Simulated};
use snin_mad::{Gid, GidPrefix};

use daemons::{PATIENCE, snin, wait};

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("script");
    std::fs::write(&path, text).unwrap();
    path
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Processes whose command line names this folder.
fn processes_of(folder: &Path) -> Vec<u32> {
    let name = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let its = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&name) && *number != std::process::id()
    };
    numbers.filter(its).collect()
}

/// The first proof: permutations are granted, a cable is cut and joined, the controller is killed under load and
/// started again, a spine is phased out and in under full traffic, and no directed link has two owners.
#[test]
fn permutations_are_carried_though_the_controller_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let text = "windows 18\ncut leaf1/3 @window 4\nkill controller @window 6\n\
                restore leaf1/3 @window 8\nkill controller @window 10\n\
                phase-out spine1 @window 12\nphase-in spine1 @window 16\n";
    let script = script(folder.path(), text);
    let run = folder.path().join("run");
    let mut command = snin();
    command.args(["up", "clos:4,4,2", "--json", "--script"]).arg(script).arg("--folder").arg(&run);
    let output = command.output().unwrap();
    let error = said(&output);
    let figures: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(output.status.code(), Some(0), "{figures:#}{error}");
    assert_eq!((&figures["connections"], &figures["done"]), (&144.into(), &144.into()));
    assert_eq!((&figures["kills"], &figures["refused"]), (&2.into(), &0.into()));
    let events: Vec<&str> =
        figures["events"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    for done in ["spine1 phased-out, after", "spine1 passed, after"] {
        assert!(events.iter().any(|event| event.contains(done)), "{events:?}");
    }
    let owners = &figures["owners"];
    assert_eq!((&owners["clashes"], &owners["unjudged"]), (&0.into(), &0.into()), "{owners}");
    // Each connection owned its hosts' two cables at least, and links went from one to another.
    assert!(owners["spans"].as_u64() >= Some(2 * 144 * 4), "{owners}");
    assert!(owners["handovers"].as_u64() >= Some(144), "{owners}");
    let messages = &figures["messages"];
    assert_eq!(messages["delivered"], messages["posted"]);
    // No setting of the agents says so: the manager gave what is granted a lane of its own.
    assert_eq!(messages["levels"], serde_json::json!({ "1": messages["delivered"] }));
    assert!(run.join("snin-controller.log").exists(), "a folder that was named stays");
    // All sessions were TLS, with certificates of the run's own CA.
    for daemon in ["sm", "controller", "agents-0"] {
        let text = std::fs::read_to_string(run.join(format!("{daemon}.toml"))).unwrap();
        let called = text.contains("\"tls://127.0.0.1:") && !text.contains("unix://");
        assert!(called && text.contains("/pki/ca.crt"), "{text}");
    }
    assert_eq!(processes_of(&run), Vec::<u32>::new());
}

/// A `snin up` without a script, and its folder.
/// Every other host floods base addresses: what is granted has a lane that goes first, as snin-sm wrote it into
/// every port, and keeps its goodput but for the share that ordinary traffic is left.
#[test]
fn granted_messages_keep_their_goodput_beside_floods() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), "windows 4\n");
    for (share, least) in [("5", 0.945), ("0", 0.999)] {
        let mut command = snin();
        command.args(["up", "clos:6,4,4", "--json", "--ordinary", "50%"]);
        command.args(["--unmanaged-share", share, "--script"]).arg(&script);
        let output = command.output().unwrap();
        let error = said(&output);
        let figures: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
        let ordinary = &figures["ordinary"];
        assert_eq!(output.status.code(), Some(0), "{ordinary:#}{error}");
        assert!(ordinary["messages"].as_u64() > Some(4) && ordinary["hosts"] == 12, "{ordinary}");
        let number = |lane: &str, key: &str| ordinary[lane][key].as_f64().unwrap();
        assert!(number("own_lane", "least_goodput") >= least, "{ordinary}");
        // One packet of 4 KiB on a link of 1 Gbit/s. Where ordinary traffic has its share a message waits for
        // its own packets.
        let waited = number("own_lane", "longest_wait_ns");
        assert!(share != "0" || waited <= 33_600.0, "{ordinary}");
        assert!(number("own_lane", "floods") > 0.2, "{ordinary}");
        // With one lane for all, floods take what was granted.
        assert!(number("one_lane", "mean_goodput") < 0.8, "{ordinary}");
    }
}

fn start(recipe: &str, folder: &Path) -> Child {
    let mut command = snin();
    command.args(["up", recipe, "--folder"]).arg(folder);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let told = child.stderr.as_mut().unwrap();
    // It says when all is up.
    let mut byte = [0; 1];
    std::io::Read::read_exact(told, &mut byte).unwrap();
    child
}

fn pid(child: u32) -> Pid {
    Pid::from_raw(child as i32).unwrap()
}

#[test]
fn a_signal_ends_all_and_one_that_dies_ends_all_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut up = start("clos:2,2,1", &run);
    assert!(processes_of(&run).len() >= 6);
    kill_process(pid(up.id()), Signal::INT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0));
    assert_eq!(processes_of(&run), Vec::<u32>::new());

    let run = folder.path().join("second");
    let up = start("clos:2,2,1", &run);
    let controller = processes_of(&run).into_iter().find(|number| {
        let name = std::fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
        name.starts_with("snin-controller")
    });
    let controller = pid(controller.unwrap());
    kill_process(controller, Signal::KILL).unwrap();
    let output = up.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = said(&output);
    assert!(error.contains("snin-controller has ended (signal: 9"), "{error}");
    wait("the others", || processes_of(&run).is_empty());
    assert!(test_kill_process(controller).is_err());
}

/// The fabric of a `snin up`, for the programs of others.
struct Fabric {
    name: String,
    folder: PathBuf,
    topology: Topology,
}

impl Simulated for Fabric {
    fn name(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Fabric {
    /// The address on the best path from one host to another, as `saquery` prints it.
    fn path(&self, from: usize, to: usize) -> u16 {
        let gid = |host: usize| {
            let mut hosts = self.topology.nodes().filter(|&node| !self.topology.is_switch(node));
            let (port, _) = self.topology.cables(hosts.nth(host).unwrap()).next().unwrap();
            Gid::new(GidPrefix(0xFE80_0000_0000_0000), self.topology.port(port).guid).to_string()
        };
        let mut command = self.command(Program::SAQUERY, Some("host2")).unwrap();
        command.args(["-p", "--sgid-to-dgid", &format!("{}-{}", gid(from), gid(to))]);
        let said = snin_judges::finish(&mut command, &self.folder, PATIENCE).unwrap();
        let text = String::from_utf8_lossy(&said.out).into_owned();
        // Through ibsim's preload it sees the first record of a table only.
        let dlid = text.lines().find_map(|line| line.trim().strip_prefix("dlid"));
        dlid.unwrap_or_else(|| panic!("{text}{}", said.err)).trim_matches('.').parse().unwrap()
    }
}

/// Two jobs with links of their own: what a host's program asks of subnet administration leads along its job's.
#[test]
fn path_records_lead_along_the_slice_of_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut up = start("clos:2,3,3", &run);
    let slice = |arguments: &[&str]| -> Value {
        let mut command = snin();
        command.arg("slice").args(arguments).arg("--json");
        let output = command.arg("--socket").arg(run.join("controller.sock")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
    };
    let topology = "clos:2,3,3".parse::<Recipe>().unwrap().build().unwrap();
    let name = format!("snin-up-{}", up.id());
    let fabric = Fabric { name, folder: folder.path().into(), topology };
    // Without slices the base address comes first: a block of four begins there.
    let [to3, to5] = [3, 5].map(|to| fabric.path(2, to));
    assert_eq!((to3 % 4, to5 % 4), (0, 0));
    slice(&["create", "a", "--on", "host0,host1,host3"]);
    slice(&["create", "b", "--on", "host2,host4,host5"]);
    let tree = |owner: &str| {
        let told = slice(&["explain", owner]);
        let pairs = told["pairs"].as_array().unwrap().iter();
        let trees: BTreeSet<u64> = pairs.map(|pair| pair["tree"].as_u64().unwrap()).collect();
        assert_eq!(trees.len(), 1, "{told}");
        *trees.first().unwrap() as u16
    };
    let (a, b) = (tree("a"), tree("b"));
    assert_ne!(a, b);
    wait("the manager is told", || fabric.path(0, 3) == to3 + 1 + a);
    wait("of both", || fabric.path(2, 5) == to5 + 1 + b);
    // Two hosts of two jobs have no slice in common.
    assert_eq!(fabric.path(0, 5), to5);
    slice(&["delete", "a"]);
    slice(&["delete", "b"]);
    wait("neither has one any more", || fabric.path(0, 3) == to3 && fabric.path(2, 5) == to5);
    kill_process(pid(up.id()), Signal::INT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0));
}

/// The manager has the agent behind a port send messages while the port is tested: it tells the controller, which
/// tells the agent.
#[test]
fn agents_send_over_links_under_test() {
    const RECIPE: &str = "clos:2,2,2";
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut up = start(RECIPE, &run);
    let ask = |arguments: &[&str], socket: &str| {
        let output = snin().args(arguments).arg("--socket").arg(run.join(socket)).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), said(&output))
    };
    wait("the agents", || {
        let told = ask(&["controller", "status", "--json"], "controller.sock").1;
        told.replace(' ', "").contains("\"agents\":4")
    });
    // An operator by hand, first.
    let (code, told, error) = ask(&["controller", "link-test", "host2"], "controller.sock");
    assert_eq!((code, &*told), (Some(0), "host2: 1000 of 1000 messages arrived\n"), "{error}");
    let (code, _, error) = ask(&["controller", "link-test", "host9"], "controller.sock");
    assert!(code == Some(3) && error.contains("host9"), "{error}");

    let learnt = ask(&["config", "learn"], "sm.sock").1;
    let tests = "quality_ms = 50\nquality_mads = 20\nquality_errors = 5\nquality_messages = 1000\n\
                 application = \"agent\"\n";
    let expected = folder.path().join("expected.toml");
    std::fs::write(&expected, format!("[tests]\n{tests}\n{learnt}")).unwrap();
    let (code, _, error) = ask(&["config", "apply", expected.to_str().unwrap()], "sm.sock");
    assert_eq!(code, Some(0), "{error}");
    let status = || {
        let (_, told, error) = ask(&["port", "status", "--all", "--json"], "sm.sock");
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{error}"));
        let ports = told["ports"].as_array().unwrap().clone();
        let port = ports.into_iter().find(|port| port["at"] == "leaf1/1").unwrap();
        (port["state"].as_str().unwrap().to_owned(), port["why"].to_string())
    };
    let test = || {
        assert_eq!(ask(&["port", "test", "leaf1/1"], "sm.sock").0, Some(0));
        wait("the test ends", || ["passed", "failed"].contains(&&*status().0));
        status()
    };
    let tested = || {
        let events = std::fs::read_to_string(run.join("controller.events")).unwrap();
        let of_test = events.lines().filter(|line| line.contains("\"LINK_TESTED\""));
        let number =
            |line: &str, key: &str| serde_json::from_str::<Value>(line).unwrap()[key].as_u64();
        let of_test = of_test.map(|line| [number(line, "messages"), number(line, "arrived")]);
        of_test.collect::<Vec<_>>()
    };
    assert_eq!(test(), ("passed".to_owned(), "\"\"".to_owned()));
    let all = |n: u64| [Some(n), Some(n)];
    assert_eq!(tested(), [all(1000), all(1000), all(1)], "by hand, quality, application");

    // Too few errors for MADs to notice.
    let strike = |fault: &[&str]| {
        let mut command = snin();
        command.args(["emulator", "fault"]).args(fault);
        let output = command.arg("--control").arg(run.join("emulator.sock")).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    };
    strike(&["errors", "leaf1/1", "15000"]);
    let (state, why) = test();
    assert_eq!(state, "failed");
    assert!(why.contains(" errors at this end while 20 MADs crossed the link"), "{why}");
    strike(&["errors", "leaf1/1", "0"]);

    // An agent that stands still.
    let topology = RECIPE.parse::<Recipe>().unwrap().build().unwrap();
    let named = |&node: &_| &*topology.node(node).name == "host2";
    let host = topology.nodes().find(named).unwrap();
    let guid = topology.port(topology.cables(host).next().unwrap().0).guid.to_string();
    let agents = (0..4).find(|number| {
        let text = std::fs::read_to_string(run.join(format!("agents-{number}.toml"))).unwrap();
        text.contains(&guid)
    });
    let config = format!("agents-{}.toml", agents.unwrap());
    let process = processes_of(&run).into_iter().find(|number| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&config)
    });
    let process = pid(process.unwrap());
    assert_eq!(test().0, "passed");
    kill_process(process, Signal::STOP).unwrap();
    let (state, why) = test();
    kill_process(process, Signal::CONT).unwrap();
    let is_right = why.contains("messages of its agent's did not arrive")
        || why.contains("the node does not answer as is expected");
    assert!(state == "failed" && is_right, "{state} {why}");
    wait("the agent is well again", || test().0 == "passed");
    kill_process(pid(up.id()), Signal::INT).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0));
}

/// Two leaves; a host with an adapter on each.
const BY_HAND: &str = "\
Switch 8 \"a\" # \"A\"\n[1] \"h1\"[1]\n[2] \"h3\"[1]\n[7] \"s\"[1]\n[8] \"t\"[1]\n
Switch 8 \"b\" # \"B\"\n[1] \"h2\"[1]\n[2] \"h4\"[1]\n[7] \"s\"[2]\n[8] \"t\"[2]\n
Switch 8 \"s\" # \"S\"\n[1] \"a\"[7]\n[2] \"b\"[7]\n
Switch 8 \"t\" # \"T\"\n[1] \"a\"[8]\n[2] \"b\"[8]\n
Ca 1 \"h1\" # \"n1 mlx5_0\"\n[1] \"a\"[1]\n
Ca 1 \"h2\" # \"n2 mlx5_0\"\n[1] \"b\"[1]\n
Ca 1 \"h3\" # \"n3 mlx5_0\"\n[1] \"a\"[2]\n
Ca 1 \"h4\" # \"n3 mlx5_1\"\n[1] \"b\"[2]\n";

/// What is typed in another shell works there as it is typed: the sockets come from the environment.
#[test]
fn a_person_talks_to_it_from_another_shell() {
    let folder = tempfile::tempdir().unwrap();
    let fabric = folder.path().join("fabric");
    std::fs::write(&fabric, BY_HAND).unwrap();
    // Has the daemons built.
    drop(snin());
    let run = folder.path().join("run");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/up_by_hand.sh");
    let mut command = Command::new("sh");
    command.arg(script).arg(env!("CARGO_BIN_EXE_snin")).arg(&run).arg(&fabric);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(processes_of(&run), Vec::<u32>::new());
}

#[test]
fn a_script_that_cannot_be_followed_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path(), "windows 3\ncut leaf9/1 @window 2\n");
    let run = folder.path().join("run");
    let mut command = snin();
    command.args(["up", "clos:2,2,1", "--script"]).arg(script).arg("--folder").arg(&run);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = said(&output);
    assert!(error.ends_with("script:2: `cut leaf9/1 @window 2`: no node `leaf9`\n"), "{error}");
    assert!(!run.exists());
}

/// One request has 64 hosts send as their collective says, each on links of its own: nothing is asked for a pair.
#[test]
fn collectives_are_one_request_each() {
    let folder = tempfile::tempdir().unwrap();
    let text = "windows 0\ncollective ring 64 33554432\ncollective alltoall 64 134217728\n\
                collective hd 64 8388608\ncollective halo 8x8 4194304\n";
    let script = script(folder.path(), text);
    let mut command = snin();
    command.args(["up", "clos:16,8,8", "--json", "--script"]).arg(script);
    command.arg("--folder").arg(folder.path().join("run"));
    let output = command.output().unwrap();
    let error = said(&output);
    let figures: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(output.status.code(), Some(0), "{figures:#}{error}");
    let done = figures["collectives"].as_array().unwrap();
    let shown = |key: &str| done.iter().map(|done| done[key].clone()).collect::<Vec<Value>>();
    assert_eq!(shown("phases"), [1, 63, 6, 4]);
    assert_eq!(shown("queue_pairs"), [1, 63, 6, 4]);
    assert_eq!(shown("complete"), [true; 4]);
    assert_eq!(shown("trees"), [8; 4]);
    let counters = &figures["controller"]["counters"];
    assert_eq!((&counters["granted"], &figures["owners"]["clashes"]), (&0.into(), &0.into()));
    // Every byte that the kinds send has arrived.
    let sent: u64 = done.iter().map(|done| done["sent"].as_u64().unwrap() * 64).sum();
    let bytes = figures["messages"]["bytes"].as_u64().unwrap();
    assert!(sent <= bytes && bytes < sent + sent / 20, "{sent} of {bytes}");
}

#[test]
fn collectives_that_cannot_be_are_a_line() {
    for (line, why) in [
        ("collective ring 1 9", "a collective has at least 2 members, not 1"),
        ("collective hd 12 9", "halving-doubling takes a power of two of members, not 12: 8 or 16"),
        ("collective halo 0x3 9", "`0x3`: expected one to three sizes, such as 8x8 or 4x4x4"),
        ("collective star 4 9", "`star`: ring, bidir, hd, alltoall, grid or halo is possible"),
        ("collective ring 4", "expected windows N, collective KIND HOSTS BYTES"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let script = script(folder.path(), &format!("windows 0\n{line}\n"));
        let mut command = snin();
        let output = command.args(["up", "clos:4,4,2", "--script"]).arg(&script).output().unwrap();
        let error = said(&output);
        assert_eq!(output.status.code(), Some(3), "{error}");
        let begin = format!("snin: snin up: {}:2: `{line}`: {why}", script.display());
        assert!(error.contains(&begin), "{error}");
    }
}
