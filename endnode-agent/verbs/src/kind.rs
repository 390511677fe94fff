//! Kinds and states of queue pairs, as types that have no values: they only stand in a queue pair's type.

use super::attributes::Transport;
use sealed::Sealed;

mod sealed {
    /// Other crates may add no kinds or states.
    pub trait Sealed {}
}

/// A kind of queue pair.
pub trait Kind: Sealed {
    /// How it carries messages.
    const TRANSPORT: Transport;
}

/// A kind that is connected to one other.
pub trait Connected: Kind {}

/// A state in which receives may be posted.
pub trait Receives: Sealed {}

/// Reliable connection.
#[derive(Debug)]
pub enum Rc {}
/// Unreliable connection.
#[derive(Debug)]
pub enum Uc {}
/// Unreliable datagrams.
#[derive(Debug)]
pub enum Ud {}

/// Just made.
#[derive(Debug)]
pub enum Reset {}
/// Receives may be posted.
#[derive(Debug)]
pub enum Initialised {}
/// Messages come in.
#[derive(Debug)]
pub enum Receiving {}
/// Messages go out.
#[derive(Debug)]
pub enum Sending {}

macro_rules! implement {
    ($trait:ident for $($name:ident),+) => {$(impl $trait for $name {})+};
}

implement!(Sealed for Rc, Uc, Ud, Initialised, Receiving, Sending);
implement!(Connected for Rc, Uc);
implement!(Receives for Initialised, Receiving, Sending);

impl Kind for Rc {
    const TRANSPORT: Transport = Transport::Rc;
}

impl Kind for Uc {
    const TRANSPORT: Transport = Transport::Uc;
}

impl Kind for Ud {
    const TRANSPORT: Transport = Transport::Ud;
}
