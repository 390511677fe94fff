//! A controller as a process that can be killed at any moment.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_daemon::control::{Connection, ControlError};
use snin_daemon::session::Address;
use snin_fabric::Topology;
use snin_fabric::generate::Recipe;
use snin_fabric::ibnet;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// See the module's documentation. It ends when this is dropped.
pub(crate) struct Controller {
    folder: tempfile::TempDir,
    pub(crate) topology: Topology,
    child: Option<Child>,
}

impl Controller {
    /// One for a fabric, with more settings, in which FOLDER is its folder.
    pub(crate) fn of(fabric: &str, more: &str) -> Self {
        let mut controller = Self::prepare(fabric, more);
        controller.start();
        controller
    }

    /// The same, before it is started.
    pub(crate) fn prepare(fabric: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let topology = fabric.parse::<Recipe>().unwrap().build().unwrap();
        std::fs::write(folder.path().join("fabric.ibnetdiscover"), ibnet::write(&topology))
            .unwrap();
        let place = folder.path().display();
        let usual = "listen = [\"unix://FOLDER/sessions.sock\"]\n";
        let listen = if more.contains("listen = ") { "" } else { usual };
        let name = if more.contains("name = ") { "" } else { "name = \"ctl1\"\n" };
        let settings = format!(
            "topology = \"{place}/fabric.ibnetdiscover\"\n\
             state_dir = \"{place}/state\"\ncontrol_socket = \"{place}/control.sock\"\n\
             log_file = \"{place}/log\"\n{}",
            format!("{name}{listen}{more}").replace("FOLDER", &place.to_string())
        );
        std::fs::write(folder.path().join("controller.toml"), settings).unwrap();
        Self { folder, topology, child: None }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn sessions(&self) -> Address {
        Address::Unix(self.file("sessions.sock"))
    }

    /// Where its API is, by TLS, with the port that the system chose; once it has answered.
    pub(crate) fn api(&self) -> Address {
        let log = self.log();
        let told = log.split("the API is at ").nth(1).unwrap_or_else(|| panic!("{log}"));
        let last = told.lines().next().unwrap().rsplit(", ").next().unwrap();
        Address::Tls(last.trim().to_owned())
    }

    pub(crate) fn start(&mut self) {
        let command = Command::new(env!("CARGO_BIN_EXE_snin-controller"))
            .arg("--config")
            .arg(self.file("controller.toml"))
            .arg("--record")
            .arg(self.record())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn();
        self.child = Some(command.unwrap());
    }

    /// Starts it where it cannot: what it says, and its exit code.
    pub(crate) fn refuses(&self) -> (String, Option<i32>) {
        let config = self.file("controller.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin-controller"));
        let said = command.arg("--config").arg(config).stdin(Stdio::null()).output().unwrap();
        (String::from_utf8_lossy(&said.stderr).into_owned(), said.status.code())
    }

    /// As if the machine had lost it.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a process");
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself: {}", self.log());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// As its administrator ends it.
    pub(crate) fn end(&mut self) {
        let mut child = self.child.take().expect("a process");
        let asked = Command::new("kill").arg(child.id().to_string()).status();
        assert!(asked.unwrap().success());
        assert!(child.wait().unwrap().success(), "{}", self.log());
    }

    /// What its core was told since it was started last.
    pub(crate) fn record(&self) -> PathBuf {
        self.file("record")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Asks until it is there.
    pub(crate) fn ask(&self, request: &Value) -> Result<Value, String> {
        let began = Instant::now();
        loop {
            let asked = Connection::open(&self.file("control.sock"), Some(PATIENCE));
            match asked.and_then(|mut connection| connection.ask(request)) {
                Ok(answer) => return Ok(answer),
                Err(ControlError::Refused(why) | ControlError::NoRoom(why)) => return Err(why),
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}: {}", self.log()),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it answers a user that may open its socket: a program of that user asks.
    pub(crate) fn ask_as(&self, user: u32, request: &Value) -> Result<Value, String> {
        let socket = self.file("control.sock");
        let program = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); \
                       s.sendall(sys.argv[2].encode() + b'\\n'); print(s.makefile().readline())";
        let mut command = self.program_of(user, "control.sock");
        command.args(["/usr/bin/python3", "-c", program]);
        let asked = command.arg(&socket).arg(request.to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        let mut said: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {asked:?}"));
        match said["error"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok(said["ok"].take()),
        }
    }

    /// What the API answers curl, run by a user: the status and the body.
    pub(crate) fn curl_as(&self, user: u32, arguments: &[&str]) -> (u16, Value) {
        let mut command = self.program_of(user, "api.sock");
        command.args(["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}"]);
        command.arg("--unix-socket").arg(self.file("api.sock"));
        answer(command.args(arguments))
    }

    /// What begins a command of a user that may open the socket.
    fn program_of(&self, user: u32, socket: &str) -> Command {
        let open = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        open(self.folder.path(), 0o755);
        open(&self.file(socket), 0o666);
        let root = rustix::process::geteuid().is_root();
        let mut command = Command::new(if root { "setpriv" } else { "sudo" });
        if !root {
            command.args(["-n", "setpriv"]);
        }
        command.args([&format!("--reuid={user}"), "--clear-groups"]);
        command
    }

    pub(crate) fn status(&self) -> Value {
        self.ask(&json!({ "command": "status" })).unwrap()
    }

    /// Asks for the status until it is so.
    pub(crate) fn until(&self, so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status();
            if so(&status) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{status:#}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What curl was answered, with the status as its last line.
pub(crate) fn answer(curl: &mut Command) -> (u16, Value) {
    let asked = curl.output().unwrap();
    let said = String::from_utf8(asked.stdout.clone()).unwrap();
    let (body, status) = said.rsplit_once('\n').unwrap_or_else(|| panic!("{asked:?}"));
    let body = serde_json::from_str(body).unwrap_or_else(|_| body.into());
    (status.parse().unwrap(), body)
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
