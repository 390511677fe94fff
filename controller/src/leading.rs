//! Leading and standing by, where several controllers share a store.
//!
//! A standby has the fabric as the manager says it, and nothing else: it lets no agent in, so that agents call
//! the next controller. One that is elected reads what its predecessor left and begins as a controller does
//! that was started again. One that stands down forgets all but the fabric.

use serde_json::json;
use snin_controller_core::leadership::{Answer, Leadership, Step};
use snin_daemon::service;
use snin_daemon::session::Files;
use snin_daemon::shared::election;
use snin_protocol::Time;
use tracing::{error, info, warn};

use crate::config::SharedStore;
use crate::daemon::Daemon;
use crate::error::Failure;
use crate::io::candidate::{Candidate, Elected, Terms};
use crate::io::manager::Manager;

/// Below which key the state is in the store, where its address does not say.
const FOLDER: &str = "snin-controller";

/// See the module's documentation.
pub(crate) struct Leading {
    leadership: Leadership,
    candidate: Candidate,
    /// What comes with an election, until this controller leads.
    elected: Option<Box<Elected>>,
    /// That the store does not answer was told.
    is_told: bool,
}

impl Leading {
    /// A standby.
    pub(crate) fn start(
        store: &SharedStore,
        files: Option<&Files>,
        terms: Terms,
        now: Time,
    ) -> Result<Self, Failure> {
        let election = election(&store.address, files, FOLDER, store.lease)?;
        let candidate = Candidate::start(election, terms).map_err(Failure::system("a thread"))?;
        let leadership = Leadership::new(Time::secs(store.lease.into()), now);
        Ok(Self { leadership, candidate, elected: None, is_told: false })
    }

    pub(crate) async fn next(&mut self) -> (Answer, Option<Elected>) {
        self.candidate.next().await
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.leadership.next_deadline()
    }

    /// Who leads, as far as a standby knows.
    pub(crate) fn leader(&self) -> Option<&str> {
        self.leadership.leader()
    }

    /// Whether a standby is well, and what it says of itself: who leads, or why no controller does.
    pub(crate) fn standing(&self) -> (bool, String) {
        match (self.leader(), self.leadership.trouble()) {
            (_, Some(why)) => (false, format!("stands by; the store does not answer: {why}")),
            (Some(leader), None) => (true, format!("stands by; {leader} leads")),
            (None, None) => (false, "stands by; nobody leads yet".to_owned()),
        }
    }
}

impl Daemon {
    /// Until when this controller may grant; `None`: it stands by.
    pub(crate) fn leads_until(&self) -> Option<Time> {
        self.leading.as_ref().map_or(Some(Time::MAX), |leading| leading.leadership.until())
    }

    /// The store that several controllers share answers.
    pub(crate) fn answered(&mut self, answer: Answer, elected: Option<Box<Elected>>) {
        let Some(leading) = &mut self.leading else { return };
        let now = self.clock.now();
        leading.elected = elected;
        leading.leadership.handle(answer, now);
        match (leading.leadership.trouble(), leading.is_told) {
            (Some(why), false) => {
                error!("the store does not answer: {why}");
                self.outlets.notify("STORE_SILENT", json!({ "why": why }));
            }
            (None, true) => {
                info!("the store answers again");
                self.outlets.notify("STORE_HEARD", json!({}));
            }
            _ => {}
        }
        leading.is_told = leading.leadership.trouble().is_some();
    }

    /// Does what leading or standing by takes.
    pub(crate) fn lead(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        let Some(leading) = &mut self.leading else { return Ok(()) };
        leading.leadership.handle_deadline(now);
        while let Some(leading) = &mut self.leading
            && let Some(step) = leading.leadership.poll_output()
        {
            match step {
                Step::Ask(question) => leading.candidate.ask(question),
                Step::Resign => leading.candidate.resign(),
                Step::Lead => self.begin_to_lead()?,
                Step::StandDown(why) => self.stand_down(&why),
            }
        }
        if let Some(leading) = &mut self.leading {
            // One that heard of its election too late does not lead.
            leading.elected = None;
        }
        let until = self.leads_until();
        if let (Some(core), Some(until)) = (&mut self.core, until) {
            core.grant_until(until);
        }
        Ok(())
    }

    fn begin_to_lead(&mut self) -> Result<(), Failure> {
        let elected = self.leading.as_mut().and_then(|leading| leading.elected.take());
        let Some(elected) = elected else { return Ok(()) };
        let Elected { state, begun } = *elected;
        self.state = state;
        (self.config.term, self.config.predecessor) = (begun.term, begun.predecessor);
        self.begun = true;
        if let Some(manager) = &mut self.manager {
            manager.forget_preferred();
        }
        info!("{} leads, in term {}", self.identity, begun.term);
        self.outlets.notify("LEADS", json!({ "term": begun.term.0 }));
        self.open()
    }

    fn stand_down(&mut self, why: &str) {
        warn!("{} does not lead any more: {why}", self.identity);
        if let Some(mut core) = self.core.take() {
            core.finish();
        }
        // Sessions end, and agents call the next controller.
        self.agents = None;
        self.leaving.clear();
        (self.begun, self.slices_version) = (false, None);
        if self.manager.as_ref().is_some_and(|manager| !Manager::is_open(manager)) {
            self.known = None;
        }
        // Its thread tries once more to write, which the store may keep waiting: not this thread.
        let state = std::mem::take(&mut self.state);
        let ended = std::thread::Builder::new().name("state-end".to_owned());
        if let Err(error) = ended.spawn(move || drop(state)) {
            warn!("the state ends on the daemon's thread: {error}");
        }
        self.outlets.notify("STANDS_BY", json!({ "why": why }));
        service::ready("stands by");
    }
}
