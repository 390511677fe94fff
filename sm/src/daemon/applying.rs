//! Versions of the expected configuration come into force: an operator's here, or one that another manager added.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use snin_configuration::{Expected, Instruction};
use snin_daemon::control::Client;
use snin_daemon::shared::Embedded;
use snin_daemon::text;
use snin_daemon::trouble::Trouble;
use snin_mastership::cluster::ClusterEvent;
use snin_protocol::operator::manager::{
    ApplyConfiguration, ConfigurationApplied, ShowConfiguration, ShownConfiguration,
};
use snin_sm_core::Event;
use tracing::{info, warn};

use super::answering::{Answer, Refused, made};
use super::configured::{behind, mark};
use super::expected::parse;
use super::failure::Failure;
use super::lines;
use super::run::Daemon;
use super::settings::Settings;
use super::sharing::{Job, News, Sharing};
use super::versions::{VersionLog, VersionLogError};

/// What is in the store of versions, for who loses it.
const HOLDS: &str =
    "every version of the expected configuration that was applied, so ports are not held to it";

/// Why the cluster's service is not asked.
const BUSY: &str = "too much waits for the cluster's service: try again";

/// The versions.
#[derive(Debug, Default)]
pub struct Versions {
    pub(super) folder: Option<PathBuf>,
    pub(super) book: VersionLog,
    /// The text of the one in force.
    text: String,
    /// Ports have failed, or were released, since `marks` was written.
    pub(super) unmarked: bool,
    /// Why `marks` is not written, where it is not.
    pub(super) trouble: Trouble,
}

impl Versions {
    /// Reads what was applied last; without any, the file that the settings name.
    ///
    /// # Errors
    /// When a file cannot be read, or is wrong.
    pub(super) fn open(settings: &Settings) -> Result<(Self, Option<Instruction>), Failure> {
        let folder = settings.state_dir.as_ref().map(|folder| folder.join("configuration"));
        let mut versions = Self { folder, ..Self::default() };
        let wrong = |error: VersionLogError| Failure::Expected(error.to_string());
        let path = versions.path();
        let store = path.map_or(Ok(None), |path| Embedded::open_made(&path, HOLDS));
        if let Some(store) = store.map_err(|error| wrong(error.into()))? {
            // Also where the history names a version that is not there, nothing of it can be relied on.
            let broken = |error: VersionLogError| match error {
                VersionLogError::Store(_) => wrong(error),
                other => wrong(store.damaged(other.to_string()).into()),
            };
            versions.book = VersionLog::read(&store).map_err(broken)?;
            if let Some(newest) = versions.book.newest() {
                versions.text = versions.book.text(&store, newest.version).map_err(broken)?;
            }
        }
        let (forced, named) = match (versions.book.newest(), &settings.expected_configuration) {
            (Some(newest), _) => (newest.forced, format!("version {}", newest.version)),
            (None, Some(path)) => {
                versions.text = text::read(path).map_err(Failure::text(path))?;
                (false, path.display().to_string())
            }
            (None, None) => return Ok((versions, None)),
        };
        let expected = parse(&versions.text, &named).map_err(Failure::Expected)?;
        let expected = Some(Arc::new(expected));
        Ok((versions, Some(Instruction::Expect { expected, forced })))
    }

    /// The number of the one in force.
    pub(super) fn version(&self) -> u64 {
        self.book.newest().map_or(0, |newest| newest.version)
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join("versions"))
    }

    /// The store of this machine. It is open while it is used, so that no daemon keeps another from it.
    fn store(&self) -> Result<Option<Embedded>, VersionLogError> {
        Ok(self.path().map(|path| Embedded::open(&path, HOLDS)).transpose()?)
    }

    /// Ports that failed, or are in quarantine, as they were before.
    pub(super) fn marks(&self) -> Result<Vec<Instruction>, Failure> {
        let Some(path) = self.folder.as_ref().map(|folder| folder.join("marks")) else {
            return Ok(Vec::new());
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Failure::file(&path)(error)),
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().enumerate().map(|(number, line)| {
            let what = || format!("{}: not understood: `{line:.60}`", number + 1);
            let holds = "which ports failed, are in quarantine or phased out";
            let wrong = || Failure::State { path: path.clone(), what: what(), holds };
            mark(line).ok_or_else(wrong)
        });
        lines.collect()
    }

    /// The text of a version, as far as this machine has it.
    fn text(&self, version: u64) -> Result<String, VersionLogError> {
        if version == self.version() {
            return Ok(self.text.clone());
        }
        let store = self.store()?.ok_or(VersionLogError::Unknown(version))?;
        self.book.text(&store, version)
    }

    /// Adds a version on this machine.
    fn add(&mut self, text: String, by: &str, forced: bool) -> Result<(), VersionLogError> {
        match self.store()? {
            Some(store) => {
                self.book = VersionLog::read(&store)?;
                self.book.add(&store, &text, by, forced)?;
            }
            None => self.book.note(by, forced),
        }
        self.text = text;
        Ok(())
    }

    /// The versions of the cluster's service are those of this manager from now on.
    fn take(&mut self, book: VersionLog, text: String) {
        let copied = self.store().and_then(|store| {
            store.map_or(Ok(()), |store| VersionLog::default().copy(&store, &book, &text))
        });
        if let Err(error) = copied {
            // They are in the cluster's service all the same.
            warn!("the expected configuration is not kept on this machine: {error}");
        }
        (self.book, self.text) = (book, text);
    }
}

