//! The command line: the one definition that help, man pages and completions come from.

mod agent;
pub(crate) mod configuration;
pub(crate) mod controller;
mod faults;
pub(crate) mod jobs;
mod lab;
#[cfg(feature = "verbs")]
mod lat;
mod merge;
mod replay;
pub(crate) mod reserving;
mod sm;
mod software;
mod study;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use snin_fabric::Lmc;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::Engine;
use snin_lab::event;
use snin_protocol::Time;

pub(crate) use agent::{Agent, AgentSocket};
pub(crate) use faults::Faults;
pub(crate) use lab::{Lab, Policy, WINDOWS};
#[cfg(feature = "verbs")]
pub(crate) use lat::Lat;
pub(crate) use merge::Merge;
pub(crate) use replay::Replay;
pub(crate) use sm::{Instruction, Simulate, Sm, SmDaemon};
pub(crate) use software::{Emulate, Emulator, EmulatorSocket, Keeper, Sessions, Up};
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
    /// Which jobs met on which links, and what they may have lost: from files, nothing is written
    ///
    /// Reads what a site has: its fabric (ibnetdiscover), the tables in force (dump_fts), its jobs (sacct). For
    /// each job it reckons what it got of its links alone, and beside the others that ran; the same with D-mod-K,
    /// with adaptive routing at its best, and with links of its own. Exit code 1 when jobs shared links.
    Audit(Audit),
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
    /// Let faults happen to the whole system in virtual time, and judge every step
    ///
    /// Managers, controllers that share a store, and agents on an emulated fabric: cables cut, switches without
    /// power, processes killed and stopped, sessions cut, the store away, in storms; after each all is repaired
    /// and has to be well within a minute. Judges look at every piece that is sent and every table that is
    /// written: no link with two owners, nothing outside its grant, no loop, order kept, one manager that writes.
    /// The same seed gives the same bytes. Exit code 1 at the first thing that must not be, with the command that
    /// repeats it.
    Faults(Faults),
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
    /// Set links aside for a job, so that no other traffic is ever on them
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
    /// Give a job links of its own and its processes an environment that leads onto them
    #[command(subcommand)]
    Job(jobs::Job),
    /// What Slurm calls when a job begins and ends
    Hook(jobs::Hook),
    /// Have Slurm give its jobs links of their own, and place them where there are some
    #[command(subcommand)]
    Slurm(jobs::Slurm),
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

/// Where a daemon is asked: what a variable of the environment says (`snin up --env`), or else where it usually
/// is.
pub(crate) fn socket(variable: &str, usual: &str) -> PathBuf {
    let said = std::env::var_os(variable).filter(|path| !path.is_empty());
    said.map_or_else(|| PathBuf::from(usual), PathBuf::from)
}

/// The controller's control socket.
pub(crate) fn controller_socket() -> PathBuf {
    socket("SNIN_CONTROLLER_SOCKET", "/run/snin/controller.sock")
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
        /// `clos:LEAVES,SPINES,HOSTS[,PLANES]`, `fattree:RADIX[,PODS]`,
        /// `pods:PODS,LEAVES,AGGREGATION,CORES,HOSTS,GROUPS` (in each pod; a leaf has a cable to every aggregation
        /// switch of its pod, and those and the cores are in GROUPS, each to each), `torus:WIDTH,HEIGHT,HOSTS`,
        /// `dragonfly:GROUPS,SWITCHES,HOSTS` or `random:SWITCHES,CABLES,HOSTS[,SEED]`; hosts are counted per leaf,
        /// or per switch. Behind each, `,host=RATE` and `,up=RATE` say how fast the cables of hosts and between
        /// switches are where that is not 4xNDR: `clos:18,9,18,host=200G,up=400G`
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
    /// Say what can be granted on the tables in force, OpenSM's for example
    ///
    /// Walks the route from every switch with hosts to every address of every host. An address whose route stays
    /// on one tree is a choice of that tree. Prints how many trees pairs have with 1, 2, 4, ... of their
    /// addresses, and how much of random permutations gets links of its own, beside what snin-sm's tables would
    /// grant. Exit code 1 when a route stays on no tree.
    Trees(TreesOfTables),
    /// How evenly routes load the links, for programs that do not ask
    ///
    /// Every host sends to every other at its base address: pairs on the most loaded link between switches and on
    /// average, switches on the way, what a flow gets of its link in random matchings (effective bisection), and
    /// whether links wait for each other in a circle where there is one lane only.
    /// For the tables that snin-sm would write, beside D-mod-K and shortest paths, and for tables in force. Exit
    /// code 1 when a pair does not arrive.
    Routes(RoutesOfTables),
}

