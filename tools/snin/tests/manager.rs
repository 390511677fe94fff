//! `snin sm` beside a subnet manager that runs, on a fabric that ibsim simulates.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_daemon::generations::Limit;
use snin_daemon::log;
use snin_fabric::generate::Recipe;
use snin_fabric::{PortIndex, Topology, ibnet};
use snin_judges::{Simulator, netlist};
use snin_protocol::Time;
use snin_sm::daemon::kept::KeptFile;
use snin_sm::daemon::memory::Memory;
use snin_sm::daemon::outlets::Outlets;
use snin_sm::daemon::run::{Clock, Daemon};
use snin_sm::daemon::settings::Settings;
use snin_sm::daemon::storage::Storage;
use snin_sm::port::{Choice, Options, open};
use snin_sm_core::Core;

/// The daemon's own loop, on a thread of this test: it ends with the simulator.
fn manage(name: String, socket: PathBuf) {
    let settings = Settings { control_socket: Some(socket), ..Settings::default() };
    let log = log::start(&"stderr".into(), log::level("error").unwrap(), Limit::NONE).unwrap();
    let (memory, saved) = Memory::open(None).unwrap();
    let (kept, said) = KeptFile::open(None, Time::ZERO).unwrap();
    let clock = Clock::start();
    let mut core = Core::new(settings.core(1), saved, said).unwrap();
    core.manager_mut().set_epoch(clock.epoch());
    let choice = Choice::Ibsim { name, host: None };
    let port =
        open(&choice, Options { timeout: Time::millis(100), keys: &[], asks_only: false }).unwrap();
    let outlets = Outlets::open(&settings, None, log).unwrap();
    let storage = Storage::new(memory, kept);
    let ended = Daemon::new(clock, core, storage, vec![port], outlets).unwrap().run();
    assert!(ended.is_err(), "nobody told it to end");
}

fn snin_sm(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    command.arg("sm").args(arguments).arg("--socket").arg(socket).output().unwrap()
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_running_manager_is_asked() {
    let topology = "clos:4,2,2".parse::<Recipe>().unwrap().build().unwrap();
    let simulator = Simulator::start(&ibnet::write(&topology)).unwrap();
    let socket = simulator.folder().join("control.sock");
    let absent = snin_sm(&socket, &["status"]);
    assert_eq!(absent.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&absent.stderr).ends_with("does the daemon run?\n"));

    let (name, its) = (simulator.name().to_owned(), socket.clone());
    std::thread::spawn(move || manage(name, its));
    let begin = Instant::now();
    // Until it is up the exit code says that it is not.
    while !snin_sm(&socket, &["status"]).status.success() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not come up");
        sleep(Duration::from_millis(10));
    }
    let status: Value =
        serde_json::from_str(&text(&snin_sm(&socket, &["status", "--json"]))).unwrap();
    assert_eq!(status["subnet"]["hosts"], 8);
    let said = text(&snin_sm(&socket, &["status"]));
    assert!(said.starts_with("master at ibsim:"), "{said}");
    assert!(said.contains("14 nodes: 6 switches, 8 host ports; 2 trees, LMC 2"), "{said}");

    let swept: Value =
        serde_json::from_str(&text(&snin_sm(&socket, &["sweep", "--json"]))).unwrap();
    assert_eq!((swept["kind"].as_str(), swept["sets"].as_u64()), (Some("full"), Some(0)));
    assert!(text(&snin_sm(&socket, &["sweep"])).contains(" 0 writes of which 0 table blocks, "));

    let read = ibnet::parse(text(&snin_sm(&socket, &["dump"])).as_bytes()).unwrap();
    assert_eq!(read.cable_count(), topology.cable_count());
    let lids = text(&snin_sm(&socket, &["dump", "--guid2lid"]));
    let entries = snin_fabric::dump::guid2lid::entries(lids.as_bytes()).unwrap();
    assert_eq!(entries.len(), 14);
    let tables = text(&snin_sm(&socket, &["lfts"]));
    let tables = snin_fabric::dump::lfts::parse(tables.as_bytes(), &read).unwrap();
    assert_eq!(tables.iter().filter(|table| table.iter().count() == 6 + 8 * 4).count(), 6);
    let lines = text(&snin_sm(&socket, &["lfts", "--json"]));
    assert_eq!(lines.lines().count(), 6);
    let one: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(one["ports"].as_object().unwrap().len(), 6 + 8 * 4);
    let guid = one["guid"].as_str().unwrap();
    let table = text(&snin_sm(&socket, &["lfts", "--switch", guid]));
    assert!(table.contains(guid) && table.matches("Unicast lids").count() == 1, "{table}");

    let events = text(&snin_sm(&socket, &["events"]));
    let events: Vec<Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names[0], "STATE_CHANGE");
    // A trap that comes late, of a link that came up, has a look of its own.
    let full = |event: &&Value| event["event"] == "SWEEP_DONE" && event["kind"] == "full";
    assert_eq!(events.iter().filter(full).count(), 3, "{events:?}");
    let last = events.last().unwrap()["seq"].to_string();
    assert_eq!(text(&snin_sm(&socket, &["events", "--since", &last])), "");

    follow(&simulator, &socket, &topology, &last);
}

