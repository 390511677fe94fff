//! Shortest routes on lanes, on fabrics that are no Clos: tables and tables of lanes as infiniband-diags read
//! them back, service levels as queries for paths are answered, and a walker of this file's own that follows
//! each packet from link to link and from lane to lane.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::Signal;
use snin_fabric::hosts::Hosts;
use snin_fabric::{NodeIndex, PortNum, dump, ibnet};
use snin_judges::{JudgeError, dump_fts, ibnetdiscover};
use snin_mad::sa::PathRecord;

use crate::administration::is_up;
use crate::client::Host;
use crate::lanes;
use crate::support::{Lab, fabric, id};

/// A link between switches, by the switch and the port that sends on it, and the lane there.
type Channel = (NodeIndex, PortNum, u8);

/// Takes channels that nothing waits behind away until none is left, or only circles are.
fn has_a_circle(mut waits: BTreeMap<Channel, BTreeSet<Channel>>) -> bool {
    loop {
        let before = waits.len();
        let left: BTreeSet<Channel> = waits.keys().copied().collect();
        waits.retain(|_, next| next.iter().any(|channel| left.contains(channel)));
        if waits.len() == before {
            return before > 0;
        }
    }
}

#[test]
fn no_packet_waits_for_itself() -> Result<(), JudgeError> {
    for (recipe, routing) in
        [("torus:4,4,1", "lanes"), ("torus:5,5,1", "dor"), ("random:14,4,1", "lanes")]
    {
        let lab = Lab::new(&fabric(recipe))?;
        let keeper = lab.keep(&format!("routing = \"{routing}\"\n"))?;
        is_up(&keeper);
        let topology = ibnet::parse(&ibnetdiscover(&lab.simulator)?).unwrap();
        let addresses = topology.reported_addresses().unwrap();
        let tables = dump::lfts::parse(&dump_fts(&lab.simulator)?, &topology).unwrap();
        let held = lanes::all(&lab.simulator)?;
        let hosts = Hosts::of(&topology);
        let first = topology.port(hosts.iter().next().unwrap().1.port).node;
        let manager =
            topology.nodes().find(|&node| id(&topology, node) == id(&lab.topology, lab.home));
        let manager = addresses.of(topology.port_of(manager.unwrap(), PortNum(1)).unwrap()).next();
        let name = id(&topology, first);
        let mut client = Host::new(&lab.simulator, &name, manager.unwrap().0);

        let mut levels: BTreeMap<(u16, u16), u8> = BTreeMap::new();
        let mut waits: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
        let mut on_lane_0: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
        for (_, from) in hosts.iter() {
            let slid = addresses.base(from.port).unwrap();
            let wanted = PathRecord { slid, ..PathRecord::default() };
            for path in client.table(&wanted, &[5]) {
                let Some((to, _)) = addresses.owner(path.dlid) else { panic!("{path:?}") };
                if topology.is_switch(topology.port(to).node) || to == from.port {
                    continue;
                }
                levels.insert((path.slid.0, path.dlid.0), path.sl);
                let (mut at, mut input) =
                    (from.switch, topology.num(topology.peer(from.port).unwrap()));
                let mut before: Option<Channel> = None;
                loop {
                    let out = tables[at.index()].get(path.dlid);
                    let port = topology.port_of(at, out).unwrap();
                    let lane = match held[&topology.port_name(port)].mapping[&input.0]
                        [usize::from(path.sl)]
                    {
                        15 => panic!("dropped"),
                        lane => lane,
                    };
                    let peer = topology.peer(port).unwrap();
                    if peer == to {
                        break;
                    }
                    let channel = (at, out, lane);
                    if let Some(before) = before.replace(channel) {
                        waits.entry(before).or_default().insert(channel);
                        let flat = |(at, out, _): Channel| (at, out, 0);
                        on_lane_0.entry(flat(before)).or_default().insert(flat(channel));
                    }
                    (at, input) = (topology.port(peer).node, topology.num(peer));
                }
            }
        }
        let pairs = hosts.len() * (hosts.len() - 1);
        assert_eq!(levels.len(), pairs, "{recipe}");
        // Who answers a connection sends by the level of the request.
        for ((from, to), level) in &levels {
            assert_eq!(levels.get(&(*to, *from)), Some(level), "{recipe}: {from} {to}");
        }
        let used: BTreeSet<u8> = levels.values().copied().collect();
        println!("{recipe} by {routing}: service levels {used:?}");
        assert!(used.len() > 1 && !has_a_circle(waits), "{recipe} by {routing}: {used:?}");
        assert!(has_a_circle(on_lane_0), "{recipe} by {routing}: one lane would do");
        keeper.end(Signal::TERM);
    }
    Ok(())
}

