//! Peers that break the rules, against a controller that runs: each is refused, counted and named in one line, and
//! the agents that keep the rules send on.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use snin_daemon::http;
use snin_daemon::pki::Pair;
use snin_fabric::Guid;
use snin_protocol::codec::{MAX_FRAME, Message, VERSION, encode};
use snin_protocol::greeting::{Greet, Service, SessionMessage};
use snin_protocol::identity::Identity;
use snin_protocol::message::{AgentMessage, ClockQuestion, FromAgent, Hello};
use snin_protocol::{Session, Term, Time};

use super::agents::Agents;
use super::process::{Controller, PATIENCE};
use super::roles::Site;
use super::watcher::Watcher;

/// A peer that speaks TLS and does what it likes.
struct Rogue(StreamOwned<ClientConnection, TcpStream>);

impl Rogue {
    /// With a certificate, or without one.
    fn call(at: &str, ca: &Path, pair: Option<&Pair>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            Some(pair) => {
                let chain = CertificateDer::pem_file_iter(&pair.certificate).unwrap();
                let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
                config.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"snin".to_vec()];
        let name = "controller.snin.internal".try_into().unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(at).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(StreamOwned::new(tls, socket))
    }

    /// What it says may be lost with the session.
    fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
    }

    fn say<M: Message>(&mut self, message: &M) {
        self.write(&encode(message).unwrap());
    }

    fn greet(&mut self, port: Guid) {
        let identity = Identity::Agent(port);
        let greet = Greet { identity, service: Service::Grants, first: VERSION, last: VERSION };
        self.say(&SessionMessage::Greet(greet));
    }

    /// Until the controller has ended the session.
    fn is_cut_off(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.0.read(&mut buffer) {
                Ok(0) => return true,
                Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
                Ok(_) => {}
            }
        }
        false
    }
}

fn hello(port: Guid, term: u64) -> FromAgent {
    FromAgent { session: Session(9), body: AgentMessage::Hello(Hello { port, term: Term(term) }) }
}

/// A controller, its agents, and what it counts.
struct Attacked {
    site: Site,
    controller: Controller,
    agents: Agents,
    at: String,
}

impl Attacked {
    fn start() -> Self {
        let site = Site::new();
        let settings = format!(
            "{}listen = [\"unix://FOLDER/sessions.sock\", \"tls://127.0.0.1:0\"]\n\
             api = [\"unix://FOLDER/api.sock\", \"tls://127.0.0.1:0\"]\nagent_rate = 500\n\
             window_us = 40000\nlead_us = 4000\nlease = 4\nclock_error_us = 4000\ndrain_us = 1000\n",
            site.settings()
        );
        let controller = Controller::of("clos:4,4,2", &settings);
        let watcher = Watcher::new(controller.topology.clone());
        let agents = Agents::start(watcher, &controller.sessions(), 3);
        agents.send_more(50);
        // Those that called first send while others still greet.
        let began = Instant::now();
        let hosts = agents.watcher.lock().unwrap().hosts().len() as u64;
        while controller.status()["sessions"].as_u64() != Some(hosts) {
            assert!(began.elapsed() < PATIENCE, "{}", controller.status()["sessions"]);
            std::thread::sleep(Duration::from_millis(10));
        }
        let log = controller.log();
        let at = log.split("agents call at tls://").nth(1).unwrap();
        let at = at.split_whitespace().next().unwrap().to_owned();
        Self { site, controller, agents, at }
    }

    fn rogue(&self, pair: Option<&Pair>) -> Rogue {
        Rogue::call(&self.at, &self.site.pki.file("ca.crt"), pair)
    }

