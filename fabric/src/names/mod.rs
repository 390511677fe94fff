//! Names of hosts, as people, Slurm and files write them, and which host each names.
//!
//! | text | host |
//! |---|---|
//! | `0x0002c903000a1b2d` | whose port has this GUID |
//! | `17` | of this number |
//! | `n1 mlx5_0` | whose adapter has this NodeDescription |
//! | `n1` | that is so called: the first word of what its adapter's NodeDescription says |
//! | `n1/mlx5_0`, `n1/mlx5_0/2` | that adapter of n1, that port of it |
//!
//! A name that several hosts have names none of them. A description that no administrator wrote (`MT4119 ConnectX5
//! Mellanox Technologies`, the adapter's model) is no host's name. Where several hosts are meant, Slurm's lists do
//! for names: `n[1-4,7],login`.

mod list;
mod map;

use std::collections::BTreeMap;

pub use list::{ListError, MAX_NAMES, expand};
pub use map::{MapError, MapProblem, NodeNameMap};

use crate::hosts::{HostId, Hosts};
use crate::{Guid, PortNum, Topology};

/// How many of those that a name may mean are named.
const LISTED: usize = 8;

/// A host's port, and what its adapter says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Called {
    port: Guid,
    num: PortNum,
    description: Box<str>,
}

impl Called {
    /// What it is called among the adapters of its host.
    fn label(&self) -> String {
        match (node_name(&self.description), adapter(&self.description)) {
            (Some(node), "") => format!("{node} ({})", self.port),
            (Some(node), adapter) => format!("{node}/{adapter}/{} ({})", self.num, self.port),
            (None, _) => self.port.to_string(),
        }
    }
}

/// Finds hosts by what they are called.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostNames {
    hosts: Vec<Called>,
    by_guid: BTreeMap<Guid, HostId>,
    /// By the first word of what their adapters say.
    by_word: BTreeMap<Box<str>, Vec<HostId>>,
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
        hosts: usize,
    },
    /// No host is called so.
    #[error("no host is called `{0:.64}`")]
    Unknown(String),
    /// The name of a model, which says nothing of a host.
    #[error(
        "`{name:.64}` is what an adapter says that nobody named, not a host: name it (rdma-ndd does), or use \
         its port GUID: {ports}"
    )]
    Unnamed {
        /// The text.
        name: String,
        /// The ports of such adapters.
        ports: String,
    },
    /// Several hosts or adapters are called so.
    #[error("`{name:.64}` may be {candidates}: name one of them, or its port GUID")]
    Ambiguous {
        /// The text.
        name: String,
        /// Those that it may mean.
        candidates: String,
    },
    /// No name, and no list of names.
    #[error(transparent)]
    List(#[from] ListError),
}

