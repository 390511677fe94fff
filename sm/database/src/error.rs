//! Errors of the configuration, and of received MADs.

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number that the specification or the core has no room for.
    #[error("{key} is {value}: {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it says.
        value: u64,
        /// What it may say.
        expected: &'static str,
    },
    /// Keys are to be generated, and there is nothing to generate them from.
    #[error(
        "M_Keys cannot be generated without a secret: it has to be stored, and no store is given"
    )]
    NoSecret,
    /// What others are compared with.
    #[error("no fabric is routed by a baseline")]
    Baseline,
    /// Two would write tables of lanes.
    #[error("paths are to have lanes of their own, and tables of lanes are set: turn `qos` off")]
    LanesTaken,
    /// Ports with keys of their own that show nothing without them.
    #[error("m_key_protect is {0}: where each port has an M_Key of its own it is 0 or 1")]
    HiddenPorts(u8),
    /// A manager writes: where it may not, a reader is at work in its place.
    #[error("another manager keeps the subnet: it is read, and not managed")]
    ReadOnly,
}

/// Why something that came in was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Dropped {
    /// Not 256 bytes.
    #[error("truncated")]
    Truncated,
    /// A field breaks the specification's rules.
    #[error("malformed")]
    Malformed,
    /// Not a class of subnet management.
    #[error("another class")]
    OtherClass,
    /// A request: some other manager's, or meant for the agent of this port.
    #[error("a request to an agent")]
    Request,
    /// An answer to a question that this manager did not ask.
    #[error("unsolicited")]
    Unsolicited,
    /// An answer that was there before, or came too late.
    #[error("replayed")]
    Replayed,
    /// An answer with the number of a question of ours, but about something else.
    #[error("foreign")]
    Foreign,
    /// By another local port than the one that asked.
    #[error("wrong local port")]
    WrongPort,
    /// The agent is busy; the question is asked again.
    #[error("busy")]
    Busy,
    /// A trap from an address that was given to no port.
    #[error("a trap from an unknown address")]
    UnknownIssuer,
    /// Another manager tells something, and has another SM_Key.
    #[error("a wrong SM_Key")]
    WrongKey,
    /// A computation whose result is not waited for any more.
    #[error("an outdated computation")]
    Outdated,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Truncated,
        Self::Malformed,
        Self::OtherClass,
        Self::Request,
        Self::Unsolicited,
        Self::Replayed,
        Self::Foreign,
        Self::WrongPort,
        Self::Busy,
        Self::UnknownIssuer,
        Self::WrongKey,
        Self::Outdated,
    ];
}
