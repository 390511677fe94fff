//! What administration counts.

use std::collections::BTreeMap;

use snin_mad::AttributeId;

/// Why something that came to administration was not answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Unanswered {
    /// The subnet is not up, or another manager's.
    #[error("not the master")]
    NotMaster,
    /// Not 256 bytes, or a header that breaks a rule.
    #[error("malformed")]
    Malformed,
    /// A wrong SM_Key.
    #[error("a wrong SM_Key")]
    WrongKey,
    /// In a partition that the requester is not in.
    #[error("a foreign P_Key")]
    ForeignPartition,
    /// From an address that no port has.
    #[error("an unknown requester")]
    UnknownRequester,
    /// Something about a message that is not under way.
    #[error("no such message")]
    StrayRmpp,
    /// The same request again, while it is being answered.
    #[error("a repeated request")]
    Repeated,
    /// More is under way than there is room for.
    #[error("overload")]
    Overload,
    /// An answer to a report that was not sent, or was answered before.
    #[error("no such report")]
    StrayReport,
    /// A response, or a method that has no answer.
    #[error("no request")]
    NoRequest,
}

/// What administration counted. All only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdministrationMetrics {
    /// Requests by attribute and method.
    pub requests: BTreeMap<(AttributeId, u8), u64>,
    /// Answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// What was not answered, by reason.
    pub unanswered: BTreeMap<Unanswered, u64>,
    /// RMPP messages that the receiver never acknowledged, or ended.
    pub messages_given_up: u64,
    /// Reports sent, those sent again included.
    pub reports: u64,
    /// Reports that no subscriber acknowledged.
    pub reports_given_up: u64,
}
