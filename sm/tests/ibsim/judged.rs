//! Everyone who reads the fabric says what the program says: tables, addresses, states.

use std::collections::BTreeMap;

use snin_fabric::check::credit::{Traffic, credit};
use snin_fabric::check::walk::walk;
use snin_fabric::generate::cut_cables;
use snin_fabric::topology::TopologyBuilder;
use snin_fabric::{
    Addresses, ForwardingTable, Guid, Lid, Lmc, NodeIndex, NodeKind, PortIndex, PortNum, Topology,
    dump, ibnet,
};
use snin_judges::{
    JudgeError, Simulator, dump_fts, iblinkinfo, ibnetdiscover, ibqueryerrors, ibroute, ibtracert,
    shared, smpquery,
};

use crate::ibdm;
use crate::support::{Lab, Trees, fabric, id};

/// Brings a fabric up and asks everyone. `lmc`: `None` lets the program choose.
fn judged(topology: &Topology, lmc: Option<u8>) -> Result<Lab, JudgeError> {
    let lab = Lab::new(topology)?;
    let asked = lmc.map(|lmc| lmc.to_string());
    let report = lab.once(&asked.iter().flat_map(|lmc| ["--lmc", lmc]).collect::<Vec<_>>());
    let topology = &lab.topology;
    let found = ibnet::parse(&ibnetdiscover(&lab.simulator)?).unwrap();
    assert!(topology.ports().all(|port| found.peer(port) == topology.peer(port)));
    let addresses = found.reported_addresses().unwrap();
    // What dump_fts would not print.
    assert!(!addresses.top().0.is_multiple_of(64), "another fabric would be a better test");
    let tables = dump::lfts::parse(&dump_fts(&lab.simulator)?, topology).unwrap();

    assert_eq!(report["healthy"], true, "{report:#}");
    assert_eq!(report["subnet"]["nodes"], topology.node_count());
    assert_eq!(report["subnet"]["highest_lid"], addresses.top().0);
    let lmc = Lmc::new(report["subnet"]["lmc"].as_u64().unwrap() as u8).unwrap();
    assert!(asked.is_none_or(|asked| asked == lmc.to_string()), "{report:#}");
    for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
        let given = addresses.lmc(port);
        assert!(topology.is_switch(topology.port(port).node) || given == lmc, "{given}");
    }

    let (told, said) = lab.told();
    assert_eq!(said, addresses, "ibnetdiscover");
    assert_same(topology, &tables, &told, "dump_fts");
    let trees = Trees::of(topology, Some(lmc));
    let walked = walk(topology, &addresses, &tables, 3);
    assert!(walked.is_ok() && walked.host_routes_lost == 0, "{walked}");
    let credits = credit(topology, &addresses, &tables, Traffic::All, |_, _| 0);
    assert!(credits.is_ok(), "{credits}");
    if let Some(trees) = &trees {
        let report = trees.check(topology, &addresses, &tables);
        assert!(report.is_ok() && report.on_tree > 0, "{report}");
    }
    let held = lab.held()?;
    assert_eq!(held.fault(trees.as_ref()), None);
    assert_eq!(held.addresses, addresses, "ibsim");
    assert_same(topology, &held.tables, &told, "ibsim");
    assert_links(&lab, &addresses)?;
    assert_sampled(&lab, &tables, &addresses, trees.as_ref())?;
    Ok(lab)
}

#[track_caller]
fn assert_same(topology: &Topology, found: &[ForwardingTable], told: &[ForwardingTable], by: &str) {
    for (switch, (found, told)) in topology.switches().zip(found.iter().zip(told)) {
        let differs = found.iter().zip(told.iter()).find(|(found, told)| found != told);
        let lengths = (found.iter().count(), told.iter().count());
        let name = &topology.node(switch).name;
        assert!(
            differs.is_none() && lengths.0 == lengths.1,
            "{by}: {name}: {differs:?} {lengths:?}"
        );
    }
    assert_eq!(found.len(), told.len());
}

