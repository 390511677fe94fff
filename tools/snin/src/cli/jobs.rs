//! `snin job`, `snin hook` and `snin slurm`, as launchers and admins type them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use snin_protocol::Time;
use snin_protocol::collective::CollectiveKind;

use super::reserving::SliceHosts;
use super::{Format, NodeNames, some_time};

/// Links, and an environment that leads onto them, for a job of any launcher.
#[derive(Subcommand, Debug)]
pub(crate) enum Job {
    /// Set links aside for a job, and say which trees its nodes have. Exit code 1 when there is no room
    Begin {
        /// The job: a name such as pbs/4711; letters, digits and . _ : / @ + -
        #[arg(value_name = "JOB")]
        job: String,
        #[command(flatten)]
        hosts: SliceHosts,
        /// Programs of other jobs run on its hosts too: queries for paths, which name no job, are not answered by
        /// its addresses then
        #[arg(long)]
        shared: bool,
        /// How its hosts send: ring, bidir, hd, alltoall, grid:AxB or halo:AxB. Each gets one tree of its own for
        /// all that it sends, and agents of its hosts take part in the collective
        #[arg(long, value_name = "KIND")]
        collective: Option<CollectiveKind>,
        /// How long to wait for room; by default not at all
        #[arg(long, value_name = "TIME", value_parser = some_time)]
        wait: Option<Time>,
        #[command(flatten)]
        settings: JobSettings,
    },
    /// Give a job's links back. No links is no error
    End {
        /// The job
        #[arg(value_name = "JOB")]
        job: String,
        #[command(flatten)]
        settings: JobSettings,
    },
    /// Print what a process of the job on a host needs in its environment, as lines for the shell
    ///
    /// The trees of the job are written into the folder `jobs`, unless --dry-run is given.
    Env {
        /// The job
        #[arg(value_name = "JOB")]
        job: String,
        /// On which host the process runs: its name or port GUID
        #[arg(long, value_name = "HOST")]
        host: String,
        /// For which libraries; by default for all
        #[arg(long = "for", value_enum, value_name = "LIBRARY,...", value_delimiter = ',')]
        libraries: Vec<Library>,
        /// One tree for all peers of the process, by the libraries' own variables: for what LD_PRELOAD does not
        /// reach
        #[arg(long)]
        one_tree: bool,
        /// The user whose programs may ask the agent for the job's trees
        #[arg(long, value_name = "UID")]
        uid: Option<u32>,
        /// Only show it
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        settings: JobSettings,
    },
    /// Which pairs of a job's hosts asked their agents for a tree, and which asked at one end only (exit code 1)
    Stats {
        /// The job
        #[arg(value_name = "JOB")]
        job: String,
        /// The control sockets of the agents; by default this node's
        #[arg(long, value_name = "SOCKET,...", value_delimiter = ',')]
        agents: Vec<PathBuf>,
        #[command(flatten)]
        settings: JobSettings,
    },
    /// Give back the links of Slurm's jobs that squeue does not name any more
    Reconcile {
        /// Again and again after this time; by default once
        #[arg(long, value_name = "TIME", value_parser = some_time)]
        every: Option<Time>,
        #[command(flatten)]
        settings: JobSettings,
    },
}

/// Libraries whose environment is known.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Library {
    /// UCX
    Ucx,
    /// Open MPI
    Openmpi,
    /// MPICH and its kin
    Mpich,
    /// NCCL
    Nccl,
    /// libfabric
    Libfabric,
}

/// What Slurm calls; installed by `snin slurm install`.
#[derive(Args, Debug)]
pub(crate) struct Hook {
    /// Which of them
    #[arg(value_enum, value_name = "HOOK")]
    pub(crate) hook: HookName,
    /// The file of settings
    #[arg(long, default_value = "/etc/snin/jobs.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Slurm's hooks.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HookName {
    /// Beside slurmctld, before a job begins: sets a slice aside
    PrologSlurmctld,
    /// Beside slurmctld, after it ended: gives it back
    EpilogSlurmctld,
    /// On each of its nodes, before: fetches its trees, looks whether the agent answers
    Prolog,
    /// On each of its nodes, after: forgets them
    Epilog,
    /// For each of its tasks: prints the task's environment
    TaskProlog,
    /// After each of its tasks: tells the user what the node's port counted, where SNIN_STATS=1 asks for that
    TaskEpilog,
}

/// Slurm beside snin.
#[derive(Subcommand, Debug)]
pub(crate) enum Slurm {
    /// Say what Slurm's files lack for jobs to have links of their own; with --write change them
    Install(Install),
    /// Print topology.conf, from a fabric or from the running controller; with --write keep it
    Topology(TopologyOf),
}

/// What is installed, and where.
#[derive(Args, Debug)]
pub(crate) struct Install {
    /// Slurm's file
    #[arg(long, default_value = "/etc/slurm/slurm.conf", value_name = "FILE")]
    pub(crate) slurm_conf: PathBuf,
    /// Where the hooks are written
    #[arg(long, default_value = "/etc/slurm/snin", value_name = "DIR")]
    pub(crate) hooks: PathBuf,
    /// The hooks' file of settings
    #[arg(long, default_value = "/etc/snin/jobs.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The plugin with the options --snin and --snin-wait, by default the one installed with this program; where
    /// it is not there, users ask by --comment
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<PathBuf>,
    /// Have jobs wait for the fewest leaves that have room for them (a job_submit script)
    #[arg(long)]
    pub(crate) leaves: bool,
    /// How long a job waits for them before it takes more
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = some_time, requires = "leaves")]
    pub(crate) leaf_wait: Time,
    /// Do it
    #[arg(long)]
    pub(crate) write: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// A fabric as Slurm has it.
#[derive(Args, Debug)]
pub(crate) struct TopologyOf {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe; by default the controller is asked
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: Option<String>,
    #[command(flatten)]
    pub(crate) names: NodeNames,
    /// topology.yaml (Slurm 25.05 and later) instead
    #[arg(long)]
    pub(crate) yaml: bool,
    /// Write it into this file where it says something else, and have slurmctld read it
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) write: Option<PathBuf>,
    /// Again and again after this time; by default once
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "write")]
    pub(crate) every: Option<Time>,
    #[command(flatten)]
    pub(crate) settings: JobSettings,
}

/// Where a job's commands find what they need.
#[derive(Args, Debug)]
pub(crate) struct JobSettings {
    /// The file of settings; where it is not there, the defaults hold
    #[arg(long, default_value = "/etc/snin/jobs.toml", value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The controller's control socket, before what the file says
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}
