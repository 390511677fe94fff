//! Subnet administration as hosts and operators use it: the requests of Linux's IPoIB, ib_multicast and
//! rdma_cm replayed, and programs that ask every record that they know.

use snin_fabric::Lid;
use snin_judges::{JudgeError, Program, finish};
use snin_mad::sa::*;
use snin_mad::{Gid, Hex32, Method, PKey, QKey};

use crate::client::Host;
use crate::support::{Keeper, Lab, PATIENCE, fabric, id};

pub(crate) fn is_up(keeper: &Keeper) {
    let up = |event: &serde_json::Value| event["event"] == "SUBNET_UP";
    keeper.wait(|events| events.iter().any(up));
}

/// The name of the n-th host in the netlist; the manager is at the first.
pub(crate) fn host(lab: &Lab, n: usize) -> String {
    let topology = &lab.topology;
    let mut hosts = topology.nodes().filter(|&node| !topology.is_switch(node));
    id(topology, hosts.nth(n).unwrap())
}

/// The manager's address, by the files that it leaves when the subnet is up.
pub(crate) fn manager(lab: &Lab) -> u16 {
    let begin = std::time::Instant::now();
    // They are written by a thread of their own, guid2lid last.
    while !lab.file("dump").join("guid2lid").exists() {
        assert!(begin.elapsed() < PATIENCE, "no dump");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let (_, addresses) = lab.told();
    let port = lab.topology.cables(lab.home).next().unwrap().0;
    addresses.base(port).unwrap().0
}

fn ip(last: u32) -> Gid {
    let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    mgid[12..].copy_from_slice(&last.to_be_bytes());
    Gid(mgid)
}

/// MGID, PortGID, P_Key, JoinState: all that IPoIB says of the broadcast group.
const BROADCAST: [u8; 4] = [0, 1, 7, 16];
/// ... and of every other group, from what the broadcast group has.
const OTHERS: [u8; 13] = [0, 1, 2, 4, 5, 6, 7, 8, 9, 12, 13, 14, 16];

fn broadcast(host: &Host) -> McMemberRecord {
    McMemberRecord {
        mgid: ip(0xFFFF_FFFF),
        port_gid: host.gid(),
        p_key: PKey(0xFFFF),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    }
}

#[test]
fn hosts_come_up_and_a_restart_loses_nothing() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:4,2,3"))?;
    let keeper = lab.keep("lmc = 1\n")?;
    is_up(&keeper);
    let master = manager(&lab);
    let mut hosts: Vec<Host> =
        [1, 5, 9].map(|n| Host::new(&lab.simulator, &host(&lab, n), master)).into();
    // IPoIB: the broadcast group, then all-hosts with what the broadcast group has.
    for host in &mut hosts {
        let wanted = broadcast(host);
        let group = host.one(Method::Set, &wanted, &BROADCAST).unwrap();
        assert_eq!((group.mlid, group.q_key, group.mtu), (Lid(0xC000), QKey(0xB1B), 4));
        let other = McMemberRecord { mgid: ip(1), ..group };
        let joined = host.one(Method::Set, &other, &OTHERS);
        assert_eq!(joined.map(|joined| joined.mlid), Ok(Lid(0xC001)));
    }
    // rdma_cm and IPoIB: a path.
    let (from, to) = (hosts[0].gid(), hosts[1].gid());
    let wanted = PathRecord {
        sgid: from,
        dgid: to,
        numb_path: 1,
        reversible: true,
        p_key: PKey(0xFFFF),
        ..PathRecord::default()
    };
    for mask in [0x780F_u64, 0x3C0F, 0x340C] {
        let bits: Vec<u8> = (0..64).filter(|bit| mask >> bit & 1 != 0).collect();
        let path = hosts[0].one(Method::Get, &wanted, &bits).unwrap();
        assert_eq!((path.sgid, path.dgid), (from, to));
        assert!(path.dlid.0 > 0 && path.reversible);
    }
    // srp_daemon's subscription, and a service.
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind: 3,
        trap_number: 66,
        qpn: Hex32(1),
        producer: Hex32(4),
        ..InformInfo::default()
    };
    hosts[0].one(Method::Set, &inform, &[1, 4, 5, 6, 7, 8, 12]).unwrap();
    let service = ServiceRecord { id: 7, gid: from, lease: 3_600, ..ServiceRecord::default() };
    hosts[0].one(Method::Set, &service, &[0, 1, 4]).unwrap();
    let all = |host: &mut Host| {
        (
            host.table(&McMemberRecord::default(), &[]),
            host.table(&ServiceRecord::default(), &[]).len(),
            host.table(&InformInfoRecord::default(), &[]),
        )
    };
    let before = all(&mut hosts[0]);
    assert_eq!((before.0.len(), before.1, before.2.len()), (6, 1, 1));
    // Killed, and started again: everything is as it was.
    keeper.end(rustix::process::Signal::KILL);
    let keeper = lab.keep("lmc = 1\n")?;
    is_up(&keeper);
    assert_eq!(all(&mut hosts[0]), before);
    Ok(())
}

