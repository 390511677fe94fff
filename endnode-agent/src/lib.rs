//! The end-node agent: a mesh of queue pairs that sends, in each window, on the tree it was granted.

pub mod core;
