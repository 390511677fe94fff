//! The command line of `snin study`.

use std::path::PathBuf;

use clap::{Args, Subcommand, value_parser};

use super::Format;

#[derive(Subcommand, Debug)]
pub(crate) enum Study {
    /// Compare how a switch that comes or goes is assimilated: a published mechanism, and this manager
    ///
    /// The experiment of "Evaluation of a subnet management mechanism" in virtual time: random irregular fabrics
    /// of 4-port switches with 1X links, a host a switch where a port is free. Baseline is that mechanism: a sweep
    /// every 0.1 s, discovery from scratch, up*/down* routes, all ports to INITIALIZE, all tables, all ports to
    /// ACTIVE. Of the smallest size there is a time line under traffic. Exit code 1 when the checkers object to
    /// any fabric afterwards, or when this manager's tables had a loop on the way.
    Reconfiguration(Reconfiguration),
}

#[derive(Args, Debug)]
pub(crate) struct Reconfiguration {
    /// Switches of the fabrics, 3 to 128
    #[arg(
        long,
        default_value = "8,16,24,32,64",
        value_delimiter = ',',
        value_name = "N,...",
        value_parser = value_parser!(u32).range(3..=128)
    )]
    pub(crate) switches: Vec<u32>,
    /// Fabrics of each size
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = value_parser!(u64).range(1..=10_000))]
    pub(crate) seeds: u64,
    /// Of those, the ones on which packets are simulated, with a quarter of what the fabric carries
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) packet_seeds: u64,
    /// The published Clos of 7 switches and 4 hosts too, switch by switch
    #[arg(long)]
    pub(crate) clos: bool,
    /// Larger fabrics too, in each of which a cable, a switch and a chassis fail: clos:36,18,18 fattree:36,36
    #[arg(long, num_args = 1.., value_name = "RECIPE")]
    pub(crate) scale: Vec<snin_fabric::generate::Recipe>,
    /// Write a page with pictures
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write how long each step took on this machine: milliseconds, a tab, the step
    #[arg(long, value_name = "FILE")]
    pub(crate) wall: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}
