//! For which Slurm the plugin is: Slurm loads plugins of its own version only.

use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Cargo reads it.
    let mut out = io::stdout();
    writeln!(out, "cargo::rerun-if-env-changed=SNIN_SLURM_INCLUDE")?;
    if env::var_os("CARGO_FEATURE_SPANK").is_none() {
        return Ok(());
    }
    let folder = env::var_os("SNIN_SLURM_INCLUDE").unwrap_or_else(|| "/usr/include/slurm".into());
    let header = PathBuf::from(folder).join("slurm_version.h");
    writeln!(out, "cargo::rerun-if-changed={}", header.display())?;
    match fs::read_to_string(&header).map_err(|error| error.to_string()).and_then(version) {
        Ok(number) => writeln!(out, "cargo::rustc-env=SNIN_SLURM_VERSION={number}"),
        Err(why) => writeln!(
            out,
            "cargo::error={}: {why}: apt-get install libslurm-dev, or say where Slurm's headers are in \
             SNIN_SLURM_INCLUDE",
            header.display()
        ),
    }
}

/// `SLURM_VERSION_NUMBER`, as a number in decimal.
fn version(text: String) -> Result<u32, String> {
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("#define SLURM_VERSION_NUMBER 0x"));
    let number = number.and_then(|digits| u32::from_str_radix(digits.trim(), 16).ok());
    number.ok_or_else(|| "no SLURM_VERSION_NUMBER".to_owned())
}
