//! The agent's ports to the world. Nothing here decides what is sent when; the [core](snin_agent_core) does.
//!
//! Two threads: the data thread ([`engine`], with [`port`], its [`inbox`] and [`outbox`]) polls and posts; the
//! control thread ([`control`]) does what takes system calls - queue pairs ([`maker`]), peers ([`callers`],
//! [`guests`]), the controller ([`line`]). They share [`rings`] and nothing else.

mod bell;
mod callers;
pub(crate) mod control;
pub(crate) mod cores;
pub(crate) mod engine;
pub(crate) mod guests;
pub(crate) mod header;
pub(crate) mod inbox;
pub(crate) mod line;
pub(crate) mod links;
pub(crate) mod maker;
pub(crate) mod outbox;
pub(crate) mod port;
pub(crate) mod rings;
pub(crate) mod untold;

pub(crate) use callers::Callers;
