//! Two subnets, each under a manager that runs, become one when a cable is plugged in.
//!
//! The judge reads what the emulated hardware holds - cables, addresses, partition tables, forwarding tables - and
//! asks no manager; and packets are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Lid, ibnet};
use snin_judges::{
    JudgeError, Program, Running, Simulated as _, finish, ibtracert, ibtracert_multicast, netlist,
};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, SaRequest};
use snin_mad::{Gid, GidPrefix, Method, PKey, QKey};
use snin_protocol::software_port::messages::{FromFabric, Outcome, Post, ToFabric};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

use crate::emulation::{Emulation, manager, wait};

/// 12 and 24 hosts. `SNIN_JOIN="clos:18,18,18 clos:36,18,18"` takes others.
const SIZES: &str = "clos:4,2,3 clos:4,3,6";

fn part(recipe: &str, name: &str, digits: &str) -> String {
    let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
    netlist::beside(&ibnet::write(&topology), name, digits, 2)
}

/// A host's port, as the hardware has it.
struct Host {
    name: String,
    guid: Guid,
    lids: std::ops::Range<u16>,
    keys: Vec<u16>,
    /// The switch that it hangs on.
    leaf: String,
}

impl Host {
    fn gid(&self) -> Gid {
        Gid::new(GidPrefix(0xFE80_0000_0000_0000), self.guid)
    }

    /// Its key that is not the default partition's.
    fn own_key(&self) -> u16 {
        let own = |key: &&u16| **key & 0x7FFF != 0x7FFF && **key & 0x7FFF != 0;
        *self.keys.iter().find(own).unwrap()
    }
}

/// Where each port of a switch leads, the switch's own address, and its table.
type Switch = (BTreeMap<u8, String>, u16, Vec<u8>);

/// What the hardware holds.
struct Held {
    hosts: Vec<Host>,
    switches: BTreeMap<String, Switch>,
}

impl Held {
    fn of(emulation: &Emulation) -> Self {
        let (mut hosts, mut switches) = (Vec::new(), BTreeMap::new());
        for node in emulation.ask(&["held"])["nodes"].as_array().unwrap() {
            let (name, ports) =
                (node["name"].as_str().unwrap().to_owned(), node["ports"].as_array().unwrap());
            let number = |value: &Value| u16::try_from(value.as_u64().unwrap()).unwrap();
            let active = ports.iter().filter(|port| port["state"] == "Active");
            let led = active
                .filter_map(|port| Some((number(&port["num"]) as u8, port["peer"].as_str()?)));
            let led: BTreeMap<u8, String> = led.map(|(num, peer)| (num, peer.to_owned())).collect();
            if let Some(table) = node["table"].as_str() {
                let byte = |at: usize| u8::from_str_radix(&table[at..at + 2], 16).unwrap();
                let table = (0..table.len()).step_by(2).map(byte).collect();
                switches.insert(name, (led, number(&ports[0]["lid"]), table));
                continue;
            }
            let port = &ports[0];
            let (lid, count) = (number(&port["lid"]), 1 << number(&port["lmc"]));
            let keys = port["p_keys"].as_array().unwrap().iter().map(number).collect();
            let guid = port["guid"].as_str().unwrap().parse().unwrap();
            let leaf = led.get(&1).map(|peer| peer.rsplit_once('/').unwrap().0.to_owned());
            hosts.push(Host {
                name,
                guid,
                lids: lid..lid + count,
                keys,
                leaf: leaf.unwrap_or_default(),
            });
        }
        Self { hosts, switches }
    }

    fn has_distinct_addresses(&self) -> bool {
        let mut all: Vec<u16> = self.hosts.iter().flat_map(|host| host.lids.clone()).collect();
        all.extend(self.switches.values().map(|(_, own, _)| own));
        all.iter().copied().collect::<BTreeSet<u16>>().len() == all.len()
    }

