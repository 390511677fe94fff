//! The two things to be asked of a file descriptor.

use std::io;

use snin_protocol::Time;

use super::error::VerbsError;

/// Has reads return at once when there is nothing.
pub(super) fn set_nonblocking(fd: i32) -> Result<(), VerbsError> {
    // SAFETY: no memory is passed; a bad descriptor is an error.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(VerbsError::last("fcntl"));
    }
    Ok(())
}

/// Waits until there is something to be read, or for so long (rounded up to milliseconds).
pub(super) fn wait_readable(fd: i32, most: Time) -> Result<bool, VerbsError> {
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let timeout = i32::try_from(most.nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
    // SAFETY: one entry is passed, and it is there.
    match unsafe { libc::poll(&raw mut entry, 1, timeout) } {
        0 => Ok(false),
        count if count > 0 => Ok(true),
        _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(false),
        _ => Err(VerbsError::last("poll")),
    }
}
