//! Everything that goes into a controller and everything that comes out.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use snin_fabric::hosts::HostId;
use snin_fabric::{Dlid, Guid, TreeId};
use snin_protocol::message::{
    FromAgent, LinkTest, LinkTested, ToAgent, ViewChange, ViewClear, Wait,
};
use snin_protocol::{ConnectionNumber, Epoch, Term, Time};

use crate::config::Policy;
use crate::orders::Order;
use snin_fabric::view::View;

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// An agent said something.
    Received {
        /// Its port, which the session has proved.
        from: Guid,
        /// What.
        #[serde(with = "snin_protocol::codec::serde")]
        message: FromAgent,
    },
    /// An agent's session has ended.
    AgentLost(Guid),
    /// The fabric is another.
    View(#[serde(with = "snin_protocol::view_frames")] Arc<dyn View>),
    /// The fabric is the same, but some of it must not be granted.
    Unusable(#[serde(with = "snin_protocol::codec::serde")] ViewChange),
    /// The operator changed the policy.
    Policy(Policy),
    /// The session with the subnet manager has begun (true), or ended.
    Manager(bool),
    /// The link of this port's agent is to be tested.
    TestLink(Guid, LinkTest),
    /// Something is wanted of slices or frames.
    Order(Order),
    /// The store of terms says that another controller has begun a later one.
    Superseded {
        /// The other's term.
        by: Term,
    },
}

/// What is to be done, or to be known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send this to an agent. It may be lost.
    Send {
        /// Its port.
        to: Guid,
        /// What.
        message: ToAgent,
    },
    /// Tell the subnet manager.
    Clear(ViewClear),
    /// The agent at a port says what came of a test.
    LinkTested(Guid, LinkTested),
    /// A window was decided.
    Window(WindowReport),
    /// Something for the log.
    Note(Note),
}

/// Something for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// Another controller is in charge: nothing is granted any more.
    Superseded {
        /// The other's term.
        by: Term,
    },
    /// An agent says that it has heard of a later term, and so will not follow this controller. Agents depose
    /// no controller.
    AgentAhead {
        /// Its port.
        port: Guid,
        /// The term that it has heard of.
        term: Term,
    },
    /// An agent greeted in the name of another port: it is not heard.
    Imposter {
        /// The agent's port.
        port: Guid,
        /// The port that it named.
        named: Guid,
    },
    /// An agent was silent for too long.
    AgentSilent(Guid),
    /// The packer's work did not stand up to the certificate, which says why.
    Certificate(String),
}

/// A line for the operator.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded { by } => {
                write!(f, "another controller is in charge, in term {}", by.0)
            }
            Self::AgentAhead { port, term } => write!(
                f,
                "the agent of {port} has heard of term {}, later than this one: it follows no grant until \
                 the term is later still (least_term)",
                term.0
            ),
            Self::Imposter { port, named } => {
                write!(f, "the agent of {port} greets in the name of {named}: it is not heard")
            }
            Self::AgentSilent(guid) => write!(f, "the agent of {guid} is silent"),
            Self::Certificate(why) => f.write_str(why),
        }
    }
}

/// A window as it was decided.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WindowReport {
    /// Which.
    pub epoch: Epoch,
    /// Connections that there are, those refused left out.
    pub requested: u32,
    /// Connections granted. What waits for links may still come; see `draining`.
    pub granted: u32,
    /// Connections that have a tree, but wait for its links to be clear.
    pub draining: u32,
    /// Why the others wait.
    pub deferred: BTreeMap<Wait, u32>,
    /// Connections that get nothing as things are.
    pub refused: u32,
    /// Connections that change their tree while in service.
    pub moved: u32,
    /// Connections that stop for a while so that others can change theirs.
    pub paused: u32,
    /// Directed links that have an owner, those of hosts included.
    pub links: u32,
    /// The most owners of one directed link, by the certificate: 1, or 0 when nothing is granted.
    pub max_link_load: u32,
}

/// A grant in force, for those who show or measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GrantStatus {
    /// Who sends.
    pub source: Guid,
    /// The agent's number for the connection.
    pub connection: ConnectionNumber,
    /// Who receives.
    pub destination: Guid,
    /// The two ends as hosts of the present view.
    pub hosts: Option<(HostId, HostId)>,
    /// The traffic class.
    pub class: u8,
    /// The tree.
    pub tree: TreeId,
    /// The address.
    pub dlid: Dlid,
    /// From then on.
    pub from: Time,
    /// Until then.
    pub until: Time,
    /// It never moves: answers to path queries may show it.
    pub pinned: bool,
}
