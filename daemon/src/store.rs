//! Files that are there as a whole, or as they were before, even if the program ends in between.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// A file that is being written, and that no program sees before it is whole: until [`Draft::publish`] it has no
/// name. So a program that ends at any point leaves neither a part of the file nor a hidden one beside it.
///
/// What is there and is no file - a pipe, `/dev/stdout` - is written to as it is.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    file: BufWriter<File>,
    place: Place,
}

/// Where a draft is.
#[derive(Debug)]
enum Place {
    /// In the file's folder, without a name.
    Nameless,
    /// Beside the file: the file system knows no files without a name.
    Beside(PathBuf),
    /// It is no file that could be replaced.
    There,
}

impl Draft {
    /// Begins to write a file; its folder has to be there.
    ///
    /// # Errors
    /// When it could not be written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let at = StoreError::at;
        // A symbolic link stays, and what it leads to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Some(there) = fs::metadata(&path).ok().filter(|there| !there.is_file()) {
            if there.is_dir() {
                return Err(at(&path)(io::ErrorKind::IsADirectory.into()));
            }
            let file = OpenOptions::new().write(true).open(&path).map_err(at(&path))?;
            return Ok(Self { path, file: BufWriter::new(file), place: Place::There });
        }
        let (folder, beside) = places(&path);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, place) = match rustix::fs::open(&folder, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) if Path::new("/proc/self/fd").exists() => (File::from(file), Place::Nameless),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(at(&path)(error.into()));
            }
            _ => {
                let mut options = OpenOptions::new();
                let options = options.read(true).write(true).create(true).truncate(true);
                (options.open(&beside).map_err(at(&path))?, Place::Beside(beside))
            }
        };
        Ok(Self { path, file: BufWriter::new(file), place })
    }

    /// Gives the file its name, in place of what had it.
    ///
    /// # Errors
    /// When something could not be written: the file is then as it was before.
    pub fn publish(self) -> Result<(), StoreError> {
        self.finish(false)
    }

    /// The same, and what was written is on the disk.
    ///
    /// # Errors
    /// As [`Self::publish`].
    pub fn publish_to_disk(self) -> Result<(), StoreError> {
        self.finish(true)
    }

    /// Another handle of the file, to be read and written. What is written to the draft itself comes in between.
    ///
    /// # Errors
    /// When the system has no more descriptors.
    pub fn file(&self) -> Result<File, StoreError> {
        self.file.get_ref().try_clone().map_err(StoreError::at(&self.path))
    }

    /// Gives the file its name, if nothing has it by now, and has that on the disk. Whether it was so.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn publish_new(mut self) -> Result<bool, StoreError> {
        let path = self.path.clone();
        let at = || StoreError::at(&path);
        self.file.flush().map_err(at())?;
        let file = self.file.get_ref();
        file.sync_all().map_err(at())?;
        let linked = match &self.place {
            Place::There => return Ok(false),
            Place::Beside(beside) => fs::hard_link(beside, &path),
            Place::Nameless => {
                let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
                rustix::fs::linkat(CWD, nameless, CWD, &path, AtFlags::SYMLINK_FOLLOW)
                    .map_err(io::Error::from)
            }
        };
        match (linked, &self.place) {
            (Ok(()), _) => {}
            (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            // The file system has one name a file.
            (Err(error), Place::Beside(beside))
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported
                ) && !path.exists() =>
            {
                fs::rename(beside, &path).map_err(at())?;
                self.place = Place::There;
            }
            (Err(error), _) => return Err(at()(error)),
        }
        sync_folder(&places(&path).0).map(|()| true)
    }

    fn finish(mut self, to_disk: bool) -> Result<(), StoreError> {
        let path = self.path.clone();
        let at = || StoreError::at(&path);
        self.file.flush().map_err(at())?;
        if to_disk {
            self.file.get_ref().sync_all().map_err(at())?;
        }
        let (folder, beside) = places(&path);
        match &self.place {
            Place::There => return Ok(()),
            Place::Beside(_) => {}
            Place::Nameless => {
                let nameless = format!("/proc/self/fd/{}", self.file.get_ref().as_raw_fd());
                // What an earlier process of that number may have left.
                let _ = fs::remove_file(&beside);
                rustix::fs::linkat(CWD, nameless, CWD, &beside, AtFlags::SYMLINK_FOLLOW)
                    .map_err(|error| at()(error.into()))?;
                self.place = Place::Beside(beside.clone());
            }
        }
        fs::rename(&beside, &path).map_err(at())?;
        self.place = Place::There;
        if to_disk { sync_folder(&folder) } else { Ok(()) }
    }
}

