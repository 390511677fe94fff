//! A real OpenSM on ibsim loads snin's addresses and tables, and other programs read them back.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{Addresses, ForwardingTable, Lmc, PortIndex, PortNum, Topology, dump, ibnet};
use snin_judges::{BringUp, JudgeError, OpenSm, Simulator, dump_fts, ibnetdiscover, shared};

fn fabric(recipe: &str) -> Topology {
    recipe.parse::<Recipe>().unwrap().build().unwrap()
}

/// Takes `count` cables between switches away.
fn cut(topology: &Topology, count: usize, seed: u64) -> Topology {
    let mut cables: Vec<PortIndex> = topology
        .switches()
        .flat_map(|switch| topology.cables(switch))
        .filter(|&(a, b)| a < b && topology.is_switch(topology.port(b).node))
        .map(|(a, _)| a)
        .collect();
    cables.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    cables.truncate(count);
    topology.without_cables(&cables)
}

/// The first adapter's name in the netlist: OpenSM runs on a host.
fn first_host(topology: &Topology) -> String {
    let node = topology.nodes().find(|&node| !topology.is_switch(node)).unwrap();
    format!("H-{:016x}", topology.node(node).guid.0)
}

/// Node by node and cable by cable the same.
fn assert_same_cables(found: &Topology, expected: &Topology) {
    assert_eq!(found.node_count(), expected.node_count());
    assert_eq!(found.port_count(), expected.port_count());
    for node in expected.nodes() {
        let (found, expected) = (found.node(node), expected.node(node));
        assert_eq!((found.kind, found.guid), (expected.kind, expected.guid));
        assert_eq!((&found.name, found.ports), (&expected.name, expected.ports));
    }
    assert!(expected.ports().all(|port| found.peer(port) == expected.peer(port)));
}

/// The same with port GUIDs, which ibsim does not take from the netlist: it counts them up from the
/// node's, as the generator does.
fn assert_same_fabric(found: &Topology, expected: &Topology) {
    assert_same_cables(found, expected);
    for port in expected.ports().filter(|&port| expected.peer(port).is_some()) {
        assert_eq!(found.port(port).guid, expected.port(port).guid);
    }
}

fn assert_same_tables(found: &[ForwardingTable], expected: &[ForwardingTable], by: &str) {
    assert_eq!(found.len(), expected.len());
    for (switch, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (lid, (found, expected)) in found.entries().zip(expected.entries()).enumerate() {
            assert_eq!(found, expected, "{by}: switch {switch}, LID {lid}");
        }
        assert_eq!(found.len(), expected.len(), "{by}: switch {switch}");
    }
}

fn discovered(simulator: &Simulator) -> Result<Topology, JudgeError> {
    Ok(ibnet::parse(&ibnetdiscover(simulator)?).unwrap())
}

/// OpenSM and all our readers must agree on the tables that the fabric holds.
fn assert_holds(
    simulator: &Simulator,
    left: &BringUp,
    topology: &Topology,
    addresses: &Addresses,
    tables: &[ForwardingTable],
) -> Result<(), JudgeError> {
    // dump_fts would not print it.
    assert!(!addresses.top().0.is_multiple_of(64), "another fabric would be a better test");
    let found = discovered(simulator)?;
    assert_same_fabric(&found, topology);
    assert_eq!(found.reported_addresses().as_ref(), Ok(addresses));
    assert_eq!(dump::guid2lid::parse(&left.guid2lid, topology).as_ref(), Ok(addresses));
    let dumped = dump::lfts::parse(&dump_fts(simulator)?, topology).unwrap();
    assert_same_tables(&dumped, tables, "dump_fts");
    let dumped = dump::lfts::parse(&left.tables, topology).unwrap();
    assert_same_tables(&dumped, tables, "OpenSM");
    Ok(())
}

fn opensm_loads(topology: &Topology, lmc: Option<u8>) -> Result<(), JudgeError> {
    let lmc = lmc.map(|lmc| Lmc::new(lmc).unwrap());
    let routing = Routing::compute(topology, Engine::Trees, lmc).unwrap();
    opensm_loads_these(topology, &routing, &routing.tables)
}

