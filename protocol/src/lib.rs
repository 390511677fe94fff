//! Messages between daemons, and the time they share.

pub mod clock;
pub mod codec;
pub mod collective;
pub mod election;
pub mod greeting;
pub mod identity;
pub mod message;
pub mod mirror;
pub mod operator;
pub mod peer;
pub mod software_port;
pub mod view;
pub mod view_frames;

mod epoch;
mod time;

pub use epoch::{ConnectionNumber, Epoch, Session, Term};
pub use time::Time;
