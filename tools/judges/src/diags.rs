//! infiniband-diags: what a fabric holds, asked of every node.

use std::time::Duration;

use crate::{JudgeError, Program, Simulated, finish};

/// The largest fabric's tables take some ten seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The forwarding tables of all switches, as `dump_fts` prints them.
///
/// A last LID that is a multiple of 64 is not printed: `dump_fts` leaves the last block out if only one
/// entry of it is in use.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn dump_fts(simulator: &impl Simulated) -> Result<Vec<u8>, JudgeError> {
    ask(simulator, Program::DUMP_FTS, &[])
}

/// Every switch's multicast forwarding table, as `dump_fts -M -n` prints it.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn dump_mfts(simulator: &impl Simulated) -> Result<String, JudgeError> {
    text(simulator, Program::DUMP_FTS, &["-M", "-n"])
}

/// Nodes, cables, LIDs and LMCs, as `ibnetdiscover` prints them.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn ibnetdiscover(simulator: &impl Simulated) -> Result<Vec<u8>, JudgeError> {
    ask(simulator, Program::IBNETDISCOVER, &[])
}

/// One switch's table, by its LID.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn ibroute(simulator: &impl Simulated, lid: u16) -> Result<String, JudgeError> {
    text(simulator, Program::IBROUTE, &[&lid.to_string()])
}

/// The way from one address to another, node by node.
///
/// # Errors
/// When the program is missing, or finds no way.
pub fn ibtracert(simulator: &impl Simulated, from: u16, to: u16) -> Result<String, JudgeError> {
    text(simulator, Program::IBTRACERT, &[&from.to_string(), &to.to_string()])
}

/// The way of a group's packets from one address to another, node by node.
///
/// # Errors
/// When the program is missing, or finds no way.
pub fn ibtracert_multicast(
    simulator: &impl Simulated,
    mlid: u16,
    from: u16,
    to: u16,
) -> Result<String, JudgeError> {
    let [mlid, from, to] = [mlid, from, to].map(|lid| lid.to_string());
    text(simulator, Program::IBTRACERT, &["-m", &mlid, &from, &to])
}

/// Every link with its state, a line each.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn iblinkinfo(simulator: &impl Simulated) -> Result<String, JudgeError> {
    text(simulator, Program::IBLINKINFO, &["--line"])
}

/// What `smpquery` says: `["portinfo", "17", "1"]`.
///
/// # Errors
/// When the program is missing, or the node does not answer.
pub fn smpquery(simulator: &impl Simulated, what: &[&str]) -> Result<String, JudgeError> {
    text(simulator, Program::SMPQUERY, what)
}

/// The judgement of every port's counters. No subnet administration is asked for service levels.
///
/// # Errors
/// When the program is missing, or finds errors.
pub fn ibqueryerrors(simulator: &impl Simulated) -> Result<String, JudgeError> {
    text(simulator, Program::IBQUERYERRORS, &["--skip-sl"])
}

fn text(simulator: &impl Simulated, program: Program, what: &[&str]) -> Result<String, JudgeError> {
    Ok(String::from_utf8_lossy(&ask(simulator, program, what)?).into_owned())
}

fn ask(simulator: &impl Simulated, program: Program, what: &[&str]) -> Result<Vec<u8>, JudgeError> {
    let mut command = simulator.command(program, None)?;
    command.args(what);
    let said = finish(&mut command, simulator.folder(), LIMIT)?;
    // What these programs cannot read they leave out, and end well.
    match said.err.lines().find(|line| line.contains("failed")) {
        Some(line) => {
            Err(JudgeError::Incomplete { program: program.name, why: line.trim().to_owned() })
        }
        None => Ok(said.out),
    }
}

/// A port's partition table as `smpquery pkeys` prints it, without the empty places behind the last key. `port`:
/// of a switch, by its LID.
///
/// # Errors
/// When the program is missing or fails, or what it prints is no table.
pub fn partition_table(
    simulator: &impl Simulated,
    lid: u16,
    port: Option<u8>,
) -> Result<Vec<u16>, JudgeError> {
    let (lid, port) = (lid.to_string(), port.map(|port| port.to_string()));
    let mut arguments = vec!["pkeys", &lid];
    arguments.extend(port.as_deref());
    let said = text(simulator, Program::SMPQUERY, &arguments)?;
    // `   0: 0xffff 0x8001 ...`, eight a line.
    let lines = said.lines().filter_map(|line| line.split_once(": 0x"));
    let words = lines.flat_map(|(_, keys)| keys.split_whitespace());
    let mut keys = Vec::new();
    for word in words {
        let key = u16::from_str_radix(word.trim_start_matches("0x"), 16);
        keys.push(
            key.map_err(|_| JudgeError::Incomplete { program: "smpquery", why: said.clone() })?,
        );
    }
    keys.truncate(keys.iter().rposition(|&key| key != 0).map_or(0, |last| last + 1));
    Ok(keys)
}
