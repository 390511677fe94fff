//! The subnet manager on fabrics that ibsim simulates, judged by foreign programs.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

mod administration;
mod beside;
mod client;
mod daemon;
mod engines;
#[path = "../../../fabric/tests/support/ibdm.rs"]
mod ibdm;
mod joined;
mod judged;
mod kept;
mod lanes;
mod levels;
mod migrating;
mod multicast;
mod odd;
#[allow(dead_code, reason = "the core's tests use all of them")]
#[path = "../../sweep/tests/support/odd.rs"]
mod odd_fabrics;
mod ordinary;
mod partitions;
mod paths;
mod port;
mod support;
