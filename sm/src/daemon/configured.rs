//! What is expected of the fabric: what operators ask and say, and its versions.
//!
//! Each version that was applied is kept, as it was given, with who applied it and when: in the cluster's service
//! where there is one, so that every manager has the newest ([`sharing`](super::sharing)), and in
//! `configuration/versions` below the state directory ([`versions`](super::versions)). `configuration/marks` there
//! has a line a port that failed or is in quarantine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use snin_daemon::control::Request;
use snin_daemon::describer::Making;
use snin_daemon::store;
use snin_fabric::{Guid, PortNum};
use snin_sm_core::cluster::ClusterEvent;
use snin_sm_core::configuration::{
    Action, Consent, Difference, Expected, ExpectedSwitch, Instruction, Limits, Mark, Mode,
    PortReport, Seen, check, differences, learn,
};
use snin_sm_core::database::Place;
use snin_sm_core::{Event, Manager};
use tracing::{info, warn};

use super::applying::Versions;
use super::expected::write;
use super::failure::Failure;
use super::lines;
use super::run::Daemon;
use super::settings::{ConsentFrom, Settings};

/// The commands that are about the expected configuration.
pub(super) const COMMANDS: &str = "config-learn, config-show, config-diff, config-check, config-apply, \
                                   config-history, port-status, port-test, port-release, port-quarantine, \
                                   port-phase-out or port-phase-in";

impl Daemon {
    /// Takes what the settings say of the expected configuration, before the manager starts.
    ///
    /// # Errors
    /// When a version on the disk cannot be read, or is wrong.
    pub fn configure(&mut self, settings: &Settings) -> Result<(), Failure> {
        let Settings { configuration_dry_run, configuration_writes, .. } = *settings;
        let limits = Limits { dry_run: configuration_dry_run, writes: configuration_writes };
        self.instruct(Instruction::Limit(limits))?;
        let (versions, expect) = Versions::open(settings)?;
        self.versions = versions;
        if self.manager.cluster().is_some() {
            let version = self.versions.version();
            self.feed(Event::Cluster(Box::new(ClusterEvent::Version(version))))?;
        } else if settings.consent == ConsentFrom::Static {
            let consent = Consent::Granted { by: "the settings".to_owned(), until: None };
            self.instruct(Instruction::Consent(consent))?;
        }
        let Some(expect) = expect else { return Ok(()) };
        self.instruct(expect)?;
        let marks = self.versions.marks()?;
        marks.into_iter().try_for_each(|mark| self.instruct(mark))
    }

    /// Writes which ports failed, if that has changed: once a turn, however many did.
    pub(super) fn keep_marks(&mut self) {
        let now = self.clock.now();
        let is_due = self.versions.unmarked && self.versions.trouble.is_due(now);
        let Some(folder) = self.versions.folder.as_ref().filter(|_| is_due) else { return };
        let lines = self.manager.configuration().kept().map(|((guid, port), mark)| {
            let (kind, why) = match mark {
                Mark::Quarantined(why) => ("quarantined", why.clone()),
                Mark::PhasedOut(why) => ("phased-out", why.clone()),
                Mark::Failed(reason) => ("failed", reason.to_string()),
                Mark::Passed { .. } => ("passed", String::new()),
            };
            let why = why.replace('\n', " ");
            format!("{guid} {port} {kind} {why}\n")
        });
        let text: String = lines.collect();
        match store::replace(&folder.join("marks"), text.as_bytes()) {
            Ok(()) => {
                self.versions.unmarked = false;
                self.versions.trouble.works();
            }
            Err(error) => self.versions.trouble.failed(error, now),
        }
    }

    pub(super) fn instruct(&mut self, instruction: Instruction) -> Result<(), Failure> {
        self.feed(Event::Configuration(Box::new(instruction)))
    }

    /// Says what was done to a port.
    pub(super) fn report_port(&mut self, report: &PortReport) {
        let PortReport { at, place: (guid, port), action, reason, dry_run } = report;
        self.versions.unmarked |= matches!(
            action,
            Action::Fail
                | Action::Release
                | Action::Quarantine
                | Action::BeginTest
                | Action::PhaseOut
                | Action::PhaseIn
        );
        match action.name() {
            "fail" | "keep" | "disable" => warn!("{report}"),
            _ => info!("{report}"),
        }
        let told = json!({
            "at": at, "guid": guid.to_string(), "port": port.0, "action": action.name(),
            "reason": reason.to_string(), "dry_run": dry_run,
        });
        self.outlets.notify("PORT", told);
    }

