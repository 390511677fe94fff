//! Ports: how MADs get in and out.
//!
//! A [`Port`] is one local port of one subnet. Nothing in it decides anything: bytes in, bytes out, with the
//! address they came from or go to. There is one module a kind, and one line a kind in [`Choice`]:
//!
//! | kind | module | how it is chosen |
//! |---|---|---|
//! | [`Choice::Umad`] | [`umad`] | `--ca NAME`, `--port NUMBER`, `--guid GUID`; none, if there is one port |
//! | [`Choice::Ibsim`] | [`ibsim`] | `--ibsim [NAME]`, `--ibsim-host HOST` |
//!
//! To add a kind: a module with a type that is a [`Port`], a variant of [`Choice`] with what its `open`
//! needs, a line in [`open`], and the options in `daemon::cli` that choose it.
//!
//! [`Capture`] wraps any of them and writes what passes to a file for Wireshark (`--capture FILE`).
//!
//! # How it is driven
//!
//! One thread, one `poll`: [`Port::readable`] becomes readable when there is something to receive, and stays
//! so until [`Port::receive`] has said `None`; neither `send` nor `receive` ever blocks. When `send` says
//! [`Sent::Full`], the driver keeps the MAD, goes on receiving, and tries again when [`Port::writable`] is
//! writable (at once after the next receive, where a port has no such descriptor). Requests without an
//! answer are no business of a port: the asking core has a clock. What a port learns early of such a request
//! (ibsim and the kernel hand it back) is dropped and counted in [`Counters::undelivered`].
//!
//! That a link came or went an adapter says by itself, where it can: [`Port::events`]. What the port is then, its
//! PortInfo says; so nothing is lost but time where no adapter says anything.
//!
//! Transaction ids: the lower 32 bits are the manager's, the upper 32 belong to the one that shares the port (the
//! kernel's, ibsim's). A port hands out MADs as they came.

pub mod capture;
#[cfg(feature = "verbs")]
pub mod changes;
pub mod ibsim;
#[cfg(feature = "umad")]
pub mod umad;

mod error;

use std::os::fd::BorrowedFd;

use snin_fabric::{Guid, Lid, PortNum};
use snin_mad::{Mad, PERMISSIVE, QKey};
use snin_protocol::Time;

pub use capture::Capture;
pub use error::PortError;

/// One local port, open for subnet management.
pub trait Port {
    /// Which port it is.
    fn info(&self) -> &LocalInfo;

    /// Becomes readable when [`receive`](Self::receive) has something.
    fn readable(&self) -> BorrowedFd<'_>;

    /// Becomes writable when [`send`](Self::send) has room again; `None` where it always has.
    fn writable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Sends a MAD. Never blocks.
    ///
    /// # Errors
    /// When the port is of no use any more: the adapter is gone, the simulator has ended.
    fn send(&mut self, mad: &Mad, to: &Address) -> Result<Sent, PortError>;

    /// The next MAD that came in. Never blocks.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn receive(&mut self) -> Result<Option<Received>, PortError>;

    /// Becomes readable when the adapter says that the port is not what it was; `None` where it never does, and
    /// the port has to be asked from time to time.
    fn events(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether the adapter has said so since this was last asked. Never blocks.
    fn has_changed(&mut self) -> bool {
        false
    }

    /// Sets or clears IsSM in the port's capabilities, by which other managers find this one.
    ///
    /// # Errors
    /// When the port's owner refuses, for lack of rights for one.
    fn announce(&mut self, manager: bool) -> Result<(), PortError>;

    /// What was counted since the port was opened.
    fn counters(&self) -> Counters;
}

/// Which local port it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalInfo {
    /// For people: `mlx5_0/1`, `ibsim:sim host-0-0/1`.
    pub name: String,
    /// The port's GUID.
    pub guid: Guid,
    /// Its number on the adapter.
    pub port: PortNum,
    /// Its first address when it was opened; [`Lid::NONE`] before its subnet was first brought up.
    pub lid: Lid,
}

