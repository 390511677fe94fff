//! Test support: the programs that judge what snin claims, started, waited for and ended.
//!
//! Nothing here belongs into a daemon. A [`Simulator`] holds a fabric; an [`OpenSm`] brings it up with
//! our tables and addresses; [`dump_fts`] and [`ibnetdiscover`] say what the fabric then holds. A program
//! that is not installed fails the test, in one line that names its Debian package: a judge who is absent
//! has not agreed.

mod console;
mod diags;
mod disk;
mod error;
mod etcd;
mod held;
pub mod netlist;
mod opensm;
mod program;
mod shared;
mod simulator;
mod systemd;

pub use console::{Client, Received};
pub use diags::{
    dump_fts, dump_mfts, iblinkinfo, ibnetdiscover, ibqueryerrors, ibroute, ibtracert,
    ibtracert_multicast, partition_table, smpquery,
};
pub use disk::{Disk, ends_of, flipped};
pub use error::JudgeError;
pub use etcd::{Etcd, EtcdFiles};
pub use held::{HeldNode, HeldPort};
pub use opensm::{BringUp, Keeper, OpenSm, Reaction};
pub use program::{Program, Running, Said, finish};
pub use shared::shared;
pub use simulator::{Simulated, Simulator};
pub use systemd::objections;
