//! Cables that no stage has a place for.

use snin_fabric::generate::Recipe;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::{NodeIndex, Topology, ibnet};

use crate::{hosts_node, named, recognised};

/// A fabric with one cable more, between free ports of the two.
fn with_cable(topology: &Topology, one: &str, other: &str) -> Topology {
    let mut text = ibnet::write(topology);
    let (one, other) = (hosts_node(topology, one), hosts_node(topology, other));
    let free = |node: NodeIndex, skip: usize| {
        let mut free = topology.external_ports(node).filter(|&p| topology.peer(p).is_none());
        free.nth(skip)
            .map_or_else(|| topology.node(node).ports + 1 + skip as u8, |p| topology.num(p).0)
    };
    let ends = [(one, free(one, 0)), (other, free(other, usize::from(one == other)))];
    for (here, there) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        let header = format!("\"S-{:016x}\"\t\t#", topology.node(here.0).guid.0);
        let at = text.find(&header).unwrap();
        let start = text[..at].rfind('\n').unwrap() + 1;
        let end = at + text[at..].find('\n').unwrap();
        let lid = text[at..end].split_once('#').unwrap().1.to_owned();
        let peer = topology.node(there.0).guid.0;
        let record = format!(
            "Switch\t60 \"S-{:016x}\"\t\t#{lid}\n[{}]\t\"S-{peer:016x}\"[{}]",
            topology.node(here.0).guid.0,
            here.1,
            there.1
        );
        text.replace_range(start..end, &record);
    }
    ibnet::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_stray_cable_is_named_and_all_trees_stay() {
    let cases = [
        ("clos:4,4,4", "leaf0", "leaf2"),
        ("clos:4,4,4", "spine1", "spine3"),
        ("clos:4,4,4", "leaf1", "leaf1"),
        ("clos:4,4,4", "spine2", "spine2"),
        ("clos:2,2,2", "leaf0", "leaf1"),
        ("fattree:6", "leaf0", "leaf1"),
        ("fattree:6", "leaf0", "leaf17"),
        ("fattree:6", "leaf4", "core8"),
        ("fattree:6", "agg1", "agg2"),
        ("fattree:6", "agg1", "agg9"),
        ("fattree:6", "agg4", "core0"),
        ("fattree:6", "core0", "core5"),
        ("fattree:6", "leaf3", "agg17"),
        ("fattree:6,2", "leaf0", "agg5"),
        ("fattree:6", "core0", "core0"),
    ];
    for (recipe, one, other) in cases {
        let whole = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let before = Routing::compute(&whole, Engine::Trees, None).unwrap();
        let topology = with_cable(&whole, one, other);
        let case = format!("{recipe}: {one} to {other}");
        let clos = recognised(&topology);
        let names = named(&clos);
        assert_eq!(names.len(), 1, "{case}: {names:?}");
        assert!(names[0].starts_with("stray cable: "), "{case}: {names:?}");
        for end in [one, other] {
            assert!(
                names[0].contains(&format!(": {end}/"))
                    || names[0].contains(&format!(" to {end}/"))
            );
        }
        let routing = Routing::compute(&topology, Engine::Trees, None).unwrap();
        assert_eq!(routing.forest.trees(), before.forest.trees(), "{case}");
        let covered = |routing: &Routing| -> usize {
            let pairs = whole
                .switches()
                .flat_map(|s| routing.forest.trees().iter().map(move |t| (s, t.id)));
            pairs.filter(|&(switch, tree)| routing.forest.covers(switch, tree)).count()
        };
        assert_eq!(covered(&routing), covered(&before), "{case}");
    }
}

#[test]
fn a_loopback_plug_is_named_and_read_back() {
    let whole = "clos:4,2,2".parse::<Recipe>().unwrap().build().unwrap();
    let leaf = hosts_node(&whole, "leaf1");
    let guid = whole.node(leaf).guid.0;
    let text = ibnet::write(&whole);
    let line = format!("Switch\t4 \"S-{guid:016x}\"");
    let at = text.find(&line).unwrap();
    let end = at + text[at..].find('\n').unwrap();
    let mut plugged = text.clone();
    plugged.insert_str(end, &format!("\n[9]\t\"S-{guid:016x}\"[9]"));
    let plugged = plugged.replacen(&line, &line.replace("\t4 ", "\t9 "), 1);
    let topology = ibnet::parse(plugged.as_bytes()).unwrap();
    let clos = recognised(&topology);
    assert_eq!(named(&clos), ["loopback plug: leaf1/9 leads back to itself"]);
    assert_eq!(clos.roots.len(), 2);
    assert_eq!(ibnet::parse(ibnet::write(&topology).as_bytes()).unwrap(), topology);
}
