//! infiniband-diags: what a fabric holds, asked of every node.

use std::time::Duration;

use crate::{JudgeError, Program, Simulator, finish};

/// The largest fabric's tables take some ten seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// The forwarding tables of all switches, as `dump_fts` prints them.
///
/// A last LID that is a multiple of 64 is not printed: `dump_fts` leaves the last block out if only one
/// entry of it is in use.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn dump_fts(simulator: &Simulator) -> Result<Vec<u8>, JudgeError> {
    ask(simulator, Program::DUMP_FTS)
}

/// Nodes, cables, LIDs and LMCs, as `ibnetdiscover` prints them.
///
/// # Errors
/// When the program is missing, fails, or could not read everything.
pub fn ibnetdiscover(simulator: &Simulator) -> Result<Vec<u8>, JudgeError> {
    ask(simulator, Program::IBNETDISCOVER)
}

fn ask(simulator: &Simulator, program: Program) -> Result<Vec<u8>, JudgeError> {
    let mut command = simulator.command(program, None)?;
    let said = finish(&mut command, simulator.folder(), LIMIT)?;
    // What these programs cannot read they leave out, and end well.
    match said.err.lines().find(|line| line.contains("failed")) {
        Some(line) => {
            Err(JudgeError::Incomplete { program: program.name, why: line.trim().to_owned() })
        }
        None => Ok(said.out),
    }
}
