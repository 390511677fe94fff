//! Where the daemons of a run call each other, and the certificates that they show.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use snin_daemon::pki::Pki;
use snin_fabric::Guid;
use snin_protocol::identity::{Identity, Role};

use super::controllers;
use super::folder::toml_text;
use crate::cli;
use crate::failure::Failure;

/// A run's certificates are good for so many days.
const DAYS: u32 = 30;

/// Addresses of a run's daemons, and the lines of their configurations that name certificates.
pub(super) struct Sessions {
    /// Where the manager is called.
    pub(super) manager: String,
    /// Where each controller is called.
    pub(super) controllers: Vec<String>,
    /// The folder of the run's CA; `None`: Unix sockets, which need no certificates.
    pki: Option<PathBuf>,
}

impl Sessions {
    /// Chooses addresses of a manager and so many controllers. With TLS it makes a CA in `folder` and a
    /// certificate for each daemon and each of `ports`; those of a run before are removed.
    pub(super) fn new(
        how: cli::Sessions,
        folder: &Path,
        controllers: usize,
        ports: impl Iterator<Item = Guid>,
    ) -> Result<Self, Failure> {
        if how == cli::Sessions::Unix {
            let unix = |name: &str| format!("unix://{}", folder.join(name).display());
            let at = |number| unix(&format!("{}-sessions.sock", controllers::name(number)));
            let controllers = (0..controllers).map(at).collect();
            return Ok(Self { manager: unix("sm-sessions.sock"), controllers, pki: None });
        }
        let pki = folder.join("pki");
        match fs::remove_dir_all(&pki) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::file(&pki)(error));
            }
            _ => {}
        }
        let ca = Pki::at(&pki);
        ca.init("snin up", DAYS)?;
        let manager = [(Role::Manager, "sm".to_owned())].into_iter();
        let names = (0..controllers).map(|number| (Role::Controller, controllers::name(number)));
        let agents = ports.map(|port| (Role::Agent, port.to_string()));
        for (role, name) in manager.chain(names).chain(agents) {
            ca.issue(&Identity::new(role, &name)?, DAYS, None)?;
        }
        let failed = Failure::file(Path::new("127.0.0.1"));
        let mut controllers = free_addresses(controllers + 1).map_err(failed)?;
        let manager = controllers.pop().unwrap_or_default();
        Ok(Self { manager, controllers, pki: Some(pki) })
    }

    /// The lines that name the certificate of `who`, such as `manager-sm` or `agent-{guid}`.
    pub(super) fn certificate(&self, who: &str) -> String {
        let Some(pki) = &self.pki else { return String::new() };
        let path = |name: &str| toml_text(&pki.join(name).display().to_string());
        format!(
            "certificate = {}\nkey = {}\nca_certificate = {}\nrevoked = {}\n",
            path(&format!("{who}.crt")),
            path(&format!("{who}.key")),
            path("ca.crt"),
            path("revoked.pem"),
        )
    }
}

/// Addresses on the loopback at which no program listens. All sockets are open until all are chosen, so that they
/// differ.
fn free_addresses(count: usize) -> io::Result<Vec<String>> {
    let bound = (0..count).map(|_| TcpListener::bind("127.0.0.1:0"));
    let bound: Vec<TcpListener> = bound.collect::<io::Result<_>>()?;
    bound.iter().map(|bound| Ok(format!("tls://{}", bound.local_addr()?))).collect()
}