    /// What `/metrics` says of a counter.
    fn count(&self, name: &str) -> u64 {
        let own = rustix::process::geteuid().as_raw();
        let page = self.controller.curl_as(own, &["http://snin/metrics"]).1;
        let head = format!("snin_controller_{name}_total ");
        let found =
            page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&head)?.parse().ok());
        found.unwrap_or_else(|| panic!("{name} is not in {page}"))
    }

    /// Has a rule broken: it is counted, one line says so, and every agent goes on.
    fn breaks(&self, counter: &str, line: &str, breaking: impl FnOnce()) {
        let (before, said) = (self.count(counter), self.controller.log().matches(line).count());
        breaking();
        let began = Instant::now();
        while self.count(counter) == before || self.controller.log().matches(line).count() == said {
            let log = self.controller.log();
            assert!(
                began.elapsed() < PATIENCE,
                "{counter} is {}, no `{line}` in {log}",
                self.count(counter)
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        self.agents.send_more(10);
    }
}

#[test]
fn a_rogue_peer_is_refused_and_counted_and_harms_no_other() {
    let attacked = Attacked::start();
    let ports: Vec<Guid> = attacked.agents.watcher.lock().unwrap().hosts();
    // A certificate of a port that no agent of the others has.
    let own = Guid(0x0099);
    let pair = attacked.site.issue(&format!("agent/{own}"));
    let slow = std::thread::spawn({
        let mut rogue = attacked.rogue(Some(&pair));
        move || {
            // A byte at a time, for longer than the five seconds in which it has to greet.
            let identity = Identity::Agent(own);
            let greet = Greet { identity, service: Service::Grants, first: VERSION, last: VERSION };
            let greet = encode(&SessionMessage::Greet(greet)).unwrap();
            let pause = Duration::from_secs(8) / greet.len() as u32;
            for byte in greet {
                rogue.write(&[byte]);
                std::thread::sleep(pause);
            }
            rogue.is_cut_off()
        }
    });
    attacked.breaks("agent_sessions_handshakes_failed", "peer sent no certificates", || {
        let mut rogue = attacked.rogue(None);
        rogue.greet(ports[0]);
        assert!(rogue.is_cut_off());
    });
    let elsewhere = Site::new();
    let foreign = elsewhere.issue(&format!("agent/{}", ports[0]));
    attacked.breaks("agent_sessions_handshakes_failed", "invalid peer certificate", || {
        // The kind of trouble is said once a second.
        std::thread::sleep(Duration::from_millis(1_100));
        let mut rogue = attacked.rogue(Some(&foreign));
        rogue.greet(ports[0]);
        assert!(rogue.is_cut_off());
    });
    let line = format!(
        "it says that it is agent/{}, but its certificate is that of agent/{own}",
        ports[0]
    );
    attacked.breaks("agent_sessions_imposters", &line, || {
        let mut rogue = attacked.rogue(Some(&pair));
        rogue.greet(ports[0]);
        assert!(rogue.is_cut_off());
    });
    attacked.breaks("agent_sessions_malformed", "a frame of 65537 bytes", || {
        let mut rogue = attacked.rogue(Some(&pair));
        rogue.greet(own);
        rogue.write(&((MAX_FRAME + 1) as u32).to_be_bytes());
        assert!(rogue.is_cut_off());
    });
    // In a session of its own it speaks for another port, and of a term that never was.
    let mut rogue = attacked.rogue(Some(&pair));
    rogue.greet(own);
    attacked.breaks("imposters", &format!("{own} greets in the name of {}", ports[1]), || {
        rogue.say(&hello(ports[1], 0));
    });
    attacked.breaks("agents_ahead", &format!("{own} has heard of term 999"), || {
        rogue.say(&hello(own, 999));
    });
    attacked.breaks("agent_sessions_paced", "sends more than 500 frames a second", || {
        let body = AgentMessage::Clock(ClockQuestion { sent: Time(1) });
        let frame = encode(&FromAgent { session: Session(9), body }).unwrap();
        rogue.write(&frame.repeat(2_000));
    });
    // Callers that say nothing at all: the oldest give way.
    let silent = || (0..300).map(|_| TcpStream::connect(&attacked.at).unwrap()).collect::<Vec<_>>();
    let mut kept = Vec::new();
    attacked.breaks("agent_sessions_slow", "too many callers have not greeted", || kept = silent());
    drop(kept);
    // A user that asks for the port of another host, through the agent of its own.
    let api = attacked.controller.api();
    attacked.breaks("not_permitted", "kept: it is not its host's", || {
        let credentials = attacked.site.credentials(&pair);
        let (from, to) = (ports[0].to_string(), ports[1].to_string());
        let wanted =
            json!({ "command": "request", "from": from, "to": to, "user": 1000, "windows": 4 });
        let why = http::ask(&api, Some(&credentials), &wanted, PATIENCE).unwrap_err().to_string();
        assert!(why.contains("/user/1000 may not have port"), "{why}");
    });
    assert!(slow.join().unwrap(), "the slow one is cut off");
    assert!(attacked.count("agent_sessions_slow") >= 2);

    let status = attacked.controller.status();
    assert_eq!((&status["healthy"], &status["term"]), (&json!(true), &json!(1)));
    assert_eq!(status["counters"]["certificate_failures"], 0);
    assert_eq!(status["counters"]["agents_restarted"], 0, "no agent lost its session");
    let Attacked { agents, .. } = attacked;
    let watcher = agents.watcher.clone();
    drop(agents);
    assert!(watcher.lock().unwrap().clash().is_none());
}
