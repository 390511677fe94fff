//! The lab of the `snin` command: the cores joined to the emulated fabric, for the command and for
//! benchmarks.

pub mod lab;
#[cfg(feature = "verbs")]
pub mod lat;
#[cfg(feature = "verbs")]
pub mod verbs_lab;
