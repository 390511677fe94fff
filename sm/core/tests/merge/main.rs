//! Subnet databases that become one: those of real managers on emulated fabrics, and random ones.

#![allow(clippy::disallowed_macros, reason = "a long run says how far it is")]

mod cabled;
mod called;
mod halves;
mod keys;
mod killed;
mod live;
mod offline;
mod planted;
mod random;
mod silent;
mod two;

#[path = "../administration/subnet.rs"]
#[allow(dead_code, reason = "shared with the tests of administration")]
mod subnet;

#[path = "../mastership/subnet.rs"]
#[allow(dead_code, reason = "shared with the tests of mastership")]
mod seats;

#[path = "../../../mastership/tests/support/store.rs"]
#[allow(dead_code, reason = "shared with the tests of mastership")]
mod store;

/// Every port is in the default partition and in 0x10, of this name; both have a broadcast group of IP.
fn partitions(name: &str) -> snin_sm_database::partitions::Partitions {
    let rules = format!("Default=0x7fff, ipoib : ALL=full; {name}=0x10, ipoib : ALL=full;");
    rules.parse().unwrap()
}
