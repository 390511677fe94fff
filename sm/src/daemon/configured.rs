//! What is expected of the fabric: what operators ask and say, and its versions.
//!
//! Each version that was applied is kept, as it was given, with who applied it and when: in the cluster's service
//! where there is one, so that every manager has the newest ([`sharing`](super::sharing)), and in
//! `configuration/versions` below the state directory ([`versions`](super::versions)). `configuration/marks` there
//! has a line a port that failed or is in quarantine.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use snin_configuration::{
    Action, Expected, ExpectedSwitch, Instruction, Limits, Mark, Mode, PortReport, check,
    differences, learn,
};
use snin_daemon::store;
use snin_fabric::{Guid, PortNum};
use snin_mastership::cluster::ClusterEvent;
use snin_protocol::operator::manager::{
    ApplyConfiguration, CheckConfiguration, CompareConfiguration, Difference, Differences,
    LearnConfiguration, LearntConfiguration, Objections, Port, PortState, Ports, PortsTold,
};
use snin_sm_core::{Event, Manager};
use snin_sm_database::judgement::Consent;
use snin_sm_database::records::Place;
use snin_sm_database::seen::Seen;
use tracing::{info, warn};

use super::answering::{Answer, Refused, made};
use super::applying::Versions;
use super::choices::ConsentFrom;
use super::expected::write;
use super::failure::Failure;
use super::lines;
use super::reading::{FileRequest, Purpose};
use super::run::Daemon;
use super::settings::Settings;

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
        if self.core.manager().cluster().is_some() {
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
        let lines = self.core.manager().configuration().kept().map(|((guid, port), mark)| {
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

    /// Has a file read; its client hears what came of it.
    pub(super) fn read_file(&self, request: FileRequest) -> Result<Answer, Refused> {
        self.reading.ask(request)?;
        Ok(Answer::Later)
    }

    /// Answers requests whose files were read.
    pub(super) fn answer_read_files(&mut self) -> Result<(), Failure> {
        while let Some((request, understood)) =
            self.reading.next().map_err(Failure::system("a thread"))?
        {
            let FileRequest { client, purpose, .. } = request;
            match purpose {
                Purpose::Compare => {
                    let told = understood.map(|(_, expected)| self.differences(&expected));
                    self.tell::<CompareConfiguration>(client, told);
                }
                Purpose::Check => {
                    let told = understood
                        .map(|(_, expected)| Objections { objections: self.objections(&expected) });
                    self.tell::<CheckConfiguration>(client, told);
                }
                Purpose::Apply { by, forced } => {
                    let applied = match understood {
                        Ok((text, expected)) => self.apply(client, by, forced, text, expected)?,
                        Err(why) => Some(Err(why)),
                    };
                    if let Some(told) = applied {
                        self.tell::<ApplyConfiguration>(client, told);
                    }
                }
            }
        }
        Ok(())
    }

    /// What makes the text of what there is now.
    pub(super) fn learn(&self, asked: LearnConfiguration) -> Result<Answer, Refused> {
        let seen = self.core.manager().seen();
        if seen.switches.is_empty() {
            return Err("no switch was discovered yet".into());
        }
        Ok(made(asked, move |asked| {
            let mode = if asked.test { Mode::Test } else { Mode::Enabled };
            let learnt = learn(&seen, mode, asked.spares.then_some(Mode::Disabled));
            let text = match asked.lines {
                true => lines::write(&learnt, &behind(&seen)),
                false => write(&learnt, &seen),
            };
            Ok(LearntConfiguration { text })
        }))
    }

    pub(super) fn differences(&self, expected: &Expected) -> Differences {
        let found = differences(expected, &self.core.manager().seen());
        let told = found.iter().map(|difference| {
            let (guid, port) = difference.place;
            let at = difference.at.clone();
            Difference { at, guid, port: port.0, what: difference.to_string() }
        });
        Differences { differences: told.collect() }
    }

    /// How expected ports are; without `all` those that are not as they should be.
    pub(super) fn ports(&self, all: bool) -> Ports {
        let ports = self.core.manager().configuration().status().map(|port| {
            let (guid, num) = port.place;
            let expected = port.mode.name().to_owned();
            Port { at: port.at, guid, port: num.0, expected, state: port.state, why: port.why }
        });
        Ports {
            version: self.versions.version(),
            enforced: self.core.manager().configuration().is_enforced(self.clock.now()),
            ports: ports.filter(|port| all || port.state != PortState::Ok).collect(),
        }
    }

    pub(super) fn objections(&self, expected: &Expected) -> Vec<String> {
        check(expected, &self.core.manager().seen()).iter().map(ToString::to_string).collect()
    }

    /// Whether what a file expects may be applied.
    pub(super) fn applicable(&self, expected: &Expected) -> Result<(), String> {
        if self.core.manager().seen().switches.is_empty() {
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

    /// Has something done to the expected ports of this name.
    pub(super) fn instruct_ports(
        &mut self,
        named: &str,
        instruction: impl Fn(Place) -> Instruction,
    ) -> Result<PortsTold, Refused> {
        let places = places(&*in_force(self.core.manager())?, named)?;
        for &place in &places {
            self.instruct(instruction(place))?;
        }
        Ok(PortsTold { port: named.to_owned(), ports: places.len() })
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

/// What is expected.
pub(super) fn in_force(manager: &Manager) -> Result<Arc<Expected>, String> {
    let expected = manager.configuration().expected();
    expected.cloned().ok_or_else(|| "nothing is expected: `snin config apply` says what".to_owned())
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