    /// Answers a command about the expected configuration; none: later.
    pub(super) fn answer_configuration(
        &mut self,
        request: &Request,
    ) -> Result<Option<Value>, String> {
        let body = &request.body;
        match request.command.as_str() {
            "config-show" => self.ask_cluster_for(request.client, body).map(|()| None),
            "config-check" | "config-apply" => self.reading.ask(request).map(|()| None),
            "config-diff" if body.get("file").is_some_and(|file| !file.is_null()) => {
                self.reading.ask(request).map(|()| None)
            }
            command => self.answer_at_once(command, body).map(Some),
        }
    }

    /// Answers requests whose files were read.
    pub(super) fn answer_read_files(&mut self) -> Result<(), Failure> {
        while let Some((request, understood)) =
            self.reading.next().map_err(Failure::system("a thread"))?
        {
            let answer = match understood {
                Ok((text, expected)) => self.answer_with(&request, text, expected).transpose(),
                Err(why) => Some(Err(why)),
            };
            let (Some(answer), Some(control)) = (answer, &mut self.outlets.control) else {
                continue;
            };
            match answer {
                Ok(answer) => control.answer(request.client, &answer),
                Err(why) => control.refuse(request.client, &why),
            }
        }
        Ok(())
    }

    /// Answers a request about a file, now that it is read; none: later.
    fn answer_with(
        &mut self,
        request: &Request,
        text: String,
        expected: Expected,
    ) -> Result<Option<Value>, String> {
        match request.command.as_str() {
            "config-apply" => self.apply(request.client, &request.body, text, expected),
            "config-check" => Ok(Some(json!({ "objections": self.objections(&expected) }))),
            _ => Ok(Some(self.difference(&expected))),
        }
    }

    /// What makes the text of what there is now.
    pub(super) fn learn(&self, body: &Value) -> Result<Making, String> {
        let seen = self.manager.seen();
        if seen.switches.is_empty() {
            return Err("no switch was discovered yet".to_owned());
        }
        let mode = if body["test"] == true { Mode::Test } else { Mode::Enabled };
        let spares = (body["spares"] == true).then_some(Mode::Disabled);
        let as_lines = body["lines"] == true;
        Ok(Box::new(move || {
            let learnt = learn(&seen, mode, spares);
            let text = match as_lines {
                true => lines::write(&learnt, &behind(&seen)),
                false => write(&learnt, &seen),
            };
            Ok(json!({ "text": text }))
        }))
    }

    fn difference(&self, expected: &Expected) -> Value {
        let differences = differences(expected, &self.manager.seen());
        let told: Vec<Value> = differences.iter().map(told).collect();
        json!({ "differences": told })
    }

    fn answer_at_once(&mut self, command: &str, body: &Value) -> Result<Value, String> {
        match command {
            "config-history" => Ok(json!({ "versions": self.versions.book.history() })),
            "config-diff" => Ok(self.difference(&*in_force(&self.manager)?)),
            "port-status" => {
                let ports = self.manager.configuration().status().map(|port| {
                    let ((guid, num), mode) = (port.place, port.mode.name());
                    json!({
                        "at": port.at, "guid": guid.to_string(), "port": num.0, "expected": mode,
                        "state": port.state, "why": port.why,
                    })
                });
                let ports = ports.filter(|port| body["all"] == true || port["state"] != "ok");
                let enforced = self.manager.configuration().enforces(self.clock.now());
                Ok(json!({
                    "version": self.versions.version(), "enforced": enforced,
                    "ports": ports.collect::<Vec<_>>(),
                }))
            }
            "port-release" => self.of_port(body, Instruction::Release),
            "port-test" => self.of_port(body, Instruction::Test),
            "port-quarantine" => {
                let why = body["why"].as_str().unwrap_or_default();
                self.of_port(body, |place| Instruction::Quarantine(place, why.to_owned()))
            }
            "port-phase-out" => {
                let why = body["why"].as_str().unwrap_or_default();
                self.of_port(body, |place| Instruction::PhaseOut(place, why.to_owned()))
            }
            "port-phase-in" => self.of_port(body, Instruction::PhaseIn),
            other => Err(format!("no command {other:.40}: {COMMANDS}")),
        }
    }

    pub(super) fn objections(&self, expected: &Expected) -> Vec<String> {
        check(expected, &self.manager.seen()).iter().map(ToString::to_string).collect()
    }

