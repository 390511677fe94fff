//! Events for the daemon's loop.

use snin_daemon::session::Received;
use snin_protocol::message::FromAgent;

use crate::io::manager::News;

/// Something happened.
#[derive(Debug)]
pub enum DaemonEvent {
    /// In a session with an agent.
    Agent(Received<FromAgent>),
    /// The manager said something.
    Manager(News),
    /// A window is to be decided, or something is to be said again.
    Due,
    /// It is time to look at control socket, pages and signals.
    Look,
}
