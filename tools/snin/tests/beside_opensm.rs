//! Beside a manager that stays: OpenSM keeps an emulated subnet, snin-sm reads it, the controller grants on its
//! tables. Routes are walked here, on what infiniband-diags read back, by code that shares nothing with what
//! granted them.
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

mod daemons;
mod walking;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use snin_daemon::control::Connection;
use snin_fabric::job::JobTrees;
use snin_judges::{JudgeError, Simulated, dump_fts, ibnetdiscover};

use daemons::{snin, wait};
use walking::{End, Walker, hex};

/// A `snin up` beside OpenSM; ends with the value.
struct BesideOpenSm {
    up: Child,
    name: String,
    folder: PathBuf,
}

impl Simulated for BesideOpenSm {
    fn name(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> &Path {
        &self.folder
    }
}

impl BesideOpenSm {
    fn start(recipe: &str, folder: &Path) -> Self {
        Self::start_with(recipe, folder, &[])
    }

    fn start_with(recipe: &str, folder: &Path, more: &[&str]) -> Self {
        let mut command = snin();
        command.args(["up", recipe, "--manager", "opensm", "--folder"]).arg(folder).args(more);
        let mut up = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        // It says when all is up.
        let mut byte = [0; 1];
        std::io::Read::read_exact(up.stderr.as_mut().unwrap(), &mut byte).unwrap();
        let name = std::fs::read_to_string(folder.join("fabric.name")).unwrap();
        Self { up, name: name.trim().to_owned(), folder: folder.to_owned() }
    }

    #[track_caller]
    fn ask(&self, socket: &str, request: &Value) -> Value {
        let limit = Some(Duration::from_secs(20));
        let mut connection = Connection::open(&self.folder.join(socket), limit).unwrap();
        connection.ask(request).unwrap()
    }

    /// What is granted now: source, destination, address.
    fn granted(&self) -> Vec<(u64, u64, u16)> {
        let said = self.ask("controller.sock", &json!({ "command": "grants" }));
        let port = |grant: &Value, key: &str| hex(grant[key].as_str().unwrap());
        let one = |grant: &Value| {
            let dlid = grant["dlid"].as_u64().unwrap() as u16;
            (port(grant, "from_port"), port(grant, "to_port"), dlid)
        };
        said["grants"].as_array().unwrap().iter().map(one).collect()
    }

    /// Cables, addresses and tables, as infiniband-diags read them now.
    fn walker(&self) -> Result<Walker, JudgeError> {
        let (topology, tables) = (ibnetdiscover(self)?, dump_fts(self)?);
        let [topology, tables] = [topology, tables].map(|it| String::from_utf8(it).unwrap());
        Ok(Walker::read(&topology, &tables))
    }
}

impl Drop for BesideOpenSm {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.up.id() as i32) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.up.wait();
    }
}

/// The links of all that is granted; what is wrong with them, if anything is.
fn owners(walker: &Walker, granted: &[(u64, u64, u16)]) -> Result<BTreeSet<End>, String> {
    let mut owned = BTreeSet::new();
    for &(from, to, dlid) in granted {
        let links = walker.links(from, to, dlid);
        for link in links.ok_or_else(|| format!("{from:x} does not reach {to:x} by {dlid}"))? {
            if !owned.insert(link) {
                return Err(format!("link {link:x?} has two owners, one sends to {dlid}"));
            }
        }
    }
    Ok(owned)
}

