//! libibumad behind safe types: which ports this machine has, and management datagrams in and out of one.
//!
//! The library is linked dynamically and every file of `/sys/class/infiniband*` and `/dev/infiniband` is
//! reached through it or by the C library's plain `open`, so that ibsim's preload can stand in for both:
//! `ibsim-run PROGRAM`.
//!
//! Kernels with `ib_umad` match an answer with its request themselves and drop what they do not expect, so
//! every request is sent with the time for which its answer is waited for; what runs out of it comes back as
//! [`Incoming::timed_out`].

mod error;
mod ffi;
mod port;

pub use error::Error;
pub use port::{Agent, Announced, Description, Incoming, MAD, Open, Outgoing, ports};
