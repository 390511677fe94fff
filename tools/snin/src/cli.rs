//! The command line: the one definition that help, man pages and completions come from.

mod agent;
pub(crate) mod configuration;
pub(crate) mod controller;
#[cfg(feature = "verbs")]
mod lat;
mod merge;
mod replay;
pub(crate) mod reserving;
mod software;
mod study;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};
use snin_fabric::generate::Recipe;
use snin_fabric::routing::Engine;
use snin_fabric::{Guid, Lmc};
use snin_lab::bound::Limit;
use snin_lab::event::{self, ScenarioEvent};
use snin_protocol::Time;

pub(crate) use agent::{Agent, AgentSocket};
#[cfg(feature = "verbs")]
pub(crate) use lat::Lat;
pub(crate) use merge::Merge;
pub(crate) use replay::Replay;
pub(crate) use software::{Emulate, Emulator, EmulatorSocket, Up};
pub(crate) use study::{Reconfiguration, Study};

/// What the exit code means.
pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  done, and all is well
  1  done, but something is irregular, wrong, missing or different (or deferred, with --strict)
  2  the command line is wrong
  3  an input cannot be used, an output cannot be written, or a daemon does not answer: the line on stderr names
     file, line and value, or the daemon";

/// Plan and check a strictly non-interfering InfiniBand fabric: every connection gets a path of its own,
/// so that no two ever share a link.
#[derive(Parser, Debug)]
#[command(name = "snin", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make a fabric, or say what a fabric is
    #[command(subcommand)]
    Topo(Topo),
    /// Compute tables, and pack one window of connections onto routing trees
    Plan(PlanOrSlices),
    /// Check tables and plans, of snin or of others
    Verify(Verify),
    /// The subnet manager
    #[command(subcommand)]
    Sm(Sm),
    /// What is expected of the fabric: learnt, compared, applied
    ///
    /// The running subnet manager enforces it where its settings or the cluster consent: ports that are not as
    /// expected are disabled, ports to be tested are used when they have passed.
    #[command(subcommand)]
    Config(configuration::Config),
    /// Ports of which something is expected: how they are, and what an operator wants of them
    #[command(subcommand)]
    Port(configuration::Port),
    /// Carry the same traffic with static routing, random paths and strictly without interference
    ///
    /// An emulated fabric is brought up by the subnet manager; connections are planned window by window; in
    /// some of the windows the emulated hosts send, three times: by D-mod-K tables (static), on a random
    /// tree a flow (ecmp), and on the tree that was granted (snin). Exit code 1 when any link had two
    /// owners.
    Lab(Lab),
    /// Measure latency or bandwidth of a path on real verbs, as perftest does
    ///
    /// Without --peer it waits for a client, which says what is to be measured. Latency of sends and writes
    /// is half the time from one message to the next (ping-pong), with --rate the time from when a message
    /// should have been sent to its acknowledgement. Exit code 3 without an RDMA device.
    #[cfg(feature = "verbs")]
    Lat(Lat),
    /// Measure latency or bandwidth of a path on real verbs: not in this build
    #[cfg(not(feature = "verbs"))]
    Lat(Anything),
    /// Repeat a published experiment, with this project's mechanism beside the published one
    #[command(subcommand)]
    Study(Study),
    /// Run a whole fabric as processes on this machine: emulated switches, subnet manager, controller, agents
    ///
    /// No root, no hardware. Without --script it runs until Ctrl-C. With one, random permutations are sent
    /// window by window while things happen, and figures follow; exit code 1 when a directed link had two
    /// owners at one moment, or not everything was granted and sent. Nothing is left over in any case.
    Up(Up),
    /// Serve a fabric in software, to which real programs attach: snin-sm and agents, OpenSM, infiniband-diags
    ///
    /// It speaks ibsim's protocol: `IBSIM_SOCKNAME=NAME ibsim-run ibnetdiscover` runs there, and `snin-sm --ibsim
    /// NAME` manages it. It ends with a signal.
    Emulate(Emulate),
    /// Ask a running `snin emulate`, or let something happen to its fabric
    #[command(subcommand)]
    Emulator(Emulator),
    /// Ask a running agent
    #[command(subcommand)]
    Agent(Agent),
    /// Ask a running controller
    #[command(subcommand)]
    Controller(controller::Controller),
    /// Show the way from one host to another, by the running controller
    Path(controller::PathOf),
    /// Show whose a directed link is, by the running controller
    Owner(controller::OwnerOf),
    /// Set links aside for a job, so that nobody else is ever on them
    ///
    /// What a job's hosts send to each other goes over its slice's links only, and nothing else does. Root, the
    /// controller's user, operators and launchers may change slices (`operators`, `launchers` in the
    /// controller's file).
    #[command(subcommand)]
    Slice(reserving::Slice),
    /// Keep the ports of two hosts for the connection between them, now or at a later time
    ///
    /// Requests are admitted against each other when they are made. When the time comes, connections from one
    /// host to the other are chosen before all others at their ports. `snin controller requests` lists them.
    Request(reserving::RequestOf),
    /// Give a request back
    Release(reserving::ReleaseOf),
    /// Keep the certificates by which daemons know each other
    #[command(subcommand)]
    Pki(controller::Pki),
    /// Tell a daemon's core again what it was told while its daemon recorded (--record)
    ///
    /// A bug report is a recording: the core does again what it did, with no fabric and in no time. Exit code 1
    /// when something else comes out than when it was recorded.
    Replay(Replay),
    /// Write the man pages into a directory
    Man {
        /// Where to; made if it does not exist
        directory: PathBuf,
    },
    /// Print shell completions
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// What is asked of a command that is not in this build.
#[cfg(not(feature = "verbs"))]
#[derive(Args, Debug)]
pub(crate) struct Anything {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<String>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Topo {
    /// Print a generated fabric as ibnetdiscover would
    Generate {
        /// `clos:LEAVES,SPINES,HOSTS[,PLANES]` or `fattree:RADIX[,PODS]`; hosts are counted per leaf
        recipe: Recipe,
        /// Take away this many cables between switches, chosen at random
        #[arg(long, default_value_t = 0, value_name = "CABLES")]
        cut: usize,
        /// Seed of the choice
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
    },
    /// Say which Clos a fabric is and name every irregularity, or say why it is none
    ///
    /// Exit code 1 when anything is irregular.
    Check {
        #[command(flatten)]
        topology: TopologyFile,
        #[command(flatten)]
        format: Format,
    },
}

/// A fabric as an argument of its own.
#[derive(Args, Debug)]
pub(crate) struct TopologyFile {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
}

#[derive(Args, Debug)]
pub(crate) struct Format {
    /// JSON: into a file, beside the text, or on stdout in its place (`-`, or no file)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

/// `snin plan` with its own options, or one of its subcommands.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PlanOrSlices {
    #[command(subcommand)]
    pub(crate) slices: Option<PlanSlices>,
    #[command(flatten)]
    pub(crate) plan: Plan,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PlanSlices {
    /// Replay a list of jobs, first come, first served, each with links set aside for it alone
    ///
    /// Reports how much of the fabric the jobs keep busy until the last of them begins, and how long it takes
    /// to find hosts and links, refusals included. Exit code 1 when a job fits not even an empty fabric.
    Slices(Slices),
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false, args = ["jobs", "generate"])]
pub(crate) struct JobList {
    /// A CSV file `id,hosts,arrival,run`, all whole numbers; times in any one unit
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// Make so many jobs instead: sizes exponential with mean 8, all there from the start, running 20 to
    /// 3,000 units of time
    #[arg(long, value_name = "N")]
    pub(crate) generate: Option<usize>,
}

#[derive(Args, Debug)]
pub(crate) struct Slices {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as fattree:36
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
    #[command(flatten)]
    pub(crate) list: JobList,
    /// Seed of made jobs: the same seed gives the same jobs
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY", required = true)]
    pub(crate) topology: Option<String>,
    /// Who talks to whom: a CSV file `source,destination[,rate]`, an htsim `.cm` file, or a pattern
    /// (permutation, shift:K, transpose, bitreverse, bisection, ring, stencil2d, stencil3d, incast,
    /// alltoall, adversarial)
    ///
    /// In CSV, hosts are port GUIDs, node descriptions or host numbers; rates are in bit/s (suffixes k, M,
    /// G). Hosts are numbered from 0 by (leaf GUID, leaf port).
    #[arg(long, value_name = "FILE|PATTERN")]
    pub(crate) traffic: Option<String>,
    /// Seed of random patterns: the same seed gives the same bytes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// trees, minhop or dmodk
    #[arg(long, default_value_t = Engine::Trees, value_name = "ENGINE")]
    pub(crate) routing: Engine,
    /// Addresses a port, as a power of two (0 to 7); by default one for every tree, or as many as fit
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    /// Write the tables here: dump_fts.txt, and opensm-lfts.dump and guid2lid for `opensm -R file`
    #[arg(long, value_name = "DIR")]
    pub(crate) lfts: Option<PathBuf>,
    /// Draw the fabric with links coloured by owner, and Paull's matrix: into a file, or on stdout in place of the
    /// text (`-`, or no file)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) svg: Option<PathBuf>,
    /// Exit code 1 when anything is deferred or refused
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Args, Debug)]
pub(crate) struct Verify {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
    /// A table dump (dump_fts or opensm-lfts.dump), or a directory that holds one; guid2lid beside it is
    /// read too. LIDs come from the plan, else from guid2lid, else from the topology.
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) lfts: PathBuf,
    /// A plan, as `snin plan --json` prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

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
    /// Its control socket; by default the one in /run/snin-sm, if there is but one
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
    /// Is non-interference in effect? strict: tree 0, which carries all that asks nobody, is never granted;
    /// shared: all trees are; off: nothing is
    #[arg(long, value_enum, default_value_t = Policy::Shared)]
    pub(crate) policy: Policy,
    /// How many hosts, chosen at random, have no agent: what the pattern has for them they send without
    /// asking, on tree 0, on a lane that comes after all others
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) unmanaged: u32,
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

/// A time that is not zero.
fn some_time(text: &str) -> Result<Time, String> {
    let time = event::time(text)?;
    if time == Time::ZERO { Err("nothing can be sent in no time".to_owned()) } else { Ok(time) }
}

/// `400G`, `2.5G`, `100M`, or bit/s.
fn rate(text: &str) -> Result<u64, String> {
    let units = [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (1e6..=1e14).contains(&(number * factor)).then_some((number * factor) as u64)
    });
    parsed
        .ok_or_else(|| format!("`{text}` is no rate of a link (expected 1M to 100T, such as 400G)"))
}

/// Parts of a million.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share(pub(crate) u32);

fn share(text: &str) -> Result<Share, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Share((percent * 1e4) as u32)),
        _ => Err("expected a share such as 1% or 0.05%".to_owned()),
    }
}

fn lmc(text: &str) -> Result<Lmc, String> {
    let number = text.parse().ok().and_then(Lmc::new);
    number.ok_or_else(|| "an LMC is 0 to 7".to_owned())
}
