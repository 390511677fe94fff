//! Sessions with other managers, each of which calls all others: a standby has a copy of the master's database.
//! Without sessions the same is said in-band.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use snin_daemon::group::SocketGroup;
use snin_daemon::session::{Address, Call, Callers, Limits, Listen, Peer, Post, Received};
use snin_daemon::watch::Watch;
use snin_fabric::Guid;
use snin_protocol::Time;
use snin_protocol::greeting::Service;
use snin_protocol::identity::Role;
use snin_protocol::mirror::{FromMaster, FromStandby, MAX_LINES, WINDOW};
use snin_sm_core::Origin;
use snin_sm_core::carrier::{Carrier, Refused};
use snin_sm_core::mirror::in_band::{heard, say};
use snin_sm_core::mirror::{Link, MirrorEvent, MirrorOutput, MirrorReport, MirrorState};
use tracing::{error, info, warn};

use super::failure::Failure;
use super::run::Daemon;
use super::settings::Settings;
use super::views::Own;
use super::{demultiplexer, in_band};

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
    /// Instead of sessions.
    carrier: Option<Carrier>,
}

impl Mirrors {
    /// Waits for other managers, and calls them, where the settings say so; or speaks to them in-band.
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
        let key_file = settings.site_key_file.as_deref();
        let key_file = key_file.filter(|_| settings.speaks_in_band());
        let carrier = key_file.map(in_band::carrier).transpose()?;
        let plain = at.iter().any(|address| matches!(address, Address::Plain(_)));
        let readable = plain || carrier.is_some();
        let mut mirrors = Self {
            post: None,
            callers: None,
            links: BTreeMap::new(),
            next: CALLED,
            heard: VecDeque::new(),
            readable,
            carrier,
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

    /// Whether what is said is in-band.
    pub const fn in_band(&self) -> bool {
        self.carrier.is_some()
    }

    /// A datagram came of what managers say in-band.
    pub fn take_in(&mut self, from: Origin, bytes: &[u8], now: Time) {
        if let Some(carrier) = &mut self.carrier {
            carrier.handle(from, bytes, now);
        }
    }

    /// When something in-band is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.carrier.as_ref().and_then(Carrier::next_deadline)
    }

    /// How often something in-band was refused for a reason.
    pub fn refused(&self, why: Refused) -> u64 {
        self.carrier.as_ref().map_or(0, |carrier| carrier.refused(why))
    }

    /// Whether others can read what is said: a session is over plain TCP, or it is said in-band.
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
        while let Some(carried) = self.carrier.as_mut().and_then(Carrier::next_event) {
            self.heard.extend(heard(&carried));
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
    pub fn say(&mut self, said: MirrorOutput, now: Time) {
        if let Some(carrier) = &mut self.carrier {
            return say(carrier, &said, now);
        }
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
    /// The carrier learns which managers there are, and does what is due.
    pub(super) fn carry(&mut self, now: Time) -> Result<(), Failure> {
        let Some(carrier) = &mut self.outlets.mirrors.carrier else { return Ok(()) };
        if let Some((own, others)) = self.manager.reach() {
            carrier.know(own, &others, now);
        }
        carrier.handle_deadline(now);
        self.post_in_band()
    }

    /// Sends what the carrier wants sent.
    pub(super) fn post_in_band(&mut self) -> Result<(), Failure> {
        let Some(carrier) = &mut self.outlets.mirrors.carrier else { return Ok(()) };
        while let Some((to, mad)) = carrier.poll_output() {
            let index = demultiplexer::place(to.p_key, self.manager.own_keys());
            self.wire.answer(self.manager.seat(), mad, to, index)?;
        }
        Ok(())
    }

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
    pub(super) fn mirror_of(&self, guid: Guid) -> Value {
        let state = self.manager.mirrors().into_iter().find(|state| state.other == guid);
        state.map_or(Value::Null, |MirrorState { follows, whole, behind, differ, .. }| {
            json!({ "follows": follows, "whole": whole, "behind": behind, "differ": differ })
        })
    }
}
