//! The command line: the one definition that help, man pages and completions come from.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use snin_fabric::Lmc;
use snin_fabric::generate::Recipe;
use snin_fabric::routing::Engine;
use snin_protocol::Time;

use snin::lab::event::{self, Happening};

const EXIT_CODES: &str = "Exit codes:
  0  done, and all is well
  1  done, but something is irregular, wrong or different (or deferred, with --strict)
  2  the command line is wrong
  3  an input cannot be used: the line on stderr names file, line and value";

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
    Plan(Plan),
    /// Check tables and plans, whoever made them
    Verify(Verify),
    /// The subnet manager
    #[command(subcommand)]
    Sm(Sm),
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
    /// JSON on stdout instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: String,
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
    /// Draw the fabric with links coloured by owner, and Paull's matrix
    #[arg(long, value_name = "FILE")]
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
    #[arg(long, value_name = "FILE")]
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
}

#[derive(Args, Debug)]
pub(crate) struct Simulate {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: String,
    /// Let something happen once the fabric is up: `cut leaf3/20 @2s`, `restore leaf3/20 @3s`,
    /// `reboot spine1 @4s`, `off NODE @5s`, `on NODE @6s`; times from the start; can be repeated
    #[arg(long, value_name = "EVENT")]
    pub(crate) event: Vec<Happening>,
    /// MADs lost on every cable, such as 1% or 0.05%
    #[arg(long, default_value = "0%", value_name = "SHARE", value_parser = share)]
    pub(crate) drop: Share,
    /// How long an agent works at a MAD
    #[arg(long, default_value = "10us", value_name = "TIME", value_parser = event::time)]
    pub(crate) agent_latency: Time,
    /// Seed of all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Addresses a port, as a power of two (0 to 7); by default one for every tree, or as many as fit
    #[arg(long, value_name = "LMC", value_parser = lmc)]
    pub(crate) lmc: Option<Lmc>,
    #[command(flatten)]
    pub(crate) format: Format,
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