/// With the lanes that there are it cannot be done: routes go up and down, and it is said.
#[test]
fn without_lanes_it_is_said() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("random:14,4,1"))?;
    std::fs::write(lab.file("few.toml"), "routing = \"lanes\"\nmax_op_vls = 1\n").unwrap();
    let file = lab.file("few.toml");
    let said = lab.command().args(["--once", "--config"]).arg(file).output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.contains("routes are made by updown, not by lanes: the lanes"), "{text}");
    assert_eq!(said.status.code(), Some(1), "{text}");
    Ok(())
}

/// The administrator's own tables: taken as they are, in lanes where they close circles on one; what they do not
/// lead home is led up and down, and said.
#[test]
fn own_tables_are_taken_as_they_are() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("random:14,4,1"))?;
    let config = lab.file("routes.toml");
    let once = |text: &str| {
        std::fs::write(&config, text).unwrap();
        let said = lab.command().args(["--once", "--config"]).arg(&config).output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        (said.status.code(), text + &String::from_utf8_lossy(&said.stderr))
    };
    let (code, text) = once("routing = \"lanes\"\n");
    assert_eq!(code, Some(0), "{text}");
    let (tables, _) = lab.told();
    let dumped = std::fs::read_to_string(lab.file("dump").join("opensm-lfts.dump")).unwrap();
    let (own, file) = (lab.file("own.lfts"), "routing = \"file\"\nlfts_file = \"own.lfts\"\n");

    // Others in between, so that each entry has to be written.
    let (code, text) = once("routing = \"updown\"\n");
    assert_eq!(code, Some(0), "{text}");
    assert!(lab.told().0 != tables);
    std::fs::write(&own, &dumped).unwrap();
    let (code, text) = once(file);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("virtual lanes: programs have to send"), "{text}");
    assert!(lab.told().0 == tables);

    // A switch lacks an entry for a host's address.
    let lines: Vec<&str> = dumped.lines().collect();
    let host = lines.iter().rposition(|line| line.contains("Channel Adapter")).unwrap();
    std::fs::write(&own, [&lines[..host], &lines[host + 1..]].concat().join("\n")).unwrap();
    let (code, text) = once(file);
    assert!(text.contains("do not lead 1 addresses to their ports"), "{text}");
    assert_eq!(code, Some(1), "{text}");

    // No tables, and too few lanes for them.
    for (content, more, why) in [
        ("Unicast lids\n", "", "not by the tables of lfts_file: 1: no switch GUID"),
        (dumped.as_str(), "max_op_vls = 1\n", "they close credit loops"),
    ] {
        std::fs::write(&own, content).unwrap();
        let (code, text) = once(&format!("{file}{more}"));
        assert!(text.contains(why), "{text}");
        assert_eq!(code, Some(1), "{text}");
    }
    let (code, text) = once("routing = \"file\"\n");
    assert!(text.contains("routes.toml:1") && text.contains("needs lfts_file"), "{text}");
    assert_eq!(code, Some(3), "{text}");
    Ok(())
}
