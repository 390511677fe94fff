//! Who asks, what it may do, and how it is told that something is not done.

use snin_daemon::http::Refusal;
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

    /// The daemon itself fails.
    pub(crate) fn failed(why: impl ToString) -> Self {
        Self { refusal: Refusal::NotReady, why: why.to_string() }
    }
}

impl Daemon {
    /// A user of this machine; `None` where the system does not know which.
    pub(crate) fn user(&self, user: Option<u32>) -> Asker {
        let own = rustix::process::geteuid().as_raw();
        let slices = user.and_then(|user| self.launchers.get(&user).cloned());
        let rank = match user {
            Some(user) if user == 0 || user == own || self.operators.contains(&user) => {
                Rank::Operator
            }
            _ if slices.is_some() => Rank::Launcher,
            _ => Rank::Anybody,
        };
        let unknown = || "a program of an unknown user".to_owned();
        let name = user.map_or_else(unknown, |user| format!("user/{user}"));
        Asker { name, rank, slices }
    }

    /// Refuses what the asker may not do: counted, and one line.
    pub(crate) fn permit(&mut self, asker: &Asker, least: Rank, what: &str) -> Result<(), Refused> {
        if asker.rank >= least {
            return Ok(());
        }
        self.counted.not_permitted += 1;
        let who = if least == Rank::Operator { "operators" } else { "operators and launchers" };
        let why = format!("{} may not {what}: only {who} may", asker.name);
        warn!("{why}");
        Err(Refused { refusal: Refusal::NotPermitted, why })
    }
}