/// The databases of two managers that run, on fabrics of the same recipe but other GUIDs, become one.
#[test]
fn the_databases_of_two_running_managers_are_merged() {
    let topology = "clos:4,2,3".parse::<Recipe>().unwrap().build().unwrap();
    let one = ibnet::write(&topology);
    // Another vendor's: GUIDs begin with 0x0200 here, with 0x02a0 there.
    let other = netlist::beside(&one, "south", "02a0", 0);
    let mut simulators = Vec::new();
    for (name, netlist) in [("north", one), ("south", other)] {
        let simulator = Simulator::start(&netlist).unwrap();
        let socket = simulator.folder().join("control.sock");
        let (its, place) = (simulator.name().to_owned(), socket.clone());
        std::thread::spawn(move || manage(its, place));
        let begin = Instant::now();
        while !snin_sm(&socket, &["status"]).status.success() {
            assert!(begin.elapsed() < Duration::from_secs(60), "not up");
            sleep(Duration::from_millis(20));
        }
        let database = text(&snin_sm(&socket, &["dump", "--database", "--name", name]));
        assert!(database.starts_with("snin-smdb 1\n"), "{database:.100}");
        let file = simulator.folder().join(format!("{name}.smdb"));
        std::fs::write(&file, database).unwrap();
        simulators.push((simulator, file));
    }
    let [(_, north), (folder, south)] = &simulators[..] else { panic!("two") };
    let run = |arguments: &[&str], files: [&PathBuf; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.args(["sm", "merge"]).args(files).args(arguments).output().unwrap()
    };
    let said = run(&["--json", "--keep", "south"], [north, south]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["report"]["name"], "south");
    // 12 hosts and 6 switches of the north have LIDs that the south has too.
    let kinds = |said: &Value, kind: &str| {
        let all = said["report"]["renumbered"].as_array().unwrap();
        all.iter().filter(|one| one["kind"] == kind).count()
    };
    assert_eq!((kinds(&said, "lid"), kinds(&said, "partition")), (18, 0), "{said:#}");
    // The order makes no difference, and the merged one with a part of it is as it was.
    let merged = folder.folder().join("one.smdb");
    let output = merged.to_str().unwrap();
    let first = run(&["--output", output], [north, south]);
    let written = std::fs::read(&merged).unwrap();
    let report = String::from_utf8_lossy(&first.stdout).into_owned();
    assert!(report.starts_with("the numbers of north ("), "{report}");
    assert_eq!(run(&["--output", "-"], [south, north]).stdout, written);
    assert_eq!(run(&["--output", "-"], [&merged, south]).stdout, written);
    // What is no database, or not whole, is told by its line.
    std::fs::write(&merged, &written[..written.len() - 20]).unwrap();
    let broken = run(&[], [&merged, south]);
    assert_eq!(broken.status.code(), Some(3));
    let error = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(error.contains("one.smdb:"), "{error}");
    let error = run(&["--keep", "west"], [north, south]).stderr;
    assert!(
        String::from_utf8_lossy(&error).contains("--keep west: no such subnet; there is north")
    );
}

/// Events come as they happen, to a program that reads them line by line.
fn follow(simulator: &Simulator, socket: &Path, topology: &Topology, since: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    command.args(["sm", "events", "--json", "--follow", "--since", since, "--socket"]).arg(socket);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |wanted: &str| {
        let events =
            lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let names = events.map(|event| event["event"].as_str().unwrap().to_owned());
        names.take_while(|name| name != wanted).collect::<Vec<_>>()
    };
    // Nothing has happened since; this is the first event, and the last for now.
    text(&snin_sm(socket, &["sweep"]));
    assert_eq!(until("SWEEP_DONE"), ["SUBNET_UP"]);
    let leaf = topology.switches().next().unwrap();
    let to_switch =
        |&(_, peer): &(PortIndex, PortIndex)| topology.is_switch(topology.port(peer).node);
    let (port, _) = topology.cables(leaf).find(to_switch).unwrap();
    let name = format!("S-{:016x}", topology.node(leaf).guid.0);
    simulator.unlink(&name, Some(topology.num(port).0)).unwrap();
    let told = until("LFT_CHANGE");
    assert!(told.iter().any(|name| name == "TRAP"), "{told:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}
