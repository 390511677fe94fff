//! Real fabrics and traffic, which are not the repository's to keep.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A file of the folder `shared` that lies beside the repository, such as
/// `topologies/dgx-gb200-2025.ibnetdiscover`: where it is, and what is in it. Where it is absent the test that
/// asks is written down in `target/not-run`, which `make test` shows at its end.
///
/// # Panics
/// Where it is absent and `CI=true` says that everything has to be tested.
pub fn shared(file: &str) -> Option<(PathBuf, Vec<u8>)> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = repository.join("../shared").join(file);
    if let Ok(bytes) = fs::read(&path) {
        return Some((path, bytes));
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is absent", path.display());
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let list = OpenOptions::new().append(true).create(true).open(repository.join("target/not-run"));
    // If this fails there is no place left to report it to.
    let _ = list.and_then(|mut list| writeln!(list, "{test}"));
    None
}
