//! `snin sm merge`, as an admin types it.

use std::path::PathBuf;

use clap::Args;

use super::Format;

/// Databases that become one.
#[derive(Args, Debug)]
pub(crate) struct Merge {
    /// Subnet databases, as `snin sm dump --database` prints them, in any order: the result is the same
    #[arg(value_name = "FILE", required = true)]
    pub(crate) databases: Vec<PathBuf>,
    /// The subnet whose numbers stay, by name or by its master's GUID; by default the one whose master has the
    /// highest priority, and of these the lowest GUID
    #[arg(long, value_name = "NAME")]
    pub(crate) keep: Option<String>,
    /// A P_Key that means the same partition in all of them, such as 0x8010; can be repeated
    #[arg(long, value_name = "P_KEY", value_parser = p_key)]
    pub(crate) common: Vec<u16>,
    /// Write the merged database here; `-` for stdout, in place of the report
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write everything that changes, and whose admin has to be told, here; by default on stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

/// A partition by its P_Key, of either membership.
fn p_key(text: &str) -> Result<u16, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match u16::from_str_radix(digits, 16).map(|key| key & 0x7FFF) {
        Ok(number) if number != 0 => Ok(number),
        _ => Err("expected a P_Key such as 0x8010".to_owned()),
    }
}
