//! The whole system in one virtual time, and what goes wrong in it: managers with mirrors and elections,
//! controllers that share a store, agents that send.
//!
//! ```text
//!   managers ------ MADs ------> emulated fabric <------ pieces ------ agents
//!       |  \__ mirrors __/                                                |
//!       +-------- views -------- controllers -------- grants -------------+
//!                                     |
//!                                   store
//! ```
//!
//! What runs is what the daemons run: [`snin_sm_core::Manager`], [`snin_controller_core::Core`] and `Leadership`,
//! [`snin_agent_core::Mesh`]. A run comes from its seed: storms of faults, each of kinds that are drawn anew, and
//! a calm after each in which everything is repaired. Judges look at every piece and at every write, and after a
//! storm at whether all is well in time ([`CALM`]). They know what was granted and where packets went, and share
//! no code with what they judge.

mod adapter;
mod agents;
mod controllers;
mod judges;
mod managers;
mod net;
mod site;
mod store;
mod storm;

use std::collections::BTreeMap;

use snin_fabric::Topology;
use snin_protocol::Time;

pub use site::Site;
pub use storm::FaultKind;

/// How long after the last fault of a storm all has to be well, at the latest.
pub const CALM: Time = Time::secs(60);

/// A fault of the simulated system that its judges must find: they are tried with each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// An agent confirms a lease as soon as it hears of it, and not when nothing else is under way any more.
    ConfirmsAtOnce,
    /// Tables are written while connections may use what they change.
    ClearAtOnce,
    /// An agent's clock jumps by more than the guard, and the agent is not told.
    ClockJumps,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Everything is drawn from it.
    pub seed: u64,
    /// Faults in all.
    pub faults: u32,
    /// The fabric; every host of it has an agent.
    pub topology: Topology,
    /// Managers, at hosts of different leaves where there are as many; 1 to 5.
    pub managers: usize,
    /// Controllers, which share a store; 1 to 5.
    pub controllers: usize,
    /// A fault of the system itself.
    pub planted: Option<Planted>,
    /// Whether the lines of what happened are kept; their hash always is.
    pub keeps_log: bool,
}

/// What cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetupError {
    /// Managers and agents sit at hosts.
    #[error("{hosts} hosts with a cable: {managers} managers and their agents need more")]
    Hosts {
        /// How many there are.
        hosts: usize,
        /// Managers that were asked for.
        managers: usize,
    },
    /// A number out of range.
    #[error("{0} {1}: 1 to 5")]
    Count(usize, &'static str),
    /// A core refuses its configuration.
    #[error("{0}")]
    Config(String),
}

/// Something that must never be, and was.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Violation {
    /// When, in nanoseconds of virtual time.
    pub at: Time,
    /// After how many faults.
    pub faults: u32,
    /// Which rule.
    pub rule: &'static str,
    /// What was seen.
    pub what: String,
}

/// What came of a run.
#[derive(Clone, Default, Debug, serde::Serialize)]
pub struct Summary {
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u32>,
    /// Storms.
    pub storms: u32,
    /// Virtual time.
    pub simulated: Time,
    /// The longest from the last fault of a storm until all was well.
    pub longest_calm: Time,
    /// Pieces that agents sent, and those of them that got lost.
    pub pieces: u64,
    /// As above.
    pub lost: u64,
    /// Messages that arrived whole.
    pub messages: u64,
    /// Windows that controllers decided.
    pub windows: u64,
    /// Terms of controllers.
    pub terms: u64,
    /// Times that a manager became master.
    pub masters: u64,
    /// Writes of managers that switches and ports took.
    pub writes: u64,
    /// A hash of everything that happened, in order.
    pub hash: u64,
    /// The first thing that must not be.
    pub violation: Option<Violation>,
}

/// Runs it. `progress` is told the number of faults so far after each storm.
///
/// # Errors
/// What cannot be simulated.
pub fn run(
    setup: Setup,
    mut progress: impl FnMut(u32),
) -> Result<(Summary, Vec<String>), SetupError> {
    let mut site = Site::new(setup)?;
    site.begin();
    while !site.is_over() {
        site.storm();
        progress(site.faults());
    }
    Ok(site.end())
}
