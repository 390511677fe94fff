//! The end-node agent: a mesh of queue pairs that sends, in each window, on the tree it was granted.

pub mod core;

#[cfg(feature = "verbs")]
#[allow(unsafe_code, reason = "this module speaks C; every block says why it is sound")]
pub mod verbs;
