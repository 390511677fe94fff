//! The daemon: one thread around one poll, between a core that decides and a port that carries.
//!
//! | module | what is in it |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`mod@settings`] | the configuration file: every key, with OpenSM's names where the meaning is the same |
//! | [`mod@run`] | the loop |
//! | [`wire`] | the port and what waits for room on it |
//! | [`demultiplexer`] | whose a datagram is |
//! | [`memory`] | addresses and trees over restarts, in OpenSM's guid2lid and beside it |
//! | [`kept`] | groups, services and subscriptions over restarts |
//! | [`storage`] | both on a disk that may be full or gone: what failed is tried again |
//! | [`expected`] | the expected configuration as a file |
//! | [`configured`] | what operators ask of it |
//! | [`applying`] | how versions of it come into force |
//! | [`versions`] | its versions in a store |
//! | [`sharing`] | and in the cluster's service, where every manager has the newest |
//! | [`outlets`] | where it tells what happens, and where it is asked |
//! | `tell` | what it tells |
//! | `requests` | what operators ask, and what it answers |
//! | `answering` | how an answer goes out: at once, beside the loop, or when something is done |
//! | `exported` | what `/metrics` says |
//! | [`activity`] | what one time of being busy came to |
//! | [`dumps`] | tables as files |
//! | `faults` | what lasts and somebody has to see to, as events |
//! | [`loads`] | how evenly they load the links |
//! | [`views`] | sessions with controllers: the fabric as it is |
//! | [`mirroring`] | sessions with other managers: the subnet database, which a standby mirrors |
//! | [`consenting`] | the cluster's service: who is configuration manager, and may enforce |
//! | [`partition_file`] | who is a member of which partition |
//! | [`summary`] | what `--once` and `snin sm status` say of a subnet |
//!
//! Everything that waits - answers, timers, signals, commands, computations - waits in the same poll, so that
//! no lock guards anything and all events have an order.

pub mod activity;
pub mod applying;
pub mod checking;
pub mod choices;
pub mod cli;
pub mod configured;
pub mod consenting;
pub mod demultiplexer;
pub mod dumps;
pub mod expected;
pub mod failure;
pub mod kept;
pub mod link_tests;
pub mod loads;
pub mod memory;
pub mod mirroring;
pub mod opensm_conf;
pub mod outlets;
pub mod partition_file;
pub mod preferring;
pub mod recording;
pub mod run;
pub mod settings;
pub mod sharing;
pub mod storage;
pub mod summary;
pub mod versions;
pub mod views;
pub mod wire;

mod answering;
mod exported;
mod faults;
mod lines;
mod reading;
mod reports;
mod requests;

pub use failure::Failure;
