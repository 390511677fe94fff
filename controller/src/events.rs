//! Events for the daemon's loop.

use snin_controller_core::leadership::Answer;
use snin_daemon::session::Received;
use snin_protocol::message::FromAgent;

use crate::io::candidate::Elected;
use crate::io::manager::News;

/// Something happened.
pub enum DaemonEvent {
    /// In a session with an agent.
    Agent(Received<FromAgent>),
    /// The manager said something.
    Manager(News),
    /// The store that several controllers share answers.
    Leadership(Answer, Option<Box<Elected>>),
    /// A window is to be decided, or something is to be said again.
    Due,
    /// It is time to look at control socket, pages and signals.
    Look,
}