impl HostNames {
    /// The names of hosts 0, 1, 2 ...: the port's GUID, its number, and the node's description.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (Guid, PortNum, &'a str)>) -> Self {
        let mut names = Self::default();
        for (port, num, description) in hosts {
            let host = HostId(names.hosts.len() as u32);
            let description = description.trim();
            names.by_guid.insert(port, host);
            names.by_word.entry(first_word(description).into()).or_default().push(host);
            names.hosts.push(Called { port, num, description: description.into() });
        }
        names
    }

    /// The names of a fabric's hosts.
    pub fn of(topology: &Topology, hosts: &Hosts) -> Self {
        Self::new(hosts.iter().map(|(_, host)| {
            let port = topology.port(host.port);
            (port.guid, topology.num(host.port), &*topology.node(port.node).name)
        }))
    }

    /// Number of hosts.
    pub const fn len(&self) -> usize {
        self.hosts.len()
    }

    /// True when there is no host to name.
    pub const fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The host that `text` names: see the module's documentation.
    ///
    /// # Errors
    /// When there is no such host, or more than one.
    pub fn find(&self, text: &str) -> Result<HostId, NameError> {
        if text.starts_with("0x") {
            let host = text.parse().ok().and_then(|guid: Guid| self.by_guid.get(&guid));
            return host.copied().ok_or_else(|| NameError::Guid(text.to_owned()));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let known = |&number: &usize| number < self.hosts.len();
            let host = text.parse().ok().filter(known).map(|number: usize| HostId(number as u32));
            let (number, hosts) = (text.to_owned(), self.hosts.len());
            return host.ok_or(NameError::Number { number, hosts });
        }
        let whole = |called: &Called| *called.description == *text;
        let (word, rest) = text.split_once('/').unwrap_or((text, ""));
        let (adapter_name, num) = match rest.rsplit_once('/') {
            Some((adapter, num)) => (adapter, num.parse().ok().map(PortNum)),
            None => (rest, None),
        };
        let part = |called: &Called| {
            node_name(&called.description) == Some(word)
                && (rest.is_empty() || adapter(&called.description) == adapter_name)
                && num.is_none_or(|num| called.num == num)
        };
        for (word, is_meant) in
            [(first_word(text), &whole as &dyn Fn(&Called) -> bool), (word, &part)]
        {
            let meant = self.with_word(word).filter(|(_, called)| is_meant(called));
            match meant.collect::<Vec<_>>()[..] {
                [] => {}
                [(host, _)] => return Ok(host),
                ref several => {
                    let candidates =
                        listed(several.iter().map(|(_, called)| called.label()), " or ");
                    return Err(NameError::Ambiguous { name: text.to_owned(), candidates });
                }
            }
        }
        let mut unnamed = self
            .with_word(first_word(text))
            .filter(|(_, called)| node_name(&called.description).is_none())
            .peekable();
        if unnamed.peek().is_some() {
            let ports = listed(unnamed.map(|(_, called)| called.port.to_string()), ", ");
            return Err(NameError::Unnamed { name: text.to_owned(), ports });
        }
        Err(NameError::Unknown(text.to_owned()))
    }

    /// The hosts that a text names: one by any of its names, or a list as Slurm writes it.
    ///
    /// # Errors
    /// When one of them is no host, or the text is no list.
    pub fn find_all(&self, text: &str) -> Result<Vec<HostId>, NameError> {
        match self.find(text) {
            Ok(host) => Ok(vec![host]),
            Err(error @ NameError::Ambiguous { .. }) => Err(error),
            Err(_) => expand(text)?.iter().map(|name| self.find(name)).collect(),
        }
    }

    /// The nodes that a text names, as Slurm lists them, and of each all of its ports in order of adapters.
    ///
    /// # Errors
    /// When one of them is no host, or the text is no list.
    pub fn find_nodes(&self, text: &str) -> Result<Vec<Vec<HostId>>, NameError> {
        let of_node = |name: &str| {
            let ports = self.with_word(name);
            let ports = ports.filter(|(_, called)| node_name(&called.description) == Some(name));
            let mut ports: Vec<_> =
                ports.map(|(host, called)| (&called.description, called.num, host)).collect();
            ports.sort_unstable();
            ports.into_iter().map(|(.., host)| host).collect::<Vec<_>>()
        };
        let found = |name: &String| match of_node(name) {
            ports if ports.is_empty() => self.find(name).map(|host| vec![host]),
            ports => Ok(ports),
        };
        expand(text)?.iter().map(found).collect()
    }

    fn with_word(&self, word: &str) -> impl Iterator<Item = (HostId, &Called)> {
        let hosts = self.by_word.get(word).into_iter().flatten();
        hosts.map(|&host| (host, &self.hosts[host.index()]))
    }
}

