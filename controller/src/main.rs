//! `snin-controller`: the command line, the parts put together, and an exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use snin_controller::cli::Cli;
use snin_controller::config::{Settings, check};
use snin_controller::daemon::Daemon;
use snin_controller::error::Failure;
use snin_controller::io::outlets::Outlets;
use snin_daemon::generations::Limit;
use snin_daemon::log;
use snin_daemon::settings::{load, template, usable};
use snin_protocol::operator::controller::Request;

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "snin-controller: {failure}");
            ExitCode::from(3)
        }
    }
}

fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that closed it wanted no more.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("stdout")(error))
        }
        _ => Ok(()),
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    if cli.dump_config {
        return print(&template::<Settings>());
    }
    if cli.dump_schema {
        return print(&format!("{:#}\n", Request::schema()));
    }
    let loaded = load::<Settings>(&cli.config)?;
    let checked = check(&loaded)?;
    if cli.check_config {
        checked.credentials()?;
        log::level(&loaded.value.log_level)?;
        return print(&usable([cli.config.as_path()]));
    }
    let settings = &loaded.value;
    let log = log::start(
        &settings.log_file.as_str().into(),
        log::level(&settings.log_level)?,
        Limit::mib(settings.log_max_size),
    )?;
    let outlets = Outlets::open(settings, checked.socket_group, log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(Failure::system("a runtime"))?;
    runtime.block_on(async {
        Daemon::new(settings, checked, outlets, cli.record.clone())?.run().await
    })
}