impl io::Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Place::Beside(beside) = &self.place {
            let _ = fs::remove_file(beside);
        }
    }
}

/// Replaces a file, as a whole and on the disk. What is there already is not written again. Folders that are
/// missing are made.
///
/// # Errors
/// What the system says, with the file that it is about; the file is then as it was before.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    let (folder, _) = places(path);
    fs::create_dir_all(&folder).map_err(StoreError::at(&folder))?;
    let mut draft = Draft::open(path)?;
    draft.write_all(bytes).map_err(StoreError::at(path))?;
    draft.publish_to_disk()
}

/// Replaces a file by texts that are too many to be held at once: a reader sees the old file or the
/// new one. What is written can be made again, so nothing is forced to the disk.
///
/// # Errors
/// As [`replace`].
pub fn replace_by_texts(
    path: &Path,
    texts: impl IntoIterator<Item = String>,
) -> Result<(), StoreError> {
    let (folder, _) = places(path);
    fs::create_dir_all(&folder).map_err(StoreError::at(&folder))?;
    let mut draft = Draft::open(path)?;
    for text in texts {
        draft.write_all(text.as_bytes()).map_err(StoreError::at(path))?;
    }
    draft.publish()
}

/// Whether an error is the disk's: it is full or broken, or may not be written now. With the same file, later it
/// may work.
pub fn is_of_disk(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let kinds = [
        Kind::StorageFull,
        Kind::QuotaExceeded,
        Kind::FileTooLarge,
        Kind::ReadOnlyFilesystem,
        Kind::StaleNetworkFileHandle,
        Kind::WriteZero,
    ];
    kinds.contains(&error.kind())
        || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
}

/// A file's folder, and the file beside it that will take its place.
fn places(path: &Path) -> (PathBuf, PathBuf) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new(".")).to_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    (folder, beside)
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(StoreError::at(folder))
}

/// A file that cannot be replaced.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct StoreError {
    /// Which.
    pub path: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

impl StoreError {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/guid2lid");
        replace(&path, b"one").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let first = fs::metadata(&path).unwrap().modified().unwrap();
        replace(&path, b"one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), first);
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        replace_by_texts(&path, ["th".to_owned(), "ree".to_owned()]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        // A folder in its place cannot be replaced; nothing is left beside it.
        let taken = folder.path().join("taken");
        fs::create_dir_all(taken.join("full")).unwrap();
        assert!(replace_by_texts(&taken, ["three".to_owned()]).is_err());
        let error = replace(&taken, b"three").unwrap_err().to_string();
        assert!(error.starts_with(&taken.display().to_string()), "{error}");
        // What is given up is gone, and what was there before is still there.
        let mut given_up = Draft::open(&path).unwrap();
        given_up.write_all(b"half").unwrap();
        given_up.flush().unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no hidden file");
        drop(given_up);
        assert_eq!(fs::read(&path).unwrap(), b"three");
        // A link is followed, and a pipe or a device is written to.
        let link = folder.path().join("state/link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace_by_texts(&link, ["four".to_owned()]).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"four");
        replace_by_texts(Path::new("/dev/null"), ["five".to_owned()]).unwrap();
        let error = Draft::open(&folder.path().join("nowhere/file")).unwrap_err().to_string();
        assert!(error.contains("nowhere/file: No such file"), "{error}");
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
