//! The systemd unit, by systemd's own word.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::daemon::SNIN_SM;

const UNIT: &str = "snin-sm@.service";

/// What systemd objects to in this text, as the unit of a port.
fn objections(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(UNIT), text).unwrap();
    let instance = folder.path().join("snin-sm@0x0002c90300a1b2c3.service");
    let said = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(instance)
        .output()
        .expect("install the Debian package systemd");
    let objections = String::from_utf8_lossy(&said.stderr).into_owned();
    // It looks at units of the machine too.
    objections.lines().filter(|line| line.contains("snin-sm")).collect::<Vec<_>>().join("\n")
}

#[test]
fn systemd_takes_the_unit() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(UNIT);
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("ExecStart=/usr/sbin/snin-sm --guid %i "));
    let here = text.replace("/usr/sbin/snin-sm", SNIN_SM);
    assert_eq!(objections(&here), "");
    let wrong = objections(&here.replace("WatchdogSec=", "WatchdogSecs="));
    assert!(wrong.contains("WatchdogSecs"), "{wrong}");
}
