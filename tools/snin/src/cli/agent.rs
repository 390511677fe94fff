//! `snin agent`, as an admin types it.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Format, socket};

/// What a running agent is asked.
#[derive(Subcommand, Debug)]
pub(crate) enum Agent {
    /// What it has counted, and whether it hears its controller; exit code 1 when it does not
    Status(AgentSocket),
    /// Its flows: to whom, along which tree until when, or why not
    Flows(AgentSocket),
    /// The queue pairs that it sends on
    Mesh(AgentSocket),
    /// How long a flow's messages took, from when they were due
    Histogram {
        /// The flow's number
        #[arg(long, default_value_t = 0, value_name = "N")]
        flow: u32,
        #[command(flatten)]
        socket: AgentSocket,
    },
    /// What has happened
    Events {
        /// After the event of this number
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        since: u64,
        #[command(flatten)]
        socket: AgentSocket,
    },
    /// Have it send messages of its own, to see whether a peer is reached
    Send {
        /// The peer: its port GUID, or its name, by which the controller is asked (SNIN_CONTROLLER_SOCKET)
        #[arg(long, value_name = "HOST")]
        peer: String,
        /// How many
        #[arg(long, default_value_t = 1, value_name = "N")]
        count: u64,
        /// Bytes of each
        #[arg(long, default_value_t = 64, value_name = "BYTES")]
        size: u64,
        /// So many a second; by default as many as go
        #[arg(long, value_name = "PER SECOND")]
        rate: Option<f64>,
        #[command(flatten)]
        socket: AgentSocket,
    },
}

/// An agent that runs.
#[derive(Args, Debug)]
pub(crate) struct AgentSocket {
    /// The agent's control socket; SNIN_AGENT_SOCKET in the environment names another one
    #[arg(long, default_value_os_t = socket("SNIN_AGENT_SOCKET", "/run/snin/agent.sock"), value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
    #[command(flatten)]
    pub(crate) format: Format,
}
