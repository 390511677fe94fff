//! What a sweep reports to the operator.

use std::fmt;

use snin_fabric::routing::RoutingError;
use snin_fabric::{Guid, Lid, LinkRate, Mlid, PortNum};

/// Something about the fabric that the operator wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The fabric is as it should be, but for what is missing.
    Ready {
        /// The version of the view.
        version: u64,
        /// What is not as it should be, by name.
        missing: Vec<Missing>,
    },
    /// There are no tables for this fabric; nothing was written.
    NoRouting(RoutingError),
    /// Beside a manager that stays: the fabric cannot be read, or contradicts itself; nothing more is granted on
    /// it.
    Unread(String),
    /// What was discovered contradicts itself; nothing was written.
    Contradiction(String),
    /// Another manager wrote over addresses or tables; all are read again, and put right.
    Overwritten {
        /// Where it was noticed: `node/port`, port 0 for a table.
        at: String,
    },
    /// After a failover every port was told that this manager is master; what it knows of the fabric is the last
    /// master's word still.
    TookOver {
        /// How many ports.
        ports: usize,
    },
    /// Forwarding tables were written.
    Tables {
        /// Each switch whose table it was: GUID, name, and how many blocks.
        switches: Vec<(Guid, String, u32)>,
    },
    /// After a change no routes fit the lanes that some pairs of switches had: their service level is another, and
    /// programs on their hosts send with the former one until they ask for their paths again.
    Relevelled {
        /// How many pairs.
        pairs: usize,
        /// How many hosts are on them. Each is told to register again when tables are written.
        hosts: usize,
    },
    /// A node said something of itself.
    Trap {
        /// The trap's number.
        number: u16,
        /// The port that says so.
        issuer: Lid,
        /// Its name.
        name: String,
    },
}

/// A line for the operator.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { version, missing } => {
                write!(f, "the fabric is up, view {version}; {} things missing", missing.len())
            }
            Self::NoRouting(error) => write!(f, "no tables were written: {error}"),
            Self::Unread(what) => write!(f, "the fabric cannot be read: {what}"),
            Self::Contradiction(what) => write!(f, "no tables were written: {what}"),
            Self::Overwritten { at } => write!(f, "somebody else wrote to {at}: all is read again"),
            Self::TookOver { ports } => write!(f, "{ports} ports know that this manager is master"),
            Self::Tables { switches } => write!(f, "tables of {} switches written", switches.len()),
            Self::Relevelled { pairs, hosts } => write!(
                f,
                "{pairs} pairs of switches have another service level: programs on their {hosts} hosts have to \
                 ask for their paths again, or be started anew"
            ),
            Self::Trap { number, issuer, name } => {
                write!(f, "trap {number} from {name}, LID {issuer}")
            }
        }
    }
}

/// One thing that keeps a fabric from being complete. Names are `node/port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Missing {
    /// A cable is up, but the port at its other end does not answer.
    #[error("nobody answers behind {0}")]
    Mute(String),
    /// Another manager is master of this subnet too, and does not stand aside.
    #[error("{at} ({guid}) is master of this subnet too")]
    Rival {
        /// Its port's GUID.
        guid: Guid,
        /// Its port.
        at: String,
    },
    /// The manager's own port has no cable, or its link does not come up.
    #[error("no link at {0}, the manager's own port")]
    NoCable(String),
    /// No SMP reaches it: a path has 63 hops at most (IBA 14.2.2).
    #[error("what is behind {at} ({guid}) is more than 63 hops away")]
    TooFar {
        /// The GUID of the last node on the way.
        guid: Guid,
        /// Its port behind which something is.
        at: String,
    },
    /// A node answered at first, and then no more; or a switch that was there is not.
    #[error("{name} ({guid}) is gone: it answered before")]
    Lost {
        /// The node's GUID.
        guid: Guid,
        /// Its name, as far as known.
        name: String,
    },
    /// A cable between two ports that were joined before. Neither it nor what is behind it need be there for the
    /// fabric to be complete: it is named until it is back, or until everything is looked at anew on demand.
    #[error("no link between {one} and {other}, which were joined before")]
    Uncabled {
        /// The one port.
        one: String,
        /// The other one.
        other: String,
    },
    /// A link that is slower than both its ends can be: a damaged cable or connector. OpenSM's console names it in
    /// `portstatus`.
    #[error("the link of {one} and {other} runs at {rate}, both can do {best}")]
    Slow {
        /// The one port.
        one: String,
        /// The other one.
        other: String,
        /// What they negotiated.
        rate: LinkRate,
        /// What both support and have enabled.
        best: LinkRate,
    },
    /// A node that takes no writes, since its key is another than this manager's and is not shown.
    #[error(
        "{name} ({guid}) is guarded by another M_Key: if it had it from here, name it in former_m_keys"
    )]
    Locked {
        /// The node's GUID.
        guid: Guid,
        /// Its name, as far as known.
        name: String,
    },
    /// Two nodes, or two ports, with one GUID: the one behind `at` is left out.
    #[error("GUID {guid} is in use twice: left out behind {at}")]
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// The port behind which the second one is.
        at: String,
    },
    /// A node that does not say its name.
    #[error("{0} has no NodeDescription")]
    Nameless(Guid),
    /// A port without addresses, because there is no free block.
    #[error("no addresses are left for port {port} of {name}")]
    NoAddress {
        /// The node.
        name: String,
        /// Its port.
        port: PortNum,
    },
    /// A switch whose table is too small for the addresses of the fabric.
    #[error("{name} forwards {capacity} addresses, the fabric needs {needed}")]
    SmallTable {
        /// The switch.
        name: String,
        /// Entries of its table.
        capacity: u16,
        /// Entries that are needed.
        needed: u16,
    },
    /// A port whose partition table is too small for its partitions.
    #[error("{name} has no room for {keys} of its P_Keys")]
    NoRoom {
        /// The node, and the port where it has several.
        name: String,
        /// How many.
        keys: usize,
    },
    /// A switch's port whose partition table is too small for the keys of the port that it faces.
    #[error("{at} checks no P_Keys: it has too little room for those of the port that it faces")]
    Unchecked {
        /// The switch's port.
        at: String,
    },
    /// A port refused what was written to it. It is tried again, less and less often.
    #[error("{name} refused {what}")]
    Refused {
        /// The node, and the port where it has several.
        name: String,
        /// The attribute.
        what: &'static str,
    },
    /// A port did not say whether it took what was written to it. It is tried again, less and less often.
    #[error("{name} did not confirm {what}")]
    Unconfirmed {
        /// The node, and the port where it has several.
        name: String,
        /// The attribute.
        what: &'static str,
    },
    /// No multicast tree that the cables allow joins a member to the others of its group.
    #[error("group {mlid} does not reach {guid}")]
    Unserved {
        /// The group.
        mlid: Mlid,
        /// The member's port.
        guid: Guid,
    },
    /// Cables do not join these: no legal route from one switch to another.
    #[error("no route from {from} to {to}")]
    NoRoute {
        /// From.
        from: String,
        /// To.
        to: String,
    },
}
