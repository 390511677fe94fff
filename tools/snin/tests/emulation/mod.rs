//! A `snin emulate` that runs, and agents that say what a test wants.

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_daemon::clock::Clock;
use snin_daemon::generations::Limit;
use snin_daemon::log;
use snin_fabric::generate::Recipe;
use snin_fabric::{Guid, Topology, ibnet};
use snin_judges::{JudgeError, Running, Simulated};
use snin_protocol::Time;
use snin_protocol::codec;
use snin_protocol::operator::manager::Status;
use snin_protocol::software_port::messages::{
    Attach, FromFabric, Outcome, PortStatus, RefusedReason, ToFabric,
};
use snin_protocol::software_port::socket;
use snin_sm::daemon::kept::KeptFile;
use snin_sm::daemon::memory::Memory;
use snin_sm::daemon::outlets::Outlets;
use snin_sm::daemon::recording::{EventRecorder, Made};
use snin_sm::daemon::run::{Clock as SmClock, Daemon};
use snin_sm::daemon::settings::Settings;
use snin_sm::daemon::storage::Storage;
use snin_sm::port::{Choice, Options, open};
use tempfile::TempDir;

/// However busy the machine, by then it is so.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(2));
    }
}

/// A running emulator; ends with the value.
pub(crate) struct Emulation {
    _running: Running,
    folder: TempDir,
    name: String,
    topology: Topology,
}

impl Simulated for Emulation {
    fn name(&self) -> &str {
        &self.name
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Emulation {
    /// Serves a recipe's fabric.
    pub(crate) fn start(recipe: &str, options: &[&str]) -> Result<Self, JudgeError> {
        Self::of(&ibnet::write(&recipe.parse::<Recipe>().unwrap().build().unwrap()), options)
    }

    /// Serves a netlist, and waits until it is there.
    pub(crate) fn of(netlist: &str, options: &[&str]) -> Result<Self, JudgeError> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("snin-emulate-{}-{number}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fabric");
        std::fs::write(&file, netlist).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("emulate").arg(&file).args(["--socket", &name]).args(options);
        command.arg("--control").arg(folder.path().join("control.sock"));
        let running = Running::start(&mut command, folder.path(), "snin-emulate")?;
        let topology = ibnet::parse(netlist.as_bytes()).unwrap();
        let emulation = Self { _running: running, folder, name, topology };
        wait("the emulator", || snin(&emulation, &["emulator", "status"]).status.success());
        Ok(emulation)
    }

    pub(crate) const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// `snin emulator ... --json`.
    #[track_caller]
    pub(crate) fn ask(&self, what: &[&str]) -> Value {
        let mut arguments = vec!["emulator"];
        arguments.extend(what);
        arguments.push("--json");
        let said = snin(self, &arguments);
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{what:?}: {error}");
        serde_json::from_slice(&said.stdout).unwrap()
    }

    /// A connection of agents.
    pub(crate) fn agents(&self) -> Agents {
        let address = SocketAddr::from_abstract_name(socket(&self.name, "messages")).unwrap();
        let stream = UnixStream::connect_addr(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Agents { stream, came: Vec::new(), kept: Vec::new() }
    }

    /// Sends a datagram that the server does not expect.
    pub(crate) fn datagram(&self, what: &str, bytes: &[u8]) {
        let address = SocketAddr::from_abstract_name(socket(&self.name, what)).unwrap();
        UnixDatagram::unbound().unwrap().send_to_addr(bytes, &address).unwrap();
    }
}

/// The command, of this emulator.
pub(crate) fn snin(emulation: &Emulation, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
    command.args(arguments).arg("--control").arg(emulation.folder().join("control.sock"));
    command.output().unwrap()
}

/// `snin-sm` as it is built beside `snin`; a test of this crate alone has it built where it is not there yet.
pub(crate) fn manager() -> std::path::PathBuf {
    static BUILT: std::sync::Once = std::sync::Once::new();
    let program = Path::new(env!("CARGO_BIN_EXE_snin")).with_file_name("snin-sm");
    BUILT.call_once(|| {
        if !program.is_file() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "snin-sm", "--bin", "snin-sm"]);
            assert!(build.status().unwrap().success(), "snin-sm");
        }
    });
    program
}

