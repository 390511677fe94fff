//! The steps of a mesh: leases, calls and port news, one at a time.

mod leases;
mod links;
mod sending;
mod support;
mod time_slots;
