//! `snin slice`, `snin request` and `snin release`, as an admin or a launcher types them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use snin_protocol::Time;
use snin_protocol::collective::{CollectiveKind, Dims};

use super::controller::ControllerSocket;
use super::some_time;
use crate::failure::Failure;

/// Links set aside for a job.
#[derive(Subcommand, Debug)]
pub(crate) enum Slice {
    /// Set a slice aside for an owner, such as a job. Again the same changes nothing
    Create {
        /// Whose: any name of letters, digits and . _ : / @ + -
        #[arg(value_name = "OWNER")]
        owner: String,
        #[command(flatten)]
        hosts: SliceHosts,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Give a slice another number of hosts, or other hosts. It keeps hosts and links as far as it can
    Resize {
        /// Whose
        #[arg(value_name = "OWNER")]
        owner: String,
        #[command(flatten)]
        hosts: SliceHosts,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Give a slice's hosts and links back. No slice is no error
    Delete {
        /// Whose
        #[arg(value_name = "OWNER")]
        owner: String,
        #[command(flatten)]
        socket: ControllerSocket,
    },
    /// Every slice: its hosts, and whether its links are its own already
    List(ControllerSocket),
    /// Which links a slice has; or where one would go, or why there would be none (exit code 1)
    Explain {
        /// Whose
        #[arg(value_name = "OWNER", conflicts_with_all = ["hosts", "on"])]
        #[arg(required_unless_present_any = ["hosts", "on"])]
        owner: Option<String>,
        /// One of so many hosts
        #[arg(long, value_name = "N", conflicts_with = "on")]
        hosts: Option<u32>,
        /// One of these hosts
        #[arg(long, value_name = "HOST,...")]
        on: Option<Vec<String>>,
        #[command(flatten)]
        socket: ControllerSocket,
    },
}

/// Which hosts a slice has.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct SliceHosts {
    /// So many, wherever there is room
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
    /// These, by name, port GUID or number; also a list as Slurm writes it, such as n[1-4,7],login
    #[arg(long, value_name = "HOST,...")]
    pub(crate) on: Option<Vec<String>>,
}

/// Have the ports of two hosts kept for a connection, or have the hosts of a slice take part in a collective; exit
/// code 1 when there is no room, and why
#[derive(Args, Debug)]
pub(crate) struct RequestOf {
    /// The host that sends: its name (n1; of several adapters n1/mlx5_0), port GUID or number; with --agent the
    /// agent's own
    #[arg(long, value_name = "HOST", required_unless_present_any = ["agent", "collective"])]
    pub(crate) from: Option<String>,
    /// The host that receives
    #[arg(long, value_name = "HOST", required_unless_present = "collective")]
    pub(crate) to: Option<String>,
    /// For so many time windows; 1 where --for is not given either
    #[arg(long, value_name = "N", conflicts_with = "length")]
    pub(crate) windows: Option<u64>,
    /// From when on: +30s from now, or a time such as 2026-11-25T14:00:00Z; by default from now on
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) at: Option<u64>,
    /// For how long, such as 90s
    #[arg(long = "for", id = "length", value_name = "TIME", value_parser = some_time)]
    pub(crate) length: Option<Time>,
    /// In whose name; operators only
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) collective: CollectiveOf,
    #[command(flatten)]
    pub(crate) agent: ByAgent,
    #[command(flatten)]
    pub(crate) socket: ControllerSocket,
}

/// What the hosts of a slice do together.
#[derive(Args, Debug)]
pub(crate) struct CollectiveOf {
    /// What the hosts of --slice do together, in the order of its hosts, until `snin release --slice`
    #[arg(long, value_enum, value_name = "KIND", requires = "slice")]
    #[arg(conflicts_with_all = ["from", "to", "windows", "at", "length", "owner", "agent"])]
    pub(crate) collective: Option<CollectiveName>,
    /// Whose slice
    #[arg(long, value_name = "OWNER", requires = "collective")]
    pub(crate) slice: Option<String>,
    /// Of a grid or halo: how many hosts in each dimension, such as 8x8
    #[arg(long, value_name = "AxB", requires = "collective")]
    pub(crate) dims: Option<Dims>,
    /// How long each phase lasts; by default what it takes for --bytes
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "collective")]
    pub(crate) slot: Option<Time>,
    /// The bytes of its own that each member has: the least time for them is said
    #[arg(long, value_name = "N", requires = "collective")]
    pub(crate) bytes: Option<u64>,
    /// Only say what it would be, or why it would not
    #[arg(long, requires = "collective")]
    pub(crate) explain: bool,
}