/// Our manager brings the fabric up and leaves.
pub(crate) fn manage_once(emulation: &Emulation) -> Status {
    manage(emulation, None, None)
}

/// The same, with these partitions; what its core was told is in a file.
pub(crate) fn manage(
    emulation: &Emulation,
    partitions: Option<&str>,
    record: Option<&Path>,
) -> Status {
    let settings = Settings::default();
    let log = log::start(&"stderr".into(), log::level("error").unwrap(), Limit::NONE).unwrap();
    let (memory, saved) = Memory::open(None).unwrap();
    let (kept, said) = KeptFile::open(None, Time::ZERO).unwrap();
    let (clock, mut config) = (SmClock::start(), settings.core(1));
    if let Some(text) = partitions {
        config.partitions = text.parse().unwrap();
    }
    let made = Made { config, saved, kept: said, epoch: clock.epoch() };
    let recorder = record.map_or(EventRecorder::none(), |file| {
        EventRecorder::create(file, &made, clock.now()).unwrap()
    });
    let core = made.core().unwrap();
    let choice = Choice::Ibsim { name: emulation.name().to_owned(), host: None };
    let port =
        open(&choice, Options { timeout: Time::millis(100), keys: &[], asks_only: false }).unwrap();
    let outlets = Outlets::open(&settings, None, log).unwrap();
    let storage = Storage::new(memory, kept);
    let daemon = Daemon::new(clock, core, storage, vec![port], outlets).unwrap();
    daemon.recorded(recorder).once().unwrap()
}

/// Agents that say what they are told to.
pub(crate) struct Agents {
    stream: UnixStream,
    came: Vec<u8>,
    /// Heard of, and not asked for yet.
    kept: Vec<FromFabric>,
}

impl Agents {
    pub(crate) fn now(&self) -> Time {
        Clock::system().now()
    }

    pub(crate) fn send(&mut self, said: &ToFabric) {
        self.bytes(&codec::encode(said).unwrap());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Hears until there is what is wanted, which is taken.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&FromFabric) -> bool) -> FromFabric {
        loop {
            if let Some(place) = self.kept.iter().position(&wanted) {
                return self.kept.remove(place);
            }
            let mut buffer = [0; 4096];
            let count = self.stream.read(&mut buffer).unwrap();
            assert_ne!(count, 0, "the connection has ended");
            self.came.extend_from_slice(&buffer[..count]);
            while let Some((said, length)) = codec::decode(&self.came).unwrap() {
                self.came.drain(..length);
                self.kept.push(said);
            }
        }
    }

    #[track_caller]
    pub(crate) fn attach(&mut self, port: Guid) -> Result<PortStatus, RefusedReason> {
        self.send(&ToFabric::Attach(Attach { port }));
        let said = self.until(|said| match said {
            FromFabric::Attached(status) => status.port == port,
            FromFabric::Refused(refused) => refused.port == port,
            _ => false,
        });
        match said {
            FromFabric::Attached(status) => Ok(status),
            FromFabric::Refused(refused) => Err(refused.reason),
            _ => unreachable!("neither"),
        }
    }

    /// What became of a message.
    #[track_caller]
    pub(crate) fn outcome(&mut self, token: u64) -> Outcome {
        let its = |said: &FromFabric| match said {
            FromFabric::Completed(completed) if completed.token == token => Some(completed.outcome),
            _ => None,
        };
        let said = self.until(|said| its(said).is_some());
        its(&said).unwrap()
    }

    /// The next that came to a port.
    #[track_caller]
    pub(crate) fn came(&mut self, port: Guid) -> Vec<u8> {
        match self
            .until(|said| matches!(said, FromFabric::Arrived(arrived) if arrived.port == port))
        {
            FromFabric::Arrived(arrived) => arrived.payload,
            _ => unreachable!("nothing else was wanted"),
        }
    }

    /// Whether the other end ends it in time.
    pub(crate) fn ended(&mut self, within: Duration) -> bool {
        self.stream.set_read_timeout(Some(within)).unwrap();
        matches!(self.stream.read(&mut [0; 64]), Ok(0))
    }
}