/// `saquery` with these arguments, at the second host.
fn saquery(lab: &Lab, arguments: &[&str]) -> Result<String, JudgeError> {
    let mut command = lab.simulator.command(Program::SAQUERY, Some(&host(lab, 1)))?;
    command.args(arguments);
    let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
    Ok(String::from_utf8_lossy(&said.out).into_owned())
}

#[test]
fn saquery_reads_every_record_that_it_knows() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:4,2,3"))?;
    let keeper = lab.keep("lmc = 1\nqos = true\n")?;
    is_up(&keeper);
    let master = manager(&lab);
    let mut first = Host::new(&lab.simulator, &host(&lab, 5), master);
    let wanted = broadcast(&first);
    first.one(Method::Set, &wanted, &BROADCAST).unwrap();
    let inform = InformInfo {
        lid_begin: ANY_LID,
        is_generic: 1,
        subscribe: 1,
        kind: 0xFFFF,
        trap_number: 0xFFFF,
        producer: Hex32(0xFF_FFFF),
        ..InformInfo::default()
    };
    first.one(Method::Set, &inform, &[1, 4, 5, 6, 7, 8, 12]).unwrap();
    let service = ServiceRecord { id: 7, gid: first.gid(), ..ServiceRecord::default() };
    first.one(Method::Set, &service, &[0, 1]).unwrap();
    let own = first.table(&NodeRecord::default(), &[]);
    let lid = own.iter().find(|node| node.info.parse().unwrap().port_guid == first.guid());
    let lid = lid.unwrap().lid.0.to_string();
    let switch = own.iter().find(|node| node.info.parse().unwrap().num_ports > 1).unwrap();
    let switch = switch.lid.0.to_string();
    let pair = format!("{}-{}", first.gid(), first.gid());
    for (arguments, shows) in [
        (vec!["-c"], "Capability mask 2"),
        (vec!["NR", &lid], "NodeDescription"),
        (vec!["PIR", &lid], "EndPortLid"),
        (vec!["SL2VL", &lid], "InPort"),
        (vec!["--smkey", "1", "PKTR", &lid], "0xffff"),
        (vec!["VLAR", &lid], "Block"),
        (vec!["IIR"], "InformInfo"),
        (vec!["LR", &lid], "FromLID"),
        (vec!["SR"], "ServiceID"),
        (vec!["PR", "--slid", &lid, "--dlid", &switch], "pkt_life"),
        (vec!["PR", "--sgid-to-dgid", &pair], "slid"),
        (vec!["MCMR"], "ff12:401b:ffff::ffff:ffff"),
        (vec!["--smkey", "1", "-m"], "ff12:401b:ffff::ffff:ffff"),
        (vec!["-g"], "0xC000"),
        (vec!["LFTR", &switch], "Block"),
        (vec!["GIR", &lid], "GUID 0"),
        (vec!["SWIR", &switch], "LinearFDBCap"),
        (vec!["SMIR"], "SMState...............3"),
        (vec!["-s"], "IsSM"),
        (vec!["-x"], "ToLID"),
        (vec!["-p"], "dlid"),
        (vec!["-N"], "NodeRecord"),
        (vec!["-S"], "ServiceRecord"),
        (vec!["-I"], "InformInfoRecord"),
    ] {
        let said = saquery(&lab, &arguments)?;
        assert!(said.contains(shows), "saquery {arguments:?}: {said}");
    }
    Ok(())
}

