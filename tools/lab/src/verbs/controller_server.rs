//! The controller's server: a thread that holds the sessions with all agents and the controller.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use snin_controller_core::events::Event;
use snin_daemon::clock::Clock;
use snin_daemon::session::{Address, Limits, Listen, Post, Received};
use snin_daemon::watch::Watch;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::{Identity, Role};
use snin_protocol::message::{FromAgent, ToAgent};

use super::controllers::Controller;
use super::error::VerbsLabError;
use super::worker::Worker;

/// The most sessions: hosts have one each.
const SESSIONS: usize = 128;
/// It looks no less often.
const LONGEST_SLEEP: Time = Time::millis(100);

/// See the module's documentation. It is left when dropped.
pub(super) struct ControllerServer {
    common: Arc<Common>,
    /// Where agents call.
    pub(super) address: Address,
    worker: Worker,
}

struct Common {
    controller: Mutex<Controller>,
    bell: OwnedFd,
    clock: Clock,
}

impl ControllerServer {
    pub(super) fn open(controller: Controller, clock: Clock) -> Result<Self, VerbsLabError> {
        let failed = || VerbsLabError::system("the controller's sessions");
        let identity = Identity::new(Role::Controller, "lab");
        let post = Post::listen(Listen {
            at: vec![Address::Plain((Ipv4Addr::LOCALHOST, 0).into())],
            service: Service::Grants,
            identity: identity.map_err(|error| failed()(io::Error::other(error)))?,
            roles: vec![Role::Agent],
            users: Vec::new(),
            group: None,
            limits: Limits { sessions: SESSIONS, ..Limits::default() },
            credentials: None,
        });
        let post = post.map_err(|error| failed()(error.error))?;
        let [address] = post.addresses() else {
            return Err(failed()(io::ErrorKind::AddrNotAvailable.into()));
        };
        let address = address.clone();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(|error| failed()(error.into()))?;
        let common = Arc::new(Common { controller: Mutex::new(controller), bell, clock });
        let inside = Arc::clone(&common);
        let worker = Worker::start("controller", move |stops| serve(post, &inside, stops))?;
        Ok(Self { common, address, worker })
    }

    /// Does something with the controller, which acts on it at once.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Controller, Time) -> T) -> T {
        let result = what(&mut self.common.controller(), self.common.clock.now());
        self.common.wake();
        result
    }

    /// Whether anybody sits there still; if not, why.
    pub(super) fn check(&mut self) -> Result<(), VerbsLabError> {
        self.worker.check()
    }
}

impl Drop for ControllerServer {
    fn drop(&mut self) {
        self.worker.stop();
        self.common.wake();
    }
}

impl Common {
    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It can only be full of calls already.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

fn serve(
    mut post: Post<FromAgent, ToAgent>,
    common: &Common,
    stops: &AtomicBool,
) -> io::Result<()> {
    while !stops.load(Ordering::Relaxed) {
        let next = {
            let mut controller = common.controller();
            let now = common.clock.now();
            for event in post.work().into_iter().filter_map(event) {
                controller.handle(event, now);
            }
            for (to, message) in controller.work(now) {
                post.send_to(&Identity::Agent(to), message);
            }
            controller.next_deadline()
        };
        let mut watch = Watch::new();
        let bell = watch.readable(common.bell.as_fd());
        post.watch(&mut watch);
        let sleep = (next - common.clock.now()).min(LONGEST_SLEEP);
        watch.wait(Some(Duration::from_nanos(sleep.nanos())))?;
        if watch.is_ready(bell) {
            rustix::io::read(&common.bell, &mut [0; 8])?;
        }
    }
    Ok(())
}

/// What the controller is told of what came.
fn event(received: Received<FromAgent>) -> Option<Event> {
    match received {
        Received::Opened(_) => None,
        Received::Said(peer, message) => Some(Event::Received { from: peer.port()?, message }),
        Received::Closed(peer, _) => Some(Event::AgentLost(peer.port()?)),
    }
}
