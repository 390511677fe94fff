//! The text that `ibnetdiscover` prints and ibsim loads, read and written.
//!
//! A record is a node header and a line for each cabled port; every cable is listed at both of its ends
//! and the two are held against each other:
//!
//! ```text
//! switchguid=0x2c5eab0300b87b40(2c5eab0300b87b40)
//! Switch  65 "S-2c5eab0300b87b40"     # "leaf 4" enhanced port 0 lid 73 lmc 0
//! [1]     "H-e09d7303007a4bd8"[1](e09d7303007a4bd8)       # "node 1 mlx5_5" lid 647 4xNDR
//!
//! caguid=0xe09d7303007a4bd8
//! Ca      1 "H-e09d7303007a4bd8"      # "node 1 mlx5_5"
//! [1](e09d7303007a4bd8)   "S-2c5eab0300b87b40"[1]     # lid 647 lmc 0 "leaf 4" lid 73 4xNDR
//! ```

mod line;
mod parse;
mod write;

pub use parse::{ParseError, Problem, parse};
pub use write::write;
