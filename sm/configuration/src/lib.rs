//! Configuration: what discovery sees is compared with what is expected, and made so, port by port.
//!
//! ```text
//! Seen, Expected -> decide (a port: disable; enable; test; miswire) -> guard -> Judgement -> the sweep writes
//!                      trial.rs: a port under test                 compare.rs: what would be cut
//! ```
//!
//! It decides and writes nothing: the sweep asks for a judgement after every discovery, before it computes
//! tables. Ports that are withheld get no address and do not become ACTIVE; link orders are written by the
//! sweep, whose next discovery says whether they took. Without
//! [consent](snin_sm_database::judgement::Consent) nothing is judged: the sweep gives addresses and routes to all
//! that is there, and takes what is dead out of both.

mod compare;
mod configuration;
mod expected;
mod instruction;
mod leaving;
mod reason;
mod trial;

pub use compare::{Difference, What, check, differences, learn};
pub use configuration::{Configuration, ConfigurationMetrics, Mark, PortStatus};
pub use expected::{
    Application, Expected, ExpectedPort, ExpectedSwitch, Mode, Pattern, Quality, Tests,
};
pub use instruction::{Instruction, Limits};
pub use reason::{Action, Objection, PortReport, Reason};
