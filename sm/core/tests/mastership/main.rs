//! Several managers in one subnet and one virtual time, on the emulator.

#![allow(clippy::disallowed_macros, reason = "figures are printed for those who ask for them")]

mod foreign;
mod handover;
mod mirrored;
mod storm;
mod subnet;
mod takeover;
mod two;
