//! A subnet of OpenSM's is cabled to one of ours, which goes before it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use snin_fabric::ibnet;
use snin_judges::Keeper as OpenSmKeeper;
use snin_judges::{HeldNode, JudgeError, OpenSm, Program, finish, ibtracert, netlist};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, SaRequest};
use snin_mad::{Gid, Method, PKey};

use crate::administration::is_up;
use crate::client::Host;
use crate::support::{Keeper, Lab, PATIENCE, fabric, id};

/// 12 hosts of ours and 6 of theirs. `SNIN_JOIN="clos:18,18,18 clos:36,18,18"` takes others.
const SIZES: &str = "clos:4,2,3 clos:3,2,2";
/// The ends of the cable that joins them: spine 0 here and there, at the first free port of each.
const SPINES: [&str; 2] = ["S-0200020000000000", "S-02a0020000000000"];
/// Where OpenSM is, and a host that tells it something. (A client that leaves takes its port's IsSM along.)
const THEIRS: [&str; 2] = ["H-02a0100000000000", "H-02a0100000000300"];

type Nodes = BTreeMap<String, HeldNode>;

/// The addresses of hosts whose names begin so.
fn lids(nodes: &Nodes, begins: &str) -> BTreeMap<String, std::ops::Range<u16>> {
    let hosts = nodes.iter().filter(|(name, _)| name.starts_with(begins));
    let lids = hosts.filter_map(|(name, node)| {
        let (lid, lmc, _) = node.ports.get(&1)?.address?;
        Some((name.clone(), lid..lid + (1 << lmc)))
    });
    lids.collect()
}

/// What a side's switches have for its own hosts' addresses.
fn routes(nodes: &Nodes, digits: &str) -> BTreeMap<(String, u16), Option<u8>> {
    let own: Vec<u16> = lids(nodes, &format!("H-{digits}")).into_values().flatten().collect();
    let switches = nodes.iter().filter(|(name, _)| name.starts_with(&format!("S-{digits}")));
    let of = |(name, node): (&String, &HeldNode)| {
        let entry = |&lid: &u16| ((name.clone(), lid), node.table.get(usize::from(lid)).copied());
        own.iter().map(entry).collect::<Vec<_>>()
    };
    switches.flat_map(of).collect()
}