#[test]
fn grants_stand_on_the_tables_of_the_manager_that_stays() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let up = BesideOpenSm::start("clos:8,4,4", &folder.path().join("run"));
    let walker = up.walker()?;
    // By leaf and port: each host sends to the one in its place on the next leaf, for as long as this lasts.
    let mut hosts: Vec<(End, u64)> = walker.hosts.iter().map(|(&port, &end)| (end, port)).collect();
    hosts.sort_unstable();
    let ports: Vec<u64> = hosts.iter().map(|&(_, port)| port).collect();
    assert_eq!(ports.len(), 32);
    let guid = |port: u64| format!("0x{port:016x}");
    let peer = |place: usize| guid(ports[(place + 4) % ports.len()]);
    let sends: Vec<Value> = (0..ports.len())
        .map(|place| {
            let from = guid(ports[place]);
            json!({ "from": from, "peer": peer(place), "count": 1_000_000, "size": 4096 })
        })
        .collect();
    up.ask("agents-0.sock", &json!({ "command": "send_all", "sends": sends }));
    wait("all are granted", || up.granted().len() == ports.len());
    let granted = up.granted();
    let owned = owners(&walker, &granted).unwrap();
    assert_eq!(owned.len(), 2 * granted.len(), "each has a way up and one down");
    // The addresses are those of the tables: at least one leads along another tree than its offset says.
    let status = up.ask("sm.sock", &json!({ "command": "status" }));
    assert_eq!(status["subnet"]["routing"], "found");
    assert_eq!((&status["state"], &status["healthy"]), (&"readonly".into(), &true.into()));

    // A cable of the second leaf is cut. Three trees are left to it, in each direction.
    let begin = Instant::now();
    up.ask("emulator.sock", &json!({ "command": "fault", "fault": "cut leaf1/5" }));
    let most = ports.len() - 2;
    let mut stood = None;
    wait("what the new tables allow is granted", || {
        let granted = up.granted();
        let apart = up.walker().is_ok_and(|walker| owners(&walker, &granted).is_ok());
        if granted.len() == most && apart {
            stood.get_or_insert_with(|| begin.elapsed());
        }
        stood.is_some()
    });
    println!(
        "a cut cable: {most} of {} connections stand on OpenSM's new tables after {:.2} s",
        ports.len(),
        stood.unwrap().as_secs_f64()
    );
    // It is joined again, and all are granted on the tables that OpenSM writes then.
    let begin = Instant::now();
    up.ask("emulator.sock", &json!({ "command": "fault", "fault": "restore leaf1/5" }));
    wait("all are granted again", || {
        let granted = up.granted();
        granted.len() == ports.len()
            && up.walker().is_ok_and(|walker| owners(&walker, &granted).is_ok())
    });
    println!("joined again: all stand after {:.2} s", begin.elapsed().as_secs_f64());

    // By the emulator's account nothing of ours wrote, and OpenSM did.
    let status = up.ask("emulator.sock", &json!({ "command": "status" }));
    let clients = status["clients"].as_array().unwrap();
    let of = |manager: bool| {
        clients
            .iter()
            .find(|client| client["manager"] == manager)
            .unwrap_or_else(|| panic!("{status}"))
    };
    assert_eq!(of(false)["sets"], 0, "{status}");
    assert!(of(false)["sent"].as_u64() > Some(300), "{status}");
    assert!(of(true)["sets"].as_u64() > Some(100), "{status}");
    Ok(())
}

