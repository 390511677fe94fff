//! Who asks, what it may do, and how it is told that something is not done.

use snin_daemon::http::{Client, Refusal};
use snin_fabric::Guid;
use snin_protocol::identity::{Identity, Role};
use tracing::warn;

use crate::daemon::Daemon;

/// What one who asks may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Permission {
    /// Look.
    Anybody,
    /// Change slices of its own, have requests of its own.
    Launcher,
    /// Everything.
    Operator,
}

/// One who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Principal {
    /// As what it asks for is owned: `user/4711`.
    pub(crate) name: String,
    pub(crate) rank: Permission,
    /// The port of the host whose user asks, through its agent.
    pub(crate) host: Option<Guid>,
    /// How the names of a launcher's own slices begin.
    slices: Option<String>,
}

impl Principal {
    /// Whether the slice is a launcher's own by its name.
    pub(crate) fn may_change(&self, slice: &str) -> bool {
        self.rank == Permission::Operator
            || self.slices.as_ref().is_some_and(|own| slice.starts_with(own.as_str()))
    }
}

/// Why a command is not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ApiError {
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

impl From<NotKnown> for ApiError {
    fn from(_: NotKnown) -> Self {
        Self { refusal: Refusal::NotReady, why: NotKnown::WHY.to_owned() }
    }
}

impl From<String> for ApiError {
    fn from(why: String) -> Self {
        Self { refusal: Refusal::Wrong, why }
    }
}

impl From<&str> for ApiError {
    fn from(why: &str) -> Self {
        why.to_owned().into()
    }
}

impl ApiError {
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
    pub(crate) fn principal(&self, client: &Client, user: Option<u64>) -> Principal {
        let own = rustix::process::geteuid().as_raw();
        let (name, rank, host) = match client {
            Client::User(user) => {
                let operates = *user == 0 || *user == own || self.operators.contains(user);
                let rank = if operates { Permission::Operator } else { Permission::Anybody };
                (format!("user/{user}"), rank, None)
            }
            Client::Certified(Identity::Agent(port)) => match user {
                Some(user) => {
                    (format!("agent/{port}/user/{user}"), Permission::Anybody, Some(*port))
                }
                None => (format!("agent/{port}"), Permission::Anybody, None),
            },
            Client::Certified(named) => {
                let operates = named.role() == Role::Operator;
                let rank = if operates { Permission::Operator } else { Permission::Anybody };
                (named.to_string(), rank, None)
            }
            Client::Unknown => {
                ("a program of an unknown user".to_owned(), Permission::Anybody, None)
            }
        };
        let slices = self.launchers.get(&name).cloned();
        let rank = if slices.is_some() { rank.max(Permission::Launcher) } else { rank };
        Principal { name, rank, host, slices }
    }

    /// Refuses what the principal may not do: counted, and one line.
    pub(crate) fn permit(
        &mut self,
        principal: &Principal,
        least: Permission,
        what: &str,
    ) -> Result<(), ApiError> {
        if principal.rank >= least {
            return Ok(());
        }
        let who =
            if least == Permission::Operator { "operators" } else { "operators and launchers" };
        Err(self.forbid(principal, format_args!("{what}: only {who} may")))
    }

    /// Counts and logs what the principal may not do.
    pub(crate) fn forbid(
        &mut self,
        principal: &Principal,
        what: impl std::fmt::Display,
    ) -> ApiError {
        self.counted.not_permitted += 1;
        let why = format!("{} may not {what}", principal.name);
        warn!("{why}");
        ApiError { refusal: Refusal::NotPermitted, why }
    }
}
