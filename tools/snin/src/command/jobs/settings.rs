//! `/etc/snin/jobs.toml`: where jobs' commands and hooks find what they need.

use std::path::{Path, PathBuf};

use snin_daemon::settings::{Loaded, load};
use snin_fabric::job::Mode;

use crate::cli::controller_socket;
use crate::failure::Failure;

snin_daemon::settings! {
    /// Every key of `jobs.toml`.
    pub(crate) struct Settings {
        /// The controller's control socket.
        controller: String = "/run/snin/controller.sock".to_owned(),
        /// A folder that the controller's machine and all nodes see. The trees of each job are put there for the
        /// nodes. Default: nodes ask the controller themselves.
        shared: Option<String> = None,
        /// The folder of a node where the trees of its jobs are.
        jobs: String = "/run/snin/jobs".to_owned(),
        /// The control socket of a node's agent. An empty text: no agent, programs read the job's file.
        agent: String = "/run/snin/agent.sock".to_owned(),
        /// The socket at which programs ask that agent (`pair_socket` in its file). Default: they read the file.
        pairs: Option<String> = None,
        /// The library that puts programs on their trees. Default: the one installed with this program.
        preload: String = installed("libsnin_preload.so").display().to_string(),
        /// The RDMA device of a node, `%n` being the number in its name. Default: the libraries choose.
        device: Option<String> = None,
        /// The port of that device.
        device_port: u8 = 1,
        /// RoCE: the index of the port's GID whose low 16 bits are its first address. Default: InfiniBand.
        gid_index: Option<u8> = None,
        /// What a job gets that asks for nothing: slice, pinned or off.
        mode: String = "slice".to_owned(),
        /// What becomes of a job for which there is no room: requeue, hold, or shared (it runs without links of
        /// its own, and its user is told).
        no_room: String = "requeue".to_owned(),
        /// Whether no other job runs on the nodes of one, as with OverSubscribe=EXCLUSIVE: then queries for
        /// paths between them are answered by its trees.
        alone: bool = false,
        /// How long a job waits for room, or for a controller that does not answer, before that, in milliseconds.
        wait_ms: u64 = 20_000,
        /// Whether a program fails where it would leave the job's trees (SNIN_REQUIRE).
        require: bool = true,
        /// Where hooks that fail say why, a line each: Slurm drops what they print. An empty text: nowhere.
        log_file: String = "/var/log/snin-jobs.log".to_owned(),
    }
}

/// A library that was installed with this program: `PREFIX/lib/snin` beside `PREFIX/bin`. A program that was not
/// installed names the place where it would be.
pub(crate) fn installed(library: &str) -> PathBuf {
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).ok();
    let folder = own.as_deref().and_then(Path::parent);
    let prefix = folder.filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    prefix.unwrap_or_else(|| Path::new("/usr/local")).join("lib/snin").join(library)
}

/// What becomes of a job without room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    Requeue,
    Hold,
    Shared,
}

/// The settings, checked.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) value: Settings,
    pub(crate) mode: Mode,
    pub(crate) no_room: NoRoom,
    /// Where `agent` was set: file and line.
    pub(crate) agent_place: String,
}

impl Checked {
    /// The controller's control socket.
    pub(crate) fn controller(&self) -> &Path {
        Path::new(&self.value.controller)
    }

    /// The folder of this node.
    pub(crate) fn jobs(&self) -> PathBuf {
        PathBuf::from(&self.value.jobs)
    }
}

/// Reads the file, where there is one; `socket` counts more than what it says.
///
/// # Errors
/// What is wrong, with file and line.
pub(crate) fn read(path: &Path, socket: Option<&Path>) -> Result<Checked, Failure> {
    let mut loaded = if path.exists() {
        load::<Settings>(path).map_err(|error| Failure::Settings(error.to_string()))?
    } else {
        let mut loaded = Loaded::<Settings>::defaults();
        loaded.value.controller = controller_socket().display().to_string();
        loaded
    };
    if let Some(socket) = socket {
        loaded.value.controller = socket.display().to_string();
    }
    check(loaded).map_err(Failure::Settings)
}

fn check(loaded: Loaded<Settings>) -> Result<Checked, String> {
    let refuse = |key: &str, what: String| loaded.refuse(key, what).to_string();
    let value = &loaded.value;
    let mode = Mode::parse(&value.mode)
        .filter(|mode| *mode != Mode::Collective)
        .ok_or_else(|| refuse("mode", format!("`{}`: slice, pinned or off", value.mode)))?;
    let no_room = match value.no_room.as_str() {
        "requeue" => NoRoom::Requeue,
        "hold" => NoRoom::Hold,
        "shared" => NoRoom::Shared,
        other => return Err(refuse("no_room", format!("`{other}`: requeue, hold or shared"))),
    };
    let places = [("controller", Some(&value.controller)), ("jobs", Some(&value.jobs))];
    let optional = [("shared", value.shared.as_ref()), ("pairs", value.pairs.as_ref())];
    for (key, path) in places.into_iter().chain(optional) {
        if path.is_some_and(String::is_empty) {
            return Err(refuse(key, format!("{key} is empty: expected a path")));
        }
    }
    let agent_place = loaded.place("agent");
    Ok(Checked { value: loaded.value, mode, no_room, agent_place })
}

#[cfg(test)]
mod tests {
    use snin_daemon::settings::parse;

    use super::*;

    #[test]
    fn what_is_refused_is_named_with_its_line() {
        let refused = |text: &str| check(parse(text, "jobs.toml").unwrap()).unwrap_err();
        assert_eq!(refused("\nmode = \"all\""), "jobs.toml:2: `all`: slice, pinned or off");
        assert_eq!(refused("no_room = \"\""), "jobs.toml:1: ``: requeue, hold or shared");
        for key in ["controller", "jobs", "shared", "pairs"] {
            let said = refused(&format!("\n\n{key} = \"\""));
            assert_eq!(said, format!("jobs.toml:3: {key} is empty: expected a path"));
        }
        let checked = check(Loaded::defaults()).unwrap();
        assert_eq!((checked.mode, checked.no_room), (Mode::Slice, NoRoom::Requeue));
    }
}
