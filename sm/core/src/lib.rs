//! The subnet manager: its cores around one database, as one pure state machine.
//!
//! ```text
//!           MADs                                     sessions: managers, controller, cluster
//!            |                                                       |
//!   demultiplexer (class, method, queue pair)                        |
//!            |                                                       |
//!   sweep         administration      mastership      configuration <-+
//!     +----------------+---------+---------+----------------+
//!                                |
//!                             database
//! ```
//!
//! [`Manager`] gives each core its turn, and what one changes the others see before the turn ends. It decides
//! nothing: what a MAD, a survey or a session means is for the cores. Beside a manager that stays, [`Core`] has a
//! reader at work in its place. The driver gives it [`Event`]s and the time, and does what the [`Output`]s say.
//! [`intake`] is what a driver puts before it, [`controllers`] what it tells of the views that it publishes.

pub mod controllers;
mod core;
mod events;
pub mod intake;
mod manager;
mod report;

pub use self::core::Core;
pub use events::{Event, Output, Preferences};
pub use manager::Manager;
pub use report::Report;
