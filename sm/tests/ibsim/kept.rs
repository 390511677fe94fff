//! A daemon that stays: it writes nothing that is there already, puts every change right, and stands
//! aside where another manager is master.
//!
//! `SNIN_EVENTS` says how many things happen (200), `SNIN_SEED` from which seed they are drawn.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::seq::{IndexedRandom as _, IteratorRandom as _};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use snin_fabric::generate::cut_cables;
use snin_fabric::{Lmc, PortIndex, Topology};
use snin_judges::{JudgeError, OpenSm};

use crate::support::{Keeper, Lab, PATIENCE, Trees, fabric, id};

/// Cables that may be out at once.
const MOST_OUT: usize = 4;
/// What an allocator may keep for itself, in KiB.
const SLACK: u64 = 2 * 1024;

#[test]
fn what_is_as_it_should_be_is_not_written() -> Result<(), JudgeError> {
    let lab = Lab::new(&cut_cables(&fabric("clos:6,4,3"), 4, 1))?;
    let trees = Trees::of(&lab.topology, Lmc::new(2));
    // Nothing but what this test does leads to a sweep.
    let keep = || lab.keep("lmc = 2\nsweep_interval = 0\n");
    let done = |keeper: &Keeper, times| keeper.wait(|events| sweeps(events) == times);
    let (heard, first) = lab.simulator.receive(|| {
        let keeper = keep()?;
        done(&keeper, 1);
        Ok::<_, JudgeError>(keeper)
    })?;
    assert!(heard.table_writes() > 0, "{heard:?}");
    assert_eq!(lab.held()?.fault(trees.as_ref()), None);
    first?.end(Signal::TERM);
    assert_eq!(lab.simulator.clients()?, []);

    // Started anew, it reads every table and writes none; the same again, after it was killed.
    for killed in [false, true] {
        let (heard, keeper) = lab.simulator.receive(|| {
            let keeper = keep()?;
            done(&keeper, 1);
            Ok::<_, JudgeError>(keeper)
        })?;
        let keeper = keeper?;
        assert!(heard.0[&(1, 0x19)] > 0 && heard.0[&(1, 0x11)] > 0, "{heard:?}");
        assert_eq!(heard.table_writes(), 0, "{heard:?}");
        // Told to look again, it does, and writes nothing at all.
        let (heard, ()) = lab.simulator.receive(|| {
            keeper.signal(Signal::HUP);
            done(&keeper, 2);
        })?;
        assert!(heard.0[&(1, 0x11)] > lab.topology.node_count() as u64, "{heard:?}");
        assert_eq!(heard.writes(), 0, "{heard:?}");
        assert_eq!(lab.held()?.fault(trees.as_ref()), None);
        if killed {
            keeper.end(Signal::TERM);
        } else {
            keeper.end(Signal::KILL);
            let left = lab.simulator.clients()?;
            assert!(left.len() == 1 && left[0].manager, "{left:?}");
            lab.simulator.free(&left[0])?;
        }
    }
    Ok(())
}

fn sweeps(events: &[serde_json::Value]) -> usize {
    events.iter().filter(|event| event["event"] == "SWEEP_DONE").count()
}

