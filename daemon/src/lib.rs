//! The parts that all daemons share, so that knowing one daemon is knowing all.
//!
//! | module | what is in it |
//! |---|---|
//! | [`mod@settings`] | one table gives structure, defaults, the documented file and errors by line |
//! | [`clock`] | nanoseconds since its start: what cores are told of the time |
//! | [`control`] | JSON lines over a Unix socket: the daemon's end and the command's |
//! | [`describer`] | long answers, made beside the loop |
//! | [`group`] | whose members may open Unix sockets |
//! | [`http`] | `/metrics`, `/healthz` and an API |
//! | [`metrics`] | what `/metrics` says |
//! | [`meter`] | what a thread's time went to after something was due |
//! | [`journal`] | events as JSON lines: the last ones, a file, and subscribers |
//! | [`record`] | what a core was told, to be told again |
//! | [`log`] | messages for people: journald, a file or stderr |
//! | [`store`] | files that are there as a whole or as they were before |
//! | [`shared`] | what must survive, changed one key at a time by who has seen what is there |
//! | [`trouble`] | what fails, is told and is tried again |
//! | [`session`] | sessions between daemons: TLS, identity, limits |
//! | [`pki`] | a site's own CA |
//! | [`signals`] | SIGHUP, SIGTERM, SIGUSR1 as something to poll |
//! | [`service`] | what systemd is told |
//! | [`watch`] | one thread, one poll |
//! | [`worker`] | a thread that does jobs beside that one |
//!
//! A daemon is one thread around one poll:
//!
//! ```no_run
//! use snin_daemon::signals::{Signal, Signals};
//! use snin_daemon::watch::Watch;
//!
//! let mut signals = Signals::new()?;
//! loop {
//!     let mut watch = Watch::new();
//!     signals.watch(&mut watch);
//!     watch.wait(None)?;
//!     while let Some(signal) = signals.next() {
//!         if signal == Signal::End {
//!             return Ok(());
//!         }
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod clock;
pub mod control;
pub mod describer;
pub mod generations;
pub mod group;
pub mod http;
pub mod journal;
pub mod log;
pub mod meter;
pub mod metrics;
pub mod pki;
pub mod record;
pub mod replay;
pub mod service;
pub mod session;
pub mod settings;
pub mod shared;
pub mod signals;
pub mod store;
pub mod text;
pub mod trouble;
pub mod watch;
pub mod worker;

mod connections;
mod unix;
mod waker;
