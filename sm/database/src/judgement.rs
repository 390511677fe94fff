//! The words between configuration and those around it: consent, what links are told, what is asked of a port
//! under test, and the judge whom the sweep asks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use snin_protocol::Time;

use crate::records::Place;
use crate::seen::Seen;

/// Whether this manager may enforce the expected configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Consent {
    /// It may.
    Granted {
        /// The source of the consent.
        by: String,
        /// Until when: a check that is older is none. None: for ever.
        until: Option<Time>,
    },
    /// It may not: addresses and routes are given, nothing is enforced.
    #[default]
    Absent,
}

/// What a link is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkOrder {
    /// PortPhysicalState := Disabled.
    Disable,
    /// PortPhysicalState := Polling.
    Enable,
    /// PortPhysicalState := Disabled, LinkDownDefaultState := Sleep.
    PowerOff,
    /// PortPhysicalState := Polling, while the link is up: it goes down and trains again.
    Reset,
}

impl LinkOrder {
    /// Whether the link is to come up.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Enable | Self::Reset)
    }
}

/// What follows from a discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// Ports whose cables are left out of routes: no port behind them gets an address by them.
    pub withheld: BTreeSet<Place>,
    /// What links are told; those farthest away first.
    pub orders: Vec<(Place, LinkOrder)>,
}

/// What is asked while a port is tested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TestRequest {
    /// NodeInfo of the node behind it, which has to say what it said before: a MAD of the quality test.
    Node,
    /// NodeDescription, which has to say what it said before: the application's request.
    Application,
    /// A message of the agent behind it, which has to arrive at another host: the application's request too.
    Agent,
    /// So many messages of that agent, if there is one.
    Messages(u32),
    /// PortCounters of one end.
    Counters(End),
}

/// An end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    /// The switch's port that is tested.
    Near,
    /// The port behind it.
    Far,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Near => "this end",
            Self::Far => "the other end",
        })
    }
}

/// Who judges what a discovery saw. The sweep asks it after each one, before anything is computed, and brings it
/// the answers of ports under test.
pub trait Judge {
    /// Whether what is expected is enforced at this time.
    fn enforces(&self, now: Time) -> bool;

    /// What follows from what discovery sees.
    fn judge(&mut self, seen: &Seen, now: Time) -> Judgement;

    /// Whether the next judgement would differ from the last, though nothing new was discovered.
    fn take_unjudged(&mut self, now: Time) -> bool;

    /// Ports have passed since, and ought to be ACTIVE now that the fabric has `settled`: they are to be looked
    /// at.
    fn take_passed_when(&mut self, settled: bool) -> bool;

    /// What is to be asked of the node behind a port, if anything.
    fn next_ask(&mut self) -> Option<(Place, TestRequest)>;

    /// What was asked was answered as it has to be, or was not.
    fn answered(&mut self, place: Place, ask: TestRequest, well: bool, now: Time);

    /// Of so many messages of the agent's so many arrived; none: no agent is there.
    fn messages_arrived(&mut self, place: Place, asked: u32, arrived: Option<u32>, now: Time);

    /// So many errors one end of a port's link has counted so far; none: it does not say.
    fn counted(&mut self, place: Place, end: End, errors: Option<u32>, now: Time);

    /// Whether anything leaves of which it is not known yet that its link is empty.
    fn awaits_empty(&self) -> bool;

    /// The fabric is as it was meant to be: no table leads over the links for which `is_left` says so, and what is
    /// still on its way has arrived soon.
    fn settled(&mut self, is_left: &dyn Fn(Place) -> bool, now: Time);
}
