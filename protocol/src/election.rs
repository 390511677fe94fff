//! What subnet managers of one subnet say to each other about who is to be master.
//!
//! Each says it in the sessions that it opened for the mirror; so a message comes once.

use snin_fabric::Guid;

/// A message, and whom it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ballot {
    /// The manager, by the port GUID of the first of its ports; none: all.
    pub to: Option<Guid>,
    /// The port at which the sender sits, whose GUID its SMInfo shows.
    pub at: Guid,
    /// What is said.
    pub message: Message,
}

/// What a manager is in the election.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It waits for a master that goes before it.
    Electing,
    /// It is master.
    Master,
    /// It follows a master.
    Standby,
}

impl State {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Electing => "electing",
            Self::Master => "master",
            Self::Standby => "standby",
        }
    }
}

/// What a message asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Nothing: the sender says what it is.
    Status,
    /// The receiver is to become master.
    Takeover,
    /// The receiver is to yield mastership.
    Cede,
}

/// What managers say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Message {
    /// What it asks for.
    pub kind: Kind,
    /// The sender, by the port GUID of the first of its ports.
    pub sender: Guid,
    /// What the sender is.
    pub state: State,
    /// The sender's priority.
    pub priority: Priority,
}

/// What makes a manager go before another: the first field that differs decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Priority {
    /// The cluster chose it as configuration manager.
    pub chosen: bool,
    /// All of its ports are good.
    pub ports_ok: bool,
    /// How many are good.
    pub good_ports: u8,
    /// It is master.
    pub master: bool,
    /// What the operator gave it; the greater goes first.
    pub operator: u8,
}

impl Priority {
    /// The same with other ports: `good` of all of them.
    #[must_use]
    pub const fn with_ports(self, good: u8, of: u8) -> Self {
        Self { ports_ok: good >= of && of > 0, good_ports: good, ..self }
    }

    /// Whether a manager `guid` with this priority goes before another one.
    #[must_use]
    pub fn goes_before(self, guid: Guid, other: Self, other_guid: Guid) -> bool {
        (self, std::cmp::Reverse(guid)) > (other, std::cmp::Reverse(other_guid))
    }
}
