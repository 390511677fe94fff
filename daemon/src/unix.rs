//! Listening Unix sockets: files that outlive the daemon that made them.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Binds; root, the daemon's own user and its group may open it. A socket that a daemon left behind is replaced;
/// one at which a daemon listens is not, and neither is what is no socket.
///
/// # Errors
/// The system's; [`ErrorKind::AddrInUse`] where another daemon listens there, [`ErrorKind::AlreadyExists`] where
/// something else is.
pub(crate) fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(ErrorKind::AddrInUse, "another daemon listens there"));
    }
    match fs::symlink_metadata(path) {
        // What a daemon did not leave behind is somebody's file, or a link that leads to one.
        Ok(found) if !found.file_type().is_socket() => {
            let what = "there is a file that is no socket: move it away, or choose another path";
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
        Ok(_) => fs::remove_file(path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_was_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        // Left behind: its listener is gone, its file is not.
        drop(bind(&path).unwrap());
        let listener = bind(&path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        fs::remove_file(&path).unwrap();
        let kept = folder.path().join("kept");
        fs::write(&kept, "a file of the site").unwrap();
        assert_eq!(bind(&kept).unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file of the site");
    }
}
