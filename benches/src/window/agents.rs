//! Agents that do what the protocol wants and nothing else, all on one thread: they confirm every lease at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use snin_daemon::session::{Address, Call, Caller, Credentials, Limits, Received};
use snin_fabric::Guid;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{
    AgentMessage, Ask, Change, ClockQuestion, Confirm, ControllerMessage, FromAgent, Hello,
    Request, ToAgent,
};
use snin_protocol::{ConnectionNumber, Session, Term, Time};
use tokio::select;
use tokio::sync::watch;

/// The peer of every agent, and how often that was told.
type Told = (u64, Arc<BTreeMap<Guid, Guid>>);

/// See the module's documentation. They end when this is dropped.
pub(super) struct Agents {
    tell: Option<watch::Sender<Told>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Agents {
    pub(super) fn start(ports: &[Guid], with: Vec<Arc<Credentials>>, to: &Address) -> Self {
        let (tell, told) = watch::channel((0, Arc::default()));
        let ports = ports.to_vec();
        let to = to.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let mut all = tokio::task::JoinSet::new();
                for (port, credentials) in ports.into_iter().zip(with) {
                    all.spawn(agent(port, credentials, to.clone(), told.clone()));
                }
                drop(told);
                while all.join_next().await.is_some() {}
            });
        });
        Self { tell: Some(tell), thread: Some(thread) }
    }

    /// Every agent asks for another peer.
    pub(super) fn ask(&self, round: u64, peers: BTreeMap<Guid, Guid>) {
        if let Some(tell) = &self.tell {
            // Agents that have ended are missed by who waits for them.
            let _ = tell.send((round, Arc::new(peers)));
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.tell = None;
        if let Some(thread) = self.thread.take() {
            // What went wrong there has been said there.
            let _ = thread.join();
        }
    }
}

async fn agent(
    port: Guid,
    credentials: Arc<Credentials>,
    to: Address,
    mut told: watch::Receiver<Told>,
) {
    let mut caller: Caller<ToAgent, FromAgent> = Caller::start(Call {
        to,
        service: Service::Grants,
        role: Role::Controller,
        peer: None,
        identity: Identity::Agent(port),
        limits: Limits::default(),
        credentials: Some(credentials),
    });
    let say = |caller: &mut Caller<ToAgent, FromAgent>, body| {
        let said = caller.send(&FromAgent { session: Session(1), body });
        assert!(said.expect("a frame"), "{port}: the controller does not read");
    };
    loop {
        select! {
            heard = caller.next() => match heard {
                Received::Opened(_) => {
                    say(&mut caller, AgentMessage::Hello(Hello { port, term: Term(0) }));
                }
                Received::Said(_, frame) => match frame.body {
                    ControllerMessage::Lease(lease) => {
                        let sequence = lease.sequence;
                        say(&mut caller, AgentMessage::Confirm(Confirm { sequence }));
                    }
                    ControllerMessage::Clock(_) => {
                        let sent = Time::ZERO;
                        say(&mut caller, AgentMessage::Clock(ClockQuestion { sent }));
                    }
                    ControllerMessage::Welcome(_)
                    | ControllerMessage::LinkTest(_)
                    | ControllerMessage::Stranger => {}
                },
                Received::Closed(..) => return,
            },
            new = told.changed() => {
                if new.is_err() {
                    return;
                }
                let (number, peers) = told.borrow_and_update().clone();
                let request = Request {
                    connection: ConnectionNumber(number as u32),
                    destination: peers[&port],
                    windows: 0,
                    rate: 0,
                    class: 0,
                    pinned: false,
                    tree: None,
                };
                // Another connection each time: nothing of the one before is kept.
                let before = Change::Withdraw(ConnectionNumber(number as u32 - 1));
                let changes = Arc::new(vec![before, Change::Request(request)]);
                say(&mut caller, AgentMessage::Ask(Ask { number, changes }));
            }
        }
    }
}