/// iblinkinfo has every cable, from either end, active and with the addresses that were given.
fn assert_links(lab: &Lab, addresses: &Addresses) -> Result<(), JudgeError> {
    let topology = &lab.topology;
    let said = iblinkinfo(&lab.simulator)?;
    let links: BTreeMap<(Guid, u8), (u16, bool)> = said.lines().filter_map(link).collect();
    assert!(links.len() >= 2 * topology.cable_count(), "{said}");
    for port in topology.ports().filter(|&port| topology.peer(port).is_some()) {
        let (guid, num) = (topology.port(port).guid, topology.num(port));
        let lid = addresses.base(addressed(topology, port)).unwrap();
        assert_eq!(links.get(&(guid, num.0)), Some(&(lid.0, true)), "{}", topology.port_name(port));
    }
    let active = links.values().filter(|(_, active)| *active).count();
    assert_eq!(active, 2 * topology.cable_count(), "{said}");
    Ok(())
}

/// `0x..700 "  host7"    400    1[  ] ==( 4X  2.5 Gbps Active/  LinkUp)==>  0x..300  12  2[  ] "leaf3" ( )`: the
/// port's GUID and number, its LID, and whether it is active.
fn link(line: &str) -> Option<((Guid, u8), (u16, bool))> {
    let (guid, rest) = line.trim_start().split_once(' ')?;
    let rest = rest.rsplit_once("==(").map(|(end, _)| end)?.rsplit_once('"')?.1;
    let mut words = rest.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    let (lid, num) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(((guid.parse().ok()?, num), (lid, line.contains(" Active/"))))
}

/// Where a port's address is: port 0 of switches.
fn addressed(topology: &Topology, port: PortIndex) -> PortIndex {
    let node = topology.port(port).node;
    if topology.is_switch(node) { topology.port0(node) } else { port }
}

/// Some switches by ibroute, some ports by smpquery, some ways by ibtracert; all counters by ibqueryerrors.
fn assert_sampled(
    lab: &Lab,
    tables: &[ForwardingTable],
    addresses: &Addresses,
    trees: Option<&Trees>,
) -> Result<(), JudgeError> {
    let Lab { simulator, topology, .. } = lab;
    let switches: Vec<NodeIndex> = topology.switches().collect();
    for switch in [switches[0], switches[switches.len() / 2], switches[switches.len() - 1]] {
        let said = ibroute(simulator, addresses.base(topology.port0(switch)).unwrap().0)?;
        let read: Vec<(u16, u8)> = said.lines().filter_map(entry).collect();
        let told = tables[switch.index()].iter().map(|(lid, port)| (lid.0, port.0));
        assert!(read.iter().copied().eq(told), "{said}");
    }
    let ports: Vec<PortIndex> = topology
        .nodes()
        .filter(|&node| !topology.is_switch(node))
        .flat_map(|node| topology.cables(node).map(|(port, _)| port))
        .collect();
    let home = topology.cables(lab.home).next().unwrap().0;
    let manager = addresses.base(home).unwrap();
    let samples = [ports[0], ports[ports.len() / 2], ports[ports.len() - 1]];
    for port in samples {
        let (lid, num) = (addresses.base(port).unwrap(), topology.num(port));
        let said = smpquery(simulator, &["portinfo", &lid.to_string(), &num.to_string()])?;
        let field = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(dotted);
        assert_eq!(field("Lid:"), Some(&*lid.to_string()), "{said}");
        assert_eq!(field("LMC:"), Some(&*addresses.lmc(port).to_string()), "{said}");
        assert_eq!(field("SMLid:"), Some(&*manager.to_string()), "{said}");
        assert_eq!(field("LinkState:"), Some("Active"), "{said}");
    }
    for to in [samples[1], samples[2]].into_iter().filter(|&to| to != samples[0]) {
        for lid in addresses.of(to) {
            let said = ibtracert(simulator, addresses.base(samples[0]).unwrap().0, lid.0)?;
            let passed =
                |node: NodeIndex| said.contains(&format!("{:016x}", topology.node(node).guid.0));
            assert!(passed(topology.port(to).node), "{said}");
            let Some(tree) = trees.and_then(|trees| trees.tree(addresses, lid)) else { continue };
            let root = trees.and_then(|trees| trees.roots().nth(tree)).unwrap();
            // Where all cables are there, and where no shorter way is as good: between leaves of two pods.
            let meets = |port: PortIndex| {
                let leaf = topology.peer_node(port).unwrap();
                topology.cables(leaf).any(|(_, peer)| topology.port(peer).node == root)
            };
            assert!(passed(root) || !meets(samples[0]) || !meets(to), "{said}");
        }
    }
    let said = ibqueryerrors(simulator)?;
    assert!(
        said.contains(&format!("{} nodes checked, 0 bad nodes", topology.node_count())),
        "{said}"
    );
    Ok(())
}

