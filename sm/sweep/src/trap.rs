//! The meaning of a trap: its issuer, and what the manager has to look at (IBA 14.3).

use snin_fabric::Lid;
use snin_mad::{Notice, Trap};

use snin_sm_database::error::Dropped;

/// What is no longer as it was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Some port of the issuing switch: the trap names the switch only (IBA 14.3.7).
    Switch,
    /// The issuing port.
    Port,
    /// The issuing port was shown a wrong M_Key. The right one ends the lease that began then (IBA 14.2.4.2).
    Keys,
    /// Nothing that the manager manages.
    Nothing,
}

/// A trap, understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meaning {
    pub(crate) number: u16,
    /// The same where the specification knows it.
    pub(crate) known: Option<u16>,
    /// An address of the port that it is about.
    pub(crate) issuer: Lid,
    pub(crate) look: Look,
}

/// The meaning of a notice that came as a trap.
///
/// # Errors
/// When its details do not fit its number.
pub(crate) fn meaning(notice: &Notice) -> Result<Meaning, Dropped> {
    let Ok(trap) = notice.trap() else { return Err(Dropped::Malformed) };
    let (issuer, look) = match &trap {
        Some(Trap::LinkStateChange(details)) => (details.lid, Look::Switch),
        Some(Trap::LocalChange(details)) => (details.lid, Look::Port),
        Some(Trap::BadMKey(_)) => (notice.issuer, Look::Keys),
        _ => (notice.issuer, Look::Nothing),
    };
    let known = trap.as_ref().map(Trap::number);
    Ok(Meaning { number: notice.trap_number, known, issuer, look })
}