/// A real OpenSM is master: snin-sm writes nothing, says who is, and takes over when it is gone.
#[test]
fn another_master_is_left_alone() -> Result<(), JudgeError> {
    let lab = Lab::new(&fabric("clos:6,3,3"))?;
    let other = lab.topology.nodes().last().unwrap();
    assert_ne!(other, lab.home);
    // A junior would hand over.
    let host = id(&lab.topology, other);
    let opensm = OpenSm { host: Some(&host), priority: Some(8), ..OpenSm::default() };
    let opensm = opensm.keep(&lab.simulator)?;
    let before = lab.held()?;
    let keeper = lab.keep("sweep_interval = 1\n")?;
    keeper.wait(|events| {
        let stands = |event: &serde_json::Value| {
            event["event"] == "STATE_CHANGE" && event["state"] == "standby"
        };
        events.iter().any(stands)
    });
    // OpenSM is told of the newcomer and looks at everything; when it has done so neither manager writes any more.
    let a_while = || lab.simulator.receive(|| sleep(Duration::from_millis(1_500)));
    let begin = Instant::now();
    while a_while()?.0.writes() != 0 {
        assert!(begin.elapsed() < PATIENCE, "somebody keeps writing");
    }
    let (heard, ()) = a_while()?;
    assert!(heard.total() > 0 && heard.writes() == 0, "{heard:?}");
    let after = lab.held()?;
    assert!(after.addresses == before.addresses && after.tables == before.tables);
    assert_eq!(before.manager, after.manager);
    let events = keeper.events();
    let found = events.iter().find(|event| event["event"] == "OTHER_SM");
    let found = found.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(found["state"], "master", "{events:?}");
    let (port, _) = lab.topology.cables(other).next().unwrap();
    assert_eq!(found["guid"], lab.topology.port(port).guid.to_string());
    assert!(!events.iter().any(|event| event["event"] == "SUBNET_UP"), "{events:?}");

    drop(opensm);
    let clients = lab.simulator.clients()?;
    // ibsim gives the place of a dead client back by itself when it cannot deliver a poll.
    if let Some(left) = clients.iter().find(|client| client.node == id(&lab.topology, other)) {
        lab.simulator.free(left)?;
    }
    keeper.wait(|events| events.iter().any(|event| event["event"] == "SUBNET_UP"));
    let held = lab.held()?;
    assert_eq!(held.fault(None), None);
    assert_ne!(held.manager, before.manager);
    Ok(())
}

/// What happens to a fabric.
struct Fate<'a> {
    lab: &'a Lab,
    random: ChaCha8Rng,
    lossy: bool,
}