    /// Which node takes what a switch has for an address.
    fn delivers<'a>(&'a self, from: &'a str, lid: u16) -> Option<&'a str> {
        let mut at = from;
        for _ in 0..self.switches.len() {
            let (led, own, table) = self.switches.get(at)?;
            match *table.get(usize::from(lid))? {
                0 => return (*own == lid).then_some(at),
                out => {
                    let (next, _) = led.get(&out)?.rsplit_once('/')?;
                    if !self.switches.contains_key(next) {
                        return Some(next);
                    }
                    at = next;
                }
            }
        }
        None
    }

    /// Pairs that can speak in a partition beside the default one: both have it, one of them in full, and each of
    /// the addresses of the second leads to it.
    fn pairs(&self) -> BTreeSet<(String, String)> {
        let leaves: BTreeSet<&str> = self.hosts.iter().map(|host| &*host.leaf).collect();
        let mut pairs = BTreeSet::new();
        for to in &self.hosts {
            let reached = |leaf: &&&str| {
                to.lids.clone().all(|lid| self.delivers(leaf, lid) == Some(&*to.name))
            };
            let reached: BTreeSet<&str> = leaves.iter().filter(reached).copied().collect();
            let shares = |from: &&Host| {
                let meet = |a: u16, b: u16| a & 0x7FFF == b & 0x7FFF && (a | b) >= 0x8000;
                let own = from.keys.iter().filter(|key| *key & 0x7FFF != 0x7FFF);
                from.name != to.name && own.clone().any(|&a| to.keys.iter().any(|&b| meet(a, b)))
            };
            let from =
                self.hosts.iter().filter(shares).filter(|from| reached.contains(&*from.leaf));
            pairs.extend(from.map(|from| (from.name.clone(), to.name.clone())));
        }
        pairs
    }

    /// What the switches of a side have for its hosts' addresses.
    fn routes(&self, side: &str) -> BTreeMap<(String, u16), u8> {
        let own = self.hosts.iter().filter(|host| host.name.starts_with(side));
        let lids: Vec<u16> = own.flat_map(|host| host.lids.clone()).collect();
        let switches = self.switches.iter().filter(|(name, _)| name.starts_with(side));
        let of = |(name, (_, _, table)): (&String, &(_, _, Vec<u8>))| {
            let entry = |&lid: &u16| {
                ((name.clone(), lid), table.get(usize::from(lid)).copied().unwrap_or(0xFF))
            };
            lids.iter().map(entry).collect::<Vec<_>>()
        };
        switches.flat_map(of).collect()
    }
}

/// How the managers speak to each other.
enum Between {
    /// In sessions, at these ports.
    Sessions([u16; 2]),
    /// Only by SMInfo.
    Nothing,
}

impl Between {
    fn settings(&self, rank: usize) -> String {
        match self {
            Self::Sessions(ports) => {
                let [own, other] = [ports[rank], ports[1 - rank]];
                format!(
                    "mirror_listen = [\"plain://127.0.0.1:{own}\"]\n\
                     mirror_of = [\"plain://127.0.0.1:{other}\"]\n"
                )
            }
            Self::Nothing => String::new(),
        }
    }
}

/// A manager that runs.
struct Side {
    running: Running,
    socket: PathBuf,
}

impl Side {
    fn start(
        emulation: &Emulation,
        name: &str,
        rank: usize,
        between: &Between,
    ) -> Result<Self, JudgeError> {
        let folder = emulation.folder();
        let socket = folder.join(format!("{name}.sock"));
        let partitions = folder.join(format!("{name}.partitions"));
        let rules = format!("Default=0x7fff: ALL=full;\n{name}=0x0010, ipoib: ALL=full;\n");
        std::fs::write(&partitions, rules).unwrap();
        let text = format!(
            "control_socket = {socket:?}\nstate_dir = {:?}\nsm_priority = {}\n\
             partition_config_file = {partitions:?}\n{}",
            folder.join(name),
            9 - rank,
            between.settings(rank)
        );
        let file = folder.join(format!("{name}.toml"));
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(manager());
        command.args(["--ibsim", emulation.name(), "--ibsim-host", &format!("{name}-host0")]);
        let running = Running::start(command.arg("--config").arg(file), folder, name)?;
        Ok(Self { running, socket })
    }

