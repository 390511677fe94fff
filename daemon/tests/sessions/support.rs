//! A site with a CA, a daemon that answers, and well-behaved callers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use snin_daemon::pki::{Pair, Pki};
use snin_daemon::session::{
    Address, Call, Caller, Count, Credentials, Files, Limits, Listen, Listener, Received, Tally,
};
use snin_fabric::Guid;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{
    AgentMessage, ClockAnswer, ClockQuestion, ControllerMessage, FromAgent, ToAgent,
};
use snin_protocol::{Session, Term, Time};
use tokio::sync::mpsc;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn agent(number: u64) -> Identity {
    Identity::Agent(Guid(number))
}

pub(crate) fn controller() -> Identity {
    Identity::new(Role::Controller, "ctl1").unwrap()
}

/// A CA and what it issued.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) pki: Pki,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::at(folder.path());
        pki.init("a site", 30).unwrap();
        Self { folder, pki }
    }

    pub(crate) fn credentials(&self, who: &Identity) -> Arc<Credentials> {
        let pair = self.pki.issue(who, 10, None).unwrap();
        self.load(&pair, &self.pki.file("ca.crt"))
    }

    /// Of a pair, of any CA.
    pub(crate) fn load(&self, pair: &Pair, ca: &Path) -> Arc<Credentials> {
        let (certificate, key) = (pair.certificate.clone(), pair.key.clone());
        let ca_certificate = ca.to_owned();
        let revoked = Some(self.pki.file("revoked.pem"));
        Arc::new(Credentials::load(Files { certificate, key, ca_certificate, revoked }).unwrap())
    }
}

/// A daemon that tells the time, and what happens to it.
pub(crate) struct Desk {
    pub(crate) addresses: Vec<Address>,
    pub(crate) tally: Arc<Tally>,
    events: mpsc::UnboundedReceiver<String>,
    _serving: tokio::task::JoinHandle<()>,
}

impl Desk {
    pub(crate) fn open(at: &[&str], limits: Limits, credentials: Option<Arc<Credentials>>) -> Self {
        let listen = Listen {
            at: at.iter().map(|address| address.parse().unwrap()).collect(),
            service: Service::Grants,
            identity: controller(),
            roles: vec![Role::Agent],
            users: Vec::new(),
            group: None,
            limits,
            credentials,
        };
        let listener = Listener::start(listen).unwrap();
        let (tell, events) = mpsc::unbounded_channel();
        Self {
            addresses: listener.addresses().to_vec(),
            tally: listener.tally().clone(),
            events,
            _serving: tokio::spawn(serve(listener, tell)),
        }
    }

    /// Plain sessions only.
    pub(crate) fn plain(limits: Limits) -> Self {
        Self::open(&["plain://127.0.0.1:0"], limits, None)
    }

    /// Sessions with certificates of a site only.
    pub(crate) fn tls(site: &Site, limits: Limits) -> Self {
        Self::open(&["tls://127.0.0.1:0"], limits, Some(site.credentials(&controller())))
    }

    pub(crate) async fn next(&mut self) -> String {
        tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("nothing happens").unwrap()
    }

    /// What has happened until now.
    pub(crate) fn so_far(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.events.try_recv().ok()).collect()
    }

    pub(crate) async fn counts(&self, what: Count, least: u64) {
        let counted = async {
            while self.tally.get(what) < least {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, counted).await;
        in_time.unwrap_or_else(|_| panic!("{what:?}: {}", self.tally.get(what)));
    }
}

async fn serve(mut listener: Listener<FromAgent, ToAgent>, tell: mpsc::UnboundedSender<String>) {
    loop {
        let event = match listener.next().await {
            Received::Opened(peer) => format!("{peer} is there"),
            Received::Closed(peer, end) => format!("{peer} is gone: {end}"),
            Received::Said(peer, FromAgent { session, body }) => {
                let AgentMessage::Clock(ClockQuestion { sent }) = body else { continue };
                let body = ControllerMessage::Clock(ClockAnswer { sent });
                let at = Time::secs(7);
                listener.send(&peer, &ToAgent { session, term: Term(1), at, body }).unwrap();
                continue;
            }
        };
        if tell.send(event).is_err() {
            return;
        }
    }
}

/// A caller that behaves.
pub(crate) struct Good(pub(crate) Caller<ToAgent, FromAgent>);

impl Good {
    pub(crate) fn call(to: &Address, who: Identity, credentials: Option<Arc<Credentials>>) -> Self {
        Self(Caller::start(call(to, who, credentials)))
    }

    pub(crate) async fn next(&mut self) -> Received<ToAgent> {
        tokio::time::timeout(PATIENCE, self.0.next()).await.expect("nothing happens")
    }

    /// Until it has a session.
    pub(crate) async fn opened(&mut self) -> String {
        match self.next().await {
            Received::Opened(peer) => peer.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Asks the time and hears the answer.
    pub(crate) async fn asks(&mut self, sent: u64) {
        assert!(self.0.send(&question(sent)).unwrap());
        match self.next().await {
            Received::Said(_, ToAgent { body: ControllerMessage::Clock(answer), .. }) => {
                assert_eq!(answer.sent, Time(sent));
            }
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn question(sent: u64) -> FromAgent {
    FromAgent { session: Session(1), body: AgentMessage::Clock(ClockQuestion { sent: Time(sent) }) }
}

pub(crate) fn call(
    to: &Address,
    identity: Identity,
    credentials: Option<Arc<Credentials>>,
) -> Call {
    Call {
        to: to.clone(),
        service: Service::Grants,
        role: Role::Controller,
        peer: None,
        identity,
        limits: Limits::default(),
        credentials,
    }
}
