//! Listening Unix sockets: files that outlive the daemon that made them.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lsetxattr};

use crate::group::SocketGroup;

/// Of the kernel's linux/posix_acl_xattr.h and linux/posix_acl.h: an access control list in an extended attribute,
/// a header and an entry of tag, permissions and number for each.
const ACL_VERSION: u32 = 2;
const ACL_UNDEFINED: u32 = u32::MAX;
const ACL_USER_OBJ: u16 = 0x01;
const ACL_GROUP_OBJ: u16 = 0x04;
const ACL_GROUP: u16 = 0x08;
const ACL_MASK: u16 = 0x10;
const ACL_OTHER: u16 = 0x20;
const READ_WRITE: u16 = 6;

/// Binds; root, the daemon's own user and `group`, else its own group, may open it. A socket that a daemon left
/// behind is replaced; one at which a daemon listens is not, and neither is what is no socket.
///
/// # Errors
/// The system's; [`ErrorKind::AddrInUse`] where another daemon listens there, [`ErrorKind::AlreadyExists`] where
/// something else is.
pub(crate) fn bind(path: &Path, group: Option<SocketGroup>) -> io::Result<UnixListener> {
    make_folders(path)?;
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
    if let Some(group) = group {
        open_to(path, group)?;
    }
    Ok(listener)
}

/// Opens it to a group by an access control list: that takes no privilege, where changing a file's group takes one
/// that the daemons do not have under their units.
fn open_to(path: &Path, group: SocketGroup) -> io::Result<()> {
    let group = group.number();
    let mut list = ACL_VERSION.to_le_bytes().to_vec();
    for (of, may, whose) in [
        (ACL_USER_OBJ, READ_WRITE, ACL_UNDEFINED),
        (ACL_GROUP_OBJ, READ_WRITE, ACL_UNDEFINED),
        (ACL_GROUP, READ_WRITE, group),
        (ACL_MASK, READ_WRITE, ACL_UNDEFINED),
        (ACL_OTHER, 0, ACL_UNDEFINED),
    ] {
        list.extend([of.to_le_bytes(), may.to_le_bytes()].concat());
        list.extend(whose.to_le_bytes());
    }
    lsetxattr(path, "system.posix_acl_access", &list, XattrFlags::empty()).map_err(|error| {
        let what = format!(
            "cannot be opened to group {group} (socket_group): {error}: a file system with access control lists \
             is needed, such as /run"
        );
        io::Error::new(io::Error::from(error).kind(), what)
    })
}

/// Makes the folders that are not there. Everybody may pass them: who may open a socket is said by its own mode.
fn make_folders(path: &Path) -> io::Result<()> {
    let folders = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let missing: Vec<&Path> = folders.take_while(|folder| !folder.exists()).collect();
    for folder in missing.into_iter().rev() {
        match fs::create_dir(folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The file of a socket, which goes when this does.
#[derive(Debug)]
pub(crate) struct SocketGuard(pub(crate) PathBuf);

impl Drop for SocketGuard {
    fn drop(&mut self) {
        // It may be gone with its folder.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn only_a_socket_that_was_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        // SocketGuard behind: its listener is gone, its file is not.
        drop(bind(&path, None).unwrap());
        let listener = bind(&path, None).unwrap();
        assert_eq!(bind(&path, None).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(listener);
        fs::remove_file(&path).unwrap();
        let kept = folder.path().join("kept");
        fs::write(&kept, "a file of the site").unwrap();
        assert_eq!(bind(&kept, None).unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::os::unix::fs::symlink(&kept, &path).unwrap();
        assert_eq!(bind(&path, None).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file of the site");
    }

    #[test]
    fn a_socket_is_a_groups_and_its_folders_lead_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/snin/control.sock");
        let own = rustix::process::getegid().as_raw();
        let group: crate::group::GroupName = serde_json::from_str(&own.to_string()).unwrap();
        let _listener = bind(&path, Some(group.find().unwrap())).unwrap();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(
            (found.gid(), found.mode() & 0o777),
            (own, 0o660),
            "the mode is the list's mask"
        );
        for made in path.ancestors().skip(1).take(2) {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o777, 0o755, "{}", made.display());
        }
    }
}