    fn ask(&self, what: &[&str]) -> Option<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("sm").args(what).arg("--json").arg("--socket").arg(&self.socket);
        serde_json::from_slice(&command.output().unwrap().stdout).ok()
    }

    fn is(&self, state: &str) -> bool {
        self.ask(&["status"]).is_some_and(|status| {
            status["state"] == state && (state != "master" || status["healthy"] == true)
        })
    }

    fn events(&self) -> Vec<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        let said = command
            .args(["sm", "events", "--json", "--socket"])
            .arg(&self.socket)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The broadcast group of IP in a side's own partition.
fn broadcast(held: &Held, side: &str) -> McMemberRecord {
    let of = held.hosts.iter().find(|host| host.name.starts_with(side)).unwrap();
    let key = of.own_key();
    let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    mgid[4..6].copy_from_slice(&key.to_be_bytes());
    let (mgid, p_key) = (Gid(mgid), PKey(key));
    McMemberRecord { mgid, p_key, join_state: JoinState::FULL, ..McMemberRecord::default() }
}

/// Hosts of a side that are in its partition's broadcast group.
fn members<'a>(held: &'a Held, side: &str) -> Vec<&'a Host> {
    [1, 2]
        .map(|n| held.hosts.iter().find(|host| host.name == format!("{side}-host{n}")).unwrap())
        .into()
}

/// They join it.
fn join_group(emulation: &Emulation, held: &Held, side: &str) {
    let manager = held.hosts.iter().find(|host| host.name == format!("{side}-host0")).unwrap();
    for host in members(held, side) {
        let mut port = IbsimPort::attach(emulation.name(), Some(&host.name)).unwrap();
        let wanted = McMemberRecord { port_gid: host.gid(), ..broadcast(held, side) };
        let request = SaRequest::new(Method::Set, &wanted, ComponentMask::of(&[0, 1, 7, 16]));
        let to = Address {
            lid: Lid(manager.lids.start),
            qp: 1,
            sl: 0,
            q_key: QKey(0x8001_0000),
            p_key_index: 0,
        };
        assert_ne!(port.send(&request.transaction(7).mad(), &to).unwrap(), Sent::Full);
        wait("an answer to a join", || {
            let answer = port.receive().unwrap().and_then(|came| SaRequest::parse(&came.mad).ok());
            answer.is_some_and(|answer| {
                assert!(answer.status.is_ok(), "{answer:?}");
                true
            })
        });
    }
}

/// What `saquery` prints at a side's host that has no manager.
fn saquery(emulation: &Emulation, side: &str, arguments: &[&str]) -> Result<String, JudgeError> {
    let host = format!("{side}-host3");
    let mut command = emulation.command(Program::SAQUERY, Some(&host))?;
    command.args(["--smkey", "1"]).args(arguments);
    let said = finish(&mut command, emulation.folder(), Duration::from_secs(60))?;
    Ok(String::from_utf8_lossy(&said.out).into_owned())
}

/// A field as `saquery` prints it.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name))?;
    Some(line.trim_start_matches('.'))
}

