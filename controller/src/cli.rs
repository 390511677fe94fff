//! The command line of `snin-controller`: the one definition that help, man page and completions come from.

use std::path::PathBuf;

use clap::Parser;

const EXIT_CODES: &str = "Signals:
  SIGHUP   read the topology file again
  SIGUSR1  open the log and the file of events anew
  SIGTERM  end well, as SIGINT: agents keep what they hold until it runs out

Exit codes:
  0  ended well
  2  the command line is wrong
  3  an input cannot be used: the line on stderr names file, line and value";

/// Grant connections of an InfiniBand or RoCE fabric links of their own, window by window.
#[derive(Parser, Clone, Debug)]
#[command(name = "snin-controller", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// The configuration file; all keys with what they mean: --dump-config
    #[arg(long, value_name = "FILE", default_value = "/etc/snin/controller.toml")]
    pub config: PathBuf,
    /// Record what the core is told to a file, which `snin replay` tells it again
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Print a configuration file with every key, what it means and its default, and do nothing else
    #[arg(long)]
    pub dump_config: bool,
    /// Look whether the configuration, and the files that it names, can be used; print a line for each, and do
    /// nothing else
    #[arg(long, conflicts_with = "dump_config")]
    pub check_config: bool,
    /// Print JSON Schema of what operators may ask and what is answered, and do nothing else
    #[arg(long, conflicts_with = "dump_config")]
    pub dump_schema: bool,
}
