//! The command line of the expected configuration: `snin config`, `snin port`.

use std::path::PathBuf;

use clap::Subcommand;

use super::SmDaemon;

#[derive(Subcommand, Debug)]
pub(crate) enum Config {
    /// Print the expected configuration from which the fabric, as it is, differs in nothing
    Learn {
        /// Ports with a cable are tested before they are used, whenever they come up
        #[arg(long)]
        test: bool,
        /// Ports without a cable are disabled; by default nothing is expected of them
        #[arg(long)]
        spares: bool,
        /// In the manner of OpenSM's files, a line a port, instead of TOML; apply, check and diff read both
        #[arg(long)]
        lines: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Name everything that is not as expected; exit code 1 when anything is
    Diff {
        /// As this file expects it, instead of what was applied
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Say what speaks against a file: what would cut the fabric or the manager's own port; exit code 1 when
    /// anything does
    Check {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Have a file enforced from now on; the manager reads it, and keeps it as the next version
    Apply {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Even where it cuts the fabric
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Print what is expected
    Show {
        /// An earlier version
        #[arg(long, value_name = "N")]
        version: Option<u64>,
        /// In the manner of OpenSM's files, a line a port, instead of as it was applied
        #[arg(long)]
        lines: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// List the versions: when they were applied, and by whom
    History {
        #[command(flatten)]
        daemon: SmDaemon,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Port {
    /// Name the ports that failed, are tested, passed, are left or in quarantine; exit code 1 when any failed
    Status {
        /// Every port of which anything is expected
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Give a port that failed, or is in quarantine, another chance
    Release {
        /// SWITCH/PORT, or SWITCH for all of its ports; by name or GUID
        port: String,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Test a port now; one that is in use stays so meanwhile
    Test {
        /// SWITCH/PORT, or SWITCH for all of its ports; by name or GUID
        port: String,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Move traffic away from a port, then disable its link; it stays so until it is phased in
    PhaseOut {
        /// SWITCH/PORT, or SWITCH for all of its ports; by name or GUID
        port: String,
        /// Why, for those who read the status
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Test a port that was phased out, and use it again; all ports of a switch together
    PhaseIn {
        /// SWITCH/PORT, or SWITCH for all of its ports; by name or GUID
        port: String,
        #[command(flatten)]
        daemon: SmDaemon,
    },
    /// Take a port out of use at once, until it is released
    Quarantine {
        /// SWITCH/PORT, or SWITCH for all of its ports; by name or GUID
        port: String,
        /// Why, for those who read the status
        #[arg(long, default_value = "", value_name = "TEXT")]
        why: String,
        #[command(flatten)]
        daemon: SmDaemon,
    },
}
