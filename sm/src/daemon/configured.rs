//! What is expected of the fabric: what operators ask and say, and its versions on the disk.
//!
//! In `configuration` below the state directory each version that was applied is a file, `1.toml` and so on, as
//! it was given. `history` has a line of JSON a version: which, when, by whom, whether it was forced. A version
//! counts when its line is on the disk. `marks` has a line a port that failed or is in quarantine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
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

use super::expected::{parse, write};
use super::failure::Failure;
use super::lines;
use super::run::Daemon;
use super::settings::{ConsentFrom, Settings};

/// The commands that are about the expected configuration.
pub(super) const COMMANDS: &str = "config-learn, config-show, config-diff, config-check, config-apply, \
                                   config-history, port-status, port-test, port-release, port-quarantine, \
                                   port-phase-out or port-phase-in";

/// The versions.
#[derive(Debug, Default)]
pub struct Versions {
    folder: Option<PathBuf>,
    /// The one in force.
    version: u64,
    /// Its text.
    text: String,
    history: Vec<Value>,
    /// Ports have failed, or were released, since `marks` was written.
    unmarked: bool,
}

impl Versions {
    /// Reads what was applied last; without any, the file that the settings name.
    ///
    /// # Errors
    /// When a file cannot be read, or is wrong.
    fn open(settings: &Settings) -> Result<(Self, Option<Instruction>), Failure> {
        let folder = settings.state_dir.as_ref().map(|folder| folder.join("configuration"));
        let mut versions = Self { folder, ..Self::default() };
        if let Some(history) = versions.folder.as_ref().map(|folder| folder.join("history")) {
            let text = match fs::read_to_string(&history) {
                Ok(text) => text,
                Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
                Err(error) => return Err(Failure::file(&history)(error)),
            };
            // Half a line is of a version that was not announced.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for (number, line) in whole.lines().enumerate() {
                let what = || format!("{}: not understood: `{line:.60}`", number + 1);
                let wrong = |_| Failure::Content { path: history.clone(), what: what() };
                versions.history.push(serde_json::from_str(line).map_err(wrong)?);
            }
        }
        let last = versions.history.last();
        let forced = last.is_some_and(|last| last["forced"] == true);
        versions.version = last.and_then(|last| last["version"].as_u64()).unwrap_or(0);
        let path = match (versions.version, &versions.folder, &settings.expected_configuration) {
            (1.., Some(folder), _) => folder.join(format!("{}.toml", versions.version)),
            (_, _, Some(path)) => path.clone(),
            _ => return Ok((versions, None)),
        };
        versions.text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
        let expected =
            parse(&versions.text, &path.display().to_string()).map_err(Failure::Expected)?;
        let expected = Some(Arc::new(expected));
        Ok((versions, Some(Instruction::Expect { expected, forced })))
    }

    /// Ports that failed, or are in quarantine, as they were before.
    fn marks(&self) -> Result<Vec<Instruction>, Failure> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join("marks")) else {
            return Ok(Vec::new());
        };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        let lines = text.lines().enumerate().map(|(number, line)| {
            let what = || format!("{}: not understood: `{line:.60}`", number + 1);
            mark(line).ok_or_else(|| Failure::Content { path: path.clone(), what: what() })
        });
        lines.collect()
    }

    /// Stores another version.
    fn add(&mut self, text: String, by: &str, forced: bool) -> Result<u64, Failure> {
        let version = self.version + 1;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let line = json!({ "version": version, "at": at, "by": by, "forced": forced });
        if let Some(folder) = &self.folder {
            store::replace(&folder.join(format!("{version}.toml")), text.as_bytes())?;
            let path = folder.join("history");
            let failed = |error| Failure::file(&path)(error);
            let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
            let mut file = opened.map_err(failed)?;
            file.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        self.history.push(line);
        (self.version, self.text) = (version, text);
        Ok(version)
    }

    /// The text of a version.
    fn text(&self, version: u64) -> Result<String, String> {
        if version == self.version {
            return Ok(self.text.clone());
        }
        let known = self.history.iter().any(|line| line["version"] == version);
        let path = self.folder.as_ref().filter(|_| known);
        let path = path.map(|folder| folder.join(format!("{version}.toml")));
        let path = path.ok_or_else(|| format!("no version {version} is kept"))?;
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

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
            let version = self.versions.version;
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
        let Some(folder) = self.versions.folder.as_ref().filter(|_| self.versions.unmarked) else {
            return;
        };
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
            Ok(()) => self.versions.unmarked = false,
            Err(error) => {
                // Another change tries again; what is not remembered is found again.
                self.versions.unmarked = false;
                warn!("{error}");
            }
        }
    }

    fn instruct(&mut self, instruction: Instruction) -> Result<(), Failure> {
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

    /// Answers a command about the expected configuration.
    pub(super) fn answer_configuration(
        &mut self,
        command: &str,
        body: &Value,
    ) -> Result<Value, String> {
        match command {
            "config-learn" => {
                let seen = self.manager.seen();
                if seen.switches.is_empty() {
                    return Err("no switch was discovered yet".to_owned());
                }
                let mode = if body["test"] == true { Mode::Test } else { Mode::Enabled };
                let spares = (body["spares"] == true).then_some(Mode::Disabled);
                let learnt = learn(&seen, mode, spares);
                let text = match body["lines"] == true {
                    true => lines::write(&learnt, &behind(&seen)),
                    false => write(&learnt, &seen),
                };
                Ok(json!({ "text": text }))
            }
            "config-show" => {
                let version = body["version"].as_u64().unwrap_or(self.versions.version);
                let mut text = self.versions.text(version)?;
                if body["lines"] == true {
                    let seen = self.manager.seen();
                    text = lines::write(&parse(&text, "the version")?, &behind(&seen));
                }
                Ok(json!({ "version": version, "text": text }))
            }
            "config-history" => Ok(json!({ "versions": self.versions.history })),
            "config-diff" => {
                let expected = match body["file"].as_str() {
                    Some(file) => Arc::new(read(file)?.1),
                    None => in_force(&self.manager)?,
                };
                let differences = differences(&expected, &self.manager.seen());
                let told: Vec<Value> = differences.iter().map(told).collect();
                Ok(json!({ "differences": told }))
            }
            "config-check" => {
                let (_, expected) = read(file(body)?)?;
                Ok(json!({ "objections": self.objections(&expected) }))
            }
            "config-apply" => self.apply(body),
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
                    "version": self.versions.version, "enforced": enforced,
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

    fn objections(&self, expected: &Expected) -> Vec<String> {
        check(expected, &self.manager.seen()).iter().map(ToString::to_string).collect()
    }

    fn apply(&mut self, body: &Value) -> Result<Value, String> {
        let (text, expected) = read(file(body)?)?;
        let forced = body["force"] == true;
        let objections = self.objections(&expected);
        if let Some(first) = objections.first().filter(|_| !forced) {
            let more = match objections.len() {
                1 => String::new(),
                many => format!("; and {} more", many - 1),
            };
            return Err(format!("{first}{more}: --force applies it nevertheless"));
        }
        let by = body["by"].as_str().unwrap_or("unknown");
        let version = self.versions.add(text, by, forced).map_err(|error| error.to_string())?;
        let expected = Some(Arc::new(expected));
        self.instruct(Instruction::Expect { expected, forced })
            .map_err(|error| error.to_string())?;
        self.feed(Event::Cluster(Box::new(ClusterEvent::Version(version))))
            .map_err(|error| error.to_string())?;
        let enforced = self.manager.configuration().enforces(self.clock.now());
        info!("expected configuration {version}, by {by}");
        self.outlets
            .notify("CONFIGURATION", json!({ "version": version, "by": by, "forced": forced }));
        Ok(json!({ "version": version, "objections": objections, "enforced": enforced }))
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
fn behind(seen: &Seen) -> BTreeMap<(Guid, u8), String> {
    let all = seen.switches.iter().flat_map(|(&guid, switch)| {
        switch.ports().map(move |(num, port)| ((guid, num.0), port.neighbour.as_ref()))
    });
    all.filter_map(|(place, neighbour)| Some((place, neighbour?.port_name()))).collect()
}

/// A line of `marks`.
fn mark(line: &str) -> Option<Instruction> {
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

fn file(body: &Value) -> Result<&str, String> {
    body["file"].as_str().ok_or_else(|| "`file` is a path".to_owned())
}

fn read(file: &str) -> Result<(String, Expected), String> {
    let path = Path::new(file);
    let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
    let expected = parse(&text, file)?;
    Ok((text, expected))
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
