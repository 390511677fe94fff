//! The subnet database, and the plain values that the manager's cores share.
//!
//! ```text
//! sweep    administration    mastership    configuration
//!   +------------+------+---------+--------------+
//!                       |
//!        records, stamps, log; settings; the join of several
//! ```
//!
//! The cores are siblings around it: what one has to know of another is here, as a record, a plain value or a
//! trait. [`records`] is what is known of the subnet, [`saved`] what has to survive a restart, [`config`] what the
//! operator wants, [`merge`] one database of several.

pub mod config;
pub mod directed_route;
pub mod error;
pub mod fabric_state;
pub mod judgement;
pub mod keys;
pub mod mad_address;
pub mod managers;
pub mod merge;
pub mod partition_plan;
pub mod partitions;
pub mod programmed;
pub mod qos_policy;
pub mod qos_table;
pub mod records;
pub mod saved;
pub mod seen;
