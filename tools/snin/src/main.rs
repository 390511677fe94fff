//! The one command an admin types.

mod cli;
mod command;
mod document;
mod failure;
mod input;
mod output;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, PlanOrSlices, PlanSlices, Sm, Topo};
use output::Output;

/// How a command that came to its end ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// All is well.
    Well,
    /// Something is irregular, wrong or different.
    Unwell,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = Output::new(io::stdout().lock());
    let done = match cli.command {
        Command::Topo(Topo::Generate { recipe, cut, seed }) => {
            command::topo::generate(recipe, cut, seed, &mut out)
        }
        Command::Topo(Topo::Check { topology, format }) => {
            command::topo::check(&topology, format.json.as_deref(), &mut out)
        }
        Command::Topo(Topo::Trees(args)) => command::trees::run(&args, &mut out),
        Command::Audit(args) => command::audit::run(&args, &mut out),
        Command::Topo(Topo::Routes(args)) => command::routes::run(&args, &mut out),
        Command::Plan(PlanOrSlices { slices: Some(PlanSlices::Slices(slices)), .. }) => {
            command::slices::run(&slices, &mut out)
        }
        Command::Plan(PlanOrSlices { plan, .. }) => command::plan::run(&plan, &mut out),
        Command::Verify(verify) => command::verify::run(&verify, &mut out),
        Command::Sm(Sm::Simulate(simulate)) => command::simulate::run(&simulate, &mut out),
        Command::Sm(Sm::Status { daemon }) => command::manager::status(&daemon, &mut out),
        Command::Sm(Sm::Sweep { daemon }) => command::manager::sweep(&daemon, &mut out),
        Command::Sm(Sm::RotateKeys { daemon }) => command::manager::rotate_keys(&daemon, &mut out),
        Command::Sm(Sm::Dump { database: true, name, secrets, daemon, .. }) => {
            command::manager::database(name.as_deref(), secrets, &daemon, &mut out)
        }
        Command::Sm(Sm::Managers { daemon }) => command::managers::list(&daemon, &mut out),
        Command::Sm(Sm::Cluster { daemon }) => command::managers::cluster(&daemon, &mut out),
        Command::Sm(Sm::Disable(told)) => command::managers::disable(&told, &mut out),
        Command::Sm(Sm::Standby(told)) => command::managers::standby(&told, &mut out),
        Command::Sm(Sm::Discover(told)) => command::managers::discover(&told, &mut out),
        Command::Sm(Sm::Priority { value, daemon }) => {
            command::managers::priority(value, &daemon, &mut out)
        }
        Command::Sm(Sm::Health { node, daemon }) => {
            command::manager::health(node, &daemon, &mut out)
        }
        Command::Sm(Sm::Dump { guid2lid, daemon, .. }) => {
            command::manager::dump(guid2lid, &daemon, &mut out)
        }
        Command::Sm(Sm::Merge(asked)) => command::merge::run(&asked, &mut out),
        Command::Sm(Sm::Lfts { switch, daemon }) => {
            command::manager::lfts(switch, &daemon, &mut out)
        }
        Command::Sm(Sm::Events { since, follow, daemon }) => {
            command::manager::events(since, follow, &daemon, &mut out)
        }
        Command::Config(asked) => command::configuration::config(&asked, &mut out),
        Command::Port(asked) => command::configuration::port(&asked, &mut out),
        #[cfg(feature = "verbs")]
        Command::Lab(lab) if lab.verbs => command::verbs_lab::run(&lab, &mut out),
        Command::Lab(lab) => command::lab::run(&lab, &mut out),
        #[cfg(feature = "verbs")]
        Command::Lat(lat) => command::lat::run(&lat, &mut out),
        #[cfg(not(feature = "verbs"))]
        Command::Lat(_) => Err(failure::Failure::WithoutVerbs("snin lat")),
        Command::Faults(args) => command::faults::run(&args, &mut out),
        Command::Study(cli::Study::Reconfiguration(asked)) => {
            command::study::reconfiguration(&asked, &mut out)
        }
        Command::Up(up) => command::up::run(&up, &mut out),
        Command::Emulate(emulate) => command::emulate::run(&emulate),
        Command::Emulator(emulator) => command::emulate::ask(&emulator, &mut out),
        Command::Agent(agent) => command::agent::run(&agent, &mut out),
        Command::Controller(asked) => command::controller::run(&asked, &mut out),
        Command::Path(asked) => command::controller::path(&asked, &mut out),
        Command::Owner(asked) => command::controller::owner(&asked, &mut out),
        Command::Replay(asked) => command::replay::run(&asked, &mut out),
        Command::Slice(asked) => command::reserving::slice(&asked, &mut out),
        Command::Request(asked) => command::reserving::request(&asked, &mut out),
        Command::Release(asked) => command::reserving::release(&asked, &mut out),
        Command::Job(asked) => command::jobs::run(&asked, &mut out),
        Command::Hook(asked) => command::jobs::hook(&asked, &mut out),
        Command::Slurm(asked) => command::jobs::slurm(&asked, &mut out),
        Command::Pki(asked) => command::pki::run(&asked, &mut out),
        Command::Man { directory } => command::manual::pages(&directory),
        Command::Completions { shell } => command::manual::completions(shell, &mut out),
    };
    match done.and_then(|verdict| out.finish().map(|()| verdict)) {
        Ok(Verdict::Well) => ExitCode::SUCCESS,
        Ok(Verdict::Unwell) => ExitCode::from(1),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::note(failure);
            ExitCode::from(3)
        }
    }
}
