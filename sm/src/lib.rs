//! The subnet manager.
//!
//! [`Sweep`] is its core: a state machine without clock, socket or thread that discovers a fabric by subnet
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
//! Whoever drives the core gives it [`Event`]s and the time, and does what the [`Output`]s say:
//!
//! ```
//! use snin_protocol::Time;
//! use snin_sm::{Config, Event, Output, Saved, Sweep};
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
//! # Ok::<(), snin_sm::ConfigError>(())
//! ```

pub mod config;
pub mod core;
pub mod daemon;
pub mod error;
pub mod events;
pub mod metrics;
pub mod port;

pub use config::Config;
pub use core::{Computed, FabricView, Job, Pair, Saved, Sweep};
pub use error::{ConfigError, Dropped};
pub use events::{Destination, Event, LocalPort, Missing, Output, Report};
pub use metrics::Metrics;
