//! Programs of any user of this host: the pairs of their jobs, and requests of the controller.
//!
//! | command | answer |
//! |---|---|
//! | `pair`, `disconnected`, `jobs` | see `Jobs` |
//! | `request` | the controller keeps the port of this host, and that of `to`: its answer |
//! | `release`, `requests` | what the controller says of the user's own requests |
//!
//! The system names the user; the agent says it to the controller in its own name, and the controller takes it for
//! this host's port only. So a user can neither be another one nor ask for another host.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use snin_daemon::control::{Client, Control, ControlError, Request};
use snin_daemon::http::HttpClient;
use snin_daemon::metrics::Page;
use snin_daemon::watch::Watch;
use snin_protocol::operator::{Operation as _, agent, controller};
use tracing::warn;

use crate::jobs::Jobs;

/// The most commands of one user that are under way.
const MOST_OF_USER: usize = 4;

/// See the module's documentation.
pub(crate) struct Programs {
    socket: Control,
    controller_api: Option<HttpClient>,
    /// By number: the program that waits for the controller's answer, and its user. The answer removes it; a
    /// controller_api gives one for each command, at the latest when its patience ends.
    waiting: BTreeMap<u64, (Client, u32)>,
    next: u64,
    /// Commands that the controller was told.
    told: u64,
    /// Commands that were refused, here or by the controller.
    refused: u64,
}

impl Programs {
    /// Opens a socket that every user may open.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn listen(
        path: &Path,
        controller_api: Option<HttpClient>,
    ) -> Result<Self, ControlError> {
        let socket = Control::listen(path, None)?;
        let open = fs::set_permissions(path, fs::Permissions::from_mode(0o666));
        let failed = |error: io::Error| ControlError::Socket { path: path.to_owned(), error };
        open.map_err(failed)?;
        Ok(Self { socket, controller_api, waiting: BTreeMap::new(), next: 0, told: 0, refused: 0 })
    }

    /// Waits for programs, and for the controller's answers.
    pub(crate) fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        self.socket.watch(watch);
        if let Some(controller_api) = &self.controller_api {
            controller_api.watch(watch);
        }
    }

    /// How many are connected, and how many were turned away.
    pub(crate) fn clients(&self) -> (usize, u64) {
        (self.socket.clients(), self.socket.turned_away())
    }

    /// What is counted, as metrics.
    pub(crate) fn export(&self, page: &mut Page) {
        self.socket.export("snin_agent_programs", page);
        let help = "Commands of users that the controller was told";
        page.counter("snin_agent_user_commands", help, self.told);
        let help = "What users asked for and were refused, here or by the controller";
        page.counter("snin_agent_user_refusals", help, self.refused);
    }

    /// Answers what can be answered.
    pub(crate) fn work(&mut self, jobs: &mut Jobs) {
        for request in self.socket.work() {
            match request.command.as_str() {
                "pair" => {
                    let answer = jobs.pair(request.user, &request.body);
                    self.respond(request.client, answer);
                }
                "disconnected" => {
                    let answer = jobs.disconnected(request.user, &request.body);
                    self.respond(request.client, answer);
                }
                "jobs" => {
                    let answer = match agent::Request::parse("jobs", request.keys()) {
                        Ok(agent::Request::GetJobs(asked)) => {
                            jobs.own(request.user, &asked).and_then(|told| asked.said(told))
                        }
                        Ok(_) => Err("`jobs` is meant".to_owned()),
                        Err(why) => Err(why),
                    };
                    self.respond(request.client, answer);
                }
                "request" | "release" | "requests" => {
                    if let Err(why) = self.relay(&request) {
                        self.refuse(request.client, &why);
                    }
                }
                other => {
                    let why = format!(
                        "no command {other:.40} here: there are pair, disconnected, jobs, request, release and \
                         requests"
                    );
                    self.refuse(request.client, &why);
                }
            }
        }
        let answers = self
            .controller_api
            .as_mut()
            .map_or_else(Vec::new, |controller_api| controller_api.work());
        for (number, answer) in answers {
            let Some((client, user)) = self.waiting.remove(&number) else { continue };
            match answer {
                Ok(value) => self.socket.answer(client, &value),
                Err(ControlError::NoRoom(why)) => self.socket.no_room(client, &why),
                Err(why) => self.refuse(client, &format!("for user {user}: {why}")),
            }
        }
    }

    fn respond(&mut self, client: Client, answer: Result<Value, String>) {
        match answer {
            Ok(value) => self.socket.answer(client, &value),
            Err(why) => self.refuse(client, &why),
        }
    }

    fn refuse(&mut self, client: Client, why: &str) {
        self.refused += 1;
        warn!("{why}");
        self.socket.refuse(client, why);
    }

    /// Has the controller told what a user wants.
    fn relay(&mut self, request: &Request) -> Result<(), String> {
        let controller_api = self
            .controller_api
            .as_ref()
            .ok_or("no controller is asked: `controller_api` is not set")?;
        let user = request.user.ok_or("the system does not say which user asks")?;
        if self.waiting.values().filter(|waits| waits.1 == user).count() >= MOST_OF_USER {
            return Err(format!("user {user} waits for {MOST_OF_USER} answers already"));
        }
        let mut asked = relayed(request)?;
        if let Value::Object(keys) = &mut asked {
            keys.insert("user".to_owned(), user.into());
        }
        if !controller_api.send(self.next, asked) {
            return Err("too many commands wait for the controller: ask again".to_owned());
        }
        self.waiting.insert(self.next, (request.client, user));
        self.next += 1;
        self.told += 1;
        Ok(())
    }
}

/// What users may have the controller told, understood here.
fn relayed(request: &Request) -> Result<Value, String> {
    match controller::Request::parse(&request.command, request.keys())? {
        controller::Request::Reserve(asked) => Ok(asked.request()),
        controller::Request::Release(asked) => Ok(asked.request()),
        controller::Request::GetReservations(asked) => Ok(asked.request()),
        _ => Err(format!("{}: only operators may", request.command)),
    }
}
