//! The site's key, by which managers that have no sessions know each other.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ring::hmac::{self, HMAC_SHA256, Key};
use ring::rand::{SecureRandom as _, SystemRandom};
use snin_mad::PKey;
use snin_sm_core::carrier::{Carrier, Seal, TAG};

use super::failure::Failure;

/// A key has at least as many bytes as a tag, and no file of them is longer.
const LEAST: usize = TAG;
const MOST: u64 = 4_096;

struct SiteKey(Key);

impl Seal for SiteKey {
    fn tag(&self, message: &[u8]) -> [u8; TAG] {
        let mut bytes = [0; TAG];
        bytes.copy_from_slice(hmac::sign(&self.0, message).as_ref());
        bytes
    }

    fn fits(&self, message: &[u8], tag: &[u8]) -> bool {
        hmac::verify(&self.0, message, tag).is_ok()
    }
}

/// A carrier by the key in a file.
///
/// # Errors
/// When the file cannot be read, others than its owner can read it too, or it is too short for a key.
pub fn carrier(file: &Path) -> Result<Carrier, Failure> {
    let seal = Box::new(read(file)?);
    let mut seed = [0; 32];
    let drawn = SystemRandom::new().fill(&mut seed);
    let drawn = drawn.map_err(|_| std::io::Error::other("the system has none"));
    drawn.map_err(Failure::system("random bytes"))?;
    Ok(Carrier::new(seal, seed, PKey::DEFAULT))
}

fn read(file: &Path) -> Result<SiteKey, Failure> {
    let wrong = |what: String| Failure::Content { path: file.to_owned(), what };
    let about = fs::metadata(file).map_err(Failure::file(file))?;
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(format!(" mode {mode:04o}: others can read the site's key: chmod 0600")));
    }
    let size = about.len();
    if size < LEAST as u64 || size > MOST {
        return Err(wrong(format!(
            " {size} bytes: a key has {LEAST} to {MOST}: head -c {LEAST} /dev/urandom makes one"
        )));
    }
    let bytes = fs::read(file).map_err(Failure::file(file))?;
    Ok(SiteKey(Key::new(HMAC_SHA256, &bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_others_read_or_guess_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("site.key");
        let told = |mode: u32, size: usize| {
            fs::write(&file, vec![7; size]).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let told = read(&file).map(|_| ()).map_err(|error| error.to_string());
            told.map_err(|told| told.rsplit('/').next().unwrap_or_default().to_owned())
        };
        assert_eq!(told(0o600, 32), Ok(()));
        let readable = "site.key: mode 0640: others can read the site's key: chmod 0600";
        assert_eq!(told(0o640, 32), Err(readable.to_owned()));
        let short = "urandom makes one";
        assert_eq!(told(0o600, 31), Err(short.to_owned()));
        fs::remove_file(&file).unwrap();
        assert!(read(&file).is_err());
    }

    /// The first test vector of RFC 4231, 4.2.
    #[test]
    fn tags_are_those_of_the_standard() {
        let key = SiteKey(Key::new(HMAC_SHA256, &[0x0B; 20]));
        let tag = key.tag(b"Hi There");
        assert_eq!(tag[..4], [0xB0, 0x34, 0x4C, 0x61]);
        assert!(key.fits(b"Hi There", &tag));
        assert!(!key.fits(b"Hi there", &tag));
        assert!(!key.fits(b"Hi There", &tag[..31]));
    }
}
