//! `snin emulate`: infiniband-diags, OpenSM, snin-sm and agents on a fabric that it serves.
#![allow(clippy::disallowed_macros, reason = "what is measured is printed")]

#[path = "emulation/clearing.rs"]
mod clearing;
mod emulation;
#[path = "emulation/faults.rs"]
mod faults;
#[path = "emulation/flood.rs"]
mod flood;
#[path = "emulation/joining.rs"]
mod joining;
#[path = "emulation/manager.rs"]
mod manager;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use emulation::{Emulation, manage, manage_once, snin};
use snin_fabric::{Guid, Lid, Topology, ibnet};
use snin_judges::{
    JudgeError, OpenSm, Program, Running, Simulated as _, finish, iblinkinfo, ibnetdiscover,
    smpquery,
};
use snin_mad::tables::PKeyTable;
use snin_mad::{Attribute as _, DrPath, NodeInfo, PKey, Route, Smp};
use snin_protocol::Time;
use snin_protocol::software_port::messages::{
    Attach, Cancel, FromFabric, Loss, Outcome, Post, RefusedReason, ToFabric,
};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

/// Cables by the names of their ends.
fn cables(topology: &Topology) -> Vec<String> {
    let ends = topology.ports().filter_map(|port| Some((port, topology.peer(port)?)));
    let name = |port| topology.port_name(port);
    let mut cables: Vec<String> =
        ends.map(|(port, peer)| format!("{} {}", name(port), name(peer))).collect();
    cables.sort();
    cables
}

fn discovered(emulation: &Emulation) -> Result<Topology, JudgeError> {
    Ok(ibnet::parse(&ibnetdiscover(emulation)?).unwrap())
}

#[test]
fn diagnostics_and_managers_see_the_fabric_that_is_emulated() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:4,4,2", &[])?;
    let topology = emulation.topology();
    let found = discovered(&emulation)?;
    assert_eq!(cables(&found), cables(topology));
    let guids = |topology: &Topology| {
        let mut guids: Vec<Guid> = topology.nodes().map(|node| topology.node(node).guid).collect();
        guids.sort();
        guids
    };
    assert_eq!(guids(&found), guids(topology));

    // Our manager, then OpenSM after a restart of everything, bring every link up.
    let status = manage_once(&emulation);
    assert!(status.healthy, "{status:#?}");
    let links = |emulation: &Emulation, state: &str| -> Result<usize, JudgeError> {
        Ok(iblinkinfo(emulation)?.lines().filter(|line| line.contains(state)).count())
    };
    let ends = 2 * topology.cable_count();
    assert_eq!(links(&emulation, "Active/  LinkUp")?, ends);
    let other = Emulation::start("clos:4,4,2", &[])?;
    // It takes links down to change their MTU, hears the traps, and sweeps again.
    let keeper = OpenSm { lmc: 2, ..OpenSm::default() }.keep(&other)?;
    emulation::wait("OpenSM", || {
        other.ask(&["status"])["cables"]["active"] == topology.cable_count()
    });
    assert_eq!(links(&other, "Active/  LinkUp")?, ends);
    drop(keeper);
    // A client that has ended is attached no longer.
    emulation::wait("clients", || other.ask(&["status"])["clients"] == serde_json::json!([]));

    // What happens to a cable is seen.
    emulation.ask(&["fault", "cut", "leaf1/3"]);
    assert_eq!(discovered(&emulation)?.cable_count(), topology.cable_count() - 1);
    emulation.ask(&["fault", "restore", "leaf1/3"]);
    emulation::wait("the cable", || {
        discovered(&emulation).is_ok_and(|found| found.cable_count() == topology.cable_count())
    });
    let refused = snin(&emulation, &["emulator", "fault", "cut", "leaf1/99"]);
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("leaf1 has no cable at port 99"), "{said}");
    // A node without power does not answer, and who asked is told.
    emulation.ask(&["fault", "dead", "leaf1"]);
    let lid = summary_lid(&emulation, "leaf1");
    assert!(smpquery(&emulation, &["nodeinfo", &lid.to_string()]).is_err());
    assert_ne!(emulation.ask(&["status"])["mads"]["timed_out"], 0);
    Ok(())
}

/// A switch's LID, as `ibnetdiscover` saw it last.
fn summary_lid(emulation: &Emulation, name: &str) -> u16 {
    emulation.ask(&["fault", "well", name]);
    let found = discovered(emulation).unwrap();
    let node = found.nodes().find(|&node| &*found.node(node).name == name).unwrap();
    let lids = found.reported_addresses().unwrap();
    let lid = lids.base(found.port0(node)).unwrap().0;
    emulation.ask(&["fault", "dead", name]);
    lid
}

