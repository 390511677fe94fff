//! Where a daemon tells what happens, and where it is asked.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};
use snin_daemon::control::Control;
use snin_daemon::describer::Describer;
use snin_daemon::generations::Limit;
use snin_daemon::group::SocketGroup;
use snin_daemon::http::Server;
use snin_daemon::journal::Journal;
use snin_daemon::log::Log;
use snin_daemon::session::Credentials;
use snin_daemon::watch::Watch;
use tracing::{info, warn};

use super::consenting::Consenting;
use super::dumps::Dumps;
use super::failure::Failure;
use super::loads::Loads;
use super::mirroring::Mirrors;
use super::settings::Settings;
use super::sharing::Sharing;
use super::views::{self, Views};

/// Log, events, control socket, pages and dumps, as far as they are wanted.
pub struct Outlets {
    /// Messages for people.
    pub log: Log,
    /// Events for programs.
    pub journal: Journal,
    /// The socket for `snin sm`.
    pub control: Option<Control>,
    /// Long answers to it.
    pub describer: Describer,
    /// `/metrics` and `/healthz`.
    pub server: Option<Server>,
    /// Tables as files.
    pub dumps: Option<Dumps>,
    /// How evenly links are loaded.
    pub loads: Loads,
    /// Sessions with controllers.
    pub views: Option<Views>,
    /// Sessions with other managers.
    pub mirrors: Mirrors,
    /// The certificate of sessions.
    pub credentials: Option<Arc<Credentials>>,
    /// The cluster's service.
    pub cluster: Option<Consenting>,
    /// The versions of the expected configuration there.
    pub sharing: Option<Sharing>,
}

impl Outlets {
    /// Opens what the settings want.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn open(
        settings: &Settings,
        group: Option<SocketGroup>,
        log: Log,
    ) -> Result<Self, Failure> {
        let journal = match &settings.events_file {
            Some(path) => Journal::to_file(path, Limit::mib(settings.log_max_size))
                .map_err(Failure::file(path))?,
            None => Journal::new(),
        };
        let control = settings.control_socket.as_deref();
        let control = control.map(|path| Control::listen(path, group)).transpose()?;
        let server = settings.metrics_listen.as_deref().map(Server::listen).transpose()?;
        if let Some(server) = &server {
            info!("metrics at http://{}/metrics", server.addresses().join(", "));
        }
        let dumps = settings.dump_files_dir.clone().map(Dumps::start).transpose();
        let dumps = dumps.map_err(Failure::system("a thread"))?;
        let own = views::identity(settings)?;
        let views = Views::open(settings, group, own.as_ref())?;
        let mirrors = Mirrors::open(settings, group, own.as_ref())?;
        let credentials = own.and_then(|(credentials, _)| credentials);
        let cluster = settings.cluster.as_deref();
        let files = cluster.map(|_| views::files(settings)).transpose()?.flatten();
        let sharing = cluster.map(|at| Sharing::start(at, files.as_ref())).transpose()?.flatten();
        let cluster = cluster.map(|at| Consenting::start(at, files.as_ref())).transpose()?;
        Ok(Self {
            log,
            journal,
            control,
            describer: Describer::start().map_err(Failure::system("a thread"))?,
            server,
            dumps,
            loads: Loads::start().map_err(Failure::system("a thread"))?,
            views,
            mirrors,
            credentials,
            cluster,
            sharing,
        })
    }

    /// Waits for who asks.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        if let Some(control) = &self.control {
            control.watch(watch);
        }
        watch.readable(self.describer.readable());
        if let Some(server) = &self.server {
            server.watch(watch);
        }
        if let Some(views) = &self.views {
            views.watch(watch);
        }
        self.mirrors.watch(watch);
        if let Some(cluster) = &self.cluster {
            cluster.watch(watch);
        }
        if let Some(sharing) = &self.sharing {
            sharing.watch(watch);
        }
    }

    /// An event, to every follower. `fields` is an object. `false` where it is so frequent that it is
    /// only counted.
    pub fn notify(&mut self, event: &str, fields: Value) -> bool {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        self.journal.notify(self.control.as_mut(), event, fields)
    }

    /// Goes on in new files, after the old ones were moved away.
    pub fn reopen(&mut self) {
        if let Err(error) = self.log.reopen() {
            warn!("{error}");
        }
        if let Err(error) = self.journal.reopen() {
            warn!("the file of events: {error}");
        }
    }
}

/// What systemd names by a variable: the first of its paths.
pub fn from_systemd(variable: &str) -> Option<std::path::PathBuf> {
    let value = std::env::var(variable).ok()?;
    value.split(':').next().filter(|path| !path.is_empty()).map(|path| Path::new(path).to_owned())
}
