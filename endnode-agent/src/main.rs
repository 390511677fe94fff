//! `snin-agent`: the command line and an exit code.
#![forbid(unsafe_code)]

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use snin_agent::cli::Cli;

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
    use snin_daemon::settings::{Loaded, load, template, usable};

    if cli.dump_config {
        io::stdout().write_all(template::<Settings>().as_bytes())?;
        return Ok(());
    }
    if cli.dump_schema {
        let schema = snin_protocol::operator::agent::Request::schema();
        io::stdout().write_all(format!("{schema:#}\n").as_bytes())?;
        return Ok(());
    }
    let settings = cli.config.as_deref().map_or_else(|| Ok(Loaded::defaults()), load)?;
    if cli.check_config {
        snin_agent::check_config(&settings)?;
        let file = cli.config.as_deref().unwrap_or_else(|| std::path::Path::new("the defaults"));
        return Ok(io::stdout().write_all(usable([file]).as_bytes())?);
    }
    Ok(snin_agent::daemon::Daemon::start(&settings, cli.record.as_deref())?.run()?)
}

#[cfg(not(feature = "verbs"))]
fn run(_: &Cli) -> Result<(), &'static str> {
    Err(
        "built without real verbs: install libibverbs-dev, librdmacm-dev and libclang-14-dev (`make deps`), \
         then `cargo build --features verbs`",
    )
}