/// Programs of other people: path records are what tables and partitions say, members are in their groups, and a
/// way leads from each host to the next. `groups`: the sides whose groups are looked at.
fn asked_by_others(emulation: &Emulation, held: &Held, groups: &[&str]) -> Result<(), JudgeError> {
    let sides = ["north", "south"].map(|side| members(held, side));
    let path = |from: &Host, to: &Host, key: u16| {
        let (pair, key) = (format!("{}-{}", from.gid(), to.gid()), format!("{key:#06x}"));
        let text = saquery(emulation, "north", &["PR", "--sgid-to-dgid", &pair, "--pkey", &key])?;
        Ok::<_, JudgeError>(field(&text, "dlid").map(|dlid| dlid.parse::<u16>().unwrap()))
    };
    for (own, other) in [(&sides[0], &sides[1]), (&sides[1], &sides[0])] {
        for from in own {
            for to in own.iter().chain(other).filter(|to| to.name != from.name) {
                let dlid = path(from, to, 0xFFFF)?.unwrap();
                assert!(to.lids.contains(&dlid), "{} at {dlid}", to.name);
                let way = ibtracert(emulation, from.lids.start, dlid)?;
                assert!(way.contains(&to.name), "{way}");
                let shared = from.own_key() == to.own_key();
                let dlid = path(from, to, from.own_key())?;
                assert_eq!(dlid.is_some(), shared, "{} to {}", from.name, to.name);
                assert!(dlid.is_none_or(|dlid| to.lids.contains(&dlid)), "{} at {dlid:?}", to.name);
            }
        }
    }
    for &side in groups {
        let [a, b] = members(held, side)[..] else { unreachable!("two of each side") };
        let mgid = broadcast(held, side).mgid.to_string();
        let mut mlids = BTreeSet::new();
        for member in [a, b] {
            let gid = member.gid().to_string();
            // A group is shown to ports of its partition, so one of its side asks; which partition that is by now
            // the manager knows a moment after it has written it.
            let mut text = String::new();
            wait(&format!("{} is a member", member.name), || {
                text = saquery(emulation, side, &["MCMR", "--mgid", &mgid, "--gid", &gid]).unwrap();
                field(&text, "mlid").is_some()
            });
            let mlid = field(&text, "mlid").unwrap();
            mlids.insert(u16::from_str_radix(mlid.trim_start_matches("0x"), 16).unwrap());
        }
        assert_eq!(mlids.len(), 1, "one address of {mgid}");
        let way =
            ibtracert_multicast(emulation, *mlids.first().unwrap(), a.lids.start, b.lids.start)?;
        assert!(way.contains(&b.name), "{way}");
    }
    Ok(())
}

/// Every host sends to some others, at all of their addresses: each gets what is for it and nothing else.
fn packets(emulation: &Emulation, held: &Held) -> usize {
    let mut agents = emulation.agents();
    for host in &held.hosts {
        agents.attach(host.guid).unwrap();
    }
    let mut posted = 0;
    for (n, from) in held.hosts.iter().enumerate() {
        for step in [1, held.hosts.len() / 2, held.hosts.len() - 1] {
            let to = &held.hosts[(n + step) % held.hosts.len()];
            for lid in to.lids.clone() {
                posted += 1;
                let post = Post {
                    port: from.guid,
                    token: posted,
                    flow: posted as u32,
                    to: Lid(lid),
                    path_bits: 0,
                    sl: 0,
                    bytes: 256,
                    begin: agents.now(),
                    payload: to.guid.0.to_be_bytes().to_vec(),
                };
                agents.send(&ToFabric::Post(post));
                assert_eq!(
                    agents.outcome(posted),
                    Outcome::Delivered,
                    "{} to {}",
                    from.name,
                    to.name
                );
                let came = agents.until(|said| matches!(said, FromFabric::Arrived(_)));
                let FromFabric::Arrived(came) = came else {
                    unreachable!("nothing else was wanted")
                };
                assert_eq!(came.port.0.to_be_bytes().to_vec(), came.payload, "{}", to.name);
                assert_eq!(came.port, to.guid);
            }
        }
    }
    posted as usize
}

#[test]
fn two_subnets_that_run_become_one_by_a_cable() -> Result<(), JudgeError> {
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    become_one(&Between::Sessions(ports))
}

/// Where no manager can call the other: the survivor takes what ports and tables hold. What hosts had told the
/// other manager they tell again, as after any change of master.
#[test]
fn so_do_two_whose_managers_have_no_sessions() -> Result<(), JudgeError> {
    become_one(&Between::Nothing)
}