/// An answer to a directed question.
fn ask(port: &mut IbsimPort, path: &[u8]) -> NodeInfo {
    let route = Route::directed(DrPath::new(path).unwrap());
    let question = Smp::get(NodeInfo::ID, 0, route).mad();
    assert_eq!(port.send(&question, &Address::DIRECTED).unwrap(), Sent::Yes);
    let mut answer = None;
    emulation::wait("an answer", || {
        answer = port.receive().unwrap();
        answer.is_some()
    });
    answer.unwrap().mad.attribute().unwrap()
}

#[test]
fn many_clients_sit_at_one_port_and_at_second_ones() -> Result<(), JudgeError> {
    let two = "Switch 4 \"S-0000000000000010\" # \"sw\"\n[1] \"H-0000000000000020\"[1]\n\
               [2] \"H-0000000000000020\"[2]\n\nCa 2 \"H-0000000000000020\" # \"host\"\n\
               [1](21) \"S-0000000000000010\"[1]\n[2](22) \"S-0000000000000010\"[2]\n";
    let emulation = Emulation::of(two, &["--agent-latency", "1ms"])?;
    let attach = |place| IbsimPort::attach(emulation.name(), place);
    // More than ibsim has room for, all at the first port; each gets its own answers.
    let mut ports: Vec<IbsimPort> = (0..20).map(|_| attach(None).unwrap()).collect();
    for port in &mut ports {
        assert_eq!((ask(port, &[]).port_guid, ask(port, &[1]).node_guid), (Guid(0x21), Guid(0x10)));
    }
    let mut second = attach(Some("host/2")).unwrap();
    assert_eq!(second.info().guid, Guid(0x22));
    assert_eq!(ask(&mut second, &[]).local_port.0, 2);
    let switch = attach(Some("sw")).unwrap();
    assert_eq!(switch.info().guid, Guid(0x10));

    // One manager a port, and the next when it is gone.
    ports[0].announce(true).unwrap();
    assert!(ports[1].announce(true).is_err());
    second.announce(true).unwrap();
    ports.remove(0);
    ports[1].announce(true).unwrap();
    let refused = attach(Some("host/3")).unwrap_err().to_string();
    assert!(refused.contains("does not attach a client to host/3"), "{refused}");

    // A client that leaves without a word is forgotten: here, when its sockets close. (A process that is killed
    // does that.)
    let status = emulation.ask(&["status"]);
    assert_eq!(status["clients"].as_array().unwrap().len(), 21);
    drop((ports, second, switch));
    emulation::wait("clients", || emulation.ask(&["status"])["clients"] == serde_json::json!([]));
    let again = attach(None).unwrap();
    assert_eq!(again.info().guid, Guid(0x21));
    Ok(())
}

/// Of snin-sm and of OpenSM: a client counts records by how long the response is that it is handed.
#[test]
fn saquery_counts_as_many_records_as_there_are() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:2,2,2", &[])?;
    let records = |head: &str, what: &str| -> Result<(usize, String), JudgeError> {
        let mut command = emulation.command(Program::SAQUERY, Some("host1"))?;
        let said = finish(command.arg(what), emulation.folder(), Duration::from_secs(60))?;
        let text = String::from_utf8_lossy(&said.out).into_owned();
        Ok((text.matches(head).count(), text))
    };
    let ours = Running::start(
        Command::new(emulation::manager()).args(["--ibsim", emulation.name()]),
        emulation.folder(),
        "snin-sm",
    )?;
    emulation::wait("snin-sm", || records("SMInfoRecord dump:", "SMIR").is_ok_and(|(n, _)| n > 0));
    assert_eq!(records("SMInfoRecord dump:", "SMIR")?.0, 1, "{}", records("", "SMIR")?.1);
    drop(ours);
    let opensm = OpenSm::default().keep(&emulation)?;
    emulation::wait("OpenSM", || records("SMInfoRecord dump:", "SMIR").is_ok_and(|(n, _)| n > 0));
    assert_eq!(records("SMInfoRecord dump:", "SMIR")?.0, 1, "{}", records("", "SMIR")?.1);
    drop(opensm);
    Ok(())
}