/// A client counts records by how long the response is that it is handed: one record is one, with no zeros behind
/// it.
#[test]
fn saquery_counts_as_many_records_as_there_are() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    let keeper = lab.keep("lmc = 1\n")?;
    is_up(&keeper);
    let mut first = Host::new(&lab.simulator, &host(&lab, 3), manager(&lab));
    let wanted = broadcast(&first);
    first.one(Method::Set, &wanted, &BROADCAST).unwrap();
    let pair = format!("{}-{}", first.gid(), first.gid());
    for (arguments, head, records) in [
        (vec!["MCMR"], "MCMember Record dump:", 1),
        (vec!["SMIR"], "SMInfoRecord dump:", 1),
        (vec!["SR"], "ServiceRecord dump:", 0),
        (vec!["PR", "--sgid-to-dgid", &pair], "PathRecord dump:", 1),
    ] {
        let said = saquery(&lab, &arguments)?;
        assert_eq!(said.matches(head).count(), records, "saquery {arguments:?}: {said}");
    }
    Ok(())
}

#[test]
fn names_are_looked_up_and_ibqueryerrors_asks_for_service_levels() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:4,2,3"))?;
    let keeper = lab.keep("lmc = 1\n")?;
    is_up(&keeper);
    let mut asker = Host::new(&lab.simulator, &host(&lab, 5), manager(&lab));
    let nodes = asker.table(&NodeRecord::default(), &[]);
    // Through ibsim's preload saquery sees the first record of a table only.
    let name = nodes[0].description.parse().unwrap().text.text().trim().to_owned();
    for (arguments, shows) in [
        (vec!["NR", &name], format!("NodeDescription.........{name}")),
        (vec!["PIR", &name], format!("EndPortLid..............{}", nodes[0].lid.0)),
        (vec!["-L", &name], nodes[0].lid.0.to_string()),
        (vec!["-O", &nodes[0].lid.0.to_string()], name.clone()),
    ] {
        let said = saquery(&lab, &arguments)?;
        assert!(said.contains(&shows), "saquery {arguments:?}: {said}");
    }
    // It asks for the path to every node before it asks the node.
    let mut command = lab.simulator.command(Program::IBQUERYERRORS, Some(&host(&lab, 1)))?;
    let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
    let out = String::from_utf8_lossy(&said.out).into_owned();
    assert!(out.contains("nodes checked, 0 bad nodes found"), "{out}{}", said.err);
    assert!(!said.err.contains("fail"), "{}", said.err);
    Ok(())
}

/// The switches whose multicast table has an entry for an address, by LID.
fn forwarding(host: &mut Host, mlid: Lid) -> Vec<Lid> {
    let blocks: Vec<MulticastForwardingRecord> =
        host.table(&MulticastForwardingRecord::default(), &[]);
    let (block, entry) = ((mlid.0 - 0xC000) / 32, usize::from((mlid.0 - 0xC000) % 32));
    let mut found: Vec<Lid> = blocks
        .iter()
        .filter(|held| held.block == block && held.table.parse().unwrap().masks[entry].0 != 0)
        .map(|held| held.lid)
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn one_more_join_programs_a_spine_and_two_leaves() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:4,2,3"))?;
    let keeper = lab.keep("lmc = 1\n")?;
    is_up(&keeper);
    let master = manager(&lab);
    // On different leaves.
    let mut hosts: Vec<Host> =
        [1, 5].map(|n| Host::new(&lab.simulator, &host(&lab, n), master)).into();
    let mut lids = Vec::new();
    for host in &mut hosts {
        let wanted = broadcast(host);
        let group = host.one(Method::Set, &wanted, &BROADCAST).unwrap();
        let other = McMemberRecord { mgid: ip(1), ..group };
        assert_eq!(host.one(Method::Set, &other, &OTHERS).unwrap().mlid, Lid(0xC001));
        let own = PathRecord { sgid: host.gid(), dgid: host.gid(), ..PathRecord::default() };
        lids.push(host.one(Method::Get, &own, &[2, 3]).unwrap().dlid.0.to_string());
    }
    let begin = std::time::Instant::now();
    while forwarding(&mut hosts[0], Lid(0xC001)).len() < 3 {
        assert!(begin.elapsed() < PATIENCE, "the tables are not written: {}", keeper.tail());
    }
    assert_eq!(forwarding(&mut hosts[0], Lid(0xC001)).len(), 3, "a spine and two leaves");
    for mlid in ["0xc000", "0xc001"] {
        let mut command = lab.simulator.command(Program::IBTRACERT, None)?;
        command.args(["-n", "-m", mlid, &lids[0], &lids[1]]);
        let said = finish(&mut command, lab.simulator.folder(), PATIENCE)?;
        let text = String::from_utf8_lossy(&said.out).into_owned();
        let switches = text.lines().filter(|line| line.contains("switch")).count();
        assert!(switches >= 3 || text.lines().count() >= 4, "{text}{:?}", said.err);
    }
    Ok(())
}
