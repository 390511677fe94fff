//! Partitions from one file, by OpenSM and by the program: the same table at every port that has one.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;
use snin_fabric::{Lid, dump};
use snin_judges::{JudgeError, OpenSm, partition_table};
use snin_mad::sa::*;
use snin_mad::{Method, PKey};

use crate::administration::{host, is_up, manager};
use crate::client::Host;
use crate::support::{Lab, PATIENCE, fabric, id};

/// The table of each end port, and of each switch's port that faces one, by name.
type Tables = BTreeMap<String, Vec<u16>>;

fn tables(lab: &Lab, addresses: &snin_fabric::Addresses) -> Result<Tables, JudgeError> {
    let (topology, mut tables) = (&lab.topology, Tables::new());
    let lid = |node| addresses.base(topology.port0(node)).map_or(0, |lid| lid.0);
    for node in topology.nodes() {
        if topology.is_switch(node) {
            let table = partition_table(&lab.simulator, lid(node), Some(0))?;
            tables.insert(topology.port_name(topology.port0(node)).to_string(), table);
            continue;
        }
        for (port, peer) in topology.cables(node) {
            let own = addresses.base(port).unwrap_or(Lid::NONE);
            let table = partition_table(&lab.simulator, own.0, None)?;
            tables.insert(topology.port_name(port).to_string(), table);
            let (switch, num) = (topology.port(peer).node, topology.num(peer).0);
            let table = partition_table(&lab.simulator, lid(switch), Some(num))?;
            tables.insert(topology.port_name(peer).to_string(), table);
        }
    }
    Ok(tables)
}

#[test]
fn tables_are_those_of_opensm() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:2,2,2"))?;
    let port = |n: usize| {
        let mut hosts = lab.topology.nodes().filter(|&node| !lab.topology.is_switch(node));
        let (port, _) = lab.topology.cables(hosts.nth(n).unwrap()).next().unwrap();
        lab.topology.port(port).guid
    };
    let files = [
        // Members of every kind, two that may not talk, a rule that takes another back.
        format!(
            "a=0x10, ipoib : {one}=full, {two};\nb=0x8020, ipoib, rate=7 : {two}=full, SELF=full;\n\
             c, defmember=full : ALL_CAS, {three}=limited;\nsw=0x0300 : ALL_SWITCHES=full, SELF;\n",
            one = port(1),
            two = port(2),
            three = port(3)
        ),
        // Keys stay where they are, new ones are behind them, and one goes first.
        format!(
            "a=0x10, ipoib : {one}=full, {two}=full, {three};\nc=1 : ALL_CAS=full;\n\
             d=0x1234, indx0 : {three}=full;\n",
            one = port(1),
            two = port(2),
            three = port(3)
        ),
    ];
    let file = lab.file("ours.conf");
    fs::write(&file, &files[0]).unwrap();
    let keeper = lab.keep(&format!("lmc = 0\npartition_config_file = {file:?}\n"))?;
    is_up(&keeper);
    let master = manager(&lab);
    let (_, addresses) = lab.told();
    let other = Lab::new(&fabric("clos:2,2,2"))?;
    let text = dump::guid2lid::write(&lab.topology, &addresses);
    fs::write(other.simulator.folder().join("guid2lid"), text).unwrap();
    let home = id(&lab.topology, lab.home);
    let opensm = OpenSm { host: Some(&home), partitions: Some(&files[0]), ..OpenSm::default() };
    let opensm = opensm.keep(&other.simulator)?;

    let (mine, theirs) = (tables(&lab, &addresses)?, tables(&other, &addresses)?);
    assert_eq!(mine, theirs, "{}", files[0]);
    assert!(mine.values().any(|table| table == &[0x7FFF, 0x8001, 0x8010]), "{mine:?}");

    // Who may not talk finds no way to the other, nor its records; the manager's port, a full member, may.
    let mut one = Host::new(&lab.simulator, &host(&lab, 1), master);
    let gid = |n| snin_mad::Gid::new(snin_mad::GidPrefix(0xFE80_0000_0000_0000), port(n));
    let way = |to, key| PathRecord {
        sgid: gid(1),
        dgid: gid(to),
        numb_path: 1,
        p_key: PKey(key),
        ..PathRecord::default()
    };
    let mut found = |to, key| one.one(Method::Get, &way(to, key), &[2, 3, 12, 13]);
    assert_eq!(found(2, 0x7FFF).unwrap_err(), SaStatus::NO_RECORDS, "both are limited members");
    assert_eq!(found(2, 0x8010).unwrap().p_key.base(), 0x10);
    assert_eq!(found(0, 0x7FFF).unwrap().p_key.base(), 0x7FFF);
    // The broadcast groups of both partitions are there, each for its members; the default one has none.
    let mut join = |key: u16| {
        let mut mgid = [0xFF, 0x12, 0x40, 0x1B, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
        mgid[4..6].copy_from_slice(&key.to_be_bytes());
        let group = McMemberRecord {
            mgid: snin_mad::Gid(mgid),
            port_gid: gid(1),
            p_key: PKey(key),
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        one.one(Method::Set, &group, &[0, 1, 7, 16]).map(|joined| joined.p_key.0)
    };
    assert_eq!(join(0x8010), Ok(0x8010));
    assert_eq!(join(0x8020), Err(SaStatus::REQ_INVALID));
    assert_eq!(join(0xFFFF), Err(SaStatus::INSUFFICIENT_COMPONENTS));

    // Another file: both look again. A file that is wrong changes nothing.
    let held = |keeper: &crate::support::Keeper, wanted: &Tables| -> Result<(), JudgeError> {
        let begin = std::time::Instant::now();
        while &tables(&lab, &addresses)? != wanted {
            assert!(begin.elapsed() < PATIENCE, "{}", keeper.tail());
        }
        Ok(())
    };
    fs::write(&file, "a=0x10 : ALL=fill;").unwrap();
    keeper.signal(Signal::HUP);
    let begin = std::time::Instant::now();
    while !keeper.tail().contains("partitions stay as they are") {
        assert!(begin.elapsed() < PATIENCE, "{}", keeper.tail());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(keeper.tail().contains("ours.conf:1: `fill` is no membership"), "{}", keeper.tail());
    held(&keeper, &mine)?;
    fs::write(&file, &files[1]).unwrap();
    keeper.signal(Signal::HUP);
    fs::write(other.simulator.folder().join("partitions.conf"), &files[1]).unwrap();
    let pid = rustix::process::Pid::from_raw(opensm.id() as i32).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    let begin = std::time::Instant::now();
    let theirs = loop {
        let now = tables(&other, &addresses)?;
        if now.values().any(|table| table.first() == Some(&0x9234)) {
            break now;
        }
        assert!(begin.elapsed() < PATIENCE, "{now:?}");
    };
    // The last that OpenSM writes may still be on its way.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let theirs = if begin.elapsed() < PATIENCE { tables(&other, &addresses)? } else { theirs };
    held(&keeper, &theirs)?;
    Ok(())
}