/// Two hosts and no switch: both are addressed and reach each other.
#[test]
fn hosts_back_to_back_are_brought_up() -> Result<(), JudgeError> {
    let netlist = "Ca 1 \"a\" # \"n1\"\n[1] \"b\"[1]\n\nCa 1 \"b\" # \"n2\"\n[1] \"a\"[1]\n";
    let emulation = Emulation::of(netlist, &[])?;
    let status = manage_once(&emulation);
    assert!(status.healthy, "{status:#?}");
    let found = discovered(&emulation)?;
    let lids = found.reported_addresses().unwrap();
    assert_eq!(lids.iter().count(), 2);
    assert_eq!(iblinkinfo(&emulation)?.lines().filter(|line| line.contains("Active")).count(), 2);
    Ok(())
}

#[test]
fn messages_go_along_the_tables_and_two_owners_of_a_link_are_found() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:2,2,2", &["--rate", "1000000"])?;
    assert!(manage_once(&emulation).healthy);
    let topology = emulation.topology();
    let hosts = hosts_of(topology);
    let mut agents = emulation.agents();
    let lids: Vec<Lid> = hosts.iter().map(|&port| agents.attach(port).unwrap().lid).collect();
    assert_eq!(agents.attach(Guid(0xBAD)), Err(RefusedReason::NoSuchPort));
    let mut others = emulation.agents();
    assert_eq!(others.attach(hosts[0]), Err(RefusedReason::Taken));

    // 1,250 bytes take 10 ms.
    let begin = agents.now() + Time::millis(50);
    let at = |ms| begin + Time::millis(ms);
    let to = |host: usize, tree| Lid(lids[host].0 + 1 + tree);
    let post = |host: usize, token, to, begin| {
        let (port, path_bits, payload) = (hosts[host], 0, vec![token as u8; 3]);
        let flow = token as u32;
        ToFabric::Post(Post {
            port,
            token,
            flow,
            to,
            path_bits,
            sl: 0,
            bytes: 1250,
            begin,
            payload,
        })
    };
    // Two on two trees, from one leaf to the other; then one that begins when the first has ended.
    agents.send(&post(0, 1, to(2, 0), at(0)));
    agents.send(&post(1, 2, to(3, 1), at(0)));
    assert_eq!(agents.outcome(1), Outcome::Delivered);
    assert_eq!(agents.outcome(2), Outcome::Delivered);
    assert_eq!((agents.came(hosts[2]), agents.came(hosts[3])), (vec![1; 3], vec![2; 3]));
    agents.send(&post(1, 3, to(2, 0), at(10)));
    assert_eq!(agents.outcome(3), Outcome::Delivered);
    let owners = emulation.ask(&["owners"]);
    assert_eq!((&owners["clashes"], &owners["unjudged"]), (&0.into(), &0.into()), "{owners}");
    // Four links each: up, over the spine, down; host to leaf, leaf to host.
    assert_eq!(owners["spans"], 12);

    // Planted: the same tree, the last 2 ms of one message and the first of another, told of in any order.
    agents.send(&post(1, 5, to(3, 0), at(108)));
    agents.send(&post(0, 4, to(2, 0), at(100)));
    assert_eq!((agents.outcome(5), agents.outcome(4)), (Outcome::Delivered, Outcome::Delivered));
    let found = snin(&emulation, &["emulator", "owners", "--json"]);
    assert_eq!(found.status.code(), Some(1), "two owners are exit code 1");
    let owners: Value = serde_json::from_slice(&found.stdout).unwrap();
    // Up to the spine and down from it: both are found, and named with who owned them.
    assert_eq!(owners["clashes"], 2, "{owners}");
    let named = owners["named"].to_string();
    assert!(named.contains("leaf0/") && named.contains("flow 4 of host0/1"), "{named}");
    assert!(named.contains("for 2ms"), "{named}");

    // What does not arrive, and why.
    agents.send(&post(0, 6, Lid(0x1234), agents.now()));
    assert_eq!(agents.outcome(6), Outcome::Lost(Loss::NoRoute));
    agents.send(&post(0, 7, to(2, 0), agents.now() + Time::secs(60)));
    assert_eq!(agents.outcome(7), Outcome::Lost(Loss::WrongTime));
    others.send(&post(0, 8, to(2, 0), agents.now()));
    assert_eq!(others.outcome(8), Outcome::Lost(Loss::NotAttached));
    let later = agents.now() + Time::millis(500);
    agents.send(&post(0, 9, to(2, 0), later));
    agents.send(&ToFabric::Cancel(Cancel { port: hosts[0], token: 9, at: agents.now() }));
    assert_eq!(agents.outcome(9), Outcome::Cancelled);
    agents.send(&ToFabric::Detach(Attach { port: hosts[3] }));
    agents.send(&post(0, 10, to(3, 0), agents.now()));
    assert_eq!(agents.outcome(10), Outcome::Lost(Loss::Nobody));
    // A port whose cable is cut says so, and sends nothing.
    emulation.ask(&["fault", "cut", "host0/1"]);
    agents.until(|said| matches!(said, FromFabric::Attached(status) if !status.active));
    agents.send(&post(0, 11, to(2, 0), agents.now()));
    assert_eq!(agents.outcome(11), Outcome::Lost(Loss::LinkDown));
    // A connection that ends leaves its ports to others.
    drop(agents);
    emulation::wait("the port", || others.attach(hosts[1]).is_ok());
    Ok(())
}

