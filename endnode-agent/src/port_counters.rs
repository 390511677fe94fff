//! What the device counts of its port, as the kernel shows it (Documentation/ABI/stable/sysfs-class-infiniband): a
//! file a counter, each a number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a port's counters are; which of them a device has is its driver's choice.
const FOLDERS: [&str; 2] = ["counters", "hw_counters"];
/// The most counters that are read.
const MOST: usize = 256;

/// Counters by name.
pub(crate) type Counters = BTreeMap<String, u64>;

/// The folder of a device's port.
pub(crate) fn folder(device: &str, port: u8) -> PathBuf {
    Path::new("/sys/class/infiniband").join(device).join("ports").join(port.to_string())
}

/// What a port has counted; nothing where the kernel shows nothing.
pub(crate) fn read(port: &Path) -> Counters {
    let entries =
        FOLDERS.iter().filter_map(|folder| fs::read_dir(port.join(folder)).ok()).flatten();
    let counter = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let count = fs::read_to_string(entry.path()).ok()?.trim().parse().ok()?;
        Some((entry.file_name().into_string().ok()?, count))
    };
    entries.filter_map(counter).take(MOST).collect()
}

/// One counter, where the device has it.
pub(crate) fn one(port: &Path, name: &str) -> Option<u64> {
    let text =
        FOLDERS.iter().find_map(|folder| fs::read_to_string(port.join(folder).join(name)).ok());
    text?.trim().parse().ok()
}

/// What was counted since; a counter that is less than it was began anew.
pub(crate) fn since(before: &Counters, now: &Counters) -> Counters {
    let more = |(name, &count): (&String, &u64)| {
        let before = before.get(name).copied().filter(|&before| before <= count).unwrap_or(0);
        (count > before).then(|| (name.clone(), count - before))
    };
    now.iter().filter_map(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counters_and_what_is_no_number_is_none() {
        let port = tempfile::tempdir().unwrap();
        assert_eq!(read(port.path()), Counters::new());
        let put = |name: &str, text: &str| fs::write(port.path().join(name), text).unwrap();
        fs::create_dir(port.path().join("counters")).unwrap();
        put("counters/port_xmit_data", "100\n");
        put("counters/port_xmit_wait", "7\n");
        put("counters/lifespan", "N/A (no PMA)\n");
        let before = read(port.path());
        assert_eq!(before.len(), 2);
        assert_eq!(
            ["port_xmit_wait", "lifespan", "none"].map(|name| one(port.path(), name)),
            [Some(7), None, None]
        );
        put("counters/port_xmit_data", "160\n");
        put("counters/port_xmit_wait", "3\n");
        let more = since(&before, &read(port.path()));
        let expected = [("port_xmit_data".to_owned(), 60), ("port_xmit_wait".to_owned(), 3)];
        assert_eq!(more, expected.into());
        assert_eq!(since(&before, &before), Counters::new());
    }
}
