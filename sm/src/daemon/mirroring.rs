//! Sessions with other managers, each of which calls all others: a standby has a copy of the master's database.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use snin_daemon::group::SocketGroup;
use snin_daemon::session::{Address, Call, Callers, Limits, Listen, Peer, Post, Received};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_mastership::mirror::{Link, MirrorEvent, MirrorOutput, MirrorReport, MirrorState};
use snin_protocol::greeting::Service;
use snin_protocol::identity::Role;
use snin_protocol::mirror::{FromMaster, FromStandby, MAX_LINES, WINDOW};
use snin_protocol::operator::manager::Mirror;
use tracing::{error, info, warn};

use super::failure::Failure;
use super::run::Daemon;
use super::settings::Settings;
use super::views::Own;

/// Messages of all called managers that wait for this one.
const WAITING: usize = 1_024;
/// Links of those that call begin here; below are those that are called, by their place in the settings.
const CALLED: u64 = 1 << 32;

/// See the module's documentation.
pub struct Mirrors {
    post: Option<Post<FromStandby, FromMaster>>,
    callers: Option<Callers<u64, FromMaster, FromStandby>>,
    /// The managers that called, and the numbers of their sessions.
    links: BTreeMap<Peer, u64>,
    next: u64,
    heard: VecDeque<MirrorEvent>,
    readable: bool,
}

impl Mirrors {
    /// Waits for other managers, and calls them, where the settings say so.
    ///
    /// # Errors
    /// When a part of the settings cannot be used.
    pub fn open(
        settings: &Settings,
        group: Option<SocketGroup>,
        own: Option<&Own>,
    ) -> Result<Self, Failure> {
        let parse = |texts: &[String]| texts.iter().map(|text| text.parse()).collect();
        let at: Result<Vec<Address>, _> = parse(&settings.mirror_listen);
        let of: Result<Vec<Address>, _> = parse(&settings.mirror_of);
        let (at, of) = (at?, of?);
        let readable = at.iter().any(|address| matches!(address, Address::Plain(_)));
        let mut mirrors = Self {
            post: None,
            callers: None,
            links: BTreeMap::new(),
            next: CALLED,
            heard: VecDeque::new(),
            readable,
        };
        let own = own.filter(|_| !(at.is_empty() && of.is_empty()));
        let Some((credentials, identity)) = own.cloned() else { return Ok(mirrors) };
        // As much as may be on its way to one of them.
        let limits = Limits { backlog: (WINDOW + 4) * MAX_LINES * 2, ..Limits::default() };
        if !at.is_empty() {
            mirrors.post = Some(Post::listen(Listen {
                at,
                service: Service::Mirrors,
                identity: identity.clone(),
                roles: vec![Role::Manager],
                users: settings.session_users.clone(),
                group,
                limits: limits.clone(),
                credentials: credentials.clone(),
            })?);
        }
        if !of.is_empty() {
            let mut callers = Callers::start(WAITING).map_err(Failure::system("a thread"))?;
            for (number, to) in (0..).zip(of) {
                let call = Call {
                    to,
                    service: Service::Mirrors,
                    role: Role::Manager,
                    peer: None,
                    identity: identity.clone(),
                    limits: limits.clone(),
                    credentials: credentials.clone(),
                };
                callers.call(number, call);
            }
            mirrors.callers = Some(callers);
        }
        Ok(mirrors)
    }

    /// Whether others can read what is said: a session is over plain TCP.
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Waits for them too.
    pub fn watch<'a>(&'a self, watch: &mut Watch<'a>) {
        if let Some(post) = &self.post {
            post.watch(watch);
        }
        if let Some(callers) = &self.callers {
            callers.watch(watch);
        }
    }

    /// What has happened next.
    pub fn next_event(&mut self) -> Option<MirrorEvent> {
        let posted = self.post.as_mut().map(Post::work).unwrap_or_default();
        for heard in posted {
            self.called(heard);
        }
        let answered = self.callers.as_mut().map(Callers::work).unwrap_or_default();
        for (number, heard) in answered {
            let link = Link(number);
            self.heard.push_back(match heard {
                Received::Opened(_) => MirrorEvent::Answered(link),
                Received::Said(_, said) => MirrorEvent::Heard(link, said),
                Received::Closed(peer, end) => {
                    info!("the session with {peer} is over: {end}");
                    MirrorEvent::Closed(link)
                }
            });
        }
        self.heard.pop_front()
    }

    fn called(&mut self, heard: Received<FromStandby>) {
        match heard {
            Received::Opened(peer) => {
                let link = self.next;
                self.next += 1;
                if let Some(old) = self.links.insert(peer, link) {
                    self.heard.push_back(MirrorEvent::Closed(Link(old)));
                }
                self.heard.push_back(MirrorEvent::Called(Link(link)));
            }
            Received::Said(peer, said) => {
                if let Some(&link) = self.links.get(&peer) {
                    self.heard.push_back(MirrorEvent::Asked(Link(link), said));
                }
            }
            Received::Closed(peer, _) => {
                if let Some(link) = self.links.remove(&peer) {
                    self.heard.push_back(MirrorEvent::Closed(Link(link)));
                }
            }
        }
    }

    /// Says what the core wants said.
    pub fn say(&mut self, said: MirrorOutput) {
        match said {
            MirrorOutput::ToMaster(Link(number), said) => {
                if let Some(callers) = &mut self.callers {
                    callers.send(&number, said);
                }
            }
            MirrorOutput::ToStandby(Link(number), said) => {
                let peer = self.links.iter().find(|(_, link)| **link == number);
                if let (Some((peer, _)), Some(post)) = (peer, &mut self.post) {
                    post.send_to(peer, said);
                }
            }
        }
    }
}

impl Daemon {
    pub(super) fn report_mirror(&mut self, report: &MirrorReport) {
        let (event, fields) = match report {
            MirrorReport::Complete { master, changed } => {
                info!("{report}");
                ("MIRROR", json!({ "master": master.to_string(), "changed": changed }))
            }
            MirrorReport::Differs { master, table } => {
                error!("{report}");
                ("MIRROR_DIFFERS", json!({ "master": master.to_string(), "table": table }))
            }
            MirrorReport::Settings { other, differ } => {
                warn!("{report}");
                ("SETTINGS_DIFFER", json!({ "other": other.to_string(), "differ": differ }))
            }
        };
        self.outlets.notify(event, fields);
    }

    /// How far mirrors are: `mirrors` of the manager with this GUID, as this one knows it.
    pub(super) fn mirror_of(&self, guid: Guid) -> Option<Mirror> {
        let state = self.core.manager().mirrors().into_iter().find(|state| state.other == guid);
        state.map(|MirrorState { follows, whole, behind, differ, .. }| Mirror {
            follows,
            whole,
            behind,
            differ,
        })
    }
}
