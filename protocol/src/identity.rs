//! The identity of an end of a session: a role and a name.
//!
//! A certificate names its owner by a DNS name under [`DOMAIN`], which is reserved for private use and so can
//! never be a site's own: `0002c9030000abcd.agent.snin.internal`, `ctl1.controller.snin.internal`. Beside it
//! a daemon's certificate has the name of its role, `controller.snin.internal`, which is what callers ask for.

use std::fmt;
use std::str::FromStr;

use snin_fabric::Guid;

/// Every name ends in this.
pub const DOMAIN: &str = "snin.internal";
/// The longest name of a host or person, in bytes: a DNS name has at most 253.
pub const MAX_NAME: usize = 200;

/// The role of a participant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// An end-node agent: named by the GUID of its port.
    Agent,
    /// A subnet manager.
    Manager,
    /// A connection controller.
    Controller,
    /// A person who runs the fabric.
    Operator,
    /// A job launcher.
    Launcher,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] =
        [Self::Agent, Self::Manager, Self::Controller, Self::Operator, Self::Launcher];

    /// In one word, as certificates have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Manager => "manager",
            Self::Controller => "controller",
            Self::Operator => "operator",
            Self::Launcher => "launcher",
        }
    }

    /// The DNS name of all that have this role.
    pub fn dns(self) -> String {
        format!("{}.{DOMAIN}", self.name())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| BadIdentity(text.to_owned()))
    }
}

/// The name of a participant. It is written `agent/0x0002c9030000abcd` or `controller/ctl1`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Identity {
    /// The agent of a port.
    Agent(Guid),
    /// Anybody else, by role and name.
    Named(Role, String),
}

/// A text that is no identity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` names nobody: expected agent/GUID, manager/HOST, controller/HOST, operator/NAME or launcher/NAME"
)]
pub struct BadIdentity(pub String);

impl Identity {
    /// The identity of a role and a name. A name is a DNS name: letters, digits, hyphens and dots.
    ///
    /// # Errors
    /// When the name cannot be in a certificate; for an agent, when it is no GUID.
    pub fn new(role: Role, name: &str) -> Result<Self, BadIdentity> {
        let bad = || BadIdentity(format!("{role}/{name:.80}"));
        if role == Role::Agent {
            return name.parse().map(Self::Agent).map_err(|_| bad());
        }
        let label = |label: &str| {
            let letters = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            letters
                && (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > MAX_NAME || !name.split('.').all(label) {
            return Err(bad());
        }
        Ok(Self::Named(role, name.to_ascii_lowercase()))
    }

    /// The role.
    pub const fn role(&self) -> Role {
        match self {
            Self::Agent(_) => Role::Agent,
            Self::Named(role, _) => *role,
        }
    }

    /// The port whose agent it is, if it is one.
    pub const fn port(&self) -> Option<Guid> {
        match self {
            Self::Agent(port) => Some(*port),
            Self::Named(..) => None,
        }
    }

    /// Its name in a certificate.
    pub fn dns(&self) -> String {
        match self {
            Self::Agent(port) => format!("{:016x}.{}", port.0, Role::Agent.dns()),
            Self::Named(role, name) => format!("{name}.{}", role.dns()),
        }
    }

    /// The identity that a certificate names so; `None` for names of roles and of other domains.
    pub fn from_dns(name: &str) -> Option<Self> {
        let name = name.strip_suffix(DOMAIN)?.strip_suffix('.')?;
        let (name, role) = name.rsplit_once('.')?;
        Self::new(role.parse().ok()?, name).ok()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(port) => write!(f, "agent/{port}"),
            Self::Named(role, name) => write!(f, "{role}/{name}"),
        }
    }
}

impl FromStr for Identity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let parts = text.split_once('/');
        let (role, name) = parts.ok_or_else(|| BadIdentity(format!("{text:.80}")))?;
        Self::new(role.parse().map_err(|_| BadIdentity(format!("{text:.80}")))?, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_into_certificates_and_back() {
        for text in [
            "agent/0x0002c9030000abcd",
            "controller/ctl1",
            "manager/sm.example.org",
            "operator/ann",
        ] {
            let identity: Identity = text.parse().unwrap();
            assert_eq!(identity.to_string(), text);
            assert_eq!(Identity::from_dns(&identity.dns()), Some(identity));
        }
        assert_eq!(Identity::Agent(Guid(0xAB)).dns(), "00000000000000ab.agent.snin.internal");
    }

    #[test]
    fn what_names_nobody_is_refused() {
        let long = format!("controller/{}", "x".repeat(64));
        for text in
            ["", "agent/host7", "king/ann", "controller/", "operator/a b", "operator/-a", &long]
        {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
        for name in [
            "controller.snin.internal",
            "a.controller.example.org",
            "snin.internal",
            "x.king.snin.internal",
        ] {
            assert_eq!(Identity::from_dns(name), None, "{name}");
        }
    }
}
