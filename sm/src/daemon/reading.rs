//! Files of the expected configuration that operators name: a thread of its own reads and understands them, so
//! that a long one keeps no MAD waiting.
//!
//! The manager may read more than one who asks it, and says what is wrong with a line: what another user than root
//! and its own has it read is that user's own file, or one that everybody may read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use snin_configuration::Expected;
use snin_daemon::control::Client;
use snin_daemon::text::{self, TextError};
use snin_daemon::worker::Worker;

use super::expected::{LONGEST, parse};

/// Files that wait to be read.
const WAITING: usize = 4;

/// A file's text, and what it expects; or why there is none.
pub(super) type Understood = Result<(String, Expected), String>;

/// What is done with a file.
pub(super) enum Purpose {
    /// The fabric is compared with it.
    Compare,
    /// It is said what speaks against it.
    Check,
    /// It is enforced from now on.
    Apply {
        /// Who applies it.
        by: String,
        /// Even where it cuts the fabric.
        forced: bool,
    },
}

/// A file that somebody names.
pub(super) struct FileRequest {
    /// Who is answered.
    pub(super) client: Client,
    /// The user whose process asks; none where that is not known.
    pub(super) user: Option<u32>,
    /// Its path.
    pub(super) file: String,
    /// What for.
    pub(super) purpose: Purpose,
}

/// See the module's documentation.
pub(super) struct Reading(Worker<FileRequest, (FileRequest, Understood)>);

impl Reading {
    pub(super) fn start() -> io::Result<Self> {
        let work = |request: FileRequest| {
            let understood = read(&request.file, request.user);
            Some((request, understood))
        };
        Ok(Self(Worker::start("files", WAITING, work)?))
    }

    /// Has a file read.
    pub(super) fn ask(&self, request: FileRequest) -> Result<(), String> {
        let busy = |_| "too many files wait to be read: try again".to_owned();
        self.0.give(request).map_err(busy)
    }

    /// Becomes readable when [`next`](Self::next) has something.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.0.readable()
    }

    /// What came of a request, if something did.
    pub(super) fn next(&self) -> io::Result<Option<(FileRequest, Understood)>> {
        self.0.next()
    }
}

/// Whether the user is root or the manager's own: nothing is kept from those.
pub(super) fn is_trusted(user: Option<u32>) -> bool {
    user.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

fn read(name: &str, user: Option<u32>) -> Understood {
    let failed = |error: io::Error| format!("{name}: {error}");
    // Whoever asks learns no more than that: the folders on the way may be closed to it.
    let open = |error: io::Error| match is_trusted(user) {
        true => failed(error),
        false => forbidden(name, user),
    };
    let found = std::fs::metadata(name).map_err(open)?;
    if !found.is_file() {
        return Err(format!("{name}: it is no file"));
    }
    let file = File::open(name).map_err(open)?;
    // Of what is open: the name may lead to another by now.
    let found = file.metadata().map_err(failed)?;
    if !is_trusted(user) && user != Some(found.uid()) && found.mode() & 0o004 == 0 {
        return Err(forbidden(name, user));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let text = text::commented(&bytes).map_err(|why| TextError::from(why).at(Path::new(name)))?;
    let expected = parse(&text, name)?;
    Ok((text, expected))
}

fn forbidden(name: &str, user: Option<u32>) -> String {
    let user = user.map_or_else(|| "an unknown user".to_owned(), |user| format!("user {user}"));
    format!(
        "{name}: the manager reads for {user} only files of that user and those that everybody may read: chmod o+r"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn others_have_only_their_own_files_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m_keys");
        let name = file.to_str().unwrap();
        fs::write(&file, "secret 00112233").unwrap();
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o600);
        let own = rustix::process::geteuid().as_raw();
        let why = |user| read(name, user).unwrap_err();
        assert!(why(Some(own)).contains("m_keys:1"), "{}", why(Some(own)));
        for other in [Some(own + 4711), None] {
            assert!(why(other).ends_with("chmod o+r"), "{}", why(other));
            let missing = read("/no/such/file", other).unwrap_err();
            assert!(missing.ends_with("chmod o+r"), "{missing}");
        }
        mode(0o604);
        assert!(why(Some(own + 4711)).contains("m_keys:1"));
        assert_eq!(read("/dev/zero", Some(0)).unwrap_err(), "/dev/zero: it is no file");
    }
}