fn dotted(field: &str) -> &str {
    field.trim_start_matches('.')
}

/// `0x0009 004 : (Switch portguid ...)`.
fn entry(line: &str) -> Option<(u16, u8)> {
    let (lid, rest) = line.strip_prefix("0x")?.split_once(' ')?;
    Some((u16::from_str_radix(lid, 16).ok()?, rest.split_once(' ')?.0.parse().ok()?))
}

#[test]
fn two_stages_with_every_cable_and_without_some() -> Result<(), JudgeError> {
    judged(&fabric("clos:6,4,3"), None)?;
    judged(&cut_cables(&fabric("clos:6,4,3"), 5, 7), Some(2))?;
    judged(&fabric("clos:4,3,2,2"), Some(3)).map(drop)
}

#[test]
fn three_stages_with_every_cable_and_without_some() -> Result<(), JudgeError> {
    judged(&fabric("fattree:4"), None)?;
    judged(&cut_cables(&fabric("fattree:6,4"), 6, 3), Some(2)).map(drop)
}

/// Fewer addresses than trees: each port has trees of its own.
#[test]
fn trees_are_shared_where_addresses_are_few() -> Result<(), JudgeError> {
    judged(&fabric("clos:6,6,3"), Some(1)).map(drop)
}

#[test]
fn a_clos_of_648_hosts_with_32_addresses_each() -> Result<(), JudgeError> {
    judged(&fabric("clos:36,18,18"), Some(5)).map(drop)
}

/// A judge that always agrees is none.
#[test]
fn what_is_wrong_is_seen() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:4,3,2"))?;
    lab.once(&["--lmc", "2"]);
    let trees = Trees::of(&lab.topology, Lmc::new(2));
    let fault = || Ok::<_, JudgeError>(lab.held()?.fault(trees.as_ref()).unwrap_or_default());
    assert_eq!(fault()?, "");
    // The first leaf's way to a tree of the last host's: by another spine than the tree's, and by a host's port.
    let mut held = lab.held()?;
    let lid = Lid(held.addresses.top().0 - 1);
    let planned = held.tables[0].get(lid);
    for (port, why) in
        [(if planned.0 == 5 { 4 } else { 5 }, "not tree"), (1, "another port"), (255, "no entry")]
    {
        held.tables[0].set(lid, PortNum(port));
        let fault = held.fault(trees.as_ref()).unwrap_or_default();
        assert!(fault.contains(why), "{port}: {fault}");
    }
    // No manager is there to put these right.
    let (leaf, host) = (id(&lab.topology, NodeIndex(0)), lab.topology.nodes().last().unwrap());
    lab.simulator.unlink(&leaf, Some(4))?;
    assert!(fault()?.contains("without a cable"), "{}", fault()?);
    lab.simulator.relink(&leaf, Some(4))?;
    assert!(fault()?.contains("Init"), "{}", fault()?);
    lab.simulator.console(&format!("Baselid \"{}\"[1] 40 2", id(&lab.topology, host)))?;
    assert!(lab.held()?.addresses != held.addresses);
    Ok(())
}

/// A Clos on which a ring of four switches hangs keeps its trees: what ibsim holds is walked and judged.
#[test]
fn a_clos_with_a_ring_outside_keeps_its_trees() -> Result<(), JudgeError> {
    // Leaves 0 to 5, spines 6 to 9, the ring 10 to 13.
    let clos = (0..6).flat_map(|leaf| (6..10).map(move |spine| (leaf, spine)));
    let ring = (10..14).map(|n| (n, if n == 13 { 10 } else { n + 1 }));
    let cables: Vec<(usize, usize)> = clos.chain(ring).chain([(10, 1), (12, 4)]).collect();
    let topology = joined(14, &cables, |switch| match switch {
        0..6 => 3,
        10..14 => 1,
        _ => 0,
    });
    let lab = Lab::new(&topology)?;
    lab.once(&[]);
    let held = lab.held()?;
    let trees = Trees::of(&lab.topology, None).expect("a Clos");
    assert_eq!(trees.roots().count(), 4);
    assert_eq!(held.fault(Some(&trees)), None);
    Ok(())
}

