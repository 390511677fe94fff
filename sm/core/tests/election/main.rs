//! The election: its rules one by one, and three managers that everything may happen to.

mod explore;
mod net;
mod statements;
