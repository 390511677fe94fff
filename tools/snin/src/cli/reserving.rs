//! `snin slice`, `snin request` and `snin release`, as an admin or a launcher types them.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use snin_protocol::Time;

use super::controller::ControllerSocket;
use super::some_time;

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

/// Have the ports of two hosts kept for a connection; exit code 1 when there is no room, and why
#[derive(Args, Debug)]
pub(crate) struct RequestOf {
    /// The host that sends: its name (n1; of several adapters n1/mlx5_0), port GUID or number; with --agent the
    /// agent's own
    #[arg(long, value_name = "HOST", required_unless_present = "agent")]
    pub(crate) from: Option<String>,
    /// The host that receives
    #[arg(long, value_name = "HOST")]
    pub(crate) to: String,
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
    pub(crate) agent: ByAgent,
    #[command(flatten)]
    pub(crate) socket: ControllerSocket,
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
    #[arg(value_name = "ID")]
    pub(crate) id: u64,
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
