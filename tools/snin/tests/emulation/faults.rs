//! Twelve lasting faults, each named by the status, by `/healthz`, by a metric and by an event, and gone from
//! all of them when it is over.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use snin_fabric::{Lid, PortNum};
use snin_judges::{Disk, JudgeError, Simulated as _};
use snin_mad::sa::{ComponentMask, JoinState, McMemberRecord, SaRequest};
use snin_mad::{Gid, GidPrefix, Method, PKey, QKey};
use snin_sm::port::ibsim::IbsimPort;
use snin_sm::port::{Address, Port as _, Sent};

use crate::emulation::{Emulation, snin, wait};
use crate::manager::Manager;

/// A manager and all that an administrator looks at.
struct Watched {
    manager: Manager,
    metrics: String,
}

/// What is broken, and how it is told.
struct Lasting {
    kind: &'static str,
    /// A part of the line that names it.
    what: &'static str,
}

impl Watched {
    fn start(
        emulation: &Emulation,
        name: &str,
        host: &str,
        settings: &str,
    ) -> Result<Self, JudgeError> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let settings = format!("metrics_listen = \"{free}\"\n{settings}");
        let manager = Manager::begin(emulation, name, host, &settings)?;
        Ok(Self { manager, metrics: free.to_string() })
    }

    fn sm(&self, what: &[&str]) -> Output {
        self.manager.run(what)
    }

    fn page(&self, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(&self.metrics) else { return String::new() };
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Events of this name that name it.
    fn told(&self, event: &str, fault: &Lasting) -> usize {
        let said = self.sm(&["events", "--json"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let events = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_it = |told: &Value| {
            let names = told["what"].as_str().is_some_and(|what| what.contains(fault.what));
            told["event"] == event && told["kind"] == fault.kind && names
        };
        events.filter(is_it).count()
    }

    /// Whether the status, `/healthz` and the metric say so.
    fn named(&self, fault: &Lasting) -> [bool; 3] {
        let status = self.sm(&["status"]);
        let said = String::from_utf8_lossy(&status.stdout).contains(fault.what);
        let none = format!("snin_sm_faults{{kind=\"{}\"}} 0.0", fault.kind);
        // A certificate that ends soon is no reason to call the manager ill.
        let code = i32::from(fault.kind != "certificate");
        [
            said && status.status.code() == Some(code),
            self.page("/healthz").contains(fault.what),
            !self.page("/metrics").contains(&none),
        ]
    }

    fn is_well(&self) -> bool {
        let page = self.page("/metrics");
        let faults = page.lines().filter(|line| line.starts_with("snin_sm_faults{"));
        let mut faults = faults.peekable();
        let none = faults.peek().is_some() && faults.all(|line| line.ends_with(" 0.0"));
        none && self.sm(&["status"]).status.code() == Some(0)
    }

    /// Each is named everywhere while it lasts; when all are over nothing is.
    fn judge(&self, faults: &[Lasting], begin: impl FnOnce(), end: impl FnOnce()) {
        begin();
        for fault in faults {
            wait(&format!("{} is named", fault.what), || self.named(fault) == [true; 3]);
            wait(&format!("{} is an event", fault.what), || self.told("FAULT", fault) > 0);
        }
        end();
        wait("nothing is wrong any more", || self.is_well());
        for fault in faults {
            wait(&format!("{} is over", fault.what), || self.told("FAULT_OVER", fault) > 0);
            let health = self.page("/healthz");
            assert!(health.starts_with("HTTP/1.1 200") && !health.contains(fault.what), "{health}");
        }
    }

    fn reload(&self) {
        kill_process(Pid::from_raw(self.manager.id() as i32).unwrap(), Signal::HUP).unwrap();
    }
}

/// A CA, and a certificate of the manager for so many days.
fn issue(folder: &Path, verb: &str, days: &str) {
    let pki = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_snin"));
        command.arg("pki").args(arguments).arg("--dir").arg(folder.join("pki"));
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    };
    if verb == "issue" {
        pki(&["init", "--name", "here"]);
    }
    pki(&[verb, "manager/sm1", "--days", days]);
}

#[test]
fn twelve_lasting_faults_are_named_everywhere_and_gone_when_they_end() -> Result<(), JudgeError> {
    let emulation = Emulation::start("clos:4,4,3", &[])?;
    let folder = emulation.folder().to_owned();
    issue(&folder, "issue", "10");
    let disk = Disk::mount(&folder.join("sm"), 16_384)?;
    let partitions = folder.join("partitions.conf");
    let well = "Default=0x7fff, ipoib : ALL=full;\n";
    fs::write(&partitions, well).unwrap();
    let of = |name: &str| folder.join("pki").join(name);
    let settings = format!(
        "partition_config_file = {partitions:?}\nsweep_interval = 1\n\
         session_listen = [\"tls://127.0.0.1:0\"]\ncertificate = {:?}\nkey = {:?}\nca_certificate = {:?}\n",
        of("manager-sm1.crt"),
        of("manager-sm1.key"),
        of("ca.crt")
    );
    let watched = Watched::start(&emulation, "sm", "host0", &settings)?;
    let fault = |what: &[&str]| {
        let said = snin(&emulation, &[&["emulator", "fault"], what].concat());
        assert!(said.status.success(), "{what:?}");
    };
    // The certificate ends soon, until it is renewed.
    let ends = [Lasting { kind: "certificate", what: "the certificate of manager/sm1 ends on" }];
    watched.judge(&ends, || {}, || issue(&folder, "renew", "365"));

    // The fabric.
    let of_links = [
        Lasting { kind: "gone", what: "no link between leaf1/4 and spine0/2" },
        Lasting { kind: "gone", what: "no link between leaf1/2 and host4/1" },
        Lasting { kind: "slow", what: "runs at 1xNDR, both can do 4xNDR" },
        Lasting { kind: "slow", what: "runs at 4xHDR, both can do 4xNDR" },
    ];
    watched.judge(
        &of_links,
        || {
            fault(&["cut", "leaf1/4"]);
            fault(&["off", "host4"]);
            fault(&["train", "leaf2/4", "1xNDR"]);
            fault(&["train", "leaf3/5", "4xHDR"]);
        },
        || {
            fault(&["restore", "leaf1/4"]);
            fault(&["on", "host4"]);
            fault(&["train", "leaf2/4", "4xNDR"]);
            fault(&["train", "leaf3/5", "4xNDR"]);
        },
    );
    let of_nodes = [
        Lasting { kind: "missing", what: "spine3 (" },
        Lasting { kind: "missing", what: "nobody answers behind leaf2/2" },
        Lasting { kind: "missing", what: "host9 refused PortInfo" },
    ];
    watched.judge(
        &of_nodes,
        || {
            fault(&["off", "spine3"]);
            fault(&["dead", "host7"]);
            fault(&["bounce", "host7/1"]);
            fault(&["refuse", "host9/1"]);
            fault(&["bounce", "host9/1"]);
        },
        || {
            fault(&["on", "spine3"]);
            fault(&["well", "host7"]);
            fault(&["accept", "host9/1"]);
        },
    );

    // Another manager, which takes this one for a stranger.
    let rival = [Lasting { kind: "missing", what: "is master of this subnet too" }];
    let stranger = "sm_key = \"0x77\"
sm_priority = 14
";
    let other = Watched::start(&emulation, "other", "host11", stranger)?;
    watched.judge(&rival, || {}, || drop(other));

    // Files and disks.
    let refused = [Lasting { kind: "refused", what: "partitions.conf:2" }];
    let write = |text: &str| {
        fs::write(&partitions, text).unwrap();
        watched.reload();
    };
    watched.judge(&refused, || write(&format!("{well}what is this\n")), || write(well));
    let many: String = (0x100..0x200).map(|key| format!("={key:#x} : ALL=full;\n")).collect();
    let short = [Lasting { kind: "missing", what: "of its P_Keys" }];
    watched.judge(&short, || write(&format!("{well}{many}")), || write(well));
    let full = [Lasting { kind: "storage", what: "the state is not stored" }];
    let filler = disk.folder().join("filler");
    let mut client = IbsimPort::attach(emulation.name(), Some("host2")).unwrap();
    let begin = || {
        disk.fill("filler").unwrap();
        create_groups(&mut client, &emulation, &watched);
    };
    watched.judge(&full, begin, || fs::remove_file(&filler).unwrap());
    Ok(())
}

/// A host creates groups, which the manager has to store: more than fits into the last page of a file.
fn create_groups(client: &mut IbsimPort, emulation: &Emulation, watched: &Watched) {
    let said = watched.sm(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&said.stdout).unwrap();
    let lid = Lid(u16::try_from(status["port"]["lid"].as_u64().unwrap()).unwrap());
    let topology = emulation.topology();
    let host = topology.nodes().find(|&node| &*topology.node(node).name == "host2").unwrap();
    let port = topology.port_of(host, PortNum(1)).unwrap();
    let prefix = GidPrefix(0xFE80_0000_0000_0000);
    let to = Address { lid, qp: 1, sl: 0, q_key: QKey(0x8001_0000), p_key_index: 0 };
    for number in 0..64 {
        let mut mgid = [0; 16];
        (mgid[0], mgid[1], mgid[15]) = (0xFF, 0x12, number);
        let group = McMemberRecord {
            mgid: Gid(mgid),
            port_gid: Gid::new(prefix, topology.port(port).guid),
            q_key: QKey(0xB1B),
            p_key: PKey(0xFFFF),
            join_state: JoinState::FULL,
            ..McMemberRecord::default()
        };
        let given = ComponentMask::of(&[0, 1, 2, 6, 7, 12, 13, 14, 16]);
        let request = SaRequest::new(Method::Set, &group, given);
        let sent = client.send(&request.transaction(u64::from(number) + 1).mad(), &to);
        assert_ne!(sent.unwrap(), Sent::Full);
    }
}
