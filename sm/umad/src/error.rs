//! Errors, each with what to do.

use std::io;

/// Why a port cannot be used. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no user-space management datagrams.
    #[error(
        "/sys/class/infiniband_mad/abi_version: {0}: no umad here; `modprobe ib_umad` loads it"
    )]
    NoUmad(io::Error),
    /// An adapter whose description the kernel does not give.
    #[error("{name}: {error}")]
    Adapter {
        /// The adapter.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A port that cannot be opened for lack of rights.
    #[error(
        "{name}: {error}: /dev/infiniband/{device}* is for root and its group (udev: group rdma, mode 0660)"
    )]
    Permission {
        /// Adapter and port.
        name: String,
        /// Which files.
        device: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A port that cannot be opened.
    #[error("{name}: cannot open it: {error}")]
    Open {
        /// Adapter and port.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// A management class that another program has.
    #[error(
        "{name}: management class {class:#04x} is taken ({error}): does another manager run here?"
    )]
    Register {
        /// Adapter and port.
        name: String,
        /// The class.
        class: u8,
        /// The system's error.
        error: io::Error,
    },
    /// A management class for which the kernel has no queue pair on this port.
    #[error(
        "{name}: the kernel has no queue pair for management class {class:#04x} on this port ({error}): \
         docs/hardware.md, \"A port that the kernel does not let manage\""
    )]
    NoQueuePair {
        /// Adapter and port.
        name: String,
        /// The class.
        class: u8,
        /// The system's error.
        error: io::Error,
    },
}