/// The first few, and how many more there are.
fn listed(all: impl Iterator<Item = String>, between: &str) -> String {
    let all: Vec<String> = all.collect();
    let first = all[..all.len().min(LISTED)].join(between);
    match all.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn first_word(description: &str) -> &str {
    description.split_whitespace().next().unwrap_or(description)
}

/// What a NodeDescription says behind the host's name: the adapter's.
pub fn adapter(description: &str) -> &str {
    let description = description.trim();
    description[first_word(description).len()..].trim_start()
}

/// The host's name in an adapter's NodeDescription: its first word, as rdma-ndd and most drivers write it (`n1
/// mlx5_0`). `None` where no administrator named it: it is empty, the adapter's model, or `localhost`.
pub fn node_name(description: &str) -> Option<&str> {
    const MODELS: [&str; 6] = [
        "Mellanox Technologies",
        "ConnectX",
        "Connect-IB",
        "InfiniHost",
        "BlueField",
        "Aggregation Node",
    ];
    let word = first_word(description.trim());
    let model = word.strip_prefix("MT").is_some_and(|number| {
        number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let unnamed = ["", "localhost", "(none)", "localhost.localdomain"].contains(&word);
    let known = MODELS.iter().any(|model| description.contains(model));
    (!model && !unnamed && !known).then_some(word)
}

/// Whether an adapter of this description is so called: as a whole, by its host's name (`n1`), or as that host's
/// adapter (`n1/mlx5_0`).
pub fn is_called(description: &str, text: &str) -> bool {
    let (node, rest) = text.split_once('/').unwrap_or((text, ""));
    let is_node = node_name(description) == Some(node);
    description.trim() == text || is_node && (rest.is_empty() || adapter(description) == rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str]) -> HostNames {
        let one = PortNum(1);
        HostNames::new((0xa1..).map(Guid).zip(hosts).map(|(guid, name)| (guid, one, *name)))
    }

    #[test]
    fn a_host_is_found_by_each_of_its_names() {
        let names = names(&["node 1", "twin", "twin", "n1 mlx5_0", "n2 mlx5_0", "n2 mlx5_1"]);
        for text in ["0xa1", "0x00000000000000a1", "node 1", "node", "node/1", "node/1/1", "0"] {
            assert_eq!(names.find(text), Ok(HostId(0)), "{text}");
        }
        for (text, host) in [("n1", 3), ("n1/mlx5_0", 3), ("n2/mlx5_1", 5), ("n2 mlx5_0", 4)] {
            assert_eq!(names.find(text), Ok(HostId(host)), "{text}");
        }
        let told = |text: &str| names.find(text).unwrap_err().to_string();
        assert_eq!(told("0xa9"), "no host has port GUID `0xa9`");
        assert_eq!(told("0xyz"), "no host has port GUID `0xyz`");
        assert_eq!(told("6"), "no host has number 6 (6 hosts, numbered from 0)");
        assert_eq!(
            told("99999999999999999999"),
            "no host has number 99999999999999999999 (6 hosts, numbered from 0)"
        );
        for text in ["a1", "n1/mlx5_1", "n1/mlx5_0/2", "", "/", "mlx5_0"] {
            assert_eq!(told(text), format!("no host is called `{text}`"));
        }
        assert_eq!(
            told("twin"),
            "`twin` may be twin (0x00000000000000a2) or twin (0x00000000000000a3): name one of them, or its \
             port GUID"
        );
        assert_eq!(
            told("n2"),
            "`n2` may be n2/mlx5_0/1 (0x00000000000000a5) or n2/mlx5_1/1 (0x00000000000000a6): name one of \
             them, or its port GUID"
        );
    }

    #[test]
    fn the_ports_of_one_adapter_are_told_apart() {
        let adapter = "n1 mlx5_0";
        let names =
            HostNames::new([(Guid(1), PortNum(1), adapter), (Guid(2), PortNum(2), adapter)]);
        assert_eq!(names.find("n1/mlx5_0/2"), Ok(HostId(1)));
        let told = names.find("n1/mlx5_0").unwrap_err().to_string();
        assert!(
            told.starts_with("`n1/mlx5_0` may be n1/mlx5_0/1 (0x0000000000000001) or"),
            "{told}"
        );
    }

    #[test]
    fn a_models_name_is_no_hosts() {
        let model = "MT4119 ConnectX5   Mellanox Technologies";
        for nobody in [model, "MT25408", "localhost mlx5_0", "", "Quantum Mellanox Technologies"] {
            assert_eq!(node_name(nobody), None, "{nobody}");
        }
        assert!(is_called("n7 mlx5_0", "n7") && is_called("n7 mlx5_0", "n7/mlx5_0"));
        assert!(is_called("n7 mlx5_0", "n7 mlx5_0") && is_called(model, model));
        assert!(!is_called("n77 mlx5_0", "n7") && !is_called("n7 mlx5_0", "n7/mlx5_1"));
        assert!(!is_called(model, "MT4119"));
        for (description, node) in
            [("n1 mlx5_0", "n1"), (" MTX1 HCA-1", "MTX1"), ("host0", "host0")]
        {
            assert_eq!(node_name(description), Some(node));
        }
        let names = names(&[model, model]);
        let told = names.find("MT4119").unwrap_err().to_string();
        assert!(told.ends_with("its port GUID: 0x00000000000000a1, 0x00000000000000a2"), "{told}");
    }

    #[test]
    fn lists_name_hosts_as_slurm_names_them() {
        let names =
            names(&["n1 mlx5_0", "n2 mlx5_0", "n3 mlx5_0", "rack 1, node 1", "n4 a", "n4 b"]);
        let found =
            |list: &str| names.find_all(list).map(|found| found.iter().map(|h| h.0).collect());
        assert_eq!(found("n[1-2],n3"), Ok(vec![0, 1, 2]));
        assert_eq!(found("n3/mlx5_0,0,0xa2"), Ok(vec![2, 0, 1]));
        assert_eq!(found("rack 1, node 1"), Ok(vec![3]));
        let told = |list: &str| names.find_all(list).unwrap_err().to_string();
        assert_eq!(told("n[2-5]"), told("n4"));
        assert_eq!(told("n1,n9"), "no host is called `n9`");
        assert!(told("n[1-").contains("a bracket has no other half"));
    }
}
