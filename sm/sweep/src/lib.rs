//! What a subnet manager does to a fabric: it discovers it, gives addresses and tables, and brings its links up.
//!
//! [`Sweep`] is a state machine without clock, socket or thread that discovers a fabric by subnet
//! management packets, gives every port its addresses and every switch its table, brings the links up,
//! publishes the result as a [`FabricView`] and keeps all that right while cables and switches come and go.
//!
//! Data flows one way, a module a stage:
//!
//! ```text
//! discover -> recognise -> address -> grow -> fill -> distribute -> activate -> publish
//! survey.rs   discovered.rs  \____ planning.rs ____/  distribute.rs  activate.rs  view.rs
//! ```
//!
//! The driver gives the core [`Event`]s and the time, and does what the [`Output`]s say:
//!
//! ```
//! use snin_protocol::Time;
//! use snin_sm_database::config::Config;
//! use snin_sm_database::saved::Saved;
//! use snin_sweep::{Event, Output, Sweep};
//!
//! let mut sweep = Sweep::new(Config::default(), Saved::default())?;
//! sweep.handle(Event::Start, Time::ZERO);
//! // The first thing that it wants to know is who it is itself.
//! let Some(Output::Send { mad, .. }) = sweep.poll_output() else { panic!("nothing to send") };
//! assert_eq!(mad.header().attribute().0, 0x0011);
//! // If no answer comes, it asks again.
//! let deadline = sweep.next_deadline().expect("a time-out");
//! sweep.handle_deadline(deadline);
//! assert!(matches!(sweep.poll_output(), Some(Output::Send { .. })));
//! # Ok::<(), snin_sm_database::error::ConfigError>(())
//! ```
//!
//! Beside a manager that stays a [`Reader`] does the first half alone: it reads the fabric, and writes nothing.

mod activate;
mod address;
mod agent_queues;
mod discovered;
mod distribute;
mod events;
mod failures;
mod graph;
mod keyring;
mod lane_tables;
mod lft_shadow;
mod limits;
mod metrics;
mod mft_shadow;
mod multicast;
mod order;
mod partitioning;
mod planning;
mod qos_tables;
mod query;
mod reader;
mod report;
mod schedule;
mod silence;
mod smp;
mod survey;
mod sweep;
mod target;
mod transactions;
mod trap;
mod view;
mod vls;
mod window;

pub use events::{Event, Output};
pub use lane_tables::GrantedLanes;
pub use metrics::Metrics;
pub use multicast::{Group, Groups};
pub use planning::{Computed, Job};
pub use reader::Reader;
pub use report::{Missing, Report};
pub use sweep::Sweep;
pub use view::FabricView;