/// ibdmchk knows one address a port: every pair of hosts is joined, no credit loop.
#[test]
fn ibdmchk_accepts_what_ibsim_holds() -> Result<(), JudgeError> {
    for topology in [
        fabric("clos:36,18,18"),
        cut_cables(&fabric("clos:8,4,4"), 9, 5),
        fabric("fattree:6"),
        ring(),
    ] {
        let lab = Lab::new(&topology)?;
        lab.once(&["--lmc", "0"]);
        let held = lab.held()?;
        assert_eq!(held.fault(Trees::of(&lab.topology, Lmc::new(0)).as_ref()), None);
        let verdict = ibdm::ask(&lab.topology, &held.addresses, &held.tables, &lab.file("ibdmchk"));
        let hosts = (lab.topology.node_count() - lab.topology.switch_count()) as u64;
        let expected =
            ibdm::Verdict { host_routes: hosts * (hosts - 1), lost: 0, credit_loop: Some(false) };
        assert_eq!(verdict, expected);
    }
    Ok(())
}

/// Switches joined as `cables` say, with as many hosts as `hosts` says.
fn joined(switches: usize, cables: &[(usize, usize)], hosts: impl Fn(usize) -> usize) -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut used = vec![0; switches];
    let mut next = |switch: usize| {
        used[switch] += 1;
        PortNum(used[switch])
    };
    let handles: Vec<_> = (0..switches)
        .map(|n| builder.add(NodeKind::Switch, Guid(0x2_0000 + n as u64), 8, &format!("switch{n}")))
        .collect::<Result<_, _>>()
        .unwrap();
    for &(a, b) in cables {
        let ends = ((handles[a], next(a)), (handles[b], next(b)));
        builder.cable(ends.0, ends.1).unwrap();
    }
    for (n, &switch) in handles.iter().enumerate() {
        for host in 0..hosts(n) {
            let guid = Guid(0x1_0000 + 0x100 * n as u64 + 0x10 * host as u64);
            let host = builder.add(NodeKind::Adapter, guid, 1, &format!("host{n}-{host}")).unwrap();
            builder.cable((switch, next(n)), (host, PortNum(1))).unwrap();
        }
    }
    builder.build().unwrap()
}

fn ring() -> Topology {
    joined(7, &(0..7).map(|n| (n, (n + 1) % 7)).collect::<Vec<_>>(), |_| 2)
}

#[test]
fn shapes_that_are_no_clos() -> Result<(), JudgeError> {
    let mesh: Vec<(usize, usize)> = (0..12)
        .flat_map(|n| {
            let right = (n % 4 != 3).then_some((n, n + 1));
            right.into_iter().chain((n < 8).then_some((n, n + 4)))
        })
        .collect();
    judged(&ring(), Some(1))?;
    judged(&joined(12, &mesh, |_| 1), Some(2)).map(drop)
}

/// Two spines, four leaves, and hosts on all of them; a tree whose root has hosts.
#[test]
fn hosts_on_spines() -> Result<(), JudgeError> {
    let cables: Vec<(usize, usize)> = (2..6).flat_map(|leaf| [(0, leaf), (1, leaf)]).collect();
    judged(&joined(6, &cables, |_| 2), None)?;
    judged(&joined(7, &[(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)], |_| 1), None).map(drop)
}

/// Forty switches, two parallel cables a pair, cables missing, aggregation nodes on the spines. The file
/// lies beside the repository, not in it.
#[test]
fn a_real_fabric() -> Result<(), JudgeError> {
    let Some((_, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return Ok(());
    };
    let real = ibnet::parse(&text).unwrap();
    let as_simulated =
        ibnet::parse(&ibnetdiscover(&Simulator::start(&ibnet::write(&real))?)?).unwrap();
    judged(&as_simulated, Some(5)).map(drop)
}
