//! Who asks, what it may do, and how it is told that something is not done.

use snin_daemon::http::{Client, Refusal};
use snin_fabric::Guid;
use snin_protocol::identity::{Identity, Role};
use tracing::warn;

use crate::daemon::Daemon;

/// What one who asks may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Look.
    Anybody,
    /// Change slices of its own, have requests of its own.
    Launcher,
    /// Everything.
    Operator,
}

/// One who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    /// As what it asks for is owned: `user/4711`.
    pub(crate) name: String,
    pub(crate) rank: Rank,
    /// The port of the host whose user asks, through its agent.
    pub(crate) host: Option<Guid>,
    /// How the names of a launcher's own slices begin.
    slices: Option<String>,
}

impl Asker {
    /// Whether the slice is a launcher's own by its name.
    pub(crate) fn may_change(&self, slice: &str) -> bool {
        self.rank == Rank::Operator
            || self.slices.as_ref().is_some_and(|own| slice.starts_with(own.as_str()))
    }
}

/// Why a command is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    /// One line.
    pub(crate) why: String,
}

/// The fabric is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotKnown;

impl NotKnown {
    pub(crate) const WHY: &str = "the fabric is not known yet";
}

impl From<NotKnown> for Refused {
    fn from(_: NotKnown) -> Self {
        Self { refusal: Refusal::NotReady, why: NotKnown::WHY.to_owned() }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self { refusal: Refusal::Wrong, why }
    }
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl Refused {
    pub(crate) fn absent(why: String) -> Self {
        Self { refusal: Refusal::Absent, why }
    }

    /// As things are it cannot be.
    pub(crate) fn conflict(why: impl ToString) -> Self {
        Self { refusal: Refusal::Conflict, why: why.to_string() }
    }

    /// There is no room for it.
    pub(crate) fn no_room(why: impl ToString) -> Self {
        Self { refusal: Refusal::NoRoom, why: why.to_string() }
    }

    /// The daemon itself fails.
    pub(crate) fn failed(why: impl ToString) -> Self {
        Self { refusal: Refusal::NotReady, why: why.to_string() }
    }
}

impl Daemon {
    /// The end that asks, and the rank that it has. An agent asks for a `user` of its host.
    pub(crate) fn asker(&self, client: &Client, user: Option<u64>) -> Asker {
        let own = rustix::process::geteuid().as_raw();
        let (name, rank, host) = match client {
            Client::User(user) => {
                let operates = *user == 0 || *user == own || self.operators.contains(user);
                let rank = if operates { Rank::Operator } else { Rank::Anybody };
                (format!("user/{user}"), rank, None)
            }
            Client::Certified(Identity::Agent(port)) => match user {
                Some(user) => (format!("agent/{port}/user/{user}"), Rank::Anybody, Some(*port)),
                None => (format!("agent/{port}"), Rank::Anybody, None),
            },
            Client::Certified(named) => {
                let operates = named.role() == Role::Operator;
                let rank = if operates { Rank::Operator } else { Rank::Anybody };
                (named.to_string(), rank, None)
            }
            Client::Unknown => ("a program of an unknown user".to_owned(), Rank::Anybody, None),
        };
        let slices = self.launchers.get(&name).cloned();
        let rank = if slices.is_some() { rank.max(Rank::Launcher) } else { rank };
        Asker { name, rank, host, slices }
    }

    /// Refuses what the asker may not do: counted, and one line.
    pub(crate) fn permit(&mut self, asker: &Asker, least: Rank, what: &str) -> Result<(), Refused> {
        if asker.rank >= least {
            return Ok(());
        }
        let who = if least == Rank::Operator { "operators" } else { "operators and launchers" };
        Err(self.forbid(asker, format_args!("{what}: only {who} may")))
    }

    /// Counts and logs what the asker may not do.
    pub(crate) fn forbid(&mut self, asker: &Asker, what: impl std::fmt::Display) -> Refused {
        self.counted.not_permitted += 1;
        let why = format!("{} may not {what}", asker.name);
        warn!("{why}");
        Refused { refusal: Refusal::NotPermitted, why }
    }
}
