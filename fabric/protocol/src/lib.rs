//! What daemons say to each other, and the time they share.

mod time;

pub use time::Time;
