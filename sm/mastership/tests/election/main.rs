//! The election: its rules one by one, and three managers that everything may happen to.

mod consent;
mod explore;
mod net;
mod site;
mod statements;
#[path = "../support/store.rs"]
mod store;
