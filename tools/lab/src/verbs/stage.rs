//! A stage for programs that were not written for it: hosts and links as in the lab, and a command that uses them.

use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use snin_daemon::clock::Clock;
use snin_emulator::frames::{Config as LinkConfig, Frames};
use snin_protocol::Time;

use super::error::VerbsLabError;
use super::fabric::Fabric;
use super::interfaces::{Interfaces, name};
use super::judge::Judge;
use super::scenario::describe_link;
use super::wire::Wire;

/// How often the command is looked at.
const TICK: Duration = Duration::from_millis(20);

/// What crossed the fabric while the command ran.
#[derive(Clone, Debug, Serialize)]
pub struct Carried {
    /// Rises when a key changes its meaning or goes.
    pub schema_version: u32,
    /// The exit code of the command; -1 when a signal ended it.
    pub exit_code: i32,
    /// Every directed link between switches that carried anything.
    pub links: Vec<CarriedLink>,
    /// Frames that the fabric had no way for, or whose sender and receiver are not known.
    pub dropped: u64,
}

/// A directed link, and who used it.
#[derive(Clone, Debug, Serialize)]
pub struct CarriedLink {
    /// The port that frames left by, as `leaf1/3`.
    pub link: String,
    /// Pairs of hosts whose data (requests, not acknowledgements) it carried.
    pub connections: Vec<(usize, usize)>,
    /// Every flow, acknowledgements included.
    pub flows: Vec<CarriedFlow>,
}

/// Frames from one address to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CarriedFlow {
    /// LID of the sender.
    pub from: u16,
    /// LID of the receiver.
    pub to: u16,
    /// Along which tree the receiver's address leads; on another manager's tables, whose root the link leads to or
    /// from.
    pub tree: Option<u16>,
    /// Frames with data.
    pub data: u64,
    /// All frames.
    pub frames: u64,
}

/// Runs a command while the fabric's hosts are RDMA devices of this machine, `snin0` and following.
///
/// # Errors
/// When the machine lacks something, or a part stops working.
pub fn stage(
    fabric: &Fabric,
    bandwidth: u64,
    command: &mut Command,
) -> Result<Carried, VerbsLabError> {
    let clock = Clock::start_at(Time::secs(1));
    let (_interfaces, taps) = Interfaces::make(fabric.places())?;
    let link = LinkConfig { bandwidth, ..LinkConfig::default() };
    let mut frames = Frames::new(fabric.topology(), link);
    let (addresses, tables) = fabric.tables()?;
    frames.program(&addresses, &tables);
    let mut wire = Wire::start(taps, frames, clock)?;
    let devices: Vec<String> = (0..fabric.places().len()).map(name).collect();
    command.env("SNIN_LAB_DEVICES", devices.join(" "));
    let mut child = command.spawn().map_err(VerbsLabError::system("the command"))?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(VerbsLabError::system("the command"))? {
            break status;
        }
        if let Err(error) = wire.check() {
            // It may have ended meanwhile.
            let _ = child.kill();
            return Err(error);
        }
        std::thread::sleep(TICK);
    };
    let carried = count(fabric, &wire.frames(), status.code().unwrap_or(-1));
    Ok(carried)
}

fn count(fabric: &Fabric, frames: &Frames, exit_code: i32) -> Carried {
    let (judge, topology) = (Judge::new(fabric), fabric.topology());
    let between = topology.ports().filter(|&port| {
        let peer = topology.peer(port);
        topology.is_switch(topology.port(port).node)
            && peer.is_some_and(|peer| topology.is_switch(topology.port(peer).node))
    });
    let links = between.filter_map(|port| {
        let mut connections = Vec::new();
        let mut flows = Vec::new();
        for (&flow, count) in frames.flows(port) {
            if count.data > 0 {
                connections.extend(judge.connection(flow));
            }
            flows.push(CarriedFlow {
                from: flow.source.0,
                to: flow.destination.0,
                tree: match fabric.is_found() {
                    true => judge.crossed(topology, port),
                    false => judge.tree(flow.destination).map(|tree| tree.0),
                },
                data: count.data,
                frames: count.data + count.acknowledgements,
            });
        }
        connections.sort_unstable();
        connections.dedup();
        let link = describe_link(fabric, port);
        (!flows.is_empty()).then_some(CarriedLink { link, connections, flows })
    });
    let dropped = frames.dropped().faults();
    Carried { schema_version: 1, exit_code, links: links.collect(), dropped }
}
