//! Test support: the programs that judge what snin claims, started, waited for and ended.
//!
//! Nothing here belongs into a daemon. A [`Simulator`] holds a fabric; an [`OpenSm`] brings it up with
//! our tables and addresses; [`dump_fts`] and [`ibnetdiscover`] say what the fabric then holds. A program
//! that is not installed fails the test, in one line that names its Debian package: a judge who is absent
//! has not agreed.

mod diags;
mod error;
mod opensm;
mod program;
mod simulator;

pub use diags::{dump_fts, ibnetdiscover};
pub use error::JudgeError;
pub use opensm::{BringUp, OpenSm};
pub use program::{Program, Said, finish};
pub use simulator::Simulator;
