//! Subnet administration (SA): what hosts ask their manager, and what they tell it (IBA 15).
//!
//! ```text
//! MAD -> transport -> request -> trust -> answer -> transport -> MADs
//!        (RMPP)                            |
//!                     records, paths, membership, services, subscriptions, aliases
//! ```
//!
//! It answers from the [database](snin_sm_database::records): what it reads was found and programmed by the
//! sweep, what it writes (groups, members, services, subscriptions) the rest of the manager follows by the
//! database's log. It says nothing before the subnet is up, and nothing while another manager is master.

mod administration;
mod aliases;
mod answer;
mod info;
mod membership;
mod metrics;
mod paths;
mod query;
mod rates;
mod records;
mod reports;
mod services;
mod subscriptions;
mod table;
mod transport;
mod trust;
mod world;

pub use administration::{Administration, busy};
pub use metrics::{AdministrationMetrics, Unanswered};
pub use transport::Limits;
pub use world::World;