/// Hosts of one leaf, then of the other.
fn hosts_of(topology: &Topology) -> Vec<Guid> {
    let hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    hosts.map(|node| topology.port(topology.cables(node).next().unwrap().0).guid).collect()
}

#[test]
fn what_is_of_a_foreign_partition_is_dropped_also_where_its_host_forges_the_key()
-> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:2,2,2", &[])?;
    let topology = emulation.topology();
    let hosts = hosts_of(topology);
    let file = format!(
        "a=0x10, indx0, defmember=full : {}, {};\nb=0x20, indx0, defmember=full : {}, {};\n",
        hosts[0], hosts[2], hosts[1], hosts[3]
    );
    assert!(manage(&emulation, Some(&file), None).healthy);
    let mut agents = emulation.agents();
    let lids: Vec<Lid> = hosts.iter().map(|&port| agents.attach(port).unwrap().lid).collect();
    let mut tokens = 1..;
    let mut outcome = |from: usize, to: usize| {
        let token = tokens.next().unwrap();
        let (port, to, begin) = (hosts[from], lids[to], agents.now());
        let (flow, payload) = (token as u32, vec![1]);
        let post = Post { port, token, flow, to, path_bits: 0, sl: 0, bytes: 64, begin, payload };
        agents.send(&ToFabric::Post(post));
        agents.outcome(token)
    };
    for (from, to) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
        assert_eq!(outcome(from, to), Outcome::Delivered, "{from} to {to}");
    }
    for (from, to) in [(0, 1), (0, 3), (1, 2), (3, 0)] {
        assert_eq!(outcome(from, to), Outcome::Lost(Loss::Partition), "{from} to {to}");
    }
    // A host that gives itself the other partition's key does not come past its switch.
    let mut own = IbsimPort::attach(emulation.name(), Some("host1")).unwrap();
    let write = Smp::set(PKeyTable::ID, 0, Route::directed(DrPath::new(&[]).unwrap())).mad();
    let mut keys = [PKey(0); 32];
    keys[0] = PKey(0x8010);
    assert_eq!(own.send(&write.with(&PKeyTable { keys }), &Address::DIRECTED).unwrap(), Sent::Yes);
    emulation::wait("the key", || {
        let answer = own.receive().unwrap();
        answer.is_some_and(|it| it.mad.attribute::<PKeyTable>().unwrap().keys == keys)
    });
    assert_eq!(outcome(1, 2), Outcome::Lost(Loss::Partition));
    assert_eq!(outcome(0, 1), Outcome::Lost(Loss::Partition), "its switch lets nothing out to it");
    let lost = &emulation.ask(&["status"])["messages"]["lost"];
    assert_eq!(lost["a port is not in the message's partition"], 6, "{lost}");
    Ok(())
}

#[test]
fn what_is_no_frame_ends_a_connection_and_nothing_else() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:2,2,1", &[])?;
    let mut rogue = emulation.agents();
    rogue.bytes(&[0xFF; 64]);
    assert!(rogue.ended(Duration::from_secs(30)));
    emulation.datagram("ctl", &[1; 99]);
    emulation.datagram("ctl", &[]);
    let mut port = IbsimPort::attach(emulation.name(), None).unwrap();
    assert!(ask(&mut port, &[1]).num_ports > 0);
    emulation::wait("counts", || emulation.ask(&["status"])["mads"]["malformed"] == 2);
    // The second emulator of one name is told so.
    let second = finish(
        Command::new(env!("CARGO_BIN_EXE_snin")).args([
            "emulate",
            "clos:2,2,1",
            "--socket",
            emulation.name(),
        ]),
        emulation.folder(),
        Duration::from_secs(60),
    );
    let why = second.map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("another emulator, or ibsim, has this name"), "{why}");
    Ok(())
}

