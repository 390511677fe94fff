//! Listening Unix sockets: files that outlive the daemon that made them.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Binds; root, the daemon's own user and its group may open it. A socket that a daemon left behind is replaced;
/// one at which a daemon listens is not.
///
/// # Errors
/// The system's; [`ErrorKind::AddrInUse`] where another daemon listens there.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(ErrorKind::AddrInUse, "another daemon listens there"));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// The file of a socket, which goes when this does.
#[derive(Debug)]
pub(crate) struct Left(pub(crate) PathBuf);

impl Drop for Left {
    fn drop(&mut self) {
        // It may be gone with its folder.
        let _ = fs::remove_file(&self.0);
    }
}