impl Daemon {
    /// What became of a file that is to be the next version, as `by` wants it. None: the client is answered when
    /// the cluster's service has it.
    pub(super) fn apply(
        &mut self,
        client: Client,
        by: String,
        forced: bool,
        text: String,
        expected: Expected,
    ) -> Result<Option<Result<ConfigurationApplied, String>>, Failure> {
        if !forced && let Err(why) = self.applicable(&expected) {
            return Ok(Some(Err(why)));
        }
        if let Some(sharing) = &self.outlets.sharing {
            let book = self.versions.book.clone();
            return Ok(match sharing.ask(Job::Add { client, book, text, by, forced }) {
                true => None,
                false => Some(Err(BUSY.to_owned())),
            });
        }
        if let Err(error) = self.versions.add(text, &by, forced) {
            return Ok(Some(Err(error.to_string())));
        }
        self.put_in_force(expected).map(|applied| Some(Ok(applied)))
    }

    /// The version that was taken last is enforced from now on.
    fn put_in_force(&mut self, expected: Expected) -> Result<ConfigurationApplied, Failure> {
        let newest = self.versions.book.newest();
        let (version, by, forced) =
            newest.map_or((0, String::new(), false), |it| (it.version, it.by.clone(), it.forced));
        let objections = self.objections(&expected);
        self.instruct(Instruction::Expect { expected: Some(Arc::new(expected)), forced })?;
        self.feed(Event::Cluster(Box::new(ClusterEvent::Version(version))))?;
        let enforced = self.core.manager().configuration().is_enforced(self.clock.now());
        info!("expected configuration {version}, by {by}");
        self.outlets
            .notify("CONFIGURATION", json!({ "version": version, "by": by, "forced": forced }));
        Ok(ConfigurationApplied { version, objections, enforced })
    }

    /// What the cluster's service says of versions.
    pub(super) fn heed_versions(&mut self) -> Result<(), Failure> {
        while let Some(news) = self.outlets.sharing.as_ref().and_then(Sharing::next_news) {
            match news {
                // Where it is not taken that was said.
                News::Newest(book, text) => drop(self.take_newest(book, text)?),
                News::Added(client, added) => {
                    let applied = match added {
                        // This daemon read the text from a file, so its form is right.
                        Ok((book, text)) => self.take_newest(book, text)?,
                        Err(why) => Err(why),
                    };
                    self.tell::<ApplyConfiguration>(client, applied);
                }
                News::Text(client, found) => {
                    let shown = found.map(|(version, text)| ShownConfiguration { version, text });
                    self.tell::<ShowConfiguration>(client, shown);
                }
            }
        }
        Ok(())
    }

    /// Another version is the newest. One that is not understood - a later manager's - is not taken: the cluster
    /// chooses no manager that has an older one.
    fn take_newest(
        &mut self,
        book: VersionLog,
        text: String,
    ) -> Result<Result<ConfigurationApplied, String>, Failure> {
        let version = book.newest().map_or(0, |newest| newest.version);
        if book.is_as(&self.versions.book) {
            return Ok(Err(format!("version {version} is in force already")));
        }
        match parse(&text, &format!("version {version}")) {
            Ok(expected) => {
                self.versions.take(book, text);
                self.put_in_force(expected).map(Ok)
            }
            Err(why) => {
                warn!("the expected configuration is not the newest: {why}");
                Ok(Err(why))
            }
        }
    }

    /// What makes the text of a version that is kept here; the cluster's service may have another.
    pub(super) fn show_version(
        &self,
        client: Client,
        asked: ShowConfiguration,
    ) -> Result<Answer, Refused> {
        let version = asked.version.unwrap_or_else(|| self.versions.version());
        match (self.versions.text(version), &self.outlets.sharing) {
            (Ok(text), _) => {
                let seen = asked.lines.then(|| self.core.manager().seen());
                Ok(made(asked, move |_| {
                    let text = match seen {
                        Some(seen) => lines::write(&parse(&text, "the version")?, &behind(&seen)),
                        None => text,
                    };
                    Ok(ShownConfiguration { version, text })
                }))
            }
            (Err(VersionLogError::Unknown(_)), Some(sharing)) => {
                let book = self.versions.book.clone();
                match sharing.ask(Job::Text { client, book, version }) {
                    true => Ok(Answer::Later),
                    false => Err(BUSY.into()),
                }
            }
            (Err(error), _) => Err(error.to_string().into()),
        }
    }
}
