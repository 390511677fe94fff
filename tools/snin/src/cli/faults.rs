//! The command line of `snin faults`.

use std::path::PathBuf;

use clap::{Args, value_parser};

use super::Format;

#[derive(Args, Debug)]
pub(crate) struct Faults {
    /// A topology file, or a recipe (`snin topo generate --help`): every host of it has an agent
    #[arg(default_value = "clos:4,3,2")]
    pub(crate) topology: String,
    /// Everything is drawn from it
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// How many faults
    #[arg(long, default_value_t = 1_000, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(crate) faults: u32,
    /// Subnet managers
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = value_parser!(u8).range(1..=5))]
    pub(crate) managers: u8,
    /// Connection controllers, which share a store
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = value_parser!(u8).range(1..=5))]
    pub(crate) controllers: u8,
    /// Write what happened, a line each, with its virtual time
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}