/// Two subnets beside each other.
struct Apart {
    lab: Lab,
    /// The end of the joining cable here, which is not plugged in.
    joint: (&'static str, u8),
    /// How many hosts each has.
    hosts: [usize; 2],
    _opensm: OpenSmKeeper,
}

impl Apart {
    /// OpenSM is in the second.
    fn begin(sizes: &str) -> Result<Self, JudgeError> {
        let sizes: Vec<&str> = sizes.split(' ').collect();
        let text = |recipe| ibnet::write(&fabric(recipe));
        let both = netlist::beside(&text(sizes[0]), "north", "0200", 1)
            + &netlist::beside(&text(sizes[1]), "south", "02a0", 1);
        let number = |side: usize, place: usize| -> u8 {
            sizes[side].split([':', ',']).nth(place).unwrap().parse().unwrap()
        };
        let joint = [0, 1].map(|side| (SPINES[side], number(side, 1) + 1));
        let both = netlist::cabled(&both, joint[0], joint[1]);
        let lab = Lab::new(&ibnet::parse(both.as_bytes()).unwrap())?;
        lab.simulator.unlink(joint[0].0, Some(joint[0].1))?;
        let opensm = OpenSm { host: Some(THEIRS[0]), lmc: 1, ..OpenSm::default() };
        let _opensm = opensm.keep(&lab.simulator)?;
        let count = |side| usize::from(number(side, 1)) * usize::from(number(side, 3));
        Ok(Self { lab, joint: joint[0], hosts: [count(0), count(1)], _opensm })
    }
}

/// The broadcast group, as IPoIB joins it.
fn broadcast(host: &Host) -> McMemberRecord {
    let mgid = [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF];
    McMemberRecord {
        mgid: Gid(mgid),
        port_gid: host.gid(),
        p_key: PKey(0xFFFF),
        join_state: JoinState::FULL,
        ..McMemberRecord::default()
    }
}

/// Whether the manager shows the host as a member of a group.
fn is_member(host: &mut Host) -> bool {
    let members: Vec<McMemberRecord> = host.table(&McMemberRecord::default(), &[]);
    members.iter().any(|member| member.port_gid == host.gid())
}

/// Plugs the cable in, and waits until all is one subnet and well.
fn join(lab: &Lab, joint: (&str, u8), keeper: &Keeper) -> Result<(), JudgeError> {
    let begin = Instant::now();
    let (smps, ()) = lab.simulator.count(|| {
        lab.simulator.relink(joint.0, Some(joint.1)).unwrap();
        lab.settled(keeper, lab.topology.cable_count()).unwrap();
    })?;
    println!(
        "joined and whole {:.1} s after the cable, {smps} packets",
        begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// OpenSM lives, and answers no question of administration any more, as a manager that is not master has to (IBA
/// C15-0.1.3): so hosts there register again, and are in the survivor's records.
fn nothing_is_read_of_a_manager_that_handed_over(lab: &Lab) -> Result<(), JudgeError> {
    let held = lab.simulator.held()?;
    let [theirs, ours] = [THEIRS[0].to_owned(), id(&lab.topology, lab.home)]
        .map(|name| lids(&held, &name)[&name].start);
    let said = finish(
        lab.simulator.command(Program::SMINFO, Some(THEIRS[1]))?.arg(theirs.to_string()),
        lab.simulator.folder(),
        PATIENCE,
    )?;
    let said = String::from_utf8_lossy(&said.out).into_owned();
    assert!(said.contains("SMINFO_STANDBY"), "{said}");
    let all = SaRequest::new(Method::GetTable, &McMemberRecord::default(), ComponentMask::of(&[]));
    let mut at_theirs = Host::new(&lab.simulator, THEIRS[1], theirs);
    assert!(at_theirs.is_unanswered(&all.clone().key(1), Duration::from_secs(2)));
    drop(at_theirs);
    let mut host = Host::new(&lab.simulator, THEIRS[1], ours);
    assert!(!host.is_unanswered(&all.key(1), PATIENCE), "the survivor answers the same question");
    let wanted = broadcast(&host);
    host.one(Method::Set, &wanted, &[0, 1, 7, 16]).unwrap();
    assert!(is_member(&mut host), "the survivor shows the host");
    Ok(())
}

#[test]
fn a_subnet_of_opensm_becomes_a_part_of_ours() -> Result<(), JudgeError> {
    let sizes = std::env::var("SNIN_JOIN").unwrap_or_else(|_| SIZES.to_owned());
    let Apart { lab, joint, hosts, _opensm } = Apart::begin(&sizes)?;
    let keeper = lab.keep("sm_priority = 9\nlmc = 1\nsweep_interval = 1\n")?;
    is_up(&keeper);
    let before = lab.simulator.held()?;
    let [north, south] = ["H-0200", "H-02a0"].map(|begins| lids(&before, begins));
    assert_eq!([north.len(), south.len()], hosts);
    let all = |lids: &BTreeMap<String, std::ops::Range<u16>>| -> BTreeSet<u16> {
        lids.values().cloned().flatten().collect()
    };
    assert!(all(&north).intersection(&all(&south)).count() >= 6, "addresses in common");
    // A host there is in the broadcast group.
    let mut host = Host::new(&lab.simulator, THEIRS[1], south[THEIRS[0]].start);
    let wanted = broadcast(&host);
    host.one(Method::Set, &wanted, &[0, 1, 7, 16]).unwrap();
    assert!(is_member(&mut host), "OpenSM shows the host");
    drop(host);

    join(&lab, joint, &keeper)?;
    nothing_is_read_of_a_manager_that_handed_over(&lab)?;
    // Ours is master, for a host there too; its side is as it was, in addresses and routes.
    let said = finish(
        &mut lab.simulator.command(Program::SMINFO, Some(THEIRS[1]))?,
        lab.simulator.folder(),
        PATIENCE,
    )?;
    let said = String::from_utf8_lossy(&said.out).into_owned();
    assert!(said.contains("priority 9 state 3 SMINFO_MASTER"), "{said}");
    let after = lab.simulator.held()?;
    assert_eq!(lids(&after, "H-0200"), north);
    assert_eq!(routes(&after, "0200"), routes(&before, "0200"));
    let now = lids(&after, "H-02a0");
    assert!(all(&north).is_disjoint(&all(&now)) && now.len() == hosts[1], "{now:?}");
    // By a foreign program: there is a way from each of its hosts to one there.
    for (from, to) in north.values().zip(now.values().rev()).take(12) {
        let way = ibtracert(&lab.simulator, from.start, to.end - 1)?;
        assert!(way.contains("south-"), "{way}");
    }
    let told = keeper.events();
    let joined = told.iter().filter(|event| event["event"] == "SUBNETS_JOINED");
    assert!(joined.count() > 0, "{told:?}");
    Ok(())
}
