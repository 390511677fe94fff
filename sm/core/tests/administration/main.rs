//! Subnet administration on emulated fabrics, in virtual time: requests go in, answers come out.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

mod clients;
mod flood;
mod fuzz;
mod messages;
mod notices;
mod paths;
mod records;
mod storm;
#[allow(dead_code, reason = "shared with the tests of merge")]
mod subnet;
mod trust;
