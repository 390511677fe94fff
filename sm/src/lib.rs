//! The daemon around the [core](snin_sm_core) of the subnet manager: ports of management datagrams, and what
//! every daemon has.

pub mod daemon;
pub mod port;
