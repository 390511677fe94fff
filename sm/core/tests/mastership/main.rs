//! Several managers in one subnet and one virtual time, on the emulator.

#![allow(clippy::disallowed_macros, reason = "figures are printed for those who ask for them")]

mod bursts;
mod consented;
mod elected;
mod foreign;
mod handover;
mod mirrored;
mod opa_fm;
mod ports;
#[allow(dead_code, reason = "the election's tests use all of it")]
#[path = "../../../mastership/tests/support/store.rs"]
mod store;
mod storm;
mod subnet;
mod takeover;
mod two;
