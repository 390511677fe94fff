//! `snin lab`, as an admin types it.

use std::path::PathBuf;

use clap::{Args, value_parser};
use snin_fabric::Lmc;
use snin_lab::bound::Limit;
use snin_lab::event::{self, ScenarioEvent};
use snin_protocol::Time;

use super::{Format, Share, lmc, rate, share, some_time};

#[derive(Args, Debug)]
pub(crate) struct Lab {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY", required_unless_present = "list_patterns")]
    pub(crate) topology: Option<String>,
    /// Real verbs instead of virtual time: hosts are devices of the kernel's rdma_rxe, and what they send
    /// crosses the emulated fabric frame by frame
    ///
    /// Needs root, /dev/net/tun and rdma_rxe (exit code 3 without; `make lab` brings a machine that has
    /// them). Of the other options, --traffic, --seed, --windows, --bandwidth (10M), --lmc, --json and --html
    /// count. Exit code 1 when frames took another path than they should, or the machine was too busy.
    #[cfg(feature = "verbs")]
    #[arg(long)]
    pub(crate) verbs: bool,
    /// With --verbs: forward by these tables (as `snin plan --lfts` and `snin sm simulate --lfts` write them,
    /// or dump_fts), not by those that the subnet manager wrote
    #[cfg(feature = "verbs")]
    #[arg(long, value_name = "FILE", requires = "verbs")]
    pub(crate) lfts: Option<PathBuf>,
    /// With --verbs: run this command of the shell with the hosts as devices snin0 and following, and report which
    /// links carried whose frames. Of the other options --bandwidth (1G), --lmc, --lfts and --json count; with
    /// --lfts the addresses are those that the topology reports: the fabric is as another manager brought it up
    ///
    /// Its exit code is in the report; ours is 1 where that is not 0.
    #[cfg(feature = "verbs")]
    #[arg(long, value_name = "COMMAND", requires = "verbs")]
    pub(crate) run: Option<String>,
    /// Who talks to whom: a pattern (see --list-patterns), a CSV file, or an htsim `.cm` file
    ///
    /// What is deferred comes back in the next window. When all is done, the same pattern is asked for again
    /// with the next seed.
    #[arg(long, default_value = "permutation", value_name = "FILE|PATTERN")]
    pub(crate) traffic: String,
    /// How many windows are planned; by default 60, for a file as many as it takes to serve it once
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) windows: Option<u32>,
    /// Virtual time for which hosts send in each window
    #[arg(long, default_value = "100us", value_name = "TIME", value_parser = some_time)]
    pub(crate) slice: Time,
    /// In how many of the windows, spread evenly, static and ecmp carry the same traffic too; where there are
    /// fewer, in all
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) samples: u32,
    /// How long a window is; by default 1/60 s
    #[arg(long, default_value = "16666667ns", value_name = "TIME", value_parser = some_time)]
    pub(crate) window: Time,
    /// For how many windows each connection has something to send
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) hold: u32,
    /// What happens to the fabric: `cut leaf3/20 @window 30`, `restore leaf3/20 @1.5ms`, `reboot spine1 @2ms`
    ///
    /// A time counts from the begin of the first window; a window's event comes in the middle of its slice.
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Vec<ScenarioEvent>,
    /// Is non-interference in effect? strict: the one tree that carries all traffic without a grant is never
    /// granted;
    /// shared: all trees are; off: nothing is
    #[arg(long, value_enum, default_value_t = Policy::Shared)]
    pub(crate) policy: Policy,
    /// How many hosts, chosen at random, have no agent: what the pattern has for them they send without
    /// asking, to base addresses, on a lane that comes after all others
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) unmanaged: u32,
    /// How many hosts (50%: every other one) flood base addresses and ask for nothing: what that does to granted
    /// traffic, and what arrives of theirs, with one lane for all and with a lane for granted traffic alone
    ///
    /// They send as fast as their links are, to sixteen hosts at a time, packet by packet. The manager programs
    /// the lanes into every port, host ports included. The rest of the report is of runs without them. A page
    /// (--html) shows six windows of it by default, with 50%.
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "unmanaged")]
    pub(crate) ordinary: Option<Share>,
    /// With --ordinary: what ordinary traffic gets at least of a link that granted traffic wants all of; up to 50%
    #[arg(long, default_value = "5%", value_name = "SHARE", value_parser = share, requires = "ordinary")]
    pub(crate) unmanaged_share: Share,
    /// The most queue pairs of an agent: two a connection at a time are enough, one of them made for the
    /// window to come
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = value_parser!(u32).range(2..))]
    pub(crate) queue_pairs: u32,
    /// No packet may wait longer behind others inside the fabric: `max=2us`, `p99=500ns`
    #[arg(long, value_name = "BOUND")]
    pub(crate) bound: Vec<Limit>,
    /// uc: no acknowledgements; rc: one for up to 32 packets, on a lane of their own
    #[arg(long, value_enum, default_value_t = Transport::Uc)]
    pub(crate) transport: Transport,
    /// How far the clock of an agent may be from the controller's
    #[arg(long, default_value = "1us", value_name = "TIME", value_parser = event::time)]
    pub(crate) skew: Time,
    /// How long a message between agent and controller takes, about
    #[arg(long, default_value = "20us", value_name = "TIME", value_parser = some_time)]
    pub(crate) control_latency: Time,
    /// How many of them are lost
    #[arg(long, default_value = "0%", value_name = "SHARE", value_parser = share)]
    pub(crate) control_loss: Share,
    /// Seed of random patterns, paths, clocks and losses: the same seed gives the same bytes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Bit/s of every link, such as 400G; by default what the topology says, 400G where it says nothing
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) bandwidth: Option<u64>,
    /// Most payload of a packet in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, default_value_t = 4096, value_name = "BYTES")]
    pub(crate) mtu: u16,
    /// Addresses a port, as a power of two (0 to 7); by default one for every tree, or as many as fit
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    #[command(flatten)]
    pub(crate) format: Format,
    /// Write a report with pictures here: one page that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Name the patterns, and do nothing else
    #[arg(long)]
    pub(crate) list_patterns: bool,
}

/// Windows of a pattern, where the user names no number.
pub(crate) const WINDOWS: u32 = 60;

/// See the controller's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Policy {
    Strict,
    Shared,
    Off,
}

impl Lab {
    /// How many trees base addresses lead along; 0: all.
    pub(crate) fn unmanaged_trees(&self) -> u16 {
        u16::from(self.policy == Policy::Strict)
    }
}

impl From<Policy> for snin_controller_core::config::Policy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Strict => Self::Strict,
            Policy::Shared => Self::Shared,
            Policy::Off => Self::Off,
        }
    }
}

/// See the data plane's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Transport {
    Uc,
    Rc,
}

impl From<Transport> for snin_emulator::data::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Uc => Self::Uc,
            Transport::Rc => Self::Rc,
        }
    }
}
