//! Which of a subnet's managers is master, and what they tell each other.
//!
//! ```text
//! SMInfo -> mastership <- mandate - cluster <- the cluster's service
//!               ^  ^
//!               |  +----- electing, election <- ballots - mirror <- sessions with other managers
//!               +-------- whose copy is whole -------------+
//! ```
//!
//! [`mastership`] alone says what this manager is, and orders what the sweep may do. [`cluster`] and [`election`]
//! say who ought to be master; [`electing`] carries between the election and the managers that take part.
//! [`mirror`] carries the database from the master to the others.

pub mod cluster;
pub mod control;
pub mod electing;
pub mod election;
pub mod mastership;
pub mod mirror;
mod report;

pub use report::Report;
