//! The words between the sweep and mastership: which managers a survey met, and what the sweep may do.

use snin_fabric::{Guid, Lid};
use snin_mad::{MKey, SmInfo};

use crate::directed_route::DirectedRoute;
use crate::mad_address::LocalPort;
use crate::records::Place;

/// What the sweep is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Go on after a survey: no manager goes before this one.
    Proceed,
    /// Write nothing more for now.
    Hold,
    /// Write again, after everything was looked at anew.
    Resume,
    /// Look at everything anew: another manager may have written.
    Begin,
    /// Go on from the copy of the last master's database.
    TakeOver,
    /// Where M_Keys are generated: every port gets another one, with which the last master cannot write.
    Rekey,
    /// From now on ask nothing and write nothing: another manager is master.
    StandAside,
    /// Sit at this local port from now on.
    Sit(LocalPort),
}

/// The port at which this manager sits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Own {
    /// Its GUID.
    pub guid: Guid,
    /// The port.
    pub place: Place,
    /// `node/port`.
    pub at: String,
}

/// A port that says that a manager sits there, as a survey met it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its port's GUID.
    pub guid: Guid,
    /// The port.
    pub place: Place,
    /// `node/port`.
    pub at: String,
    /// Its address, if it has one.
    pub lid: Lid,
    /// The way to it; none: there is none just now.
    pub route: Option<DirectedRoute>,
    /// The key to show it.
    pub m_key: MKey,
    /// What it said, where the survey asked.
    pub info: Option<SmInfo>,
}
