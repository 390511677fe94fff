//! Under systemd: what its notification socket hears, and what journald keeps.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use snin_fabric::ibnet;
use snin_judges::{JudgeError, Running, Simulator};

use crate::daemon::{PATIENCE, SNIN_SM, fabric, signal};

/// What a daemon tells systemd.
struct Received {
    socket: UnixDatagram,
    running: Running,
}

impl Received {
    fn start(simulator: &Simulator, watchdog: Option<Duration>) -> Self {
        let path = simulator.folder().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let mut command = Command::new(SNIN_SM);
        command.args(["--ibsim", simulator.name()]).env("NOTIFY_SOCKET", &path);
        if let Some(watchdog) = watchdog {
            command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        }
        let running = Running::start(&mut command, simulator.folder(), "snin-sm").unwrap();
        Self { socket, running }
    }

    /// The next thing that it says, if it says one in time.
    fn next(&self, patience: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(patience)).unwrap();
        let mut bytes = [0; 4_096];
        let length = self.socket.recv(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// All that it says up to what contains this.
    #[track_caller]
    fn until(&self, what: &str) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        while !said.last().is_some_and(|last| last.contains(what)) {
            let next = self.next(PATIENCE);
            said.push(
                next.unwrap_or_else(|| panic!("no {what}: {said:?}; {}", self.running.tail())),
            );
        }
        said
    }
}

#[test]
fn systemd_hears_that_it_is_ready_that_it_lives_and_that_it_ends() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let heard = Received::start(&simulator, Some(Duration::from_millis(400)));
    let said = heard.until("READY=1");
    let up = "STATUS=subnet up: 6 switches, 8 host ports, 2 trees, LMC 2; 0 missing";
    let first = said.iter().find(|said| said.starts_with("STATUS="));
    assert_eq!(first.map(|said| said.trim_end()), Some(up), "{said:?}");
    for _ in 0..5 {
        heard.until("WATCHDOG=1");
    }
    // A daemon that hangs is silent, and systemd ends it; this test goes on.
    signal(&heard.running, "STOP");
    while heard.next(Duration::from_secs(1)).is_some() {}
    signal(&heard.running, "CONT");
    heard.until("WATCHDOG=1");
    signal(&heard.running, "TERM");
    heard.until("STOPPING=1");
    Ok(())
}

#[test]
fn without_a_watchdog_nobody_barks() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:2,1,1")))?;
    let heard = Received::start(&simulator, None);
    heard.until("READY=1");
    signal(&heard.running, "HUP");
    heard.until("STATUS=");
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        let said = heard.next(Duration::from_millis(100)).unwrap_or_default();
        assert!(!said.contains("WATCHDOG"), "{said}");
    }
    Ok(())
}

/// A journald of its own, in a namespace where `/run` is empty; what it kept of the program goes to a file: by the
/// name that the program gives itself, since its process may be gone before journald looks who it was.
const JOURNALD: &str = r#"
    mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal /run/log/journal || exit 9
    /lib/systemd/systemd-journald & journald=$!
    for _ in $(seq 200); do [ -S /run/systemd/journal/socket ] && break; sleep 0.05; done
    kept=$1; shift
    "$@"; status=$?
    journalctl --sync
    journalctl --directory=/run/log/journal --output=json SYSLOG_IDENTIFIER=snin-sm >"$kept"
    kill $journald; wait $journald
    exit $status"#;

fn namespace(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "bash", "-c", script, "bash"]);
    command
}

#[test]
fn journald_keeps_what_it_says_with_its_fields() -> Result<(), JudgeError> {
    let simulator = Simulator::start(&ibnet::write(&fabric("clos:4,2,2")))?;
    let (config, kept) = (simulator.folder().join("sm.toml"), simulator.folder().join("kept"));
    fs::write(&config, "log_file = \"journald\"\n").unwrap();
    let once = |command: &mut Command| {
        command.args([SNIN_SM, "--once", "--ibsim", simulator.name(), "--config"]).arg(&config);
        command.output().expect("unshare, of the Debian package util-linux")
    };
    let said = once(namespace(JOURNALD).arg(&kept));
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "is the Debian package systemd installed? {error}");
    assert!(!error.contains("subnet up"), "{error}");
    let text = fs::read_to_string(&kept).unwrap();
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let up = "subnet up: 6 switches, 8 host ports, 2 trees, LMC 2; 0 missing";
    let entry = entries.iter().find(|entry| entry["MESSAGE"] == up);
    let entry = entry.unwrap_or_else(|| panic!("{text}"));
    // 5: notice. Fields of ours have a prefix, so that they are not taken for journald's own.
    assert_eq!(entry["PRIORITY"], "5");
    assert_eq!(entry["SYSLOG_IDENTIFIER"], "snin-sm");
    assert_eq!(entry["F_VERSION"], "1", "{entry}");

    // Without one it says so.
    let said = once(&mut namespace("mount -t tmpfs tmpfs /run && exec \"$@\""));
    let error = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(3), "{error}");
    assert_eq!(
        error,
        "snin-sm: journald: No such file or directory (os error 2): log to a file or to stderr\n"
    );
    Ok(())
}
