//! How many SMPs a second the emulator answers on one core: each is a request that travels to its agent along
//! a directed route, is answered there, and travels back.
//!
//! `emulator_mgmt [SMPs]` appends one line a case to `target/bench/results.jsonl`.

use std::io::{self, Write};
use std::time::Instant;

use snin_emulator::{Config, Emulator};
use snin_fabric::generate::Recipe;
use snin_fabric::{Lid, NodeIndex, PortNum, Topology};
use snin_mad::{Attribute, DrPath, Mad, NodeInfo, PortInfo, Route, Smp, TransactionId};
use snin_protocol::Time;

/// What the emulator shall answer at least, in SMPs a second.
const GOAL: f64 = 1e6;
const WINDOW: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    for (case, recipe) in [("648 hosts", "clos:36,18,18"), ("3,456 hosts", "fattree:24")] {
        let topology = recipe.parse::<Recipe>()?.build()?;
        let requests = requests(&topology);
        let begin = Instant::now();
        let hash = sweep(&topology, &requests, count);
        let ours = count as f64 / begin.elapsed().as_secs_f64();
        report(case, ours, hash)?;
    }
    Ok(())
}

/// One line, to people and to the file of results.
fn report(case: &str, ours: f64, hash: u64) -> io::Result<()> {
    let ratio = ours / GOAL;
    let line = format!(
        "{{\"bench\":\"emulator-mgmt\",\"case\":\"{case}\",\"unit\":\"SMP/s\",\"ours\":{ours:.0},\
         \"peer\":{GOAL:.0},\"peer_name\":\"goal\",\"ratio\":{ratio:.3},\"hash\":\"{hash:016x}\"}}"
    );
    writeln!(io::stdout(), "{line}")?;
    std::fs::create_dir_all("target/bench")?;
    let path = "target/bench/results.jsonl";
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{line}")
}

/// What a sweep asks: NodeInfo of every node, PortInfo of every port.
fn requests(topology: &Topology) -> Vec<Mad> {
    let emulator = Emulator::new(topology, Config::default());
    let routes = emulator.fabric().routes_from(home(topology));
    let mut requests = Vec::new();
    for (node, route) in topology.nodes().zip(routes) {
        let route = Route::directed(route.unwrap_or(DrPath::HERE));
        requests.push(Smp::get(NodeInfo::ID, 0, route).mad());
        let ports =
            (0..=u32::from(topology.node(node).ports)).skip(usize::from(!topology.is_switch(node)));
        requests.extend(ports.map(|port| Smp::get(PortInfo::ID, port, route).mad()));
    }
    requests
}

/// The first host's port.
fn home(topology: &Topology) -> snin_fabric::PortIndex {
    let host = NodeIndex(topology.switch_count() as u32);
    topology.port_of(host, PortNum(1)).unwrap_or(topology.port0(host))
}

/// Asks `count` times, some at a time, and mixes all answers and their times into one number.
fn sweep(topology: &Topology, requests: &[Mad], count: usize) -> u64 {
    let config = Config { agent_latency: Time::micros(1), ..Config::default() };
    let mut emulator = Emulator::new(topology, config);
    let client = emulator.attach(home(topology)).expect("a host's port is free");
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let (mut sent, mut answered) = (0, 0);
    while answered < count {
        while sent < count && sent - answered < WINDOW {
            let mut mad = requests[sent % requests.len()].clone();
            snin_mad::Header::edit(&mut mad.0).transaction_id(TransactionId(sent as u64));
            emulator.send(client, &mad, Lid::NONE, emulator.now());
            sent += 1;
        }
        let next = emulator.next_event_time().expect("answers are on their way");
        emulator.advance(next);
        while let Some(received) = emulator.poll(client) {
            answered += 1;
            let id = received.mad.header().transaction_id().0;
            let mut mix = |value: u64| hash = (hash ^ value).wrapping_mul(0x100_0000_01b3);
            mix(id);
            mix(received.at.nanos());
            for word in received.mad.0.chunks_exact(8) {
                mix(u64::from_le_bytes(word.try_into().expect("8 bytes")));
            }
        }
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_sweep_is_the_same_every_time() {
        let topology = "clos:4,2,3".parse::<Recipe>().unwrap().build().unwrap();
        let requests = requests(&topology);
        let hash = sweep(&topology, &requests, 1_000);
        assert_eq!(hash, sweep(&topology, &requests, 1_000));
        assert_ne!(hash, sweep(&topology, &requests, 999));
    }
}
