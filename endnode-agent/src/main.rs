//! `snin-agent`: the command line and an exit code.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

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
struct Cli {
    /// The configuration file; all keys with what they mean: --dump-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a configuration file with every key, what it means and its default, and do nothing else
    #[arg(long)]
    dump_config: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "snin-agent: {why}");
            ExitCode::from(3)
        }
    }
}

#[cfg(feature = "verbs")]
fn run(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    use snin_agent::Settings;
    use snin_daemon::settings::{Loaded, load, template};

    if cli.dump_config {
        io::stdout().write_all(template::<Settings>().as_bytes())?;
        return Ok(());
    }
    let settings = cli.config.as_deref().map_or_else(|| Ok(Loaded::defaults()), load)?;
    Ok(snin_agent::daemon::Daemon::start(&settings)?.run()?)
}

#[cfg(not(feature = "verbs"))]
fn run(_: &Cli) -> Result<(), &'static str> {
    Err(
        "built without real verbs: install libibverbs-dev, librdmacm-dev and libclang-14-dev (`make deps`), \
         then `cargo build --features verbs`",
    )
}
