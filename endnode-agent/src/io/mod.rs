//! The agent's ports to the world. Nothing here decides what is sent when; the core does.
//!
//! Two threads: the data thread ([`engine`], with [`port`], its [`inbox`] and [`outbox`]) polls and posts; the
//! control thread ([`control`]) does what takes system calls: it makes queue pairs ([`factory`]), holds
//! sessions with peers ([`outbound`], [`inbound`], [`tear_down`]) and with the controller ([`controller`]). They
//! share [`rings`] and nothing else.

pub(crate) mod control;
pub(crate) mod controller;
pub(crate) mod cores;
mod doorbell;
pub(crate) mod engine;
pub(crate) mod factory;
pub(crate) mod header;
pub(crate) mod inbound;
pub(crate) mod inbox;
pub(crate) mod outbound;
pub(crate) mod outbox;
pub(crate) mod port;
pub(crate) mod rings;
pub(crate) mod send_path;
mod tear_down;
