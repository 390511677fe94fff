//! Events for the daemon's loop, and events that it reports.

use snin_daemon::session::Received;
use snin_fabric::Guid;
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

/// Why a window was missed or late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Late {
    /// The machine let the controller wait.
    Woken,
    /// The window before took too long to decide.
    Busy,
}

impl Late {
    /// For people.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Woken => "the machine woke the controller late",
            Self::Busy => "the window before took too long to decide",
        }
    }
}

/// An agent whose session is over, who may come again at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaving {
    /// Its port.
    pub port: Guid,
    /// By then it is lost.
    pub by: snin_protocol::Time,
}
