//! Files of the expected configuration that operators name: a thread of its own reads and understands them, so
//! that a long one keeps no MAD waiting.
//!
//! The manager may read more than one who asks it, and says what is wrong with a line: what another user than root
//! and its own has it read is that user's own file, or one that everybody may read.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use rustix::event::{EventfdFlags, eventfd};
use snin_daemon::control::Request;
use snin_daemon::text::{self, TextError};
use snin_sm_core::configuration::Expected;

use super::expected::{LONGEST, parse};

/// Files that wait to be read.
const WAITING: usize = 4;

/// A file's text, and what it expects; or why there is none.
pub(super) type Understood = Result<(String, Expected), String>;

/// See the module's documentation. The thread ends with the value, after the file that it has begun.
pub(super) struct Reading {
    jobs: SyncSender<(Request, String)>,
    done: Receiver<(Request, Understood)>,
    ready: Arc<OwnedFd>,
}

impl Reading {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, next) = sync_channel::<(Request, String)>(WAITING);
        let (results, done) = sync_channel(WAITING);
        let ready = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let its = Arc::clone(&ready);
        let work = move || {
            while let Ok((request, file)) = next.recv() {
                let understood = read(&file, request.user);
                if results.send((request, understood)).is_err() {
                    break;
                }
                // It cannot fail but for a count of 2^64 - 1, which would be readable already.
                let _ = rustix::io::write(&*its, &1_u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new().name("files".to_owned()).spawn(work)?;
        Ok(Self { jobs, done, ready })
    }

    /// Has the file read that the request names.
    pub(super) fn ask(&self, request: &Request) -> Result<(), String> {
        let file = request.body["file"].as_str().ok_or("`file` is a path")?.to_owned();
        let busy = |_| "too many files wait to be read: try again".to_owned();
        self.jobs.try_send((request.clone(), file)).map_err(busy)
    }

    /// Becomes readable when [`next`](Self::next) has something.
    pub(super) fn readable(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// What came of a request, if something did.
    pub(super) fn next(&self) -> io::Result<Option<(Request, Understood)>> {
        // First the wake-up, then the look: what is done in between wakes again. Nothing to read is as good.
        let _ = rustix::io::read(&self.ready, &mut [0; 8]);
        match self.done.try_recv() {
            Ok(done) => Ok(Some(done)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the thread that reads files has ended"))
            }
        }
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
