//! `snin sm`, as an admin types it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use snin_fabric::{Guid, Lmc};
use snin_lab::event::{self, ScenarioEvent};
use snin_protocol::Time;

use super::{Format, Merge, Share, lmc, share, some_time};

#[derive(Subcommand, Debug)]
pub(crate) enum Sm {
    /// Bring up an emulated fabric in virtual time; count SMPs, and what each event costs
    ///
    /// Exit code 1 when the checkers find anything wrong with the tables that the switches hold at the end,
    /// or when anything is missing.
    Simulate(Simulate),
    /// Say what the running daemon manages, and what is missing
    ///
    /// Exit code 1 when the subnet is not up by this daemon, or anything is missing.
    Status {
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Have the running daemon look at the whole fabric, and wait until all is as it should be
    Sweep {
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Have the running daemon give every port another M_Key, where it generates them, and wait until all have it
    RotateKeys {
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Say which subnet managers there are: who is master, who stands by, and why
    Managers {
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Say whom the cluster's service chose as configuration manager, and whether the running daemon may enforce
    ///
    /// Exit code 1 when the service cannot be asked.
    Cluster {
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Have the running daemon, the master, tell a standby to do nothing until it is told to stand by
    Disable(Instruction),
    /// Have the running daemon, the master, tell a disabled manager to stand by again
    Standby(Instruction),
    /// Have the running daemon, the master, tell a standby to look at the subnet itself
    Discover(Instruction),
    /// Give the running daemon another priority until it is started again: masters hand over by it
    Priority {
        /// The highest is master
        #[arg(value_name = "0..15", value_parser = clap::value_parser!(u8).range(0..=15))]
        value: u8,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Tell the running daemon, for a health monitor, that a node has joined or left: it looks there at once
    Health {
        /// The node's GUID
        node: Guid,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Print the fabric as the running daemon knows it: as ibnetdiscover prints it
    Dump {
        /// Who has which addresses instead: OpenSM's guid2lid
        #[arg(long, conflicts_with_all = ["json", "database"])]
        guid2lid: bool,
        /// The subnet database instead, for `snin sm merge`
        #[arg(long, conflicts_with = "json")]
        database: bool,
        /// With --database: what the subnet is called in it; by default by its master's GUID
        #[arg(long, requires = "database", value_name = "NAME")]
        name: Option<String>,
        /// With --database: M_Keys too
        #[arg(long, requires = "database")]
        secrets: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Make one subnet database of several, and say what that changes
    ///
    /// Exit code 1 when clocks could not order something, or ran ahead.
    Merge(Merge),
    /// Print the forwarding tables of the running daemon, as OpenSM dumps them
    Lfts {
        /// Of one switch only
        #[arg(long, value_name = "GUID")]
        switch: Option<Guid>,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Print what happened, a line of JSON an event
    Events {
        /// Only events after this number
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        since: u64,
        /// And everything that happens from now on
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
}

/// What another manager is told.
#[derive(Args, Debug)]
pub(crate) struct Instruction {
    /// The GUID of the other manager's port, as `snin sm managers` lists it
    #[arg(value_name = "GUID")]
    pub(crate) guid: Guid,
    #[command(flatten)]
    pub(crate) daemon: SmDaemon,
}

/// A daemon that runs.
#[derive(Args, Debug)]
pub(crate) struct SmDaemon {
    /// Its control socket; by default SNIN_SM_SOCKET in the environment, or the one in /run/snin-sm, if there is
    /// but one
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// How long an answer may take
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = some_time)]
    pub(crate) patience: Time,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
    /// Let something happen once the fabric is up: `cut leaf3/20 @2s`, `restore leaf3/20 @3s`,
    /// `reboot spine1 @4s`, `off NODE @5s`, `on NODE @6s`; times from the start; can be repeated
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Vec<ScenarioEvent>,
    /// MADs lost on every cable, such as 1% or 0.05%
    #[arg(long, default_value = "0%", value_name = "SHARE", value_parser = share)]
    pub(crate) drop: Share,
    /// Manage the tables of service levels and virtual lanes too, by OpenSM's defaults
    #[arg(long)]
    pub(crate) qos: bool,
    /// How long an agent works at a MAD
    #[arg(long, default_value = "10us", value_name = "TIME", value_parser = event::time)]
    pub(crate) agent_latency: Time,
    /// Seed of all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Addresses a port, as a power of two (0 to 7); by default one for every tree, or as many as fit
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    /// Write the tables that the switches hold at the end here, for `snin verify`: dump_fts.txt,
    /// opensm-lfts.dump and guid2lid
    #[arg(long, value_name = "DIR")]
    pub(crate) lfts: Option<PathBuf>,
    /// Write every MAD that the manager sends or gets to this file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}
