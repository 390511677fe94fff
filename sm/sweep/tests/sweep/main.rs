//! The sweep core against the emulator: bring-up, changes, every intermediate state, faults, scale.

#![allow(clippy::disallowed_macros, reason = "figures are printed for those who ask for them")]

mod agents;
mod bring_up;
mod changes;
#[path = "../../../../fabric/tests/support/circles.rs"]
mod circles;
mod defaults;
mod faults;
mod granted_lanes;
mod groups;
mod keys;
mod laned;
mod limits;
#[path = "../support/odd.rs"]
mod odd;
mod partitions;
mod ports;
mod rotation;
mod scale;
mod scenarios;
mod silence;
mod states;
mod support;
mod upgrade;
mod vanished;
mod wire;
