//! Real fabrics and traffic, which are not the repository's to keep.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// A file of the folder `shared` that lies beside the repository, such as
/// `topologies/dgx-gb200-2025.ibnetdiscover`: where it is, and what is in it. Where it is absent a line on stderr,
/// past the test harness that hides what is printed, says what was not tested.
pub fn shared(file: &str) -> Option<(PathBuf, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(file);
    match fs::read(&path) {
        Ok(bytes) => Some((path, bytes)),
        Err(_) => {
            // Nobody to tell if this fails.
            let _ = writeln!(io::stderr(), "NOT TESTED: {} is absent", path.display());
            None
        }
    }
}
