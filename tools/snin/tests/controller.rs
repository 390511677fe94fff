//! `snin controller`, `path`, `owner`, `slice`, `request` and `release` beside a controller that runs, and
//! `snin pki` by itself.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snin_daemon::pki::Pki;
use snin_fabric::generate::Recipe;
use snin_fabric::ibnet;
use snin_judges::netlist;

const PATIENCE: Duration = Duration::from_secs(60);

/// A controller of a fabric from a file. It ends when this is dropped.
struct Controller {
    folder: tempfile::TempDir,
    child: Child,
}

impl Controller {
    fn start() -> Self {
        Self::of(&ibnet::write(&"clos:4,4,2".parse::<Recipe>().unwrap().build().unwrap()))
    }

    fn of(fabric: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().display();
        std::fs::write(folder.path().join("fabric"), fabric).unwrap();
        let pki = Pki::at(&folder.path().join("pki"));
        pki.init("a site", 30).unwrap();
        for name in ["controller/ctl1", "operator/ann", "manager/sm1"] {
            pki.issue(&name.parse().unwrap(), 10, None).unwrap();
        }
        let settings = format!(
            "api = [\"tls://127.0.0.1:0\"]\ncertificate = \"{place}/pki/controller-ctl1.crt\"\n\
             key = \"{place}/pki/controller-ctl1.key\"\nca_certificate = \"{place}/pki/ca.crt\"\n\
             log_file = \"{place}/log\"\nlisten = [\"unix://{place}/sessions\"]\n\
             topology = \"{place}/fabric\"\nname = \"ctl1\"\n\
             state_dir = \"{place}/state\"\ncontrol_socket = \"{place}/control\"\nwindow_us = 50000\n"
        );
        std::fs::write(folder.path().join("controller.toml"), settings).unwrap();
        let mut command = Command::new(daemon());
        command.arg("--config").arg(folder.path().join("controller.toml"));
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let controller = Self { folder, child };
        let began = Instant::now();
        while controller.run(&["controller", "status"]).status.code() != Some(0) {
            assert!(began.elapsed() < PATIENCE, "it does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
        controller
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        let socket = self.folder.path().join("control");
        command.args(arguments).arg("--socket").arg(socket).output().unwrap()
    }

    /// By the API, with the certificate of that name.
    fn remote(&self, name: &str, arguments: &[&str]) -> Output {
        self.by_api(name, arguments).output().unwrap()
    }

    fn by_api(&self, name: &str, arguments: &[&str]) -> Command {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let api = log.split("the API is at ").nth(1).unwrap().split_whitespace().next().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        let pki = |file: &str| self.folder.path().join("pki").join(file);
        command.args(arguments).args(["--controller", &format!("tls://{api}"), "--certificate"]);
        command.arg(pki(&format!("{name}.crt"))).arg("--key").arg(pki(&format!("{name}.key")));
        command.arg("--ca-certificate").arg(pki("ca.crt"));
        command
    }

    /// Has the machine let it wait for several windows.
    fn delay(&self) {
        let pid = self.child.id().to_string();
        for signal in ["-STOP", "-CONT"] {
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            std::thread::sleep(Duration::from_millis(400));
        }
    }

    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        serde_json::from_str(&self.said(&arguments)).unwrap()
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon beside the command; a test of this crate alone has it built.
fn daemon() -> PathBuf {
    static BUILT: std::sync::Once = std::sync::Once::new();
    let program = Path::new(env!("CARGO_BIN_EXE_snin")).with_file_name("snin-controller");
    BUILT.call_once(|| {
        if !program.is_file() {
            let mut build = Command::new(env!("CARGO"));
            build.args([
                "build",
                "--quiet",
                "--package",
                "snin-controller",
                "--bin",
                "snin-controller",
            ]);
            assert!(build.status().unwrap().success());
        }
    });
    program
}

#[test]
fn a_running_controller_is_asked() {
    let controller = Controller::start();
    let status = controller.said(&["controller", "status"]);
    assert!(status.starts_with("controller/ctl1, term 1: grants connections\n"), "{status}");
    // Its certificate is for ten days, which is told, and no reason to call it ill.
    let ends =
        status.lines().find(|line| line.contains("the certificate of controller/ctl1 ends on "));
    assert!(
        ends.is_some_and(|line| line.ends_with("`snin pki renew controller/ctl1` makes a new one"))
    );
    let known = controller.json(&["controller", "status"]);
    assert_eq!((&known["window_us"], &known["healthy"]), (&json!(50_000), &json!(true)));
    assert_eq!(known["certificate"]["is_over"], false);
    let fabric = controller.said(&["controller", "fabric"]);
    assert!(fabric.starts_with("8 switches, 8 hosts, 4 trees, LMC 3; view 1 from "), "{fabric}");
    assert!(fabric.contains("\nhost host0, port 0x"), "{fabric}");
    assert_eq!(controller.said(&["controller", "policy"]), "shared\n");
    assert_eq!(controller.said(&["controller", "policy", "strict"]), "strict\n");
    assert_eq!(controller.said(&["controller", "policy", "shared"]), "shared\n");
    let grants = controller.said(&["controller", "grants"]);
    assert_eq!(grants.lines().count(), 1, "a head and no grant: {grants}");
    let events = controller.said(&["controller", "events"]);
    assert!(events.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{events}");
    // An operator on another machine; a manager only looks.
    let told = controller.remote("operator-ann", &["controller", "policy", "strict"]);
    assert_eq!(String::from_utf8_lossy(&told.stdout), "strict\n", "{told:?}");
    assert_eq!(
        controller.remote("operator-ann", &["controller", "policy", "shared"]).status.code(),
        Some(0)
    );
    assert_eq!(controller.remote("manager-sm1", &["controller", "status"]).status.code(), Some(0));
    let told = controller.remote("manager-sm1", &["slice", "create", "x", "--hosts", "2"]);
    let why = "snin: manager/sm1 may not change slices: only operators and launchers may\n";
    assert_eq!(
        (told.status.code(), String::from_utf8_lossy(&told.stderr).as_ref()),
        (Some(3), why)
    );
    // Hosts by number; nothing is granted.
    let path = controller.said(&["path", "0", "7"]);
    assert!(path.ends_with("nothing is granted: this is the way of ordinary traffic\n"), "{path}");
    let hop = controller.json(&["path", "0", "7"])["hops"][0].clone();
    let link = format!("{}/{}", hop["switch"].as_str().unwrap(), hop["port"]);
    let owner = controller.said(&["owner", &link]);
    assert!(owner.starts_with(&link) && owner.ends_with("nobody's\n"), "{owner}");
    assert!(controller.refused(&["owner", "nowhere/1"]).contains("no node is called nowhere"));
}

/// Two Clos whose spines are cabled are none: a user who asks why nothing is granted is told in one line.
#[test]
fn a_fabric_that_is_no_clos_any_more_is_said_to_be_none() {
    let part = |name, digits| {
        let topology = "clos:4,2,2".parse::<Recipe>().unwrap().build().unwrap();
        netlist::beside(&ibnet::write(&topology), name, digits, 1)
    };
    let both = part("north", "0200") + &part("south", "02a0");
    let joined = netlist::cabled(&both, ("S-0200020000000000", 5), ("S-02a0020000000000", 5));
    let controller = Controller::of(&joined);
    let status = controller.said(&["controller", "status"]);
    let why = "no Clos, so nothing is granted between leaves: it is 2 Clos that are joined: routed along trees \
               within each, up and then down between them";
    assert!(status.lines().any(|line| line == why), "{status}");
    let well = Controller::start();
    assert!(!well.said(&["controller", "status"]).contains("no Clos"));
}

/// Windows that were missed are told with their cause, also to those who follow events, here and by TLS.
#[test]
fn a_controller_that_cannot_keep_up_says_so() {
    let controller = Controller::start();
    let follow = ["controller", "events", "--follow"];
    let mut here = Command::new(env!("CARGO_BIN_EXE_snin"));
    here.args(follow).arg("--socket").arg(controller.folder.path().join("control"));
    let by_tls = controller.by_api("operator-ann", &follow);
    let mut followers = [here, by_tls].map(|mut command| {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    });
    let began = Instant::now();
    loop {
        controller.delay();
        let by = controller.json(&["controller", "status"])["missed_by"].clone();
        if by["machine"].as_u64() > Some(2) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{by}");
    }
    for (child, lines) in &mut followers {
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let missed =
            |event: &Value| event["event"] == "WINDOWS_MISSED" && event["cause"] == "machine";
        let event = events.find(missed).expect("it is told");
        assert!(
            event["missed"].as_u64() > Some(0) && event["late_us"].as_u64() > Some(50_000),
            "{event}"
        );
        // It follows until it is ended.
        let _ = child.kill();
        let _ = child.wait();
    }
    let windows = controller.json(&["controller", "windows", "--count", "256"]);
    let windows = windows["windows"].as_array().unwrap();
    let missed = windows.iter().find(|window| window["cause"] == "machine").expect("a window");
    assert!(missed["shares_us"]["machine"].as_u64() > Some(25_000), "{missed}");
    assert!(windows.iter().any(|window| window["missed"] == 0), "most are decided in time");
    for arguments in [&["controller", "windows", "--count", "256"][..], &["controller", "status"]] {
        let said = controller.said(arguments);
        assert!(said.contains(" us late: the machine let the controller wait ("), "{said}");
    }
}

#[test]
fn slices_and_requests_are_made_and_given_back() {
    let controller = Controller::start();
    let made = controller.said(&["slice", "create", "slurm/7", "--hosts", "4"]);
    assert!(made.starts_with("slurm/7: 4 hosts (") && made.contains(" links; "), "{made}");
    assert_eq!(controller.json(&["slice", "create", "slurm/7", "--hosts", "4"])["created"], false);
    let other = controller.refused(&["slice", "create", "slurm/7", "--hosts", "3"]);
    assert!(other.contains("resize it, or delete it first"), "{other}");
    let six = controller.run(&["slice", "explain", "--hosts", "6"]);
    assert_eq!(six.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(six.stdout).unwrap(),
        "no slice: 6 hosts wanted, but 4 are free; 4 hosts are in none\n"
    );
    assert!(
        controller.said(&["slice", "explain", "--hosts", "4"]).starts_with("possible: 4 hosts")
    );
    assert!(controller.said(&["slice", "explain", "slurm/7"]).contains(": tree "));
    // No room is the same exit code wherever it is asked for.
    let full = controller.run(&["slice", "create", "slurm/8", "--hosts", "6"]);
    let told = String::from_utf8(full.stdout).unwrap();
    assert_eq!(full.status.code(), Some(1), "{told}");
    assert_eq!(told, "no slice for slurm/8: 6 hosts wanted, but 4 are free\n");
    let larger = controller.run(&["slice", "resize", "slurm/7", "--hosts", "9"]);
    assert_eq!(larger.status.code(), Some(1));
    let grown = controller.json(&["slice", "resize", "slurm/7", "--hosts", "5"]);
    assert_eq!(grown["hosts"].as_array().unwrap().len(), 5);
    assert!(controller.said(&["slice", "list"]).ends_with("3 hosts are in no slice\n"));
    assert!(controller.said(&["slice", "delete", "slurm/7"]).ends_with("is given back\n"));
    assert!(controller.said(&["slice", "delete", "slurm/7"]).ends_with("there was none\n"));

    let request = ["request", "--from", "3", "--to", "7", "--at", "+1h", "--for", "60s"];
    let made = controller.said(&request);
    assert!(made.starts_with("request 0: ") && made.contains("waits for its time"), "{made}");
    let again = controller.run(&request);
    assert_eq!(again.status.code(), Some(1), "no room is 1, as with slices");
    let again = String::from_utf8(again.stdout).unwrap();
    assert!(again.starts_with("no request: request 0 has the sending port then"), "{again}");
    let now = controller.said(&["request", "--from", "3", "--to", "7", "--windows", "400"]);
    assert!(now.contains("has its ports"), "{now}");
    assert_eq!(controller.said(&["controller", "requests"]).lines().count(), 2);
    assert_eq!(controller.said(&["release", "0"]), "request 0 is given back\n");
    assert!(controller.refused(&["release", "0"]).contains("there is no request 0"));
}

#[test]
fn a_site_has_certificates_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let pki = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("pki").args(arguments).arg("--dir").arg(folder.path().join("pki"));
        command.output().unwrap()
    };
    let code = |output: &Output| output.status.code();
    assert_eq!(code(&pki(&["issue", "controller/ctl1"])), Some(3), "there is no CA yet");
    assert_eq!(code(&pki(&["init", "--name", "here"])), Some(0));
    assert_eq!(code(&pki(&["init"])), Some(3), "another one would make all certificates worthless");
    for name in ["controller/ctl1", "agent/0x0002c90300a1b2c3"] {
        assert_eq!(code(&pki(&["issue", name])), Some(0), "{name}");
    }
    let bad = pki(&["issue", "king/ann"]);
    assert_eq!(code(&bad), Some(3));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("names nobody"));
    assert_eq!(code(&pki(&["renew", "controller/ctl1", "--days", "30"])), Some(0));
    assert_eq!(code(&pki(&["revoke", "agent/0x0002c90300a1b2c3"])), Some(0));
    let list = String::from_utf8(pki(&["list"]).stdout).unwrap();
    assert_eq!(list.matches("controller/ctl1").count(), 2, "{list}");
    assert!(list.contains("agent/0x0002c90300a1b2c3") && list.contains("revoked"), "{list}");
}