    /// Whether what a file expects may be applied.
    pub(super) fn applicable(&self, body: &Value, expected: &Expected) -> Result<(), String> {
        if body["force"] == true {
            return Ok(());
        }
        if self.manager.seen().switches.is_empty() {
            let why = "no switch was discovered here, so nothing can be checked";
            return Err(format!("{why}: --force applies it nevertheless"));
        }
        let objections = self.objections(expected);
        let Some(first) = objections.first() else { return Ok(()) };
        let more = match objections.len() {
            1 => String::new(),
            many => format!("; and {} more", many - 1),
        };
        Err(format!("{first}{more}: --force applies it nevertheless"))
    }

    fn of_port(
        &mut self,
        body: &Value,
        instruction: impl Fn(Place) -> Instruction,
    ) -> Result<Value, String> {
        let named = body["port"].as_str().ok_or("`port` is a text such as leaf3/20 or leaf3")?;
        let places = places(&*in_force(&self.manager)?, named)?;
        for &place in &places {
            self.instruct(instruction(place)).map_err(|error| error.to_string())?;
        }
        Ok(json!({ "port": named, "ports": places.len() }))
    }
}

/// What is behind each port, for people.
pub(super) fn behind(seen: &Seen) -> BTreeMap<(Guid, u8), String> {
    let all = seen.switches.iter().flat_map(|(&guid, switch)| {
        switch.ports().map(move |(num, port)| ((guid, num.0), port.neighbour.as_ref()))
    });
    all.filter_map(|(place, neighbour)| Some((place, neighbour?.port_name()))).collect()
}

/// A line of `marks`.
pub(super) fn mark(line: &str) -> Option<Instruction> {
    let mut words = line.splitn(4, ' ');
    let guid = words.next()?.parse().ok()?;
    let place = (guid, PortNum(words.next()?.parse().ok()?));
    let (kind, why) = (words.next()?, words.next()?.to_owned());
    match kind {
        "failed" => Some(Instruction::Remember(place, why)),
        "phased-out" => Some(Instruction::PhaseOut(place, why)),
        "quarantined" => Some(Instruction::Quarantine(place, why)),
        _ => None,
    }
}

fn in_force(manager: &Manager) -> Result<Arc<Expected>, String> {
    let expected = manager.configuration().expected();
    expected.cloned().ok_or_else(|| "nothing is expected: `snin config apply` says what".to_owned())
}

fn told(difference: &Difference) -> Value {
    let (guid, port) = difference.place;
    json!({
        "at": difference.at, "guid": guid.to_string(), "port": port.0,
        "what": difference.to_string(),
    })
}

/// The expected ports of this name: `leaf3/20`, or all of `leaf3`; a switch may be named by its GUID.
fn places(expected: &Expected, named: &str) -> Result<Vec<Place>, String> {
    let (name, num) = match named.rsplit_once('/') {
        Some((name, num)) => {
            let num = num.parse().map_err(|_| format!("`{named}` is no SWITCH/PORT"))?;
            (name, Some(PortNum(num)))
        }
        None => (named, None),
    };
    let guid = name.parse().ok();
    let is =
        |(known, switch): &(&Guid, &ExpectedSwitch)| Some(**known) == guid || switch.name == name;
    let mut found = expected.switches.iter().filter(is);
    match (found.next(), found.next()) {
        (Some((&guid, switch)), None) => {
            let all = switch.ports.keys().filter(|port| num.is_none_or(|num| num == **port));
            let all: Vec<Place> = all.map(|&port| (guid, port)).collect();
            match (all.is_empty(), num) {
                (false, _) => Ok(all),
                (true, Some(num)) => Err(format!("nothing is expected of port {num} of {name}")),
                (true, None) => Err(format!("nothing is expected of {name}'s ports")),
            }
        }
        (None, _) => Err(format!("no switch {name} is expected")),
        (Some(_), Some(_)) => Err(format!("two switches {name} are expected, give a GUID")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_marks_are_read() {
        let at = (Guid(0x10), PortNum(2));
        let read = mark("0x0000000000000010 2 quarantined cable exchange");
        assert!(matches!(read, Some(Instruction::Quarantine(place, why))
            if place == at && why == "cable exchange"));
        let read = mark("0x0000000000000010 2 failed ");
        assert!(
            matches!(read, Some(Instruction::Remember(place, why)) if place == at && why.is_empty())
        );
        for wrong in ["", "0x10 2 passed x", "leaf 2 failed x", "0x10 999 failed x"] {
            assert!(mark(wrong).is_none(), "{wrong}");
        }
    }
}
