//! The cores joined to the emulated fabric: adapters between port traits and the emulator, and the virtual
//! clock that drives both.

pub mod carry;
pub mod event;
pub mod subnet;
pub mod windows;