/// The address of one end: where a MAD came from, or goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// [`PERMISSIVE`] on directed routes.
    pub lid: Lid,
    /// 0 for subnet management, 1 for everything else that is well known (IBA 3.9.2).
    pub qp: u32,
    /// Service level.
    pub sl: u8,
    /// 0 for queue pair 0.
    pub q_key: QKey,
    /// The place of the partition's key in the local port's table (IBA 10.9).
    pub p_key_index: u16,
}

impl Address {
    /// Along the path that an SMP carries itself.
    pub const DIRECTED: Self = Self::manager(PERMISSIVE);

    /// The subnet management agent or manager of an address.
    pub const fn manager(lid: Lid) -> Self {
        Self { lid, qp: 0, sl: 0, q_key: QKey(0), p_key_index: 0 }
    }
}

/// A MAD, and from where.
#[derive(Clone, Debug)]
pub struct Received {
    /// The MAD.
    pub mad: Box<Mad>,
    /// From where.
    pub from: Address,
}

/// What became of a MAD that was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Sent {
    /// It is on its way.
    Yes,
    /// There is no room: receive, and try again.
    Full,
}

/// What a port counts. All only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// MADs sent.
    pub sent: u64,
    /// MADs received.
    pub received: u64,
    /// How often there was no room.
    pub full: u64,
    /// Requests that came back undelivered.
    pub undelivered: u64,
    /// What came in and is no MAD, or was more than the queue holds.
    pub dropped: u64,
}

/// Which port of this machine is wanted; what is not said does not matter.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Selector {
    /// The adapter: `mlx5_0`.
    pub adapter: Option<String>,
    /// The port's number on it.
    pub number: Option<u8>,
    /// The port's GUID.
    pub guid: Option<Guid>,
}

impl Selector {
    /// Of a port's GUID, `adapter/number`, or an adapter that has one port.
    pub fn of(name: &str) -> Self {
        if let Some(guid) = name.strip_prefix("0x").and_then(|_| name.parse().ok()) {
            return Self { guid: Some(guid), ..Self::default() };
        }
        match name
            .split_once('/')
            .and_then(|(adapter, number)| Some((adapter, number.parse().ok()?)))
        {
            Some((adapter, number)) => {
                Self { adapter: Some(adapter.to_owned()), number: Some(number), guid: None }
            }
            None => Self { adapter: Some(name.to_owned()), ..Self::default() },
        }
    }
}

/// Which port is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// A port of this machine.
    Umad(Selector),
    /// A node of a fabric that ibsim simulates.
    Ibsim {
        /// What its sockets are called (`IBSIM_SOCKNAME`).
        name: String,
        /// The node, by its name in the netlist; the first, where there is none.
        host: Option<String>,
    },
}

/// What a port needs to know of its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a> {
    /// After what time the user asks again: what waits for an answer longer than this is forgotten.
    pub timeout: Time,
    /// The M_Keys that the port may have: one that hides its key answers to that key only.
    pub keys: &'a [u64],
    /// Nothing is answered there: another manager may sit at the same port.
    pub asks_only: bool,
}

/// Opens the port that is wanted.
///
/// # Errors
/// When there is none, several, or it cannot be opened: one line that says which there are.
pub fn open(choice: &Choice, options: Options<'_>) -> Result<Box<dyn Port>, PortError> {
    match choice {
        #[cfg(feature = "umad")]
        Choice::Umad(selector) => Ok(Box::new(umad::UmadPort::open(selector, options)?)),
        #[cfg(not(feature = "umad"))]
        Choice::Umad(_) => Err(PortError::WithoutUmad),
        Choice::Ibsim { name, host } => {
            Ok(Box::new(ibsim::IbsimPort::attach_with(name, host.as_deref(), options.keys)?))
        }
    }
}
