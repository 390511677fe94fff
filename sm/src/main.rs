//! `snin-sm`: the command line, the parts put together, and an exit code.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use snin_daemon::generations::Limit;
use snin_daemon::settings::{Loaded, load_over, template_with, usable};
use snin_daemon::{group, log};
use snin_protocol::Time;
use snin_protocol::operator::Document;
use snin_protocol::operator::manager::Request;
use snin_sm::daemon::Failure;
use snin_sm::daemon::checking;
use snin_sm::daemon::choices::KeyPolicy;
use snin_sm::daemon::cli::Cli;
use snin_sm::daemon::kept::KeptFile;
use snin_sm::daemon::memory::Memory;
use snin_sm::daemon::opensm_conf;
use snin_sm::daemon::outlets::{Outlets, from_systemd};
use snin_sm::daemon::partition_file;
use snin_sm::daemon::recording::{EventRecorder, Made};
use snin_sm::daemon::run::{Clock, Daemon};
use snin_sm::daemon::settings::{Settings, objection};
use snin_sm::daemon::storage::Storage;
use snin_sm::daemon::summary;
use snin_sm::port::{Capture, Choice, Options, open};
use tracing::{error, warn};

fn main() -> ExitCode {
    let clock = Clock::start();
    let cli = Cli::parse();
    match run(&cli, clock) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "snin-sm: {failure}");
            ExitCode::from(3)
        }
    }
}

/// Whether all was well.
fn run(cli: &Cli, clock: Clock) -> Result<bool, Failure> {
    if cli.dump_opensm_options {
        print(&opensm_conf::table())?;
        return Ok(true);
    }
    let of_opensm = cli.opensm_conf.as_deref().map(opensm_conf::load).transpose()?;
    let (converted, keys, notes) =
        of_opensm.map_or_else(Default::default, |read| (Some(read.loaded), read.keys, read.notes));
    if cli.dump_schema {
        print(&format!("{:#}\n", Request::schema()))?;
        return Ok(true);
    }
    if cli.dump_config {
        for note in &notes {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "{note}");
        }
        print(&template_with::<Settings>(&keys))?;
        return Ok(true);
    }
    let mut loaded: Loaded<Settings> = match (converted, &cli.config) {
        (_, Some(path)) => load_over(path, &keys)?,
        (Some(converted), None) => converted,
        (None, None) => Loaded::defaults(),
    };
    cli.override_settings(&mut loaded.value);
    fill_in(&mut loaded.value);
    if cli.check_config {
        for note in &notes {
            // A closed stderr is not worth failing for.
            let _ = writeln!(io::stderr(), "{note}");
        }
        let named = checking::check(&loaded)?;
        let own = cli.config.iter().chain(&cli.opensm_conf);
        print(&usable(own.chain(&named).map(PathBuf::as_path)))?;
        return Ok(true);
    }
    let settings = &loaded.value;
    let group = group::configured(&loaded, settings.socket_group.as_ref())?;
    let log = log::start(
        &settings.log_file.as_str().into(),
        log::level(&settings.log_level)?,
        Limit::mib(settings.log_max_size),
    )?;
    notes.iter().for_each(|note| warn!("{note}"));
    let (memory, mut saved) = Memory::open(settings.state_dir.as_deref())?;
    let mut config = settings.core(RandomState::new().build_hasher().finish());
    let mut unmade = None;
    if settings.m_key_policy != KeyPolicy::Given
        && let Err(failure) = memory.make_secret(&mut saved)
    {
        if !failure.is_of_disk() {
            return Err(failure);
        }
        error!("no M_Keys are given out until the next start: {failure}");
        config.m_key_policy = snin_sm_database::keys::KeyPolicy::Given;
        unmade = Some(failure);
    }
    config.partitions = partition_file::read(settings.partition_config_file.as_deref())?;
    config.qos_policy = partition_file::qos_policy(settings.qos_policy_file.as_deref())?;
    config.lfts = partition_file::lfts(&loaded)?;
    config.roots = partition_file::roots(settings.root_guid_file.as_deref())?;
    let choices = cli.choices(settings);
    config.ports = u8::try_from(choices.len()).unwrap_or(u8::MAX);
    if matches!(choices[..], [Choice::Ibsim { .. }, ..]) {
        config.sa_repeats = 0;
    }
    let (kept, said) = KeptFile::open(settings.state_dir.as_deref(), clock.now())?;
    let made = Made { config, saved, kept: said, epoch: clock.epoch() };
    let recorder = match &cli.record {
        Some(file) => EventRecorder::create(file, &made, clock.now())?,
        None => EventRecorder::none(),
    };
    let mut core = made.core().map_err(|error| objection(&loaded, &error))?;
    let timeout = Time::millis(settings.transaction_timeout.into());
    let keys: Vec<u64> =
        [settings.m_key].iter().chain(&settings.former_m_keys).map(|key| key.0).collect();
    let options = Options { timeout, keys: &keys, asks_only: settings.read_only };
    let mut ports = Vec::new();
    for (number, choice) in choices.iter().enumerate() {
        let mut port = open(choice, options)?;
        // Each further one has a file of its own.
        if let Some(file) = &cli.capture {
            let suffix = if number == 0 { String::new() } else { format!(".{number}") };
            let mut name = file.clone().into_os_string();
            name.push(suffix);
            port = Box::new(Capture::new(port, name.as_ref())?);
        }
        ports.push(port);
    }
    let outlets = Outlets::open(settings, group, log)?;
    core.manager_mut().set_readable(outlets.mirrors.is_readable());
    let mut storage = Storage::new(memory, kept);
    if let Some(failure) = unmade {
        storage.lacks_secret(failure, clock.now());
    }
    let daemon = Daemon::new(clock, core, storage, ports, outlets)?;
    let mut daemon = daemon.recorded(recorder);
    daemon.read_again(settings.partition_config_file.clone(), settings.qos_policy_file.clone());
    daemon.configure(settings)?;
    if !cli.once {
        daemon.run()?;
        return Ok(true);
    }
    let document = Document::of(daemon.once()?);
    if cli.json {
        let text = serde_json::to_string_pretty(&document).map_err(io::Error::from);
        print(&(text.map_err(Failure::stdout())? + "\n"))?;
    } else {
        print(&summary::text(&document.answer))?;
    }
    Ok(document.answer.healthy)
}

/// What systemd has prepared, where nothing else is wanted.
fn fill_in(settings: &mut Settings) {
    let state = || from_systemd("STATE_DIRECTORY");
    let socket = || from_systemd("RUNTIME_DIRECTORY").map(|folder| folder.join("control.sock"));
    settings.state_dir = settings.state_dir.take().or_else(state);
    settings.control_socket = settings.control_socket.take().or_else(socket);
}

/// To stdout; a reader that closed it wanted no more.
fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::stdout()(error)),
        _ => Ok(()),
    }
}
