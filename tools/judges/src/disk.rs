//! Disks that are full, and files as a bad disk gives them back.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::JudgeError;

/// A small disk in memory (tmpfs), which takes root or sudo. It goes when this is dropped.
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Mounts one of so many KiB at a folder, which is made.
    ///
    /// # Errors
    /// When that is not permitted.
    pub fn mount(folder: &Path, kib: u32) -> Result<Self, JudgeError> {
        fs::create_dir_all(folder).map_err(JudgeError::file(folder))?;
        let disk = Self { folder: folder.to_owned() };
        disk.run("mount", &["-t", "tmpfs", "-o", &format!("size={kib}k,mode=0777"), "snin-test"])?;
        Ok(disk)
    }

    /// Has so many KiB from now on; what is there stays.
    ///
    /// # Errors
    /// When that is not permitted.
    pub fn resize(&self, kib: u32) -> Result<(), JudgeError> {
        self.run("mount", &["-o", &format!("remount,size={kib}k")])
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Fills it to the last byte, by a file of this name.
    ///
    /// # Errors
    /// When there is not even room for a name.
    pub fn fill(&self, name: &str) -> Result<PathBuf, JudgeError> {
        let path = self.folder.join(name);
        let mut file = File::create(&path).map_err(JudgeError::file(&path))?;
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        Ok(path)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), JudgeError> {
        let (mut own, mut by_sudo) = (Command::new(program), Command::new("sudo"));
        by_sudo.args(["-n", program]);
        let run = |command: &mut Command| command.args(arguments).arg(&self.folder).output();
        let said = run(&mut own).ok().filter(|said| said.status.success());
        let said = said.map_or_else(|| run(&mut by_sudo), Ok);
        let said = said.map_err(JudgeError::file(Path::new("sudo")))?;
        let tail = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        let failed =
            || JudgeError::Failed { program: program.to_owned(), status: said.status, tail };
        if said.status.success() { Ok(()) } else { Err(failed()) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A process that is still there keeps it until it ends.
        let _ = self.run("umount", &["--lazy"]);
    }
}

/// Where a file of a length is cut by a test: everywhere at its beginning, ever more seldom behind it, and right
/// before its end.
pub fn ends_of(length: usize) -> impl Iterator<Item = usize> {
    let next = |&end: &usize| Some(end + 1 + end / 64);
    let ends = std::iter::successors(Some(0), next).take_while(move |&end| end < length);
    ends.chain(length.checked_sub(1).filter(|&last| last > 0))
}

/// A file as it was, but for one bit.
pub fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut other = bytes.to_owned();
    if let Some(byte) = other.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
    other
}
