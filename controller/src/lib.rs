//! The daemon around the [core](snin_controller_core) of the connection controller: lines to agents, and cores of
//! the machine to pack on.

pub mod lines;
pub mod threads;
