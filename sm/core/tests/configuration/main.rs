//! The expected configuration on emulated fabrics, in virtual time, and statement by statement.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

mod bounds;
mod counted;
mod discovery;
mod lab;
mod messages;
mod phases;
mod planted;
mod random;
mod statements;
