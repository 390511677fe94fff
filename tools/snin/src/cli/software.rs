//! The command line of fabrics in software: `snin up`, `snin emulate`, `snin emulator`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use snin_lab::event;
use snin_protocol::Time;

use super::{Format, NodeNames, Share, TopologyFile, share, some_time};

#[derive(Args, Debug)]
pub(crate) struct Emulate {
    #[command(flatten)]
    pub(crate) topology: TopologyFile,
    #[command(flatten)]
    pub(crate) socket: EmulatorSocket,
    /// From one end of a cable to the other
    #[arg(long, default_value = "250ns", value_name = "TIME", value_parser = event::time)]
    pub(crate) link_latency: Time,
    /// How long an agent works at a MAD
    #[arg(long, default_value = "10us", value_name = "TIME", value_parser = event::time)]
    pub(crate) agent_latency: Time,
    /// MADs lost on every cable, such as 1% or 0.05%
    #[arg(long, default_value = "0%", value_name = "SHARE", value_parser = share)]
    pub(crate) drop: Share,
    /// A MAD that has no answer after this is sent again, as a kernel does, three times; then it is given back
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = some_time)]
    pub(crate) patience: Time,
    /// What every port sends of agents' messages, in bit/s; by default what its link carries
    #[arg(long, value_name = "BIT/S")]
    pub(crate) rate: Option<u64>,
    /// Seed of all that is left to chance
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// The fabric that programs attach to.
fn fabric() -> String {
    std::env::var("IBSIM_SOCKNAME").unwrap_or_else(|_| "sim".to_owned())
}

#[derive(Args, Debug)]
pub(crate) struct EmulatorSocket {
    /// What the fabric's sockets are called; several fabrics need several names. IBSIM_SOCKNAME in the environment
    /// says another one
    #[arg(long = "socket", default_value_t = fabric(), value_name = "NAME")]
    pub(crate) name: String,
    /// The emulator's control socket; by default one that follows from the name, in $XDG_RUNTIME_DIR
    #[arg(long, value_name = "SOCKET")]
    pub(crate) control: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct AskEmulator {
    #[command(flatten)]
    pub(crate) socket: EmulatorSocket,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Emulator {
    /// Its links, who is attached, and what was carried
    Status(AskEmulator),
    /// What the watcher saw of the links' owners; exit code 1 when a directed link had two at one moment
    Owners(AskEmulator),
    /// What managers wrote, by the hardware's own account: cables, states, addresses, P_Keys, tables
    Held(AskEmulator),
    /// Let something happen: cut, restore or bounce NODE/PORT; train NODE/PORT RATE (the link comes up at this
    /// rate, such as 1xSDR); refuse or accept NODE/PORT (every write); plug NODE/PORT NODE/PORT (a new cable);
    /// swap NODE/PORT NODE/PORT (what is behind the one comes behind the other); errors NODE/PORT PPM (of a
    /// million packets that come in there, so many count a symbol error); reboot, off, on, dead (its agent is
    /// silent), well, mute (its software is down) or speak NODE
    Fault {
        /// What, such as `cut leaf3/20`
        #[arg(required = true, value_name = "FAULT")]
        what: Vec<String>,
        #[command(flatten)]
        emulator: AskEmulator,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Up {
    /// Output of ibnetdiscover, an ibsim netlist, `-` for stdin, or a recipe such as clos:36,18,18
    #[arg(value_name = "TOPOLOGY", required_unless_present = "env")]
    pub(crate) topology: Option<String>,
    #[command(flatten)]
    pub(crate) names: NodeNames,
    /// Print lines for the shell by which commands find the daemons of a run in this folder:
    /// `eval "$(snin up --env DIR)"`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["topology", "script", "folder"])]
    pub(crate) env: Option<PathBuf>,
    /// What happens: lines such as `windows 60`, `cut leaf1/3 @window 20`, `restore leaf1/3 @window 40`,
    /// `kill controller @window 30`; with several controllers also `stop controller @window 30` and
    /// `continue controller @window 35`; with `--manager opensm` also `restart opensm @window 30`
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// After the script: what the last messages would have had if this share of the hosts had flooded base
    /// addresses meanwhile (50%: every other one), on the lanes that snin-sm wrote and with one lane for all.
    /// Messages of those hosts are left out
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "script")]
    pub(crate) ordinary: Option<Share>,
    /// The least share of a link, in percent, that snin-sm leaves to ordinary traffic beside what is granted
    #[arg(long, default_value_t = 5, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=50))]
    pub(crate) unmanaged_share: u8,
    /// Where configurations, sockets, logs and state are; by default a new folder, removed when all went well
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// A time window's length; shorter ones take a quicker machine
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = some_time)]
    pub(crate) window: Time,
    /// How long a process may have to wait for a processor: agents' clocks are taken to be that uncertain
    #[arg(long, default_value = "10ms", value_name = "TIME", value_parser = some_time)]
    pub(crate) latency: Time,
    /// What every port sends, in bit/s
    #[arg(long, default_value_t = 1_000_000_000, value_name = "BIT/S")]
    pub(crate) rate: u64,
    /// How the daemons speak with each other: tls (TCP on the loopback, certificates at both ends, from a CA that
    /// this run makes), or unix (sockets in the folder)
    #[arg(long, value_enum, default_value_t = Sessions::Tls, value_name = "HOW")]
    pub(crate) sessions: Sessions,
    /// Controllers, of which one leads while the others stand by; two or more share their state in etcd
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) controllers: u8,
    /// Members of etcd that this run starts; 0: a controller has its state in a file
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) etcd: u8,
    /// Who keeps the subnet: snin-sm, or opensm, beside which snin-sm only reads and the controller grants on the
    /// tables that OpenSM wrote
    #[arg(long, value_enum, default_value_t = Keeper::Snin, value_name = "WHO")]
    pub(crate) manager: Keeper,
    /// 2^N addresses a port; by default the least that gives each tree its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) lmc: Option<u8>,
    /// How OpenSM routes, such as updn or ftree; by default as it does by itself (minhop)
    #[arg(long, value_name = "ENGINE")]
    pub(crate) routing_engine: Option<String>,
    /// Processes that the agents are spread over; by default one a host up to 16, then one for 108
    #[arg(long, value_name = "N")]
    pub(crate) agent_processes: Option<usize>,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// Who keeps the subnet of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Keeper {
    #[value(name = "snin-sm")]
    Snin,
    #[value(name = "opensm")]
    OpenSm,
}

/// What carries the sessions between daemons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Sessions {
    Tls,
    Unix,
}
