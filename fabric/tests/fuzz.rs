//! Random texts: good ones with lines, words and bytes changed, through every parser of text.
//! What is refused names a line; what is taken can be recognised, routed, judged and written again.
//!
//! `SNIN_FUZZ` says how many rounds (a few by default), `SNIN_SEED` where they begin.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snin_fabric::check::credit::Traffic;
use snin_fabric::check::{credit, walk};
use snin_fabric::clos::recognise;
use snin_fabric::generate::Recipe;
use snin_fabric::hosts::Hosts;
use snin_fabric::names::HostNames;
use snin_fabric::routing::{Engine, Routing};
use snin_fabric::traffic::Pattern;
use snin_fabric::{Guid, LinkRate, Lmc, Topology, dump, ibnet, traffic};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// One fabric and a text of each kind that goes with it.
struct Seeds {
    topology: Topology,
    names: HostNames,
    fabric: String,
    tables: [String; 2],
    addresses: String,
    traffic: [String; 2],
}

impl Seeds {
    fn of(recipe: &str) -> Self {
        let topology = recipe.parse::<Recipe>().unwrap().build().unwrap();
        let routing = Routing::compute(&topology, Engine::Trees, Lmc::new(1)).unwrap();
        let (addresses, tables) = (routing.plan.addresses(), &routing.tables);
        Self {
            names: HostNames::of(&topology, &routing.hosts),
            fabric: ibnet::write(&topology),
            tables: [
                dump::lfts::dump_fts(&topology, addresses, tables).collect(),
                dump::lfts::opensm(&topology, addresses, tables).collect(),
            ],
            addresses: dump::guid2lid::write(&topology, addresses),
            traffic: [
                "# who, to whom\nsource,destination,rate\nhost0,host1,100G\n1,2\n\"host2\", host0 ,5k\n"
                    .to_owned(),
                "Nodes 4\nConnections 2\n0->1 id 1 start 0 size 2000000\n2->3 id 2 start 0 size 5\n".to_owned(),
            ],
            topology,
        }
    }
}

/// The text with a few things changed.
fn mutated(text: &str, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..random.random_range(0..4) {
        let (one, other) =
            (random.random_range(0..lines.len()), random.random_range(0..lines.len()));
        match random.random_range(0..7) {
            0 => drop(lines.remove(one)),
            1 => lines.insert(one, lines[other].clone()),
            2 => lines.swap(one, other),
            3 => lines.truncate(one.max(1)),
            4 => lines[one] = swapped_words(&lines[one], &lines[other], random),
            _ => lines[one] = renumbered(&lines[one], random),
        }
        if lines.is_empty() {
            return Vec::new();
        }
    }
    let mut bytes = lines.join("\n").into_bytes();
    for _ in 0..random.random_range(0..3) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..4) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, random.random()),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

fn swapped_words(line: &str, other: &str, random: &mut ChaCha8Rng) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let from: Vec<&str> = other.split(' ').collect();
    let at = random.random_range(0..words.len());
    words[at] = from.choose(random).copied().unwrap_or_default();
    words.join(" ")
}

/// One run of digits becomes a number that parsers stumble over.
fn renumbered(line: &str, random: &mut ChaCha8Rng) -> String {
    let digits: Vec<usize> =
        line.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
    let Some(&at) = digits.choose(random) else { return line.to_owned() };
    let end = line[at..].find(|c: char| !c.is_ascii_digit()).map_or(line.len(), |n| at + n);
    let odd = ["0", "1", "-1", "254", "255", "256", "49151", "65535", "65536", "4294967296", "1e9"];
    let odd = [odd.as_slice(), &["18446744073709551616", "99999999999999999999999", ""]].concat();
    format!("{}{}{}", &line[..at], odd.choose(random).unwrap(), &line[end..])
}

fn target(seeds: &Seeds, kind: u32, bytes: &[u8]) {
    let Seeds { topology, names, .. } = seeds;
    match kind {
        0 => match ibnet::parse(bytes) {
            Ok(parsed) => route(&parsed),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        },
        1 | 2 => match dump::lfts::parse(bytes, topology) {
            Ok(tables) => assert_eq!(tables.len(), topology.switch_count()),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        },
        3 => match dump::guid2lid::parse(bytes, topology) {
            Ok(addresses) => drop(dump::guid2lid::write(topology, &addresses)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        },
        4 | 5 => match traffic::parse(bytes, names) {
            Ok(demands) => {
                let apart = demands.iter().all(|demand| demand.source != demand.destination);
                assert!(apart, "{demands:?}");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        },
        _ => {
            let text = String::from_utf8_lossy(bytes);
            let _ = (text.parse::<Pattern>(), text.parse::<Guid>(), text.parse::<LinkRate>());
            let _ = (text.parse::<Recipe>(), text.parse::<Engine>());
        }
    }
}

/// An accepted text is a fabric: routing has to cope with each.
fn route(topology: &Topology) {
    let _ = recognise(topology, &Hosts::of(topology));
    let again = ibnet::parse(ibnet::write(topology).as_bytes()).expect("our own text");
    assert_eq!(again.cable_count(), topology.cable_count());
    let Ok(routing) = Routing::compute(topology, Engine::Trees, Lmc::new(1)) else { return };
    let addresses = routing.plan.addresses();
    assert_eq!(walk(topology, addresses, &routing.tables, 1).looped, 0);
    assert!(credit(topology, addresses, &routing.tables, Traffic::All, |_, _| 0).is_ok());
}

#[test]
fn nothing_in_a_text_panics() {
    let all = ["clos:3,2,2", "fattree:4", "clos:2,2,2,2"].map(Seeds::of);
    let (first, rounds) = (number("SNIN_SEED", 0), number("SNIN_FUZZ", 4_000));
    for seed in first..first + rounds {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let seeds = all.choose(&mut random).unwrap();
        let kind = random.random_range(0..7);
        let words =
            ["permutation", "shift:3", "0x12", "400G", "clos:4,2,2", "fattree:6,3", "trees"];
        let text = match kind {
            0 => &seeds.fabric,
            1 | 2 => &seeds.tables[kind as usize - 1],
            3 => &seeds.addresses,
            4 | 5 => &seeds.traffic[kind as usize - 4],
            _ => *words.choose(&mut random).unwrap(),
        };
        let bytes = mutated(text, &mut random);
        let run = catch_unwind(AssertUnwindSafe(|| target(seeds, kind, &bytes)));
        assert!(run.is_ok(), "SNIN_SEED={seed}: {}", String::from_utf8_lossy(&bytes));
        if (seed - first + 1) % 50_000 == 0 {
            println!("fuzz: texts up to seed {seed}");
        }
    }
}
