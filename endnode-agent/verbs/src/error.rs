//! Errors of hardware, each in one line that says what to do.

use std::io;

use super::path::PathError;

/// An error of a device or of its library.
#[derive(Debug, thiserror::Error)]
pub enum VerbsError {
    /// The machine has no RDMA device, or none that this user may see.
    #[error(
        "no RDMA device found: load the adapter's driver, or for RDMA in software \
         `modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0`"
    )]
    NoDevices,
    /// Not the one that was named.
    #[error("no RDMA device `{wanted}`: there are {present}")]
    NoSuchDevice {
        /// The name.
        wanted: String,
        /// The names that there are.
        present: String,
    },
    /// The device has fewer ports.
    #[error("{device} has no port {port}: its ports are 1 to {ports}")]
    NoSuchPort {
        /// Which device.
        device: String,
        /// The number.
        port: u8,
        /// How many there are.
        ports: u8,
    },
    /// Nothing can be sent by this port.
    #[error("port {port} of {device} is {state}: {remedy}")]
    PortNotActive {
        /// Which device.
        device: String,
        /// Which port.
        port: u8,
        /// What it is instead.
        state: &'static str,
        /// What can be done.
        remedy: &'static str,
    },
    /// No port of any device is active.
    #[error(
        "no port of {0} is active: check cable and subnet manager, or `ip link set up` for RoCE"
    )]
    NoActivePort(String),
    /// The system lets a process lock only so much memory.
    #[error(
        "cannot register {bytes} bytes of memory: more may have to be locked than allowed; \
         raise it by `ulimit -l unlimited` or LimitMEMLOCK=infinity"
    )]
    MemoryLocked {
        /// How many.
        bytes: usize,
    },
    /// A call failed.
    #[error("{call} failed: {error}")]
    Call {
        /// Which call.
        call: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The port says something that no port says.
    #[error("{device} port {port}: {what}")]
    Nonsense {
        /// Which device.
        device: String,
        /// Which port.
        port: u8,
        /// The device's words.
        what: String,
    },
    /// As many are posted as may be.
    #[error("the queue pair's queue is full")]
    QueueFull,
    /// More than the device takes at once.
    #[error("{bytes} bytes are more than the {most} that fit")]
    TooLong {
        /// How many.
        bytes: usize,
        /// How many fit.
        most: usize,
    },
    /// There is no such path.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl VerbsError {
    /// A call that reports by errno failed just now.
    pub(super) fn last(call: &'static str) -> Self {
        Self::Call { call, error: io::Error::last_os_error() }
    }

    /// A call returned an error number.
    pub(super) fn code(call: &'static str, code: i32) -> Self {
        // Some calls return -1 and leave the number in errno, some return it (libibverbs does both).
        if code == -1 {
            return Self::last(call);
        }
        Self::Call { call, error: io::Error::from_raw_os_error(code.abs()) }
    }
}

/// `Err` unless a call returned 0.
pub(super) fn check(call: &'static str, code: i32) -> Result<(), VerbsError> {
    if code == 0 { Ok(()) } else { Err(VerbsError::code(call, code)) }
}
