//! What the fabric is, by whom that is said, and what becomes of it.

use std::sync::Arc;

use serde_json::json;
use snin_controller_core::events::Event;
use snin_daemon::meter::Cause;
use snin_daemon::service;
use snin_daemon::session::Listener;
use snin_fabric::view::View;
use snin_protocol::Time;
use snin_protocol::message::ViewChange;
use snin_protocol::view::Policy;
use tracing::{error, info, warn};

use crate::config::Source;
use crate::daemon::Daemon;
use crate::error::Failure;
use crate::io::manager::News;
use crate::io::topology;
use crate::recording::Recorded;

/// The fabric as it was told last, and what was told since of pairs that are unusable. A standby has it too.
pub(crate) struct Known {
    pub(crate) view: Arc<dyn View>,
    change: Option<ViewChange>,
}

impl Daemon {
    pub(crate) fn receive_manager(&mut self, news: News) -> Result<(), Failure> {
        let now = self.clock.now();
        match (news, &mut self.core) {
            (News::View(view), _) => return self.take_view(view),
            (News::Change(change), core) => {
                self.outlets.notify("UNUSABLE", json!({ "pairs": change.unusable.len() }));
                if let Some(known) = &mut self.known {
                    known.change = Some(change.clone());
                }
                if let Some(core) = core {
                    core.handle(Event::Unusable(change), now);
                }
            }
            (News::Policy(policy), _) => self.take_policy(policy),
            (News::Test(test), core) => {
                self.link_tests.begin(
                    test.port,
                    test.messages,
                    Some(test.number),
                    core.as_ref(),
                    now,
                );
            }
            (News::Found(who), core) => {
                if let Some(core) = core {
                    core.handle(Event::Manager(true), now);
                }
                info!("{who} says what the fabric is");
                self.outlets.notify("MANAGER_FOUND", json!({ "manager": who }));
            }
            (News::Lost(why), core) => {
                match core {
                    Some(core) => core.handle(Event::Manager(false), now),
                    // Nothing begins by what may have changed since.
                    None => self.known = None,
                }
                warn!("{why}; the fabric is taken to be as it was");
                self.outlets.notify("MANAGER_LOST", json!({ "why": why }));
            }
            (News::Trouble(why), _) => {
                error!("the manager's view is of no use: {why}");
                self.outlets.notify("VIEW_REFUSED", json!({ "why": why.to_string() }));
            }
        }
        Ok(())
    }

    pub(crate) fn take_policy(&mut self, policy: Policy) {
        if policy != self.policy() {
            info!("the policy is {}", policy.name());
            self.outlets.notify("POLICY", json!({ "policy": policy.name() }));
        }
        let strict = |policy| policy == Policy::Strict;
        let other_trees = strict(policy) != strict(self.config.policy);
        self.config.policy = policy;
        // Which trees base addresses lead along depends on it.
        if other_trees && let Err(error) = self.read_file() {
            warn!("the fabric is as it was: {error}");
        }
        let now = self.clock.now();
        if let Some(core) = &mut self.core {
            core.handle(Event::Policy(policy), now);
        }
    }

    /// The fabric is another. With the first one in a term agents are let in.
    pub(crate) fn take_view(&mut self, view: Arc<dyn View>) -> Result<(), Failure> {
        let (topology, routing) = (view.topology(), view.routing());
        let (hosts, trees) = (routing.hosts.len(), routing.forest.len());
        let fields = json!({
            "version": view.version(), "switches": topology.switch_count(), "hosts": hosts, "trees": trees,
            "unusable": view.unusable().len(), "not_clos": not_clos(&*view),
        });
        self.outlets.notify("VIEW", fields);
        info!(
            "view {}: {} switches, {hosts} hosts, {trees} trees",
            view.version(),
            topology.switch_count()
        );
        if let Some(why) = not_clos(&*view) {
            warn!("no Clos, so nothing is granted between leaves: {why}");
        }
        let now = self.clock.now();
        self.known = Some(Known { view: view.clone(), change: None });
        if let Some(core) = &mut self.core {
            core.handle(Event::View(view), now);
            self.meter.charge(Cause::View, now);
            return Ok(());
        }
        self.open()
    }

    /// Lets agents in, where the term has begun and the fabric is known.
    pub(crate) fn open(&mut self) -> Result<(), Failure> {
        let Some(Known { view, change }) = self.known.as_ref().filter(|_| self.begun) else {
            return Ok(());
        };
        let (view, change, now) = (view.clone(), change.clone(), self.clock.now());
        let mut core = Recorded::new(self.config.clone(), view, now, self.record.as_deref())?;
        core.grant_until(self.leads_until().unwrap_or(Time::ZERO));
        if let Some(change) = change {
            core.handle(Event::Unusable(change), now);
        }
        self.meter.expect(core.decide_at());
        self.core = Some(core);
        self.recall_reserved();
        let agents = Listener::start(self.listen.clone())?.metered(self.meter.clone());
        for address in agents.addresses() {
            info!("agents call at {address}");
        }
        self.agents = Some(agents);
        service::ready("grants connections");
        self.outlets.notify("READY", json!({ "term": self.config.term.0 }));
        Ok(())
    }

    /// Reads the topology file, if that is where the fabric comes from.
    pub(crate) fn read_file(&mut self) -> Result<(), Failure> {
        let version = self.known.as_ref().map_or(0, |known| known.view.version()) + 1;
        let view = match &self.source {
            Source::Manager(..) => return Ok(()),
            Source::File(path, lmc) => topology::read(path, *lmc, self.config.policy, version)?,
            Source::Found(path, tables) => topology::read_found(path, tables, version)?,
        };
        self.take_view(view)
    }
}

/// Why the fabric has no trees to grant.
pub(crate) fn not_clos(view: &dyn View) -> Option<String> {
    view.routing().shape.as_ref().err().map(ToString::to_string)
}
