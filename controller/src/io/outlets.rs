//! Where the daemon tells what happens, and where it is asked.

use std::sync::Arc;

use serde_json::{Map, Value};
use snin_daemon::control::Control;
use snin_daemon::describer::Describer;
use snin_daemon::generations::Limit;
use snin_daemon::group::SocketGroup;
use snin_daemon::http::{Offer, Server};
use snin_daemon::journal::Journal;
use snin_daemon::log::Log;
use snin_daemon::session::{Address, Credentials};
use snin_daemon::signals::Signals;
use tracing::{info, warn};

use crate::api::ROUTES;
use crate::config::Settings;
use crate::error::Failure;

/// Log, events, control socket, pages and signals.
pub struct Outlets {
    /// Messages for people.
    pub log: Log,
    /// Events for programs.
    pub journal: Journal,
    /// The socket for `snin controller`.
    pub control: Control,
    /// Long answers.
    pub(crate) describer: Describer,
    /// `/metrics` and `/healthz`.
    pub server: Option<Server>,
    /// The API.
    pub api: Option<Server>,
    /// What the process is told by signals.
    pub signals: Signals,
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
                .map_err(|error| Failure::file(path, error))?,
            None => Journal::new(),
        };
        let control = Control::listen(&settings.control_socket, group)?;
        let server = settings.metrics_listen.as_deref().map(Server::listen).transpose()?;
        if let Some(server) = &server {
            info!("metrics at http://{}/metrics", server.addresses().join(", "));
        }
        let signals = Signals::new().map_err(Failure::system("signals"))?;
        let describer = Describer::start().map_err(Failure::system("a thread"))?;
        Ok(Self { log, journal, control, describer, server, api: None, signals })
    }

    /// Opens the API, if it is wanted.
    ///
    /// # Errors
    /// When one of its addresses cannot be used.
    pub fn offer(
        &mut self,
        at: Vec<Address>,
        credentials: Option<Arc<Credentials>>,
        group: Option<SocketGroup>,
    ) -> Result<(), Failure> {
        if !at.is_empty() {
            let api = Server::offer(Offer { credentials, group, ..Offer::new(at, &ROUTES) })?;
            info!("the API is at {}", api.addresses().join(", "));
            self.api = Some(api);
        }
        Ok(())
    }

    /// An event, to every follower. `fields` is an object.
    pub fn notify(&mut self, event: &str, fields: Value) {
        let fields = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        self.journal.notify(Some(&mut self.control), event, fields);
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
