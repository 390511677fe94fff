//! `snin up --env`: by which variables commands in another shell find the daemons of a run.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::Verdict;
use crate::command::jobs::quoted;
use crate::failure::Failure;
use crate::output::Output;

/// Variables, and the sockets of a run that they are for.
const SOCKETS: [(&str, &str); 4] = [
    ("SNIN_SM_SOCKET", "sm.sock"),
    ("SNIN_CONTROLLER_SOCKET", "controller.sock"),
    ("SNIN_AGENT_SOCKET", "agents-0.sock"),
    ("SNIN_EMULATOR_SOCKET", "emulator.sock"),
];

/// The file in which a run says what its fabric is called.
pub(super) const FABRIC: &str = "fabric.name";

/// Prints them, as a shell reads them.
pub(super) fn print<W: Write>(folder: &Path, out: &mut Output<W>) -> Result<Verdict, Failure> {
    let name = folder.join(FABRIC);
    let fabric = std::fs::read_to_string(&name).map_err(Failure::file(&name))?;
    let folder = folder.canonicalize().map_err(Failure::file(folder))?;
    for (variable, socket) in SOCKETS {
        let path = folder.join(socket);
        if UnixStream::connect(&path).is_err() {
            let gone =
                std::io::Error::other("nothing runs there: `snin up TOPOLOGY --folder DIR` does");
            return Err(Failure::file(&path)(gone));
        }
        out.line(format_args!("export {variable}={}", quoted(&path.display().to_string())))?;
    }
    out.line(format_args!("export IBSIM_SOCKNAME={}", quoted(fabric.trim())))?;
    Ok(Verdict::Well)
}
