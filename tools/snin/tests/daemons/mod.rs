//! The command and the daemons that `snin up` starts beside it.

use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// However busy the machine, by then it is so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10));
    }
}

const DAEMONS: [(&str, &str); 3] = [
    ("snin-sm", "snin-sm"),
    ("snin-controller", "snin-controller"),
    ("snin-agent-software", "snin-software-agents"),
];

/// The command; a test of this crate alone has the daemons built that are not there yet.
pub(crate) fn snin() -> Command {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_snin")).parent().unwrap();
        for (package, program) in DAEMONS {
            if !folder.join(program).is_file() {
                let mut build = Command::new(env!("CARGO"));
                build.args(["build", "--quiet", "--package", package, "--bin", program]);
                if cfg!(feature = "etcd") && package == "snin-controller" {
                    build.args(["--features", "etcd"]);
                }
                assert!(build.status().unwrap().success(), "{program}");
            }
        }
    });
    Command::new(env!("CARGO_BIN_EXE_snin"))
}