impl Fate<'_> {
    /// Does something; what.
    fn strike(&mut self) -> Result<String, JudgeError> {
        let Lab { simulator, topology, home, .. } = self.lab;
        let random = &mut self.random;
        let nodes = simulator.held()?;
        let at = |port: PortIndex| (id(topology, topology.port(port).node), topology.num(port).0);
        let cables = topology.ports().filter(|&port| {
            topology.peer(port).is_some_and(|peer| port < peer)
                && topology.port(port).node != *home
                && topology.peer_node(port) != Some(*home)
        });
        let there = |&port: &PortIndex| {
            let (node, num) = at(port);
            nodes[&node].ports[&num].peer.is_some()
        };
        let (there, out): (Vec<_>, Vec<_>) = cables.partition(there);
        let restart = || topology.nodes().filter(|node| node != home);
        match random.random_range(0..10) {
            0..3 if out.len() < MOST_OUT => {
                let (node, num) = at(*there.choose(random).unwrap());
                simulator.unlink(&node, Some(num))?;
                Ok(format!("{node}/{num} is cut"))
            }
            0..6 if !out.is_empty() => {
                let (node, num) = at(*out.choose(random).unwrap());
                simulator.relink(&node, Some(num))?;
                Ok(format!("{node}/{num} is joined"))
            }
            6 => {
                self.lossy = !self.lossy;
                let percent = u8::from(self.lossy);
                topology
                    .nodes()
                    .try_for_each(|node| simulator.lose(&id(topology, node), percent))?;
                Ok(format!("{percent} % are lost"))
            }
            _ => {
                let node = id(topology, restart().choose(random).unwrap());
                simulator.clear(&node, None)?;
                let pause = random.random_range(0..30);
                sleep(Duration::from_millis(pause));
                simulator.relink(&node, None)?;
                Ok(format!("{node} restarts, off for {pause} ms"))
            }
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_happens_to_two_stages_is_put_right() -> Result<(), JudgeError> {
    let topology = fabric("clos:6,3,3");
    let trees = Trees::of(&topology, Lmc::new(2));
    put_right(&topology, trees.as_ref(), number("SNIN_EVENTS", 200))
}

#[test]
fn whatever_happens_to_three_stages_is_put_right() -> Result<(), JudgeError> {
    let topology = fabric("fattree:4");
    let trees = Trees::of(&topology, Lmc::new(2));
    put_right(&topology, trees.as_ref(), number("SNIN_EVENTS", 200) / 4)
}

fn put_right(topology: &Topology, trees: Option<&Trees>, count: u64) -> Result<(), JudgeError> {
    let seed = number("SNIN_SEED", 1);
    let lab = Lab::new(topology)?;
    // A notice may be lost: a second later a sweep looks.
    let keeper = lab.keep("lmc = 2\nsweep_interval = 1\ntransaction_timeout = 50\n")?;
    let mut fate = Fate { lab: &lab, random: ChaCha8Rng::seed_from_u64(seed), lossy: false };
    let (mut what, mut first, mut longest) = (String::from("the start"), None, Duration::ZERO);
    for n in 0..=count {
        let begin = Instant::now();
        while let Some(fault) = lab.held()?.fault_but_as_told(trees, || keeper.last_up()) {
            let passed = begin.elapsed();
            assert!(
                passed < PATIENCE,
                "SNIN_SEED={seed}, event {n}: {what}: {fault}; {}",
                keeper.tail()
            );
            sleep(Duration::from_millis(2));
        }
        longest = longest.max(begin.elapsed());
        // What it needs for good it has by then.
        if n >= count.min(50) && n % 50 == 0 {
            let (memory, files, threads) = *first.get_or_insert_with(|| keeper.size());
            // A file that is written just now is none that was left open.
            let grown = |now: (u64, usize, usize)| {
                now.0 > memory + SLACK || now.1 > files || now.2 > threads
            };
            let begin = Instant::now();
            while grown(keeper.size()) {
                let (now, was) = (keeper.size(), (memory, files, threads));
                assert!(
                    begin.elapsed() < PATIENCE,
                    "SNIN_SEED={seed}, event {n}: {now:?}, once {was:?}"
                );
                sleep(Duration::from_millis(10));
            }
            if n % 1_000 == 0 {
                println!("{n} events, {} KiB, {longest:.1?} at most", keeper.size().0);
            }
        }
        if n < count {
            what = fate.strike()?;
        }
    }
    keeper.end(Signal::TERM);
    Ok(())
}

/// Dumps of a large fabric are gigabytes: a cable that flaps does not have them written at each change, and what
/// is left behind is the newest.
#[test]
fn a_cable_that_flaps_has_tables_dumped_once_a_second_at_most() -> Result<(), JudgeError> {
    use std::os::unix::fs::MetadataExt as _;
    let lab = Lab::new(&fabric("clos:4,3,2"))?;
    let keeper = lab.keep("sweep_interval = 0\n")?;
    let ups = |events: &[serde_json::Value]| {
        events.iter().filter(|event| event["event"] == "SUBNET_UP").count()
    };
    keeper.wait(|events| ups(events) > 0);
    let dump = lab.file("dump").join("opensm-lfts.dump");
    let inode = || std::fs::metadata(&dump).map(|found| found.ino()).ok();
    let (mut seen, mut last) = (0, None);
    let mut look = |moment: Duration| {
        let begin = Instant::now();
        while begin.elapsed() < moment {
            let now = inode();
            seen += usize::from(now != last && now.is_some());
            last = now;
            sleep(Duration::from_millis(2));
        }
        seen
    };
    look(Duration::from_millis(100));
    let leaf = id(&lab.topology, lab.topology.switches().next().unwrap());
    let begin = Instant::now();
    for _ in 0..10 {
        let before = keeper.events().len();
        lab.simulator.unlink(&leaf, Some(3))?;
        keeper.wait(|events| events.len() > before);
        look(Duration::from_millis(20));
        let before = keeper.events().len();
        lab.simulator.relink(&leaf, Some(3))?;
        keeper.wait(|events| events.len() > before);
        look(Duration::from_millis(20));
    }
    let dumps = look(Duration::from_millis(20));
    let most = begin.elapsed().as_secs() as usize + 2;
    assert!(dumps <= most, "{dumps} dumps, {most} at most");
    keeper.end(Signal::TERM);
    let (told, _) = lab.told();
    assert_eq!(lab.held()?.fault(None), None);
    assert!(told.iter().all(|table| table.len() > 1));
    Ok(())
}