fn become_one(between: &Between) -> Result<(), JudgeError> {
    let sizes = std::env::var("SNIN_JOIN").unwrap_or_else(|_| SIZES.to_owned());
    let (north, south) = sizes.split_once(' ').unwrap();
    let netlist = part(north, "north", "0200") + &part(south, "south", "02a0");
    let emulation = Emulation::of(&netlist, &[])?;
    let start = |name, rank| Side::start(&emulation, name, rank, between);
    let sides = [start("north", 0)?, start("south", 1)?];
    wait("two masters", || sides.iter().all(|side| side.is("master")));

    for side in ["north", "south"] {
        join_group(&emulation, &Held::of(&emulation), side);
    }
    let before = Held::of(&emulation);
    let (pairs, routes) = (before.pairs(), before.routes("north"));
    let of = |held: &Held, side: &str| -> Vec<(String, std::ops::Range<u16>)> {
        let own = held.hosts.iter().filter(|host| host.name.starts_with(side));
        own.map(|host| (host.name.clone(), host.lids.clone())).collect()
    };
    let lids: Vec<BTreeSet<u16>> = ["north", "south"]
        .map(|side| of(&before, side).into_iter().flat_map(|(_, lids)| lids).collect())
        .into();
    assert!(lids[0].intersection(&lids[1]).count() > lids[0].len() / 2, "addresses in common");
    let count = |side| of(&before, side).len();
    let (n, s) = (count("north"), count("south"));
    assert_eq!(pairs.len(), n * (n - 1) + s * (s - 1), "each side's hosts are in one partition");

    let mads = |emulation: &Emulation| {
        let status = emulation.ask(&["status"]);
        ["sent", "writes"].map(|what| status["mads"][what].as_u64().unwrap())
    };
    let (begin, earlier) = (Instant::now(), mads(&emulation));
    let spare = |side: &str| {
        let leaves = side.split([':', ',']).nth(1).unwrap().parse::<u8>().unwrap();
        leaves + 1
    };
    let ends = [format!("north-spine0/{}", spare(north)), format!("south-spine1/{}", spare(south))];
    emulation.ask(&["fault", "plug", &ends[0], &ends[1]]);
    wait("one master of one subnet", || {
        let hosts = |side: &Side| side.ask(&["status"]).map(|said| said["subnet"]["hosts"].clone());
        sides[0].is("master") && sides[1].is("standby") && hosts(&sides[0]) == Some((n + s).into())
    });
    // A manager counts its hosts before all is written: the hardware says when it is.
    let mut after = Held::of(&emulation);
    wait("every address one port's, and every pair", || {
        after = Held::of(&emulation);
        after.has_distinct_addresses() && after.pairs() == pairs
    });
    let (took, now) = (begin.elapsed(), mads(&emulation));
    let found = after.pairs();
    assert_eq!(pairs.difference(&found).next(), None, "lost");
    assert_eq!(found.difference(&pairs).next(), None, "new");
    assert_eq!(of(&after, "north"), of(&before, "north"), "the survivor's addresses stay");
    let now_of = after.routes("north");
    let changed = routes.iter().filter(|(at, out)| now_of[at] != **out).count();
    assert_eq!(changed, 0, "of {} routes of the survivor's", routes.len());
    let sent = packets(&emulation, &after);
    // Of the other manager's groups the survivor hears in sessions alone.
    let groups: &[&str] = match between {
        Between::Sessions(_) => &["north", "south"],
        Between::Nothing => &["north"],
    };
    asked_by_others(&emulation, &after, groups)?;
    let events = sides[0].events();
    assert_eq!(events.iter().filter(|event| event["event"] == "SUBNETS_JOINED").count(), 1);
    println!(
        "{n} + {s} hosts: {:.2} s, {} SMPs and {} writes of both; 0 of {} routes of the survivor's \
         changed; {sent} packets reached their hosts",
        took.as_secs_f64(),
        now[0] - earlier[0],
        now[1] - earlier[1],
        routes.len()
    );

    // Pulled out again: each side is whole, and each manager master, though they hear each other still.
    emulation.ask(&["fault", "cut", &ends[0]]);
    // Not well: each misses the other side's nodes.
    let is_master =
        |side: &Side| side.ask(&["status"]).is_some_and(|status| status["state"] == "master");
    wait("two masters", || sides.iter().all(is_master));
    wait("each side whole", || Held::of(&emulation).pairs() == pairs);
    for Side { mut running, .. } in sides {
        assert!(running.ended()?.is_none(), "{}", running.tail());
    }
    Ok(())
}
