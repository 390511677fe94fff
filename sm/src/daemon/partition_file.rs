//! The files of partitions, of levels of service, and of switches at the top.

use std::path::Path;

use snin_daemon::settings::Loaded;
use snin_daemon::text;
use snin_fabric::Guid;
use snin_sm_core::Event;
use snin_sm_database::partitions::Partitions;
use snin_sm_database::qos_policy::QosPolicy;
use tracing::warn;

use super::choices::RoutingEngine;
use super::failure::Failure;
use super::run::Daemon;
use super::settings::Settings;

/// Reads it; without a file there is the default partition alone.
///
/// # Errors
/// When it cannot be read, or a line of it means nothing.
pub fn read(path: Option<&Path>) -> Result<Partitions, Failure> {
    let Some(path) = path else { return Ok(Partitions::default()) };
    let text = text::read(path).map_err(Failure::text(path))?;
    text.parse().map_err(|error: snin_sm_database::partitions::BadPartitions| Failure::Content {
        path: path.to_owned(),
        what: error.to_string(),
    })
}

/// Reads the file of levels of service; without a file there are none.
///
/// # Errors
/// When it cannot be read, or a line of it means nothing.
pub fn qos_policy(path: Option<&Path>) -> Result<QosPolicy, Failure> {
    let Some(path) = path else { return Ok(QosPolicy::default()) };
    let text = text::read(path).map_err(Failure::text(path))?;
    text.parse().map_err(|error: snin_sm_database::qos_policy::BadPolicy| Failure::Content {
        path: path.to_owned(),
        what: error.to_string(),
    })
}

/// Reads the GUIDs of the switches at the top, one a line; without a file there are none.
///
/// # Errors
/// When it cannot be read, or a line of it is no GUID.
pub fn roots(path: Option<&Path>) -> Result<Vec<u64>, Failure> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = text::read(path).map_err(Failure::text(path))?;
    let lines = (1..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
    let guids = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let guid = |(number, line): (usize, &str)| {
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        word.parse::<Guid>().map(|guid| guid.0).map_err(|_| Failure::Content {
            path: path.to_owned(),
            what: format!("{number}: `{word}` is no GUID of a switch (such as 0x0002c903000e2a10)"),
        })
    };
    guids.map(guid).collect()
}

/// Reads the administrator's own tables, where routes are to be made by them.
///
/// # Errors
/// When there is no such file, or none is named.
pub fn lfts(loaded: &Loaded<Settings>) -> Result<String, Failure> {
    let settings = &loaded.value;
    match (&settings.lfts_file, settings.routing) {
        (Some(path), RoutingEngine::File) => text::read(path).map_err(Failure::text(path)),
        (None, RoutingEngine::File) => {
            let what =
                "routing = \"file\" needs lfts_file, the tables as dump_fts or OpenSM dumps them";
            Err(loaded.refuse("routing", what).into())
        }
        _ => Ok(String::new()),
    }
}

impl Daemon {
    /// Reads the file of levels of service again. With one that is wrong they stay as they are.
    fn read_qos_policy(&mut self) -> Result<(), Failure> {
        self.told.qos_policy_refused = None;
        match qos_policy(self.qos_policy_file.as_deref()) {
            Ok(policy) if policy != *self.core.manager().qos_policy() => {
                self.feed(Event::QosPolicy(Box::new(policy)))
            }
            Ok(_) => Ok(()),
            Err(error) => {
                warn!("the QoS policy stays as it is: {error}");
                self.told.qos_policy_refused = Some(error.to_string());
                Ok(())
            }
        }
    }

    /// Reads the files of partitions and of levels of service again, and looks at the whole fabric. With a file
    /// that is wrong partitions stay as they are.
    pub(super) fn look_again(&mut self) -> Result<(), Failure> {
        self.read_qos_policy()?;
        match read(self.partition_file.as_deref()) {
            Ok(partitions) if partitions != *self.core.manager().partitions() => {
                self.told.partitions_refused = None;
                return self.feed(Event::Partitions(Box::new(partitions)));
            }
            Ok(_) => {}
            Err(error) => {
                warn!("partitions stay as they are: {error}");
                self.told.partitions_refused = Some(error.to_string());
                return self.feed(Event::Resweep);
            }
        }
        self.told.partitions_refused = None;
        self.feed(Event::Resweep)
    }
}