fn opensm_loads_these(
    topology: &Topology,
    routing: &Routing,
    tables: &[ForwardingTable],
) -> Result<(), JudgeError> {
    let addresses = routing.plan.addresses();
    let simulator = Simulator::start(&ibnet::write(topology))?;
    assert_same_fabric(&discovered(&simulator)?, topology);
    let opensm = OpenSm {
        host: Some(&first_host(topology)),
        lmc: routing.plan.lmc().bits(),
        guid2lid: Some(&dump::guid2lid::write(topology, addresses)),
        tables: Some(&dump::lfts::opensm(topology, addresses, tables).collect::<String>()),
        ..OpenSm::default()
    };
    let left = opensm.bring_up(&simulator)?;
    assert!(left.log.contains("SUBNET UP"), "{}", left.log);
    assert!(!left.log.contains(" ERR "), "{}", left.log);
    assert_holds(&simulator, &left, topology, addresses, tables)
}

#[test]
fn a_small_clos() -> Result<(), JudgeError> {
    opensm_loads(&fabric("clos:4,3,2"), None)
}

#[test]
fn parallel_cables() -> Result<(), JudgeError> {
    opensm_loads(&fabric("clos:6,3,4,2"), None)
}

#[test]
fn a_clos_of_648_hosts_with_one_address_each() -> Result<(), JudgeError> {
    opensm_loads(&fabric("clos:36,18,18"), Some(0))
}

#[test]
fn a_clos_of_648_hosts_with_32_addresses_each() -> Result<(), JudgeError> {
    opensm_loads(&fabric("clos:36,18,18"), Some(5))
}

#[test]
fn a_clos_with_cut_cables() -> Result<(), JudgeError> {
    opensm_loads(&cut(&fabric("clos:18,9,9"), 10, 1), None)
}

#[test]
fn three_stages() -> Result<(), JudgeError> {
    opensm_loads(&fabric("fattree:8"), None)
}

/// The other way round: what OpenSM chooses by itself, its own files and the fabric say alike, as we read
/// them.
#[test]
fn what_opensm_chooses_is_read() -> Result<(), JudgeError> {
    let topology = fabric("clos:6,3,4");
    let simulator = Simulator::start(&ibnet::write(&topology))?;
    let left = OpenSm { lmc: 2, ..OpenSm::default() }.bring_up(&simulator)?;
    let addresses = dump::guid2lid::parse(&left.guid2lid, &topology).unwrap();
    let tables = dump::lfts::parse(&left.tables, &topology).unwrap();
    assert_eq!(addresses.iter().count(), topology.node_count());
    assert_holds(&simulator, &left, &topology, &addresses, &tables)
}

/// A judge that always agrees is none: one entry changed is one entry read back changed.
#[test]
fn one_changed_entry_is_seen() -> Result<(), JudgeError> {
    let topology = fabric("clos:4,3,2");
    let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
    let mut tables = routing.tables.clone();
    let lid = routing.plan.addresses().top();
    // The first leaf's way to the last host, by another spine than planned.
    let (planned, other) = (tables[0].get(lid), PortNum(4));
    assert_ne!(planned, other);
    tables[0].set(lid, other);
    opensm_loads_these(&topology, &routing, &tables)
}

/// Forty switches, two parallel cables a pair, cables missing, aggregation nodes on the spines. The file
/// lies beside the repository, not in it.
#[test]
fn a_real_fabric() -> Result<(), JudgeError> {
    let Some((_, text)) = shared("topologies/dgx-gb200-2025.ibnetdiscover") else {
        return Ok(());
    };
    let real = ibnet::parse(&text).unwrap();
    let as_simulated = discovered(&Simulator::start(&ibnet::write(&real))?)?;
    assert_same_cables(&as_simulated, &real);
    opensm_loads(&as_simulated, None)
}
