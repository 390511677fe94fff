//! `snin-software-agents`: the command line and an exit code.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use snin_agent_software::{Process, Settings, options};
use snin_daemon::generations::Limit;
use snin_daemon::log;
use snin_daemon::settings::{Loaded, load, template};

const EXIT_CODES: &str = "Exit codes:
  0  ended well
  2  the command line is wrong
  3  something is missing or cannot be used, or the fabric has ended: the line on stderr says what";

/// The end-node agents of many hosts on a fabric in software (`snin emulate`): each sends along the trees that the
/// controller grants.
#[derive(Parser, Debug)]
#[command(name = "snin-software-agents", version, after_help = EXIT_CODES, max_term_width = 100)]
struct Cli {
    /// The configuration file; all keys with what they mean: --dump-config
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a configuration file with every key, what it means and its default, and do nothing else
    #[arg(long)]
    dump_config: bool,
    /// Look whether the configuration, and the files that it names, can be used; print a line, and do nothing else
    #[arg(long, conflicts_with = "dump_config")]
    check_config: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "snin-software-agents: {why}");
            ExitCode::from(3)
        }
    }
}

fn run(cli: &Cli) -> Result<(), Box<dyn std::error::Error>> {
    if cli.dump_config {
        io::stdout().write_all(template::<Settings>().as_bytes())?;
        return Ok(());
    }
    let settings: Loaded<Settings> = match &cli.config {
        Some(path) => load(path)?,
        None => Loaded::defaults(),
    };
    if cli.check_config {
        options(&settings)?;
        let file = cli.config.as_deref().unwrap_or_else(|| std::path::Path::new("the defaults"));
        return Ok(io::stdout().write_all(snin_daemon::settings::usable([file]).as_bytes())?);
    }
    let value = &settings.value;
    let _log = log::start(
        &value.log_file.as_str().into(),
        log::level(&value.log_level)?,
        Limit::mib(value.log_max_size),
    )?;
    Ok(Process::start(options(&settings)?)?.run()?)
}
