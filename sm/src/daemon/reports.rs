//! The core's reports, as events, messages and the known state of the subnet.

use serde_json::json;
use snin_daemon::service;
use snin_daemon::trouble::News;
use snin_fabric::Guid;
use snin_mad::SmState;
use snin_protocol::Time;
use snin_protocol::operator::manager::{Activity, DisableManager, ManagerTold, Sweep};
use tracing::{error, info, warn};

use super::activity::{between, is_quiet};
use super::run::Daemon;
use snin_mastership::Report as MastershipReport;
use snin_mastership::control::{Control, Outcome};
use snin_sm_core::Report;
use snin_sm_database::merge::Tell;
use snin_sweep::Report as SweepReport;

/// Switches that an event names one by one; of more it says how many there are.
const NAMED: usize = 64;

impl Daemon {
    pub(super) fn report(&mut self, report: Report) {
        match report {
            Report::Sweep(report) => self.report_sweep(report),
            Report::Mastership(report) => self.report_mastership(report),
            Report::Mirror(report) => self.report_mirror(&report),
            Report::Joined(report) => self.joined(&report),
            Report::NotJoined { subnets, error } => {
                error!("databases of subnets that were cabled together cannot be joined: {error}");
                let subnets: Vec<String> = subnets.iter().map(Guid::to_string).collect();
                self.outlets
                    .notify("NOT_JOINED", json!({ "subnets": subnets, "why": error.to_string() }));
            }
            Report::Elected(state) => {
                info!("in the election this manager is {}", state.name());
                self.outlets.notify("ELECTION", json!({ "state": state.name() }));
            }
            Report::Consent(verdict) => self.report_consent(&verdict),
            Report::Port(report) => self.report_port(&report),
        }
    }

    fn report_sweep(&mut self, report: SweepReport) {
        match report {
            SweepReport::Ready { version, missing } => {
                let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
                self.up(version, missing);
            }
            SweepReport::NoRouting(error) => self.trouble(error.to_string()),
            SweepReport::Contradiction(what) | SweepReport::Unread(what) => self.trouble(what),
            SweepReport::Overwritten { at } => {
                warn!(%at, "somebody else wrote over addresses or tables: all are read again");
                self.outlets.notify("OVERWRITTEN", json!({ "at": at }));
            }
            SweepReport::TookOver { ports } => {
                info!(ports, "every port knows that this subnet manager is master");
                self.outlets.notify("TOOK_OVER", json!({ "ports": ports }));
            }
            SweepReport::Relevelled { pairs, hosts } => {
                warn!(
                    pairs,
                    hosts,
                    "pairs of switches have another service level: programs on their hosts have to ask for \
                     their paths again, or be started anew"
                );
                self.outlets.notify("LEVELS_CHANGED", json!({ "pairs": pairs, "hosts": hosts }));
            }
            SweepReport::Tables { switches } => {
                let blocks: u64 = switches.iter().map(|(.., blocks)| u64::from(*blocks)).sum();
                let named = switches.iter().take(NAMED);
                let named: Vec<_> = named
                    .map(|(guid, name, blocks)| {
                        json!({ "guid": guid.to_string(), "name": name, "blocks": blocks })
                    })
                    .collect();
                let told = json!({ "blocks": blocks, "switches": switches.len(), "named": named });
                self.outlets.notify("LFT_CHANGE", told);
            }
            SweepReport::Trap { number, issuer, name } => {
                let told = json!({ "number": number, "issuer": issuer.0, "name": name });
                if self.outlets.notify("TRAP", told) {
                    info!(number, issuer = issuer.0, "trap from {name}");
                }
            }
        }
    }

    fn report_mastership(&mut self, report: MastershipReport) {
        match report {
            MastershipReport::State(state) => self.state(state),
            MastershipReport::OtherManager { at, info } => {
                let state = name(info.state);
                warn!(%at, guid = %info.guid, priority = info.priority, "another subnet manager: {state}");
                let told = json!({
                    "at": at, "guid": info.guid.to_string(), "priority": info.priority, "state": state,
                });
                self.outlets.notify("OTHER_SM", told);
                self.told.managers.insert(at, format!("{state}, priority {}", info.priority));
            }
            MastershipReport::ManagerGone { at } => {
                info!(%at, "the other subnet manager is gone");
                self.told.managers.remove(&at);
                self.outlets.notify("OTHER_SM_GONE", json!({ "at": at }));
            }
            MastershipReport::Control { from, name } => {
                warn!(%from, "another subnet manager told this one: {name}");
                self.outlets
                    .notify("SM_CONTROL", json!({ "from": from.to_string(), "told": name }));
            }
            MastershipReport::Instructed { to, control, outcome } => {
                self.instructed(to, control, outcome);
            }
            MastershipReport::ForeignMaster { guid, at } => {
                error!(%at, %guid, "master with another sm_key: nothing is written until one of the two ends");
                self.outlets.notify("FOREIGN_SM", json!({ "at": at, "guid": guid.to_string() }));
            }
            MastershipReport::AboveBand { guid, at, priority } => {
                error!(%at, %guid, priority, "a foreign subnet manager goes before one of ours");
                let told = json!({ "at": at, "guid": guid.to_string(), "priority": priority });
                self.outlets.notify("FOREIGN_SM_ABOVE", told);
            }
        }
    }

