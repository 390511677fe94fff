//! The daemon as a process, with agents over real sessions: what is granted, what survives a kill, who may ask.

mod agents;
mod asking;
mod disks;
mod kills;
#[cfg(feature = "etcd")]
mod leading;
mod link_tests;
mod process;
mod recording;
mod reserving;
mod rogue;
mod roles;
mod watcher;