/// `snin topo routes`.
#[derive(Args, Debug)]
pub(crate) struct RoutesOfTables {
    #[command(flatten)]
    pub(crate) topology: TopologyFile,
    /// Tables in force: output of dump_fts, or OpenSM's opensm-lfts.dump; LIDs are those that the topology reports
    #[arg(long, value_name = "FILE")]
    pub(crate) tables: Option<PathBuf>,
    /// Of snin-sm's tables: addresses a port, as a power of two (0 to 7); by default as snin-sm chooses
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    /// Of snin-sm's tables: how many trees carry ordinary traffic; 0: all
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) unmanaged_trees: u16,
    /// Data lanes that every link between switches has: `lanes` and `dor` may take as many
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub(crate) lanes: u8,
    /// Random matchings
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) matchings: u32,
    /// Seed of the matchings
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Draw how loads are spread over the links: into a file, or on stdout in place of the text (`-`, or no file)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// `snin topo trees`.
#[derive(Args, Debug)]
pub(crate) struct TreesOfTables {
    #[command(flatten)]
    pub(crate) topology: TopologyFile,
    /// The tables: output of dump_fts, or OpenSM's opensm-lfts.dump; LIDs are those that the topology reports
    #[arg(long, value_name = "FILE")]
    pub(crate) tables: PathBuf,
    /// Pack this traffic too, and list its connections in the JSON: as for `snin plan`
    #[arg(long, value_name = "FILE|PATTERN")]
    pub(crate) traffic: Option<String>,
    /// Random permutations that are packed at each LMC
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) permutations: u64,
    /// Seed of the first one, and of random patterns
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// `snin audit`.
#[derive(Args, Debug)]
pub(crate) struct Audit {
    #[command(flatten)]
    pub(crate) topology: TopologyFile,
    /// The tables in force: output of dump_fts, or OpenSM's opensm-lfts.dump; LIDs are those that the topology
    /// reports. Without it: those that snin-sm would write
    #[arg(long, value_name = "FILE")]
    pub(crate) tables: Option<PathBuf>,
    /// The jobs: output of `sacct -P -X -o JobID,JobName,NodeList,Start,End`, or a file with these columns
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: PathBuf,
    /// Pairs of jobs that are named, the worst first
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) pairs: usize,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// A fabric as an argument of its own.
#[derive(Args, Debug)]
pub(crate) struct TopologyFile {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
    #[command(flatten)]
    pub(crate) names: NodeNames,
}

/// What a site calls its nodes.
#[derive(Args, Debug)]
pub(crate) struct NodeNames {
    /// Names of nodes in place of their descriptions: a line each, `0x0002c90300a1b2c3 "leaf 1"`, as OpenSM and
    /// infiniband-diags read it
    #[arg(long, value_name = "FILE")]
    pub(crate) node_name_map: Option<PathBuf>,
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
    #[command(flatten)]
    pub(crate) names: NodeNames,
    /// Who talks to whom: a CSV file `source,destination[,rate]`, an htsim `.cm` file, or a pattern
    /// (permutation, shift:K, transpose, bitreverse, bisection, ring, stencil2d, stencil3d, incast,
    /// alltoall, adversarial)
    ///
    /// In CSV, hosts are names (n1, n1/mlx5_0), port GUIDs, node descriptions or host numbers; rates are in
    /// bit/s (suffixes k, M, G). Hosts are numbered from 0 by (leaf GUID, leaf port).
    #[arg(long, value_name = "FILE|PATTERN")]
    pub(crate) traffic: Option<String>,
    /// Seed of random patterns: the same seed gives the same bytes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// trees, updown, minhop or dmodk
    #[arg(long, default_value_t = Engine::Trees, value_name = "ENGINE")]
    pub(crate) routing: Engine,
    /// Addresses a port, as a power of two (0 to 7); by default one for every tree, or as many as fit
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    /// How many trees carry ordinary traffic, that to base addresses: what is planned uses the others. 0: base
    /// addresses are spread over all trees, and all may be planned
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) unmanaged_trees: u16,
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
