//! Sessions over real sockets and real TLS: who gets one, who is turned away, and what that costs the others.

mod certificates;
#[cfg(feature = "etcd")]
mod election;
#[cfg(feature = "etcd")]
mod etcd;
mod greeting;
mod limits;
mod poll;
mod support;
