//! Files that are there as a whole, or as they were before: whatever happens, at whatever moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Replaces a file: written beside it, forced to the disk, renamed over it, and the folder forced to the disk.
/// What is there already is not written again. Folders that are missing are made.
///
/// # Errors
/// What the system says, with the file that it is about; the file is then as it was before.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    if fs::read(path).is_ok_and(|held| held == bytes) {
        return Ok(());
    }
    let (folder, beside) = places(path);
    fs::create_dir_all(&folder).map_err(StoreError::at(&folder))?;
    let written = write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, path).map_err(StoreError::at(path)))
        .and_then(|()| sync_folder(&folder));
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Replaces a file by texts that are too many to be held at once: whoever reads it sees the old file or the
/// new one. What is written can be made again, so nothing is forced to the disk.
///
/// # Errors
/// As [`replace`].
pub fn replace_by_texts(
    path: &Path,
    texts: impl IntoIterator<Item = String>,
) -> Result<(), StoreError> {
    let (folder, beside) = places(path);
    fs::create_dir_all(&folder).map_err(StoreError::at(&folder))?;
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&beside)?);
        for text in texts {
            file.write_all(text.as_bytes())?;
        }
        file.flush()
    };
    let written = write()
        .map_err(StoreError::at(&beside))
        .and_then(|()| fs::rename(&beside, path).map_err(StoreError::at(path)));
    if written.is_err() {
        // It may not even have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A file's folder, and the file beside it that will take its place.
fn places(path: &Path) -> (PathBuf, PathBuf) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new(".")).to_owned();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.{}", std::process::id()));
    (folder, beside)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(StoreError::at(path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(StoreError::at(path))
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
    /// What the system says.
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
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
}