/// Programs of two jobs, by the addresses that they are told, share no link of OpenSM's tables; nor do the members
/// of a collective in one of the slices.
#[test]
fn slices_stand_on_the_tables_of_the_manager_that_stays() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let up = BesideOpenSm::start("clos:4,4,4", &folder.path().join("run"));
    let walker = up.walker()?;
    let ask = |request: Value| up.ask("controller.sock", &request);
    for (owner, hosts) in [("job/1", "host[0-1,4-5,8-9,12-13]"), ("job/2", "host[2-3,6-7,10-11]")] {
        ask(json!({ "command": "slice_create", "owner": owner, "hosts": [hosts] }));
        wait("its links are its own", || {
            let slices = ask(json!({ "command": "slices" }));
            let mut all = slices["slices"].as_array().unwrap().iter();
            all.any(|slice| slice["owner"] == owner && slice["ready"] == true)
        });
    }
    let links = |owner: &str| -> BTreeSet<End> {
        let said = ask(json!({ "command": "slice_trees", "owner": owner }));
        let job: JobTrees = said["text"].as_str().unwrap().parse().unwrap();
        let pairs =
            job.hosts().iter().flat_map(|one| job.hosts().iter().map(move |two| (one, two)));
        let ways = pairs.filter_map(|(one, two)| {
            let way = job.way(one.lids.0, two.lids.0).unwrap()?;
            let there = walker.links(one.port.0, two.port.0, way.to.0);
            let back = walker.links(two.port.0, one.port.0, way.from.0);
            Some([there, back].map(|links| links.unwrap_or_else(|| panic!("{job}"))).concat())
        });
        ways.flatten().collect()
    };
    let (one, two) = (links("job/1"), links("job/2"));
    // Two trees each, up and down at every leaf.
    assert_eq!((one.len(), two.len()), (16, 12));
    assert_eq!(one.intersection(&two).count(), 0);
    // The same again changes nothing.
    let all = || ask(json!({ "command": "collective", "owner": "job/1", "kind": "all-to-all" }));
    assert_eq!(all()["collective"]["max_link_load"], 1);
    wait("all members may send", || all()["collective"]["granted"] == 8);
    Ok(())
}

/// With one address a port there is no choice: admission alone keeps connections apart, and the answer says so.
#[test]
fn with_one_address_a_port_the_answer_says_that_there_is_no_choice() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let up = BesideOpenSm::start_with("clos:8,4,4", &folder.path().join("run"), &["--lmc", "0"]);
    let walker = up.walker()?;
    let mut hosts: Vec<(End, u64)> = walker.hosts.iter().map(|(&port, &end)| (end, port)).collect();
    hosts.sort_unstable();
    let guid = |place: usize| format!("0x{:016x}", hosts[place % hosts.len()].1);
    let sends: Vec<Value> = (0..hosts.len())
        .map(|place| {
            let (from, peer) = (guid(place), guid(place + 5));
            json!({ "from": from, "peer": peer, "count": 1_000_000, "size": 4096 })
        })
        .collect();
    up.ask("agents-0.sock", &json!({ "command": "send_all", "sends": sends }));
    wait("some are granted", || up.granted().len() > 1);
    owners(&walker, &up.granted()).unwrap();
    let why =
        up.ask("controller.sock", &json!({ "command": "why", "from": guid(0), "to": guid(5) }));
    assert_eq!(why["found_trees"], 1, "{why:#}");
    let slices = up.ask("controller.sock", &json!({ "command": "slices" }));
    assert_eq!(slices["found_tables"], true);
    let mut command = snin();
    command.args(["controller", "why"]).args([guid(0), guid(5)]);
    let output = command.arg("--socket").arg(up.folder.join("controller.sock")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let line =
        "1 tree (tables of another manager), one leads there: a connection waits for its links";
    assert!(said.contains(line), "{said}");
    Ok(())
}

#[test]
fn a_script_runs_beside_opensm_and_what_only_our_manager_does_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "windows 6\ncut leaf1/4 @window 2\nrestore leaf1/4 @window 4\n")
        .unwrap();
    let mut command = snin();
    command.args(["up", "clos:4,3,3", "--manager", "opensm", "--json", "--script"]).arg(&script);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    assert_eq!(output.status.code(), Some(0), "{said:#}{error}");
    assert_eq!((&said["connections"], &said["done"]), (&72.into(), &72.into()), "{said:#}");
    let changes = said["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2, "{said:#}");
    assert!(changes.iter().all(|change| change["noticed_ms"].as_f64().is_some()), "{changes:?}");
    std::fs::write(&script, "windows 6\nphase-out spine1 @window 2\n").unwrap();
    let mut command = snin();
    command.args(["up", "clos:4,3,3", "--manager", "opensm", "--script"]).arg(&script);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("only snin-sm does that"), "{error}");
}
