//! `snin controller`, `snin path`, `snin owner` and `snin pki`, as an admin types them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use snin_daemon::session::Address;
use snin_protocol::view::Policy;

use super::reserving::ByAgent;
use super::{Format, controller_socket};

/// What a running controller is asked.
#[derive(Subcommand, Debug)]
pub(crate) enum Controller {
    /// Who it is, what it counts, and the last window. Exit code 1 when it grants nothing
    Status(ControllerSocket),
    /// The last windows: what was asked for, granted, deferred and why
    Windows {
        /// How many
        #[arg(long, default_value_t = 10, value_name = "N")]
        count: u32,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Every grant in force of a connection; collectives are in `snin slice list`
    Grants(ControllerSocket),
    /// Hosts, trees and unusable pairs, and where it knows them from
    Fabric(ControllerSocket),
    /// Whether what one host asks for to another is granted, and why not. Exit code 1 when something waits or is
    /// refused, or nothing is asked for
    Why {
        /// The host that sends: its name, port GUID or number
        #[arg(value_name = "FROM")]
        from: String,
        /// The host that receives
        #[arg(value_name = "TO")]
        to: String,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Have a host's agent send messages to another one, to see whether its link carries them. Exit code 1 when
    /// some did not arrive
    LinkTest {
        /// The host: its name, port GUID or number
        #[arg(value_name = "HOST")]
        port: String,
        /// How many
        #[arg(long, default_value_t = 1_000, value_name = "N")]
        messages: u32,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Ports that are kept for connections, now or later, by `snin request`
    Requests {
        #[command(flatten)]
        agent: ByAgent,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Is non-interference in effect?
    Policy {
        /// Another policy, where no subnet manager holds it
        #[arg(value_name = "POLICY")]
        set: Option<PolicyName>,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// What happened, a line of JSON an event
    Events {
        /// Only events after this number
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        since: u64,
        /// And everything that happens from now on
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        socket: ControllerSocket,
    },
}

/// Is non-interference in effect?
#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum PolicyName {
    /// Tree 0 is never granted
    Strict,
    /// All trees are granted
    Shared,
    /// Nothing is granted
    Off,
}

impl PolicyName {
    /// As the controller has it.
    pub(crate) const fn policy(self) -> Policy {
        match self {
            Self::Strict => Policy::Strict,
            Self::Shared => Policy::Shared,
            Self::Off => Policy::Off,
        }
    }
}

/// The way from one host to another: of its grant if it has one, else of ordinary traffic.
#[derive(Args, Debug)]
pub(crate) struct PathOf {
    /// The host that sends: its name (n1; of several adapters n1/mlx5_0), port GUID or number
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// The host that receives
    #[arg(value_name = "TO")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) socket: ControllerSocket,
}

/// Whose a directed link is.
#[derive(Args, Debug)]
pub(crate) struct OwnerOf {
    /// The port that sends on the link, such as leaf3/20
    #[arg(value_name = "NODE/PORT")]
    pub(crate) port: String,
    #[command(flatten)]
    pub(crate) socket: ControllerSocket,
}

/// A controller that runs.
#[derive(Args, Debug)]
pub(crate) struct ControllerSocket {
    /// Its control socket; SNIN_CONTROLLER_SOCKET in the environment names another one
    #[arg(long, default_value_os_t = controller_socket(), value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// A controller that is asked by its API.
#[derive(Args, Debug)]
pub(crate) struct Remote {
    /// Its API instead, such as tls://ctl1:18518 of another machine
    #[arg(long, value_name = "ADDRESS", conflicts_with = "socket")]
    pub(crate) controller: Option<Address>,
    /// With tls://: the certificate of an operator or a launcher
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub(crate) certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub(crate) key: Option<PathBuf>,
    /// The CA's certificate
    #[arg(long, value_name = "FILE", requires = "controller")]
    pub(crate) ca_certificate: Option<PathBuf>,
}

/// A site's own CA.
#[derive(Subcommand, Debug)]
pub(crate) enum Pki {
    /// Make the CA: certificate, key and an empty revocation list
    Init {
        /// What it is called
        #[arg(long, default_value = "snin", value_name = "NAME")]
        name: String,
        /// For how long it is good
        #[arg(long, default_value_t = 3650, value_name = "DAYS")]
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        days: u32,
        #[command(flatten)]
        folder: PkiFolder,
    },
    /// Make a certificate and its key
    Issue(PkiIssue),
    /// Make a new certificate with a new key; the old one is good until it ends, and daemons take the new files by
    /// themselves
    Renew(PkiIssue),
    /// Revoke all certificates of a name; daemons that have the list end their sessions
    Revoke {
        /// Whose
        #[arg(value_name = "ROLE/NAME")]
        name: String,
        #[command(flatten)]
        folder: PkiFolder,
    },
    /// Every certificate that was issued
    List {
        #[command(flatten)]
        folder: PkiFolder,
        #[command(flatten)]
        format: Format,
    },
}

/// A certificate to be made.
#[derive(Args, Debug)]
pub(crate) struct PkiIssue {
    /// Whose: agent/PORT-GUID, manager/HOST, controller/HOST, operator/NAME or launcher/NAME
    #[arg(value_name = "ROLE/NAME")]
    pub(crate) name: String,
    /// For how long it is good
    #[arg(long, default_value_t = 365, value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) days: u32,
    /// Where certificate and key are written; by default into the CA's folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) folder: PkiFolder,
}

/// Where the CA is.
#[derive(Args, Debug)]
pub(crate) struct PkiFolder {
    /// The CA's folder
    #[arg(long, default_value = "/etc/snin/pki", value_name = "DIR")]
    pub(crate) dir: PathBuf,
}
