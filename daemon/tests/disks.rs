//! The embedded store on disks that are full, that give back something else, or that lost it.

use std::fs;
use std::path::Path;

use snin_daemon::shared::{Changes, Embedded, Shared as _, SharedError};
use snin_judges::{Disk, JudgeError, ends_of, flipped};

const HOLDS: &str = "what a test wrote";

/// So many keys, each with a value that says which it is.
fn values(count: u32, length: usize) -> Changes {
    let value = |n: u32| format!("{n:0length$}").into_bytes();
    (0..count).map(|n| (format!("key/{n:04}"), Some(value(n)))).collect()
}

fn held(store: &Embedded) -> Result<Changes, SharedError> {
    let all = store.list("key/")?.into_iter();
    Ok(all.map(|(key, found)| (key, Some(found.value))).collect())
}

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap();
    let mut all: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

/// A store with values, as bytes.
fn made(path: &Path) -> (Vec<u8>, Changes) {
    let all = values(50, 40);
    let store = Embedded::open(path, HOLDS).unwrap();
    store.put_all(&all).unwrap();
    drop(store);
    (fs::read(path).unwrap(), all)
}

/// What a file of other bytes is: what was written, or an error that says what to do. Never a panic, and never
/// something else.
fn is_told_or_right(path: &Path, bytes: &[u8], all: &Changes, what: &str) -> bool {
    fs::write(path, bytes).unwrap();
    let told = match Embedded::open(path, HOLDS).and_then(|store| held(&store)) {
        Ok(found) => {
            assert!(found == *all, "{what}: other values than were written");
            return false;
        }
        Err(error) => error.to_string(),
    };
    let cure = format!("lost with it: {HOLDS}; `mv {0} {0}.bad` puts it aside", path.display());
    assert!(told.contains(&cure) && !told.contains('\n'), "{what}: {told}");
    true
}

#[test]
fn a_store_that_is_cut_or_of_another_kind_is_told_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (bytes, all) = made(&path);
    for end in ends_of(bytes.len()) {
        is_told_or_right(&path, &bytes[..end], &all, &format!("cut at {end}"));
    }
    assert!(is_told_or_right(&path, &[], &all, "empty"));
    assert!(is_told_or_right(&path, &bytes[..bytes.len() / 2], &all, "half"));
    assert!(is_told_or_right(&path, &vec![0; bytes.len()], &all, "zeros"));
    assert!(is_told_or_right(&path, b"lmc 4\n", &all, "a text"));
    assert!(!is_told_or_right(&path, &bytes, &all, "as it was"));
}

#[test]
fn a_store_with_a_flipped_bit_is_told_or_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let (bytes, all) = made(&path);
    // Every bit of the first page's beginning, and some of those that are in use.
    let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    let others = (0..400).map(|n| used[n * 7_919 % used.len()] * 8 + n % 8);
    let mut told = 0;
    for bit in (0..512).step_by(3).chain(others) {
        let other = flipped(&bytes, bit);
        told += u32::from(is_told_or_right(&path, &other, &all, &format!("bit {bit}")));
    }
    assert!(told > 50, "{told}");
}

#[test]
fn a_store_that_is_gone_is_no_first_start_but_one_put_aside_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.redb");
    let aside = folder.path().join("store.redb.bad");
    made(&path);
    fs::remove_file(&path).unwrap();
    let gone = Embedded::open(&path, HOLDS).err().unwrap().to_string();
    let cure = format!("`rm {}.made` and all begins anew", path.display());
    assert!(gone.contains("it was here before and is gone") && gone.contains(&cure), "{gone}");
    assert!(Embedded::open_made(&path, HOLDS).is_err());
    fs::remove_file(folder.path().join("store.redb.made")).unwrap();
    assert!(Embedded::open_made(&path, HOLDS).unwrap().is_none());
    // Put aside, as an error says: the next one begins anew, and is missed itself.
    made(&path);
    fs::rename(&path, &aside).unwrap();
    drop(Embedded::open(&path, HOLDS).unwrap());
    fs::remove_file(&path).unwrap();
    assert!(matches!(Embedded::open(&path, HOLDS), Err(SharedError::Gone { .. })));
}

/// Disks of every size from none to enough: no half of a file is left, and with room it heals.
#[test]
fn a_full_disk_leaves_no_half_of_a_store_and_heals() -> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    for kib in (4..4_096).step_by(300) {
        let disk = Disk::mount(&folder.path().join(kib.to_string()), kib)?;
        let path = disk.folder().join("store.redb");
        let store = Embedded::open(&path, HOLDS).unwrap();
        let all = values(40, 3_000);
        match store.put_all(&all) {
            Ok(()) => assert_eq!(held(&store).unwrap(), all),
            Err(error) => {
                assert!(error.is_of_disk(), "{kib} KiB: {error}");
                assert_eq!(held(&store).unwrap(), Changes::new(), "{kib} KiB");
                let left = names(disk.folder());
                let whole = [vec![], vec!["store.redb"], vec!["store.redb", "store.redb.made"]];
                assert!(whole.contains(&left.iter().map(|name| &**name).collect()), "{left:?}");
            }
        }
        disk.resize(16_384)?;
        store.put_all(&all).unwrap();
        assert_eq!(held(&store).unwrap(), all, "{kib} KiB");
        assert_eq!(names(disk.folder()), ["store.redb", "store.redb.made"]);
    }
    Ok(())
}

#[test]
fn a_disk_that_fills_while_it_is_used_is_read_on_and_written_when_there_is_room()
-> Result<(), JudgeError> {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::mount(&folder.path().join("disk"), 8_192)?;
    let path = disk.folder().join("store.redb");
    let store = Embedded::open(&path, HOLDS).unwrap();
    let before = values(10, 40);
    store.put_all(&before).unwrap();
    let filler = disk.fill("filler")?;
    let more = values(900, 4_000);
    for _ in 0..3 {
        let error = store.put_all(&more).unwrap_err();
        assert!(error.is_of_disk(), "{error}");
        assert_eq!(held(&store).unwrap(), before);
    }
    // Another daemon starts on the full disk.
    drop(store);
    let store = Embedded::open(&path, HOLDS).unwrap();
    assert_eq!(held(&store).unwrap(), before);
    fs::remove_file(filler).unwrap();
    store.put_all(&more).unwrap();
    assert_eq!(held(&store).unwrap(), more);
    assert!(matches!(Embedded::open(&path, HOLDS), Err(SharedError::Taken(_))));
    Ok(())
}
