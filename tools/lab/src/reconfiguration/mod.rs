//! Reconfiguration measured: a switch is added to or removed from a fabric under traffic, and two mechanisms
//! assimilate it. The baseline is the one of "Evaluation of a subnet management mechanism", which discovers
//! everything anew, stops the fabric, writes all tables and starts it again; beside it the shipping core.
//!
//! ```text
//!   fabric.rs    irregular fabrics, the Clos
//!   baseline.rs  the mechanism, routes.rs its routes
//!   factors.rs   what it can be given of ours, one by one
//!   manager.rs   either mechanism on the emulated fabric: SMPs by task, phases
//!   plane.rs     packets on the same fabric, in the same virtual time
//!   walk.rs      where a packet would end now
//!   scale.rs     failures in Clos fabrics of thousands of hosts, by flows that are walked
//!   run.rs       one change, from before to after: a time line
//! ```
//!
//! Both mechanisms meet the same agents, links and costs. Computation is counted in operations and priced, so
//! that the same seed gives the same bytes.

pub mod baseline;
mod fabric;
mod factors;
mod manager;
mod plane;
mod routes;
mod run;
mod scale;
mod study;
mod walk;

use serde::Serialize;
use snin_protocol::Time;

pub use fabric::{PORTS, clos, irregular, removable};
pub use factors::{Factor, Factors, Step};
pub use plane::{Bin, Cause, Load, Loads, Lost, saturation};
pub use run::{Outcome, Scenario, StudyError, change};
pub use scale::{Survival, Way};
pub use study::{Carried, Case, Curve, Plan, Rung, Size, Study, TimeLine, study};

/// A controller's window: what it is told counts from the next on.
const WINDOW: Time = Time(1_000_000_000 / 60);

/// Which mechanism assimilates the change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// The seed's.
    Baseline,
    /// The shipping core.
    Ours,
}

impl Mechanism {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Baseline, Self::Ours];

    /// As charts and tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Ours => "ours",
        }
    }
}

/// What happens to a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It loses power.
    Removal,
    /// It has power again, after it was absent from the start.
    Addition,
}

impl Change {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Removal, Self::Addition];

    /// As charts and tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Removal => "removal",
            Self::Addition => "addition",
        }
    }
}

/// What a mechanism does at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The change has happened, and the manager does not know.
    Detection,
    /// It asks what changed.
    Discovery,
    /// It computes tables.
    Computation,
    /// It closes ports, if it does, and writes tables.
    Distribution,
    /// It opens ports.
    Activation,
    /// All is as it should be.
    Done,
}

impl Phase {
    /// All but the last, in order.
    pub const TASKS: [Self; 5] =
        [Self::Detection, Self::Discovery, Self::Computation, Self::Distribution, Self::Activation];

    /// As charts and tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detection => "detection",
            Self::Discovery => "discovery",
            Self::Computation => "computation",
            Self::Distribution => "distribution",
            Self::Activation => "activation",
            Self::Done => "done",
        }
    }
}

/// What everything costs, and how fast links are: the same for both mechanisms.
#[derive(Clone, Debug, Serialize)]
pub struct Costs {
    /// From one sweep of the baseline's to the next.
    pub sweep: Time,
    /// An elementary step of a computation.
    pub operation: Time,
    /// How long an agent works at an SMP.
    pub agent: Time,
    /// How long an agent works at a directed SMP that it passes on; none: hardware does it.
    pub relay: Time,
    /// How long the manager works at an SMP that comes in.
    pub manager: Time,
    /// The baseline's SMPs in flight: as published, all that it can send.
    #[serde(skip)]
    pub window: usize,
    /// From port to port.
    pub link: Time,
    /// Data bit/s of a link: 1X at 2.5 GBd.
    pub bits_per_second: u64,
    /// Data VLs.
    pub lanes: u8,
    /// Bytes of buffer at an input, for each VL.
    pub buffer: u32,
    /// Payload of a packet, in bytes.
    pub packet: u16,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            sweep: Time::millis(100),
            operation: Time(20),
            agent: Time::micros(10),
            relay: Time::ZERO,
            manager: Time::micros(5),
            window: usize::MAX,
            link: Time(250),
            bits_per_second: 2_000_000_000,
            lanes: 2,
            buffer: 4_096,
            packet: 256,
        }
    }
}
