//! A file that is added to, with the generation before it: at its limit it is moved to `NAME.1`, in place of the
//! one that was there, and begun anew. So log and events take at most twice the limit of a disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Bytes of a MiB, in which settings say limits.
const MIB: u64 = 1 << 20;

/// The size at which a file is begun anew; 0: never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(u64);

impl Limit {
    /// No limit: who reads the file sees to it.
    pub const NONE: Self = Self(0);

    /// So many MiB; 0: none.
    pub const fn mib(mib: u64) -> Self {
        Self(mib.saturating_mul(MIB))
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Generations {
    path: PathBuf,
    file: File,
    length: u64,
    limit: Limit,
}

impl Generations {
    /// Opens the end of a file, which is made if it is not there.
    pub(crate) fn open(path: &Path, limit: Limit) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let found = file.metadata()?;
        // What is no file, such as a pipe, has no size and no name to be moved to.
        let (length, limit) = if found.is_file() { (found.len(), limit) } else { (0, Limit::NONE) };
        Ok(Self { path: path.to_owned(), file, length, limit })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on in a new file of the same name, after the old one was moved away.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.path, self.limit)?;
        Ok(())
    }

    /// Adds all of this or, on a disk that is full, nothing of it.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let size = bytes.len() as u64;
        if self.limit != Limit::NONE && self.length > 0 && self.length + size > self.limit.0 {
            self.begin_anew()?;
        }
        match self.file.write_all(bytes) {
            Ok(()) => self.length += size,
            Err(error) => {
                // Where that fails too, the file ends in half a line until it is opened again.
                let _ = self.file.set_len(self.length);
                return Err(error);
            }
        }
        Ok(())
    }

    fn begin_anew(&mut self) -> io::Result<()> {
        let mut before = self.path.clone().into_os_string();
        before.push(".1");
        let moved = fs::rename(&self.path, before);
        if moved.is_ok() {
            return self.reopen();
        }
        // Not in a folder that others own: then it has no generation before it.
        self.file.set_len(0)?;
        self.length = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_begun_anew_at_its_limit_and_the_one_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (path, before) = (folder.path().join("log"), folder.path().join("log.1"));
        let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let line = [b'x'; 100_000];
        let mut file = Generations::open(&path, Limit::mib(1)).unwrap();
        for n in 0..100 {
            file.add(&line).unwrap();
            assert!(size(&path) <= MIB && size(&before) <= MIB, "{n}");
        }
        assert!(size(&before) > MIB - 200_000 && size(&path) > 0);
        // A daemon that is started again goes on with what there is.
        let length = size(&path);
        let mut file = Generations::open(&path, Limit::mib(1)).unwrap();
        file.add(b"x").unwrap();
        assert_eq!(size(&path), length + 1);
        // One that was moved away by logrotate is let go.
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        file.reopen().unwrap();
        file.add(b"new\n").unwrap();
        assert_eq!(size(&path), 4);
        let mut endless = Generations::open(&path, Limit::NONE).unwrap();
        (0..20).for_each(|_| endless.add(&line).unwrap());
        assert_eq!(size(&path), 2_000_004);
        Generations::open(Path::new("/dev/null"), Limit::mib(1)).unwrap().add(&line).unwrap();
    }

    #[test]
    fn where_it_cannot_be_moved_it_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        // A folder stands where the generation before would be.
        fs::create_dir_all(folder.path().join("log.1/x")).unwrap();
        let mut file = Generations::open(&path, Limit::mib(1)).unwrap();
        (0..30).for_each(|_| file.add(&[b'x'; 100_000]).unwrap());
        assert!(fs::metadata(&path).unwrap().len() <= MIB);
    }
}
