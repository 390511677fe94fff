//! `snin replay`.

use std::path::PathBuf;

use clap::Args;

use super::Format;

#[derive(Args, Debug)]
pub(crate) struct Replay {
    /// What a daemon wrote with --record
    #[arg(value_name = "RECORDING")]
    pub(crate) file: PathBuf,
    /// Print each output of the core with its time
    #[arg(long)]
    pub(crate) outputs: bool,
    #[command(flatten)]
    pub(crate) format: Format,
}