    fn up(&mut self, version: u64, missing: Vec<String>) {
        let now = self.clock.now().nanos() as f64 / 1e9;
        self.told.up_after_seconds.get_or_insert(now);
        for missing in missing.iter().filter(|missing| !self.told.missing.contains(missing)) {
            warn!("missing: {missing}");
        }
        (self.told.up, self.told.missing, self.told.trouble) = (true, missing, None);
        let status = self.status();
        let Some(subnet) = &status.subnet else { return };
        let told = json!({
            "version": version,
            "nodes": subnet.nodes,
            "switches": subnet.switches,
            "hosts": subnet.hosts,
            "trees": subnet.trees,
            "lmc": subnet.lmc,
            "missing": status.missing,
        });
        self.outlets.notify("SUBNET_UP", told);
        let text = format!(
            "subnet up: {} switches, {} host ports, {} trees, LMC {}; {} missing",
            subnet.switches,
            subnet.hosts,
            subnet.trees,
            subnet.lmc,
            status.missing.len()
        );
        info!(version, "{text}");
        service::status(&text);
    }

    /// Other subnets were joined to this one: all that changed goes to the log, and who has to be told by their
    /// admin.
    fn joined(&mut self, report: &snin_sm_database::merge::Report) {
        report.to_string().lines().for_each(|line| info!("joined: {line}"));
        let tell: Vec<&Tell> = report.tell.iter().take(NAMED).collect();
        let fields = json!({
            "survivor": report.survivor.to_string(),
            "absorbed": report.absorbed.iter().map(Guid::to_string).collect::<Vec<_>>(),
            "renumbered": report.renumbered.len(),
            "unordered": report.unordered().count(),
            "tell": tell,
            "to_be_told": report.tell.len(),
        });
        self.outlets.notify("SUBNETS_JOINED", fields);
    }

    fn trouble(&mut self, what: String) {
        error!("{what}");
        self.outlets.notify("NO_ROUTING", json!({ "why": what }));
        self.told.trouble = Some(what);
    }

    /// Tries again to write what could not be written, and tells what is new of that.
    pub(super) fn tell_of_storage(&mut self, now: Time) {
        let news = self.storage.work(self.core.manager().database(), now);
        for news in news.into_iter().chain(self.versions.trouble.news()) {
            match news {
                News::Failed(why) => {
                    error!("the state is not stored, which is tried again: {why}");
                    self.outlets.notify("STATE_NOT_WRITTEN", json!({ "why": why }));
                }
                News::Works(failures) => {
                    info!(failures, "the state is stored again");
                    self.outlets.notify("STATE_WRITTEN", json!({ "failures": failures }));
                }
            }
        }
    }

    fn state(&mut self, state: SmState) {
        let named = name(state);
        let why = self.core.manager().why().to_owned();
        info!("this subnet manager: {named}: {why}");
        self.outlets.notify("STATE_CHANGE", json!({ "state": named, "why": why }));
        if state != SmState::Master {
            self.told.up = false;
            if let Some(views) =
                self.outlets.views.as_mut().filter(|_| state != SmState::Discovering)
            {
                views.stand_by();
            }
            service::status(&format!("{named}: {why}"));
        }
    }

    /// Tells the sender of an instruction to a manager what became of it.
    fn instructed(&mut self, to: Guid, control: Control, outcome: Outcome) {
        let name = control.name();
        info!(%to, "{name}: {outcome}");
        let told = ManagerTold { to, told: name.to_owned(), outcome: outcome.to_string() };
        self.outlets.notify("SM_TOLD", serde_json::to_value(&told).unwrap_or_default());
        let asked =
            self.instructions.iter().position(|(guid, asked, _)| (*guid, *asked) == (to, control));
        let Some((.., client)) = asked.map(|at| self.instructions.remove(at)) else { return };
        let answer = match outcome {
            Outcome::Taken => Ok(told),
            _ => Err(format!("{name} to {to}: {outcome}")),
        };
        // What any of the three instructions is answered.
        self.tell::<DisableManager>(client, answer);
    }

    /// When nothing is left to be done: says so to the log, to systemd and to clients that asked for a sweep.
    /// These wait for no groups: hosts may join without end.
    pub(super) fn note_quiet(&mut self) {
        let is_waited_for = !self.ready || !self.waiting.is_empty();
        if !(self.core.is_idle() || is_waited_for && self.core.has_swept()) {
            return;
        }
        let Some(began) = self.busy_since.take() else { return };
        let metrics = self.core.metrics();
        let lasted = self.clock.now() - began;
        let activity = between(&self.counted, metrics, lasted);
        self.counted = metrics.clone();
        self.durations.observe(activity.seconds);
        if !self.ready {
            self.ready = true;
            service::ready("the first sweep is done");
        }
        if !is_quiet(&activity) {
            let Activity { kind, seconds, smps, lft_blocks, .. } = activity;
            let (kind, millis) = (kind.name(), seconds * 1e3);
            info!("{kind} sweep: {smps} SMPs, {lft_blocks} table blocks, {millis:.1} ms");
            let told = serde_json::to_value(&activity).unwrap_or_default();
            self.outlets.notify("SWEEP_DONE", told);
        }
        for client in std::mem::take(&mut self.waiting) {
            self.tell::<Sweep>(client, Ok(activity.clone()));
        }
    }
}

fn name(state: SmState) -> String {
    state.name().unwrap_or("unknown").to_lowercase()
}