#[test]
fn what_a_manager_was_told_is_told_again() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:4,4,2", &[])?;
    let file = emulation.folder().join("sm.record");
    let status = manage(&emulation, None, Some(&file));
    assert!(status.healthy, "{status:#?}");
    let replay = |file: &Path, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("replay").arg(file).args(more).output().unwrap()
    };
    let again = replay(&file, &["--json"]);
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    let report: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((&report["core"], &report["same"]), (&"sm".into(), &true.into()), "{report}");
    // The second view says that what is granted has a lane of its own.
    assert!(
        report["outputs"].as_u64().unwrap() > 100 && report["state"] == "master, view 2",
        "{report}"
    );

    // A core that does something else is told apart: the last frame ends with the digest.
    let whole = std::fs::read(&file).unwrap();
    let other = emulation.folder().join("other.record");
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&other, changed).unwrap();
    assert_eq!(replay(&other, &[]).status.code(), Some(1));
    // A recording that lacks an answer is one of no run: a computation comes that was never wanted.
    let frames = frames(&whole);
    let answer = frames.iter().skip(2).position(|frame| frame.len() > 256).unwrap() + 2;
    let rest = frames.iter().enumerate().filter(|(at, _)| *at != answer).map(|(_, frame)| *frame);
    std::fs::write(&other, rest.collect::<Vec<_>>().concat()).unwrap();
    let refused = |what: &str| {
        let refused = replay(&other, &[]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(3) && said.contains(what), "{said}");
    };
    refused("of a job that was not given");
    // What is no frame is named by its number.
    let nonsense = [frames[0], frames[1], b"\x08\0\0\0nonsense"].concat();
    std::fs::write(&other, nonsense).unwrap();
    refused("other.record: frame 2: ");
    // What a manager that was killed left is replayed as far as it goes.
    std::fs::write(&other, &whole[..whole.len() - 3]).unwrap();
    let cut = replay(&other, &[]);
    let said = String::from_utf8_lossy(&cut.stdout).into_owned();
    assert!(cut.status.success() && said.contains("the recording is cut short"), "{said}");
    // Versions are known by their first line.
    let older = "{\"core\":\"sm\",\"version\":\"0.1.0\",\"at\":1,\"config\":{}}\n{\"at\":2}\n";
    std::fs::write(&other, older).unwrap();
    refused("other.record: a recording of sm in format 1 by snin 0.1.0, but one in format 2 by ");
    Ok(())
}

/// The first line of a recording, and its frames with their lengths.
fn frames(recording: &[u8]) -> Vec<&[u8]> {
    let mut at = recording.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let mut frames = vec![&recording[..at]];
    while let Some(length) = recording[at..].first_chunk() {
        let end = at + 4 + u32::from_le_bytes(*length) as usize;
        frames.push(&recording[at..end]);
        at = end;
    }
    frames
}

/// With protection level 2 ports answer to their key only, the manager's own too. A manager that is started again
/// without it says so and what helps; with it, or with it as a former one, it goes on.
#[test]
fn a_manager_without_the_key_that_ports_hide_says_what_helps() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:4,2,2", &[])?;
    let config = emulation.folder().join("sm.toml");
    let once = |settings: &str| {
        std::fs::write(&config, format!("m_key_protection_level = 2\n{settings}")).unwrap();
        let mut command = Command::new("timeout");
        command.arg("60").arg(emulation::manager()).arg("--config").arg(&config);
        let said = command.args(["--once", "--ibsim", emulation.name()]).output().unwrap();
        let told = [said.stdout, said.stderr].concat();
        (said.status.code(), String::from_utf8_lossy(&told).into_owned())
    };
    for _ in 0..2 {
        let (code, told) = once("m_key = \"0x1234\"\n");
        assert_eq!(code, Some(0), "{told}");
    }
    for settings in ["", "m_key = \"0x5678\"\n"] {
        let (code, told) = once(settings);
        assert_eq!(code, Some(3), "{settings}: {told}");
        assert!(told.contains("name it in former_m_keys beside a new m_key"), "{told}");
    }
    let (code, told) = once("m_key = \"0x5678\"\nformer_m_keys = [\"0x1234\"]\n");
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = once("m_key = \"0x5678\"\n");
    assert_eq!(code, Some(0), "{told}");
    Ok(())
}
