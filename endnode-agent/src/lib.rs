//! The end-node agent: a mesh of queue pairs that sends, in each window, on the tree it was granted.
#![cfg_attr(feature = "verbs", doc = "")]
#![cfg_attr(
    feature = "verbs",
    doc = "A whole program with an [`Agent`] in it, `examples/echo.rs`:"
)]
#![cfg_attr(feature = "verbs", doc = "")]
#![cfg_attr(feature = "verbs", doc = "```no_run")]
#![cfg_attr(feature = "verbs", doc = include_str!("../examples/echo.rs"))]
#![cfg_attr(feature = "verbs", doc = "```")]
#![forbid(unsafe_code)]

pub mod cli;
pub mod replay;

#[cfg(feature = "verbs")]
mod agent;
#[cfg(feature = "verbs")]
mod arrivals;
#[cfg(feature = "verbs")]
mod connections;
#[cfg(feature = "verbs")]
pub mod daemon;
#[cfg(feature = "verbs")]
mod error;
#[cfg(feature = "verbs")]
mod flow;
#[cfg(feature = "verbs")]
mod io;
#[cfg(feature = "verbs")]
mod jobs;
#[cfg(feature = "verbs")]
mod link_tests;
#[cfg(feature = "verbs")]
mod message;
#[cfg(feature = "verbs")]
mod packet_numbers;
#[cfg(feature = "verbs")]
mod partial;
#[cfg(feature = "verbs")]
mod port_counters;
#[cfg(feature = "verbs")]
mod programs;
#[cfg_attr(
    not(feature = "verbs"),
    allow(dead_code, reason = "without an agent they are only documented")
)]
mod settings;
#[cfg(feature = "verbs")]
mod shared;
#[cfg(feature = "verbs")]
mod snapshot;

#[cfg(feature = "verbs")]
pub use agent::{Agent, Driver, check_config};
#[cfg(feature = "verbs")]
pub use error::AgentError;
#[cfg(feature = "verbs")]
pub use flow::Flow;
#[cfg(feature = "verbs")]
pub use message::{Incoming, NotSent, Outgoing};
pub use settings::Settings;
#[cfg(feature = "verbs")]
pub use snapshot::{IoCounters, Snapshot};
pub use snin_agent_core::{
    BreakReason, ControllerState, Counters, Decline, FlowId, FlowStatus, Notice, PairState,
    PairStatus, Wanted,
};
