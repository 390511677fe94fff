//! Names of hosts in files, and which host each names.

use std::collections::BTreeMap;

use crate::hosts::{HostId, Hosts};
use crate::{Guid, Topology};

/// Finds hosts by port GUID, node description or number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostNames {
    hosts: u32,
    by_guid: BTreeMap<Guid, HostId>,
    /// The first two hosts of a description: a second one makes it useless.
    by_description: BTreeMap<Box<str>, (HostId, Option<HostId>)>,
}

/// A text that names no host, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Begins with `0x`, but no host has this port GUID.
    #[error("no host has port GUID `{0:.40}`")]
    Guid(String),
    /// Digits, but a number beyond the last host.
    #[error("no host has number {number:.40} ({hosts} hosts, numbered from 0)")]
    Number {
        /// The text.
        number: String,
        /// How many hosts there are.
        hosts: u32,
    },
    /// No adapter with a host has this description.
    #[error("no host has description `{0:.64}`")]
    Description(String),
    /// Several hosts have this description.
    #[error(
        "description `{description:.64}` is ambiguous: hosts {first} and {second} have it (use a \
         port GUID or a number)"
    )]
    Ambiguous {
        /// The text.
        description: String,
        /// The host that has it.
        first: HostId,
        /// The host that has it too.
        second: HostId,
    },
}

impl HostNames {
    /// The names of hosts 0, 1, 2 ...: the port's GUID and the node's description.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (Guid, &'a str)>) -> Self {
        let mut names = Self::default();
        for (guid, description) in hosts {
            let host = HostId(names.hosts);
            names.hosts += 1;
            names.by_guid.insert(guid, host);
            let known = names.by_description.entry(description.trim().into());
            known.and_modify(|(_, second)| *second = second.or(Some(host))).or_insert((host, None));
        }
        names
    }

    /// The names of a fabric's hosts.
    pub fn of(topology: &Topology, hosts: &Hosts) -> Self {
        Self::new(hosts.iter().map(|(_, host)| {
            let port = topology.port(host.port);
            (port.guid, &*topology.node(port.node).name)
        }))
    }

    /// Number of hosts.
    pub const fn len(&self) -> usize {
        self.hosts as usize
    }

    /// True when there is no host to name.
    pub const fn is_empty(&self) -> bool {
        self.hosts == 0
    }

    /// The host that `text` names: what begins with `0x` is a port GUID, digits alone are a number, all
    /// else is a node description.
    ///
    /// # Errors
    /// When there is no such host, or more than one.
    pub fn find(&self, text: &str) -> Result<HostId, NameError> {
        if text.starts_with("0x") {
            let host = text.parse().ok().and_then(|guid: Guid| self.by_guid.get(&guid));
            return host.copied().ok_or_else(|| NameError::Guid(text.to_owned()));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let host = text.parse().ok().filter(|&number| number < self.hosts).map(HostId);
            let error = || NameError::Number { number: text.to_owned(), hosts: self.hosts };
            return host.ok_or_else(error);
        }
        let description = text.to_owned();
        match self.by_description.get(text) {
            None => Err(NameError::Description(description)),
            Some(&(first, Some(second))) => {
                Err(NameError::Ambiguous { description, first, second })
            }
            Some(&(host, None)) => Ok(host),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_each_of_its_names() {
        let names =
            HostNames::new([(Guid(0xa1), "node 1"), (Guid(0xa2), "twin"), (Guid(3), "twin")]);
        for text in ["0xa1", "0x00000000000000a1", "node 1", "0"] {
            assert_eq!(names.find(text), Ok(HostId(0)), "{text}");
        }
        let told = |text: &str| names.find(text).unwrap_err().to_string();
        assert_eq!(told("0xa9"), "no host has port GUID `0xa9`");
        assert_eq!(told("0xyz"), "no host has port GUID `0xyz`");
        assert_eq!(told("3"), "no host has number 3 (3 hosts, numbered from 0)");
        assert_eq!(
            told("99999999999999999999"),
            "no host has number 99999999999999999999 (3 hosts, numbered from 0)"
        );
        assert_eq!(told("a1"), "no host has description `a1`");
        assert_eq!(
            told("twin"),
            "description `twin` is ambiguous: hosts 1 and 2 have it (use a port GUID or a number)"
        );
    }
}