/// Who sends to whom in a collective.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum CollectiveName {
    /// Each to the next
    Ring,
    /// Each to the next, then to the previous
    Bidir,
    /// Halving and doubling: to those whose place differs in one bit
    Hd,
    /// Each to every other one, one after the other
    Alltoall,
    /// Each to its neighbours in --dims
    Grid,
    /// As grid, with the ends of each dimension as neighbours
    Halo,
}

impl CollectiveOf {
    /// The kind with its dimensions.
    pub(crate) fn kind(&self) -> Result<Option<CollectiveKind>, Failure> {
        let Some(kind) = self.collective else { return Ok(None) };
        let wrong = |what: String| Failure::Content { name: "--dims".to_owned(), what };
        let missing = " missing: how many hosts in each dimension, such as 8x8";
        let dims = || self.dims.ok_or_else(|| wrong(missing.to_owned()));
        let kind = match kind {
            CollectiveName::Ring => CollectiveKind::Ring,
            CollectiveName::Bidir => CollectiveKind::BidirectionalRing,
            CollectiveName::Hd => CollectiveKind::HalvingDoubling,
            CollectiveName::Alltoall => CollectiveKind::AllToAll,
            CollectiveName::Grid => CollectiveKind::Grid(dims()?),
            CollectiveName::Halo => CollectiveKind::Halo(dims()?),
        };
        if self.dims.is_some() && !matches!(kind, CollectiveKind::Grid(_) | CollectiveKind::Halo(_))
        {
            return Err(wrong(format!(" a grid or halo has dimensions, not {kind}")));
        }
        Ok(Some(kind))
    }
}

/// A user of a host has its agent ask.
#[derive(Args, Debug)]
pub(crate) struct ByAgent {
    /// Have this host's agent ask, which any user may, for the user's own: its pair_socket
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "/run/snin/pairs.sock", conflicts_with_all = ["socket", "controller"])]
    pub(crate) agent: Option<PathBuf>,
}

/// Give a request back.
#[derive(Args, Debug)]
pub(crate) struct ReleaseOf {
    /// Its number
    #[arg(value_name = "ID", required_unless_present = "slice")]
    pub(crate) id: Option<u64>,
    /// Whose slice: its collective ends, the slice stays
    #[arg(long, value_name = "OWNER", conflicts_with_all = ["id", "agent"])]
    pub(crate) slice: Option<String>,
    #[command(flatten)]
    pub(crate) agent: ByAgent,
    #[command(flatten)]
    pub(crate) socket: ControllerSocket,
}

/// Nanoseconds since 1970.
fn moment(text: &str) -> Result<u64, String> {
    let time = match text.strip_prefix('+') {
        Some(ahead) => {
            let ahead = humantime::parse_duration(ahead).map_err(|error| error.to_string())?;
            SystemTime::now() + ahead.min(Duration::from_secs(1 << 32))
        }
        None => humantime::parse_rfc3339_weak(text).map_err(|error| {
            format!("{error}: expected +30s, or a time such as 2026-11-25T14:00:00Z")
        })?,
    };
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| "before 1970".to_owned())?;
    u64::try_from(since.as_nanos()).map_err(|_| "too far ahead".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_ahead_or_times_of_day() {
        assert_eq!(moment("2026-11-25T14:00:00Z"), Ok(1_795_615_200_000_000_000));
        let now = moment("+0s").unwrap();
        let ahead = moment("+90s").unwrap() - now;
        assert!((90_000_000_000..150_000_000_000).contains(&ahead), "{ahead}");
        assert!(moment("tomorrow").unwrap_err().contains("expected +30s"));
    }
}
