//! The command line of `snin-agent`: the one definition that help, man page and completions come from.

use std::path::PathBuf;

use clap::Parser;

const EXIT_CODES: &str = "Signals:
  SIGUSR1  open the log and the file of events anew
  SIGTERM  end, as SIGINT; what is under way may arrive or not

Exit codes:
  0  ended well
  2  the command line is wrong
  3  something is missing or cannot be used: the line on stderr says what, and what to do";

/// Send along the trees that the controller grants: the agent of one host port.
#[derive(Parser, Debug)]
#[command(name = "snin-agent", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// The configuration file; all keys with what they mean: --dump-config
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Record what the core is told to a file, from which it can be replayed; the agent is slower meanwhile
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
